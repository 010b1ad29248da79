//===- SeparateGroups.h - Groups of parameters of one dtype -----*- C++ -*-===//

#ifndef FSDP_LIB_CONFIG_SEPARATEGROUPS_H
#define FSDP_LIB_CONFIG_SEPARATEGROUPS_H

#include "fsdp/Config/Grouping.h"

namespace fsdp {

/// Splits groups whose parameters cannot travel together. The group with the others comes last, so
/// that the root group stays the last one.
class SeparateGroups {
public:
  SeparateGroups(llvm::ArrayRef<NamedParam> params, const ShardingConfig &config)
      : params(params), config(config) {}
  std::vector<ParamGroup> run(std::vector<ParamGroup> whole);

private:
  bool isFloat8(const ParamGroup &group, unsigned param) const;
  void separateFloat8(ParamGroup &group);
  void separateFrozen(ParamGroup &group);

  llvm::ArrayRef<NamedParam> params;
  const ShardingConfig &config;
  std::vector<ParamGroup> groups;
};

} // namespace fsdp

#endif // FSDP_LIB_CONFIG_SEPARATEGROUPS_H
