//===- Checkpoints.cpp - Resumes from a checkpoint ------------------------===//

#include "train/Checkpoints.h"
#include "checkpoint/CheckpointFolder.h"
#include "train/BackgroundWork.h"
#include "train/LoadingBar.h"
#include "train/Stopwatch.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <unistd.h>

using namespace fsdp::rt;

// Copies to a device, checksums and reads are efficient in portions of this size.
static constexpr size_t kPieceBytes = size_t{2} << 20;

Status Checkpoints::prepare() {
  if (Status status = checkBuffers(plan); !status.ok())
    return status;
  // Locked before the folder is read.
  if (isFirst() && (options.saveEvery || options.saveOnExit)) {
    Result<FileDescriptor> lock = lockFolder(options.checkpointDir);
    if (!lock.ok())
      return lock.status();
    folderLock = std::move(*lock);
  }
  Result<std::unique_ptr<Memory>> memory = device.allocateHost(2 * kPieceBytes);
  if (!memory.ok())
    return memory.status();
  staging = std::move(*memory);
  stream = device.makeStream("fsdp-checkpoint");
  return {};
}

namespace {
/// Rank 0's choice, sent to the other ranks, which may see another folder or an older view of it.
struct Choice {
  uint32_t found = 0;
  char name[60] = {}; // in the folder of --resume or --checkpoint-dir; "": that folder itself
};
} // namespace

static bool isCheckpoint(const std::string &folder) {
  if (::access((folder + "/" + kManifestName).c_str(), F_OK) == 0)
    return true;
  std::error_code error;
  for (std::filesystem::directory_iterator files(folder, error);
       !error && files != std::filesystem::directory_iterator(); files.increment(error))
    if (files->path().extension() == ".safetensors")
      return true;
  return false;
}

static Result<Choice> chooseCheckpoint(const std::string &folder, bool required) {
  Choice choice;
  if (required && isCheckpoint(folder)) {
    choice.found = 1;
    return choice;
  }
  Result<std::vector<CheckpointEntry>> listed = listCheckpoints(folder);
  if (!listed.ok())
    return listed.status();
  for (const CheckpointEntry &entry : *listed)
    if (entry.complete) {
      choice.found = 1;
      checkpointName(entry.step).copy(choice.name, sizeof(choice.name) - 1);
    }
  if (required && !choice.found)
    return Status::error("--resume " + folder + ": there is no complete checkpoint");
  return choice;
}

Status Checkpoints::readHeaders(const std::string &path) {
  Result<CheckpointReader> opened = CheckpointReader::open(path);
  if (!opened.ok())
    return opened.status();
  reader.emplace(std::move(*opened));
  record.path = path;
  if (Status status = reader->checkNames(plan); !status.ok())
    return status;
  Result<int64_t> number = reader->step(plan);
  if (!number.ok())
    return number.status();
  record.step = *number;
  return reader->checkProducts(plan, *number);
}

/// An error if the folder has a later checkpoint of another run, which the next --resume would
/// find.
Status Checkpoints::checkFolder() const {
  if (!isFirst() || options.checkpointDir.empty())
    return {};
  Result<std::vector<CheckpointEntry>> listed = listCheckpoints(options.checkpointDir);
  if (!listed.ok())
    return listed.status();
  if (listed->empty() || listed->back().step <= record.step)
    return {};
  const CheckpointEntry &later = listed->back();
  if (record.step == 0 && !options.resume)
    return Status::error("--checkpoint-dir " + options.checkpointDir + " holds the checkpoint '" +
                         later.path +
                         "' of an earlier run: go on with it by --resume, or name another folder");
  return Status::error("--checkpoint-dir " + options.checkpointDir + " holds '" + later.path +
                       (later.complete ? "'" : "', which is not complete") +
                       ", but this run goes on from step " + std::to_string(record.step) +
                       ": name another folder, or remove what is later");
}

Outcome Checkpoints::open() {
  if (Outcome outcome = agree(communicator, prepare()); !outcome.status.ok())
    return outcome;
  if (options.resume) {
    const bool required = !options.resume->empty();
    const std::string folder = required ? *options.resume : options.checkpointDir;
    Result<Choice> own = isFirst() ? chooseCheckpoint(folder, required) : Choice();
    if (Outcome outcome = agree(communicator, own.status()); !outcome.status.ok())
      return outcome;
    std::vector<Choice> choices(communicator.size());
    if (Status status = communicator.allGather(kControlLane, &*own, choices.data(), sizeof(Choice));
        !status.ok())
      return {status, false};
    const std::string name = choices[0].name;
    if (choices[0].found)
      if (Outcome outcome =
              agree(communicator, readHeaders(name.empty() ? folder : folder + "/" + name));
          !outcome.status.ok())
        return outcome;
  }
  return agree(communicator, checkFolder());
}

Outcome Checkpoints::restore(std::byte *arena, std::byte *hostArena) {
  const Stopwatch stopwatch(record.milliseconds);
  auto copies = reader->copiesFor(plan, communicator.rank());
  if (Outcome outcome = agree(communicator, copies.status()); !outcome.status.ok())
    return outcome;
  record.bytes = totalBytes(reader->allFiles());
  const std::span<std::byte> staged{staging->data(), staging->size()};
  RankMemory memory{*stream, arena, hostArena, staged.first(kPieceBytes)};
  int64_t own = 0, done = 0;
  for (const CheckpointReader::Copy &copy : *copies)
    own += copy.bytes;
  CheckpointLoader loader(*reader, std::move(*copies), memory);
  CheckpointVerifier verifier(*reader, communicator.rank(), communicator.size(),
                              staged.last(kPieceBytes));
  // Verification and loading overlap: the disk reads for one while the other computes.
  BackgroundWork verification;
  verification.start([&](const std::atomic<bool> &stop) -> Status {
    while (!stop) {
      Result<bool> verified = verifier.read(kPieceBytes);
      if (!verified.ok() || *verified)
        return verified.status();
    }
    return {};
  });
  // Other ranks wait for this rank at most a part of their deadline.
  const std::chrono::duration<double> patience(std::min(0.5, options.timeoutSeconds / 4));
  bool isLoaded = false;
  LoadingBar bar("and verifying " + record.path, !isFirst() || options.quiet);
  Outcome outcome = inRounds(communicator, [&](int64_t bytes) -> Result<bool> {
    if (verification.state() == BackgroundWork::State::Failed)
      return verification.take();
    if (!isLoaded) {
      bar.at(std::min(done, own), own);
      done += bytes;
      Result<bool> loaded = loader.read(bytes);
      isLoaded = loaded.ok() && *loaded;
      return loaded.ok() ? Result<bool>(false) : loaded;
    }
    if (verification.wait(patience) == BackgroundWork::State::Working)
      return false;
    const Status status = verification.take();
    return status.ok() ? Result<bool>(true) : status;
  });
  reader.reset();
  return outcome;
}
