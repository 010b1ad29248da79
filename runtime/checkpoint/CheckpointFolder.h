//===- CheckpointFolder.h - The checkpoints of a run -------------*- C++ -*-===//
//
// A run's folder holds one folder per checkpoint, step-000000120. While a checkpoint is written or
// removed its folder is step-000000120.partial, so that the remains of a killed run are never taken
// for a checkpoint. The next run removes them when it saves.
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

/// The checkpoints of a run's folder, sorted by step; none if the folder does not exist.
/// Checkpoints that are being written or removed are left out.
Result<std::vector<CheckpointEntry>> listCheckpoints(const std::string &folder);

/// Makes the run's folder if it does not exist, and locks it for as long as the result lives:
/// without the lock, two runs would remove each other's partial checkpoints. Other hosts do not see
/// the lock, and on a file system that cannot lock folders there is no lock.
Result<FileDescriptor> lockFolder(const std::string &folder);

/// Makes the run's folder if it does not exist, removes the remains of killed runs, and makes
/// partialPath(). Called by one rank, before the others write there.
Status beginCheckpoint(const std::string &folder, int64_t step);

/// Writes the manifest into the partial folder, whose files must all be on disk, and renames the
/// folder. Returns its path when the rename is durable.
Result<std::string> commitCheckpoint(const std::string &folder, int64_t step,
                                     const std::string &manifest);

/// Removes the files of a checkpoint that no rank writes any more. Files that cannot be removed are
/// left for the next beginCheckpoint().
void abandonCheckpoint(const std::string &folder, int64_t step);

/// Removes complete checkpoints except the last `keep` and, if `keepEvery` is not 0, except those
/// of steps that are multiples of it.
Status removeOldCheckpoints(const std::string &folder, uint64_t keep, uint64_t keepEvery = 0);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_CHECKPOINTFOLDER_H
