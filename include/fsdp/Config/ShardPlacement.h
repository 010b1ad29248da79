//===- ShardPlacement.h - Sharded dimensions of parameters ------*- C++ -*-===//

#ifndef FSDP_CONFIG_SHARDPLACEMENT_H
#define FSDP_CONFIG_SHARDPLACEMENT_H

#include "fsdp/Config/Grouping.h"

namespace fsdp {

/// Sets `shardDims` of the groups from their `shard_placement`. Errors are ConfigErrors where a
/// line of the file causes them: a dimension that a parameter does not have; a dimension other than
/// 0 whose size the ranks do not divide; two dimensions for one parameter; a pattern without a
/// match; the flat layout.
llvm::Error placeShards(llvm::MutableArrayRef<ParamGroup> groups, llvm::ArrayRef<NamedParam> params,
                        const ShardingConfig &config);

} // namespace fsdp

#endif // FSDP_CONFIG_SHARDPLACEMENT_H
