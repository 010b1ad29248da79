//===- SaveWeights.cpp - Full weights out of the ranks' arenas ------------===//

#include "DType.h"
#include "checkpoint/SafetensorsWriter.h"
#include "checkpoint/Weights.h"
#include "plan/PlanView.h"

#include <algorithm>
#include <optional>

using namespace fsdp::rt;

/// The tensors of the file: parameters in the plan's order, then buffers, each under all its names.
static std::vector<TensorToStore> listTensors(const PlanView &plan) {
  std::vector<TensorToStore> tensors;
  auto add = [&](std::string name, uint32_t dtype, std::span<const int64_t> shape) {
    tensors.push_back(
        {std::move(name), static_cast<fsdp_dtype>(dtype), {shape.begin(), shape.end()}});
  };
  for (const fsdp_group &group : plan.groups())
    for (const fsdp_parameter &parameter : plan.parametersOf(group))
      for (std::string &name : namesOf(plan, parameter))
        add(std::move(name), parameter.dtype, plan.sizes(parameter));
  for (const fsdp_buffer &buffer : plan.buffers()) {
    if (plan.isTransient(buffer))
      continue;
    const fsdp_value &value = plan.values()[buffer.value];
    for (std::string &name : namesOf(plan, buffer))
      add(std::move(name), value.dtype, plan.sizes(value));
  }
  return tensors;
}

/// Writes one gathered group as the tensors from `index` on, and advances `index`.
static Status writeGroup(const PlanView &plan, const fsdp_group &group, const std::byte *gathered,
                         SafetensorsWriter &writer, size_t &index) {
  auto elementSize = static_cast<int64_t>(elementBytes(group.dtype));
  for (const fsdp_parameter &parameter : plan.parametersOf(group)) {
    const PlanView::Runs runs = plan.runsOf(parameter);
    for (uint32_t name = 0; name <= parameter.num_aliases; ++name, ++index)
      for (const fsdp_piece &piece : plan.piecesOf(parameter)) {
        const int64_t length = piece.count / runs.count;
        int64_t element = piece.rank * group.shard_elements + piece.shard_offset;
        for (int64_t run = 0; run < runs.count; ++run, element += length) {
          Status status = writer.write(index, (piece.first + run * runs.stride) * elementSize,
                                       gathered + element * elementSize,
                                       static_cast<size_t>(length * elementSize));
          if (!status.ok())
            return status;
        }
      }
  }
  // Flushed after each group, so that the other ranks never wait longer than for the disk writes of
  // one group.
  return writer.flush();
}

static Status writeBuffers(const PlanView &plan, Stream &stream, const std::byte *arena,
                           SafetensorsWriter &writer, size_t index) {
  std::vector<std::byte> host;
  for (const fsdp_buffer &buffer : plan.buffers()) {
    if (plan.isTransient(buffer))
      continue;
    const fsdp_value &value = plan.values()[buffer.value];
    host.resize(static_cast<size_t>(plan.spanBytes(value)));
    stream.copy(host.data(), arena + value.offset, host.size());
    if (Status status = stream.synchronize(); !status.ok())
      return status;
    for (uint32_t name = 0; name <= buffer.num_aliases; ++name)
      if (Status status = writer.write(index++, 0, host.data(), host.size()); !status.ok())
        return status;
  }
  return {};
}

Status fsdp::rt::saveWeights(const PlanView &plan, Communicator &communicator, Stream &stream,
                             const std::byte *arena, const std::byte *hostArena,
                             const std::string &path) {
  // After a disk error rank 0 remembers the error and goes on gathering, so that the other ranks do
  // not wait for it.
  Status disk;
  std::optional<SafetensorsWriter> writer;
  if (communicator.rank() == 0) {
    if (auto created = SafetensorsWriter::create(path, listTensors(plan)); created.ok())
      writer.emplace(std::move(*created));
    else
      disk = created.status();
  }
  size_t largest = 0;
  for (const fsdp_group &group : plan.groups())
    largest = std::max(largest, static_cast<size_t>(plan.shardBytes(group)) * communicator.size());
  std::vector<std::byte> gathered(largest);
  size_t index = 0;
  for (const fsdp_group &group : plan.groups()) {
    auto bytes = static_cast<size_t>(plan.shardBytes(group));
    std::byte *own = gathered.data() + communicator.rank() * bytes;
    stream.copy(
        own, plan.areParametersOnHost(group) ? hostArena + group.host_shard : arena + group.shard,
        bytes);
    if (Status status = stream.synchronize(); !status.ok())
      return status;
    Status status = communicator.allGather(kControlLane, own, gathered.data(), bytes);
    if (!status.ok())
      return status;
    if (writer && disk.ok())
      disk = writeGroup(plan, group, gathered.data(), *writer, index);
  }
  if (writer && disk.ok())
    disk = writeBuffers(plan, stream, arena, *writer, index);
  if (writer && disk.ok())
    disk = writer->commit();
  return disk;
}
