//===- CheckpointFiles.h - Files that a rank writes ----------- -*- C++ -*-===//
//
// The plan says which rank holds which elements, so ranks need not ask each other. Every rank
// writes its own pieces; elements that several ranks hold are written by one of them. torch's
// reader (torch.distributed.checkpoint.HuggingFaceStorageReader) knows one rectangle of a tensor
// per file: a flat shard's piece that begins or ends inside a row is split over several files of
// its rank.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_CHECKPOINTFILES_H
#define FSDP_RUNTIME_CHECKPOINTFILES_H

#include "checkpoint/Names.h"
#include "checkpoint/RankState.h"
#include "checkpoint/Rectangle.h"
#include "checkpoint/SafetensorsWriter.h"

namespace fsdp::rt {

/// A tensor, or a rectangle of it, in a file.
struct StoredPart {
  /// The source of the bytes: one of the rank's arenas, or a number that torch's optimizers keep
  /// (f32) and no arena has: the step, or the product of the momenta of `optimizer`.
  enum class Source { Arena, HostArena, StepNumber, MomentumProduct };

  std::string name;
  fsdp_dtype dtype = FSDP_F32;
  Rectangle part;
  Source source = Source::Arena;
  int64_t offset = 0;     // bytes, in that arena
  uint32_t optimizer = 0; // of the parameter, see fsdp_parameter

  TensorToStore tensor() const { return {name, dtype, part.sizes}; }
};

/// A file's parts, those of the widest elements first, so that each is aligned to its elements.
using StoredFile = std::vector<StoredPart>;

/// The files that `rank` writes. The largest rectangle of each tensor is in the first file. The
/// replicas of a shard divide its tensors among themselves so that each writes about as many bytes;
/// rank 0 writes tensors that are the same on all ranks.
std::vector<StoredFile> filesOf(const PlanView &plan, unsigned rank);

/// A file's name as torch forms it: shard-00001-model-00002-of-00003.safetensors for rank 0 and its
/// second of three files.
std::string checkpointFileName(unsigned rank, size_t index, size_t numFiles);

/// Keys of a file's metadata.
inline constexpr const char *kShardingKey = "DCP_SHARDING_INFO", *kWriterKey = "fsdpc";

/// A file's safetensors header, whose DCP_SHARDING_INFO gives the position of each part in its
/// tensor.
std::string fileHeader(const StoredFile &file);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_CHECKPOINTFILES_H
