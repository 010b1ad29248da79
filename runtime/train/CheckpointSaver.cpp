//===- CheckpointSaver.cpp - Saves checkpoints while steps go on ----------===//

#include "train/CheckpointSaver.h"
#include "checkpoint/CheckpointFolder.h"
#include "train/Stopwatch.h"

#include <algorithm>

using namespace fsdp::rt;

// Size of the buffer without a copy: writes, checksums and copies from a device are efficient in
// portions of this size.
static constexpr size_t kStagingBytes = size_t{4} << 20;
// Bytes between two checks of the writing thread whether it must stop.
static constexpr int64_t kBesideBytes = int64_t{32} << 20;

Status CheckpointSaver::prepare() {
  if (Status status = checkBuffers(plan); !status.ok())
    return status;
  stream = device.makeStream("fsdp-checkpoint");
  const RankMemory none{*stream, nullptr, nullptr, {}};
  const size_t bytes = options.saveInPlace
                           ? kStagingBytes
                           : CheckpointWriter(plan, communicator.rank(), 0, none, "").copyBytes();
  Result<std::unique_ptr<Memory>> memory = device.allocateHost(std::max<size_t>(bytes, 1));
  if (!memory.ok())
    return options.saveInPlace
               ? memory.status()
               : Status::error("no memory for the copy of the state that checkpoints are written "
                               "from (--save-in-place needs none): " +
                               memory.status().message());
  staging = std::move(*memory);
  return {};
}

Outcome CheckpointSaver::collectFiles(const CheckpointWriter &writer, Manifest &state) {
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

Status CheckpointSaver::commit() {
  SavedCheckpoint &result = current->result;
  Result<std::string> path = commitCheckpoint(options.checkpointDir, result.manifest.step,
                                              formatManifest(result.manifest));
  if (!path.ok())
    return path.status();
  result.path = std::move(*path);
  return options.keep ? removeOldCheckpoints(options.checkpointDir, *options.keep,
                                             options.keepEvery.value_or(0))
                      : Status();
}

Outcome CheckpointSaver::begin(Manifest state) {
  const int64_t step = state.step, updates = step - state.skippedSteps;
  current->result.manifest = std::move(state);
  Status own = isFirst() ? beginCheckpoint(options.checkpointDir, step) : Status();
  if (Outcome outcome = agree(communicator, own); !outcome.status.ok())
    return outcome;
  current->writer =
      std::make_unique<CheckpointWriter>(plan, communicator.rank(), updates, current->memory,
                                         partialPath(options.checkpointDir, step));
  CheckpointWriter &writer = *current->writer;
  if (options.saveInPlace) {
    Outcome outcome = inRounds(communicator, [&](int64_t bytes) { return writer.write(bytes); });
    return outcome.status.ok() ? beginCommit() : outcome;
  }
  if (Outcome outcome = agree(communicator, writer.copyState()); !outcome.status.ok())
    return outcome;
  work.start([&writer](const std::atomic<bool> &stop) -> Status {
    while (!stop) {
      Result<bool> done = writer.write(kBesideBytes);
      if (!done.ok() || *done)
        return done.status();
    }
    return {};
  });
  return {};
}

Outcome CheckpointSaver::save(Manifest state, std::byte *arena, std::byte *hostArena) {
  if (Outcome outcome = finish(); !outcome.status.ok())
    return outcome;
  current.emplace(Save{{}, Clock::now(), {*stream, arena, hostArena, {}}, nullptr});
  current->memory.staging = {staging->data(), staging->size()};
  Outcome begun;
  {
    const Stopwatch exposed(current->result.exposedMilliseconds);
    begun = begin(std::move(state));
  }
  if (!begun.status.ok())
    return abandon(std::move(begun));
  return options.saveInPlace ? finish() : Outcome();
}

Outcome CheckpointSaver::beginCommit() {
  if (Outcome outcome = collectFiles(*current->writer, current->result.manifest);
      !outcome.status.ok())
    return outcome;
  current->writer.reset();
  work.start([this](const std::atomic<bool> &) { return isFirst() ? commit() : Status(); });
  return {};
}

/// Where all ranks know of the failure, rank 0 removes what they have written, as soon as none of
/// them writes any more.
Outcome CheckpointSaver::abandon(Outcome failure) {
  if (!failure.known)
    return failure;
  const int64_t step = current->result.manifest.step;
  work.cancel();
  current.reset();
  if (agree(communicator, Status()).status.ok() && isFirst())
    abandonCheckpoint(options.checkpointDir, step);
  return failure;
}

void CheckpointSaver::complete() {
  SavedCheckpoint &result = current->result;
  result.milliseconds =
      std::chrono::duration<double, std::milli>(Clock::now() - current->begin).count();
  saved = std::move(result);
  current.reset();
}

Outcome CheckpointSaver::follow(std::span<const State> states) {
  if (!current)
    return {};
  if (std::ranges::count(states, State::Failed))
    return abandon(agree(communicator, work.state() == State::Failed ? work.take() : Status()));
  if (std::ranges::count(states, State::Working))
    return {};
  (void)work.take(); // done
  if (!current->writer) {
    complete();
    return {};
  }
  const Stopwatch exposed(current->result.exposedMilliseconds);
  return beginCommit();
}

Outcome CheckpointSaver::finish() {
  // Other ranks wait for this rank at most a part of their deadline.
  const std::chrono::duration<double> patience(std::min(0.5, options.timeoutSeconds / 4));
  std::vector<State> states(communicator.size());
  while (current) {
    State own{};
    {
      const Stopwatch exposed(current->result.exposedMilliseconds);
      own = work.wait(patience);
      if (Status status = communicator.allGather(kControlLane, &own, states.data(), sizeof(own));
          !status.ok())
        return {status, false};
    }
    if (Outcome outcome = follow(states); !outcome.status.ok())
      return outcome;
  }
  return {};
}
