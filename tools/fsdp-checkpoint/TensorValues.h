//===- TensorValues.h - Whole tensors of a checkpoint ------------*- C++ -*-===//

#ifndef FSDP_TOOLS_TENSORVALUES_H
#define FSDP_TOOLS_TENSORVALUES_H

#include "checkpoint/CheckpointReader.h"

#include <functional>

namespace fsdp::rt {

/// Of a tensor: its elements, and the bytes of one; 0 for a dtype that is not known here.
int64_t elementsOf(const CheckpointReader::Listed &tensor);
int64_t elementSizeOf(const CheckpointReader::Listed &tensor);

/// Reads all elements of a tensor, some megabytes at a time: use(first, bytes) of each piece, in
/// order. Fails if an element is missing or there twice.
Status readTensor(const CheckpointReader &reader, const CheckpointReader::Listed &tensor,
                  const std::function<Status(int64_t first, std::span<const std::byte>)> &use);

/// Compares a checkpoint's checksums, and that every tensor has each element once.
Status verifyCheckpoint(const CheckpointReader &reader);

/// "12 of 40 elements differ, the first is 3", or "" if the bits of both tensors are the same.
Result<std::string> differenceOf(const CheckpointReader &first, const CheckpointReader &second,
                                 const CheckpointReader::Listed &tensor);

/// Writes the model of a checkpoint, parameters and buffers of rank 0, into one safetensors file,
/// under the names that `rename` gives them.
Status consolidate(const CheckpointReader &reader, const std::string &path,
                   const std::function<std::string(const std::string &)> &rename);

/// True for parameters and buffers: what is no optimizer state, and no other rank's.
bool isOfModel(const std::string &name);

} // namespace fsdp::rt

#endif // FSDP_TOOLS_TENSORVALUES_H
