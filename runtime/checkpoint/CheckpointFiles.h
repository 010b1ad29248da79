//===- CheckpointFiles.h - Which rank writes what into which file -*- C++ -*-===//
//
// The plan says who holds what, so all is known without asking the other ranks. Every rank writes
// its own pieces; what several ranks hold, one of them writes. torch's reader
// (torch.distributed.checkpoint.HuggingFaceStorageReader) knows one rectangle of a tensor per file:
// a flat shard's piece that begins or ends inside a row goes to several files of its rank.
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
  /// Where its bytes are: in memory of the rank, or, without elements of its own, the number of the
  /// step as torch's optimizers keep it (f32).
  enum class Source { Arena, HostArena, StepNumber };

  std::string name;
  fsdp_dtype dtype = FSDP_F32;
  Rectangle part;
  Source source = Source::Arena;
  int64_t offset = 0; // bytes, in that arena

  TensorToStore tensor() const { return {name, dtype, part.sizes}; }
};

/// A file's parts, those of the widest elements first, so that each is aligned to its elements.
using StoredFile = std::vector<StoredPart>;

/// The files that `rank` writes. The largest rectangle of each tensor is in the first one. The
/// replicas of a shard share its tensors so that each writes about as many bytes; rank 0 writes
/// what is the same on all ranks.
std::vector<StoredFile> filesOf(const PlanView &plan, unsigned rank);

/// As torch names them: shard-00001-model-00002-of-00003.safetensors, for rank 0 and its second of
/// three files.
std::string checkpointFileName(unsigned rank, size_t index, size_t numFiles);

/// Keys of a file's metadata.
inline constexpr const char *kShardingKey = "DCP_SHARDING_INFO", *kWriterKey = "fsdpc";

/// What a file begins with: its safetensors header, whose DCP_SHARDING_INFO says where in its
/// tensor each part lies.
std::string fileHeader(const StoredFile &file);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_CHECKPOINTFILES_H
