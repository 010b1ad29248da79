//===- LoadWeights.cpp - Full weights into a rank's arena -----------------===//

#include "DType.h"
#include "checkpoint/Weights.h"
#include "plan/PlanView.h"

#include <algorithm>
#include <cstring>
#include <set>

using namespace fsdp::rt;

static Status mismatch(const SafetensorsFile &file, const std::string &name,
                       const StoredTensor &stored, uint32_t dtype, std::span<const int64_t> shape) {
  return Status::error("'" + file.path() + "': '" + name + "' is " +
                       describeStored(stored.dtypeName, stored.shape) + ", the model has " +
                       describeStored(safetensorsName(dtype), shape));
}

static bool agrees(const StoredTensor &stored, uint32_t dtype, std::span<const int64_t> shape) {
  return stored.dtype && *stored.dtype == dtype && std::ranges::equal(stored.shape, shape);
}

/// Where the file has the parameter: at least once, each time with its shape.
static Result<std::vector<const StoredTensor *>>
findParameter(const PlanView &plan, const fsdp_parameter &parameter, const SafetensorsFile &file) {
  std::vector<std::string> names = parameterNames(plan, parameter);
  std::span<const int64_t> shape = plan.sizes(parameter);
  std::vector<const StoredTensor *> found;
  for (const std::string &name : names) {
    const StoredTensor *stored = file.find(name);
    if (!stored)
      continue;
    if (!agrees(*stored, parameter.dtype, shape))
      return mismatch(file, name, *stored, parameter.dtype, shape);
    found.push_back(stored);
  }
  if (found.empty()) {
    std::string text = "'" + file.path() + "' lacks parameter '" + names[0] + "' (" +
                       describeStored(safetensorsName(parameter.dtype), shape) + ")";
    for (size_t i = 1; i < names.size(); ++i)
      text += (i == 1 ? ", also known as '" : "', '") + names[i];
    return Status::error(text + (names.size() > 1 ? "'" : ""));
  }
  return found;
}

static Result<const StoredTensor *> findBuffer(const PlanView &plan, const fsdp_buffer &buffer,
                                               const SafetensorsFile &file) {
  const char *name = plan.string(buffer.name);
  const fsdp_value &value = plan.values()[buffer.value];
  std::span<const int64_t> shape = plan.sizes(value);
  if (!plan.isContiguous(value))
    return Status::error("buffer " + plan.describeValue(value) +
                         " is not contiguous: it cannot be read from a weights file");
  const StoredTensor *stored = file.find(name);
  if (!stored)
    return Status::error("'" + file.path() + "' lacks buffer '" + name + "' (" +
                         describeStored(safetensorsName(value.dtype), shape) + ")");
  if (!agrees(*stored, value.dtype, shape))
    return mismatch(file, name, *stored, value.dtype, shape);
  return stored;
}

Status fsdp::rt::checkWeights(const PlanView &plan, const SafetensorsFile &file) {
  std::set<std::string, std::less<>> known;
  for (const fsdp_parameter &parameter : plan.parameters()) {
    if (auto found = findParameter(plan, parameter, file); !found.ok())
      return found.status();
    for (std::string &name : parameterNames(plan, parameter))
      known.insert(std::move(name));
  }
  for (const fsdp_buffer &buffer : plan.buffers()) {
    if (auto found = findBuffer(plan, buffer, file); !found.ok())
      return found.status();
    known.insert(plan.string(buffer.name));
  }
  for (const auto &[name, stored] : file.tensors())
    if (!known.contains(name))
      return Status::error("'" + file.path() + "' holds '" + name + "' (" +
                           describeStored(stored.dtypeName, stored.shape) +
                           "), which the model does not have");
  return {};
}

namespace {
/// Brings parts of a weights file to the arena.
class WeightsCopier {
public:
  WeightsCopier(const SafetensorsFile &file, Stream &stream) : file(file), stream(stream) {}

  Status copy(std::span<const std::byte> part, std::byte *to) {
    if (Status status = read(part, own); !status.ok())
      return status;
    stream.copy(to, own.data(), own.size());
    return stream.synchronize();
  }
  /// True if `part` holds what was copied last.
  Result<bool> isSame(std::span<const std::byte> part) {
    if (Status status = read(part, other); !status.ok())
      return status;
    return own == other;
  }

private:
  Status read(std::span<const std::byte> part, std::vector<std::byte> &bytes) {
    bytes.resize(part.size());
    return file.read(part, bytes.data());
  }

  const SafetensorsFile &file;
  Stream &stream;
  std::vector<std::byte> own, other;
};
} // namespace

static Status loadPiece(const PlanView &plan, const fsdp_parameter &parameter,
                        const fsdp_piece &piece, const SafetensorsFile &file, WeightsCopier &copier,
                        std::byte *shard) {
  auto elementSize = static_cast<int64_t>(elementBytes(parameter.dtype));
  auto found = findParameter(plan, parameter, file);
  auto partOf = [&](const StoredTensor *stored) {
    return stored->bytes.subspan(static_cast<size_t>(piece.first * elementSize),
                                 static_cast<size_t>(piece.count * elementSize));
  };
  if (Status status = copier.copy(partOf((*found)[0]), shard + piece.shard_offset * elementSize);
      !status.ok())
    return status;
  for (const StoredTensor *other : std::span(*found).subspan(1)) {
    Result<bool> same = copier.isSame(partOf(other));
    if (!same.ok())
      return same.status();
    if (!*same)
      return Status::error("'" + file.path() + "' holds different values for '" +
                           plan.string(parameter.name) +
                           "' and another name of the same parameter");
  }
  return {};
}

Status fsdp::rt::loadWeights(const PlanView &plan, unsigned rank, Stream &stream, std::byte *arena,
                             const SafetensorsFile &file) {
  if (Status status = checkWeights(plan, file); !status.ok())
    return status;
  WeightsCopier copier(file, stream);
  for (const fsdp_group &group : plan.groups())
    for (const fsdp_parameter &parameter : plan.parametersOf(group))
      for (const fsdp_piece &piece : plan.piecesOf(parameter))
        if (piece.rank == plan.shardOf(rank))
          if (Status status = loadPiece(plan, parameter, piece, file, copier, arena + group.shard);
              !status.ok())
            return status;
  for (const fsdp_buffer &buffer : plan.buffers())
    if (Status status = copier.copy((*findBuffer(plan, buffer, file))->bytes,
                                    arena + plan.values()[buffer.value].offset);
        !status.ok())
      return status;
  return {};
}
