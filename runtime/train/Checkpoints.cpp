//===- Checkpoints.cpp - Going on from a checkpoint -----------------------===//

#include "train/Checkpoints.h"
#include "checkpoint/CheckpointFolder.h"
#include "train/LoadingBar.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <unistd.h>

using namespace fsdp::rt;

// Copies to a device, checksums and reads are efficient in pieces of this size.
static constexpr size_t kStagingBytes = size_t{4} << 20;

Status Checkpoints::prepare() {
  if (Status status = checkBuffers(plan); !status.ok())
    return status;
  Result<std::unique_ptr<Memory>> memory = device.allocateHost(kStagingBytes);
  if (!memory.ok())
    return memory.status();
  staging = std::move(*memory);
  stream = device.makeStream("fsdp-checkpoint");
  return {};
}

namespace {
/// What rank 0 tells the others: they may see another folder, or an older view of it.
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
  if (Status status = reader->checkNames(plan); !status.ok())
    return status;
  Result<int64_t> number = reader->step(plan);
  if (number.ok())
    resumedStep = *number;
  return number.status();
}

Outcome Checkpoints::openReader(const std::string &path) {
  if (Outcome outcome = agree(communicator, readHeaders(path)); !outcome.status.ok())
    return outcome;
  CheckpointVerifier verifier(*reader, communicator.rank(), communicator.size(),
                              {staging->data(), staging->size()});
  LoadingBar bar("and verifying " + path, !isFirst() || options.quiet);
  const int64_t own = totalBytes(reader->allFiles()) / communicator.size();
  int64_t done = 0;
  return inRounds(communicator, [&](int64_t bytes) {
    bar.at(std::min(done, own), own);
    done += bytes;
    return verifier.read(bytes);
  });
}

/// A later checkpoint of another run would be what the next --resume finds.
Status Checkpoints::checkFolder() const {
  if (!isFirst() || options.checkpointDir.empty())
    return {};
  Result<std::vector<CheckpointEntry>> listed = listCheckpoints(options.checkpointDir);
  if (!listed.ok())
    return listed.status();
  if (listed->empty() || listed->back().step <= resumedStep)
    return {};
  const std::string later = listed->back().path;
  if (resumedStep == 0 && !options.resume)
    return Status::error("--checkpoint-dir " + options.checkpointDir + " holds the checkpoint '" +
                         later +
                         "' of an earlier run: go on with it by --resume, or name another folder");
  return Status::error("--checkpoint-dir " + options.checkpointDir + " holds '" + later +
                       "', but this run goes on from step " + std::to_string(resumedStep) +
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
      if (Outcome outcome = openReader(name.empty() ? folder : folder + "/" + name);
          !outcome.status.ok())
        return outcome;
  }
  return agree(communicator, checkFolder());
}

Outcome Checkpoints::restore(std::byte *arena, std::byte *hostArena) {
  auto copies = reader->copiesFor(plan, communicator.rank());
  if (Outcome outcome = agree(communicator, copies.status()); !outcome.status.ok())
    return outcome;
  RankMemory memory{*stream, arena, hostArena, {staging->data(), staging->size()}};
  int64_t own = 0, done = 0;
  for (const CheckpointReader::Copy &copy : *copies)
    own += copy.bytes;
  CheckpointLoader loader(*reader, std::move(*copies), memory);
  LoadingBar bar(reader->path(), !isFirst() || options.quiet);
  Outcome outcome = inRounds(communicator, [&](int64_t bytes) {
    bar.at(std::min(done, own), own);
    done += bytes;
    return loader.read(bytes);
  });
  reader.reset();
  return outcome;
}
