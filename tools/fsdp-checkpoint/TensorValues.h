//===- TensorValues.h - Whole tensors of a checkpoint ------------*- C++ -*-===//

#ifndef FSDP_TOOLS_TENSORVALUES_H
#define FSDP_TOOLS_TENSORVALUES_H

#include "checkpoint/CheckpointReader.h"

#include <functional>

namespace fsdp::rt {

/// The number of a tensor's elements, and the bytes of one element; 0 for an unknown dtype.
int64_t elementsOf(const CheckpointReader::Listed &tensor);
int64_t elementSizeOf(const CheckpointReader::Listed &tensor);

/// Reads all elements of a tensor in order, some megabytes at a time, and calls use(first, bytes)
/// for each portion. Fails if an element is missing or stored twice.
Status readTensor(const CheckpointReader &reader, const CheckpointReader::Listed &tensor,
                  const std::function<Status(int64_t first, std::span<const std::byte>)> &use);

/// Verifies a checkpoint's checksums, and that every tensor has each element exactly once.
Status verifyCheckpoint(const CheckpointReader &reader);

/// "12 of 40 elements differ, the first is 3", or "" if the bits of both tensors are the same.
Result<std::string> differenceOf(const CheckpointReader &first, const CheckpointReader &second,
                                 const CheckpointReader::Listed &tensor);

/// Writes the model of a checkpoint, parameters and buffers of rank 0, into one safetensors file,
/// under the names that `rename` gives them.
Status consolidate(const CheckpointReader &reader, const std::string &path,
                   const std::function<std::string(const std::string &)> &rename);

/// True for the name of a parameter or a buffer of rank 0; false for optimizer state and for other
/// ranks' buffers.
bool isOfModel(const std::string &name);

} // namespace fsdp::rt

#endif // FSDP_TOOLS_TENSORVALUES_H
