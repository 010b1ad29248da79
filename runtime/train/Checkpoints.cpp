//===- Checkpoints.cpp - Saving a run and going on with it ----------------===//

#include "train/Checkpoints.h"
#include "checkpoint/CheckpointFolder.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <unistd.h>

using namespace fsdp::rt;

// Copies to and from a device, checksums and writes are efficient in pieces of this size.
static constexpr size_t kStagingBytes = size_t{4} << 20;
// The ranks meet when each has written so much, so that none waits longer for a slower disk.
static constexpr int64_t kRoundBytes = int64_t{128} << 20;

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

Outcome Checkpoints::inRounds(const std::function<Result<bool>(int64_t bytes)> &work) {
  enum State : uint32_t { Working, Done, Failed };
  for (bool done = false;;) {
    Status own;
    if (!done) {
      Result<bool> result = work(kRoundBytes);
      own = result.status();
      done = own.ok() && *result;
    }
    State state = !own.ok() ? Failed : done ? Done : Working;
    std::vector<State> states(communicator.size());
    if (Status status = communicator.allGather(kControlLane, &state, states.data(), sizeof(state));
        !status.ok())
      return {status, false};
    if (std::ranges::count(states, Failed))
      return agree(communicator, own);
    if (!std::ranges::count(states, Working))
      return {};
  }
}

//===----------------------------------------------------------------------===//
// Going on
//===----------------------------------------------------------------------===//

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
  return inRounds([&](int64_t bytes) { return verifier.read(bytes); });
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
  CheckpointLoader loader(*reader, std::move(*copies), memory);
  Outcome outcome = inRounds([&](int64_t bytes) { return loader.read(bytes); });
  reader.reset();
  return outcome;
}

//===----------------------------------------------------------------------===//
// Saving
//===----------------------------------------------------------------------===//

Outcome Checkpoints::collectFiles(const CheckpointWriter &writer, Manifest &state) {
  struct Record {
    uint64_t bytes;
    uint32_t checksum, padding;
  };
  const unsigned size = communicator.size();
  auto count = static_cast<uint32_t>(writer.files().size());
  std::vector<uint32_t> counts(size);
  if (Status status = communicator.allGather(kControlLane, &count, counts.data(), sizeof(count));
      !status.ok())
    return {status, false};
  const size_t most = std::ranges::max(counts);
  std::vector<Record> own(most), all(most * size);
  for (size_t i = 0; i < count; ++i)
    own[i] = {writer.files()[i].bytes, writer.files()[i].checksum, 0};
  if (Status status =
          communicator.allGather(kControlLane, own.data(), all.data(), most * sizeof(Record));
      !status.ok())
    return {status, false};
  for (unsigned rank = 0; rank < size; ++rank)
    for (size_t i = 0; i < counts[rank]; ++i) {
      const Record &record = all[rank * most + i];
      state.files.push_back(
          {checkpointFileName(rank, i, counts[rank]), record.bytes, record.checksum});
    }
  return {};
}

Status Checkpoints::commit(const Manifest &state, std::string &path) const {
  if (!isFirst())
    return {};
  Result<std::string> committed =
      commitCheckpoint(options.checkpointDir, state.step, formatManifest(state));
  if (!committed.ok())
    return committed.status();
  path = std::move(*committed);
  return options.keep ? removeOldCheckpoints(options.checkpointDir, *options.keep) : Status();
}

Outcome Checkpoints::save(Manifest &state, std::byte *arena, std::byte *hostArena,
                          std::string &path) {
  Status begun = isFirst() ? beginCheckpoint(options.checkpointDir, state.step) : Status();
  if (Outcome outcome = agree(communicator, begun); !outcome.status.ok())
    return outcome;
  RankMemory memory{*stream, arena, hostArena, {staging->data(), staging->size()}};
  CheckpointWriter writer(plan, communicator.rank(), state.step, memory,
                          partialPath(options.checkpointDir, state.step));
  if (Outcome outcome = inRounds([&](int64_t bytes) { return writer.write(bytes); });
      !outcome.status.ok())
    return outcome;
  if (Outcome outcome = collectFiles(writer, state); !outcome.status.ok())
    return outcome;
  return agree(communicator, commit(state, path));
}
