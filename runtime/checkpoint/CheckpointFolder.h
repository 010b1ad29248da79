//===- CheckpointFolder.h - The checkpoints of a run -------------*- C++ -*-===//
//
// A run's folder holds one folder per checkpoint, step-000000120. A checkpoint that is being
// written, or removed, is step-000000120.partial, so that whatever a killed run leaves behind is
// never taken for a checkpoint: the next run removes it when it saves.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_CHECKPOINTFOLDER_H
#define FSDP_RUNTIME_CHECKPOINTFOLDER_H

#include "Status.h"
#include "comm/MappedMemory.h"

#include <cstdint>
#include <string>
#include <vector>

namespace fsdp::rt {

struct CheckpointEntry {
  int64_t step = 0;
  std::string path;
  bool complete = false; // has a manifest
};

/// "step-000000120".
std::string checkpointName(int64_t step);

/// "DIR/step-000000120.partial".
std::string partialPath(const std::string &folder, int64_t step);

/// The checkpoints of a run's folder, by step; none if the folder does not exist. Those that are
/// being written or removed are left out.
Result<std::vector<CheckpointEntry>> listCheckpoints(const std::string &folder);

/// Makes the run's folder where there is none, and locks it for as long as the result lives: two
/// runs would remove what the other one is writing. Other hosts do not see the lock, and where a
/// file system has none for folders, there is none.
Result<FileDescriptor> lockFolder(const std::string &folder);

/// Makes the run's folder where there is none, removes what killed runs left there, and makes
/// partialPath(). Called by one rank, before the others write there.
Status beginCheckpoint(const std::string &folder, int64_t step);

/// Writes the manifest into the partial folder, when all its files are on disk, and puts the folder
/// in place. Its path, once that is durable.
Result<std::string> commitCheckpoint(const std::string &folder, int64_t step,
                                     const std::string &manifest);

/// Removes what has been written of a checkpoint, of which no rank writes any more. What cannot be
/// removed is left for the next beginCheckpoint().
void abandonCheckpoint(const std::string &folder, int64_t step);

/// Removes complete checkpoints but the last `keep` and, if `keepEvery` is not 0, those of steps
/// that are multiples of it.
Status removeOldCheckpoints(const std::string &folder, uint64_t keep, uint64_t keepEvery = 0);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_CHECKPOINTFOLDER_H
