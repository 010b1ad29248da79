//===- Readers.h - The kinds of data files -----------------------*- C++ -*-===//

#ifndef FSDP_RUNTIME_READERS_H
#define FSDP_RUNTIME_READERS_H

#include "data/BatchReader.h"

namespace fsdp::rt {

/// A safetensors file with one tensor per input.
Result<std::unique_ptr<BatchReader>> openTensors(const DataOptions &options,
                                                 const std::vector<InputShape> &inputs);

/// A file of raw tokens of type *options.tokenType.
Result<std::unique_ptr<BatchReader>> openTokens(const DataOptions &options,
                                                const std::vector<InputShape> &inputs);

/// Smaller files are read ahead whole when they are opened; larger ones batch by batch.
inline constexpr size_t kReadWholeBytes = size_t{64} << 20;

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_READERS_H
