//===- LoadWeights.cpp - Full weights into a rank's arena -----------------===//

#include "DType.h"
#include "checkpoint/Weights.h"
#include "plan/PlanView.h"

#include <algorithm>
#include <cstring>
#include <set>

using namespace fsdp::rt;

using Found = WeightsFiles::Found;

// Large enough for efficient reads and copies, small compared with a shard.
static constexpr size_t kPieceBytes = size_t{1} << 20;

static Status mismatch(const Found &found, const std::string &name, uint32_t dtype,
                       std::span<const int64_t> shape) {
  const StoredTensor &stored = *found.tensor;
  return Status::error("'" + found.file->path() + "': '" + name + "' is " +
                       describeStored(stored.dtypeName, stored.shape) + ", the model has " +
                       describeStored(safetensorsName(dtype), shape));
}

static bool agrees(const StoredTensor &stored, uint32_t dtype, std::span<const int64_t> shape) {
  return stored.dtype && *stored.dtype == dtype && std::ranges::equal(stored.shape, shape);
}

/// The tensors of these names in the files: at least one, each of this dtype and shape.
/// `kind`: "parameter" or "buffer".
static Result<std::vector<Found>> findTensors(const char *kind,
                                              const std::vector<std::string> &names, uint32_t dtype,
                                              std::span<const int64_t> shape,
                                              const WeightsFiles &files) {
  std::vector<Found> found;
  for (const std::string &name : names) {
    const Found *stored = files.find(name);
    if (!stored)
      continue;
    if (!agrees(*stored->tensor, dtype, shape))
      return mismatch(*stored, name, dtype, shape);
    found.push_back(*stored);
  }
  if (found.empty()) {
    std::string text = "'" + files.path() + "' lacks " + kind + " '" + names[0] + "' (" +
                       describeStored(safetensorsName(dtype), shape) + ")";
    for (size_t i = 1; i < names.size(); ++i)
      text += (i == 1 ? ", also known as '" : "', '") + names[i];
    return Status::error(text + (names.size() > 1 ? "'" : ""));
  }
  return found;
}

static Result<std::vector<Found>>
findParameter(const PlanView &plan, const fsdp_parameter &parameter, const WeightsFiles &files) {
  return findTensors("parameter", namesOf(plan, parameter), parameter.dtype, plan.sizes(parameter),
                     files);
}

static Result<std::vector<Found>> findBuffer(const PlanView &plan, const fsdp_buffer &buffer,
                                             const WeightsFiles &files) {
  const fsdp_value &value = plan.values()[buffer.value];
  if (!plan.isContiguous(value))
    return Status::error("buffer " + plan.describeValue(value) +
                         " is not contiguous: it cannot be read from a weights file");
  return findTensors("buffer", namesOf(plan, buffer), value.dtype, plan.sizes(value), files);
}

Status fsdp::rt::checkWeights(const PlanView &plan, const WeightsFiles &files) {
  std::set<std::string, std::less<>> known;
  for (const fsdp_parameter &parameter : plan.parameters()) {
    if (auto found = findParameter(plan, parameter, files); !found.ok())
      return found.status();
    for (std::string &name : namesOf(plan, parameter))
      known.insert(std::move(name));
  }
  for (const fsdp_buffer &buffer : plan.buffers()) {
    if (plan.isTransient(buffer))
      continue;
    if (auto found = findBuffer(plan, buffer, files); !found.ok())
      return found.status();
    for (std::string &name : namesOf(plan, buffer))
      known.insert(std::move(name));
  }
  for (const auto &[name, stored] : files.tensors())
    if (!known.contains(name))
      return Status::error("'" + stored.file->path() + "' holds '" + name + "' (" +
                           describeStored(stored.tensor->dtypeName, stored.tensor->shape) +
                           "), which the model does not have");
  return {};
}

namespace {
/// Bytes of a tensor in a file: runs of equal length at equal distances.
struct Part {
  const SafetensorsFile &file;
  std::span<const std::byte> bytes; // from the first run on
  size_t run, stride, size; // bytes of a run, bytes from one run to the next, bytes of all runs

  /// Copies `count` bytes of the concatenated runs, from `begin` on.
  Status read(size_t begin, size_t count, std::byte *to) const {
    while (count > 0) {
      const size_t inRun = begin % run, length = std::min(count, run - inRun);
      if (Status status = file.read(bytes.subspan(begin / run * stride + inRun, length), to);
          !status.ok())
        return status;
      to += length;
      begin += length;
      count -= length;
    }
    return {};
  }
};

/// Copies parts of weights files to the arena in portions.
class WeightsCopier {
public:
  /// Calls `read` after each portion; `total`: bytes of all parts.
  WeightsCopier(Stream &stream, const ReadProgress &read, int64_t total)
      : stream(stream), read(read), total(total), own(kPieceBytes) {}

  Status copy(const Part &part, std::byte *to) {
    for (size_t done = 0; done < part.size;) {
      const size_t size = std::min(kPieceBytes, part.size - done);
      if (Status status = part.read(done, size, own.data()); !status.ok())
        return status;
      stream.copy(to + done, own.data(), size);
      if (Status status = stream.synchronize(); !status.ok())
        return status;
      done += size;
      copied += static_cast<int64_t>(size);
      if (read)
        read(copied, total);
    }
    return {};
  }
  /// True if both parts, of equal length, have the same bytes.
  Result<bool> areSame(const Part &first, const Part &second) {
    other.resize(kPieceBytes);
    for (size_t done = 0; done < first.size; done += kPieceBytes) {
      const size_t size = std::min(kPieceBytes, first.size - done);
      if (Status status = first.read(done, size, own.data()); !status.ok())
        return status;
      if (Status status = second.read(done, size, other.data()); !status.ok())
        return status;
      if (std::memcmp(own.data(), other.data(), size) != 0)
        return false;
    }
    return true;
  }

private:
  Stream &stream;
  const ReadProgress &read;
  const int64_t total;
  int64_t copied = 0;
  std::vector<std::byte> own, other;
};
} // namespace

/// Copies the first of the parts, which are the same part of all tensors of names `name` has;
/// compares the others with it.
static Status loadParts(const std::vector<Part> &parts, const char *name, const WeightsFiles &files,
                        WeightsCopier &copier, std::byte *to) {
  if (Status status = copier.copy(parts[0], to); !status.ok())
    return status;
  for (const Part &other : std::span(parts).subspan(1)) {
    Result<bool> same = copier.areSame(parts[0], other);
    if (!same.ok())
      return same.status();
    if (!*same)
      return Status::error("'" + files.path() + "' holds different values for '" + name +
                           "' and another of its names");
  }
  return {};
}

static Status loadPiece(const PlanView &plan, const fsdp_parameter &parameter,
                        const fsdp_piece &piece, const WeightsFiles &files, WeightsCopier &copier,
                        std::byte *shard) {
  auto elementSize = static_cast<int64_t>(elementBytes(parameter.dtype));
  auto bytesOf = [&](int64_t elements) { return static_cast<size_t>(elements * elementSize); };
  const PlanView::Runs runs = plan.runsOf(parameter);
  auto found = findParameter(plan, parameter, files);
  std::vector<Part> parts;
  for (const Found &stored : *found)
    parts.push_back({*stored.file, stored.tensor->bytes.subspan(bytesOf(piece.first)),
                     bytesOf(piece.count / runs.count), bytesOf(runs.stride),
                     bytesOf(piece.count)});
  return loadParts(parts, plan.string(parameter.name), files, copier,
                   shard + piece.shard_offset * elementSize);
}

static Status loadBuffer(const PlanView &plan, const fsdp_buffer &buffer, const WeightsFiles &files,
                         WeightsCopier &copier, std::byte *arena) {
  auto found = findBuffer(plan, buffer, files);
  std::vector<Part> parts;
  for (const Found &stored : *found) {
    const size_t size = stored.tensor->bytes.size();
    parts.push_back({*stored.file, stored.tensor->bytes, size, size, size});
  }
  return loadParts(parts, plan.string(buffer.name), files, copier,
                   arena + plan.values()[buffer.value].offset);
}

/// Bytes that a rank reads from the weights files, which hold no transient buffers.
static int64_t readBytes(const PlanView &plan, unsigned rank) {
  int64_t bytes = 0;
  for (const fsdp_parameter &parameter : plan.parameters())
    for (const fsdp_piece &piece : plan.piecesOf(parameter))
      if (piece.rank == PlanView::shardOf(plan.groups()[parameter.group], rank))
        bytes += piece.count * static_cast<int64_t>(elementBytes(parameter.dtype));
  for (const fsdp_buffer &buffer : plan.buffers())
    if (!plan.isTransient(buffer))
      bytes += plan.spanBytes(plan.values()[buffer.value]);
  return bytes;
}

Status fsdp::rt::loadWeights(const PlanView &plan, unsigned rank, Stream &stream, std::byte *arena,
                             std::byte *hostArena, const WeightsFiles &files,
                             const ReadProgress &read) {
  if (Status status = checkWeights(plan, files); !status.ok())
    return status;
  WeightsCopier copier(stream, read, readBytes(plan, rank));
  for (const fsdp_group &group : plan.groups()) {
    std::byte *shard =
        plan.areParametersOnHost(group) ? hostArena + group.host_shard : arena + group.shard;
    for (const fsdp_parameter &parameter : plan.parametersOf(group))
      for (const fsdp_piece &piece : plan.piecesOf(parameter))
        if (piece.rank == PlanView::shardOf(group, rank))
          if (Status status = loadPiece(plan, parameter, piece, files, copier, shard); !status.ok())
            return status;
  }
  for (const fsdp_buffer &buffer : plan.buffers()) {
    if (plan.isTransient(buffer))
      continue;
    if (Status status = loadBuffer(plan, buffer, files, copier, arena); !status.ok())
      return status;
  }
  return {};
}
