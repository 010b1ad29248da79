//===- RankState.cpp - The training state that a rank holds ---------------===//

#include "checkpoint/RankState.h"
#include "DType.h"
#include "checkpoint/Names.h"
#include "fsdp/Plan/Optimizers.h"
#include "plan/EntryBytes.h"

#include <algorithm>
#include <charconv>

using namespace fsdp::rt;

int64_t StateRange::count() const {
  int64_t elements = 0;
  for (const Rectangle &part : parts)
    elements += part.elements();
  return elements;
}

int64_t StateRange::bytes() const { return count() * static_cast<int64_t>(elementBytes(dtype)); }

std::string fsdp::rt::optimizerStateName(const PlanView &plan, unsigned index) {
  return std::string(optimizerStateNames(plan.tables().optimizer)[index]);
}

std::string fsdp::rt::optimizerTensorName(const std::string &parameter, const std::string &state) {
  return "optim.state." + parameter + "." + state;
}

static constexpr std::string_view kOfRank = "fsdpc.rank";

std::string fsdp::rt::bufferNameOfRank(const std::string &name, unsigned rank, bool isTransient) {
  return rank == 0 && !isTransient ? name
                                   : std::string(kOfRank) + std::to_string(rank) + "." + name;
}

std::optional<RankedName> fsdp::rt::nameOfRank(std::string_view name) {
  if (!name.starts_with(kOfRank))
    return std::nullopt;
  name.remove_prefix(kOfRank.size());
  RankedName own{};
  auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), own.rank);
  name.remove_prefix(static_cast<size_t>(end - name.data()));
  if (error != std::errc() || !name.starts_with('.'))
    return std::nullopt;
  own.name = name.substr(1);
  return own;
}

static bool isTrained(const fsdp_group &group, const fsdp_piece &piece) {
  return piece.count > 0 && piece.shard_offset < group.trained_elements;
}

bool fsdp::rt::hasStepNumber(const PlanView &plan) {
  return fsdp::plan::kindOf(plan.tables().optimizer).hasStepNumber;
}

std::optional<float> fsdp::rt::momentumProduct(const fsdp_optimizer &optimizer, int64_t step) {
  if (optimizer.kind != FSDP_NADAM)
    return std::nullopt;
  return fsdp::plan::nadamProduct(optimizer, step);
}

bool fsdp::rt::isTrained(const PlanView &plan, const fsdp_parameter &parameter) {
  return std::ranges::any_of(plan.piecesOf(parameter), [&](const fsdp_piece &piece) {
    return isTrained(plan.groups()[parameter.group], piece);
  });
}

static bool overlap(const ByteRange &a, const ByteRange &b) {
  return a.begin < b.begin + b.bytes && b.begin < a.begin + a.bytes;
}

/// True if an entry of the plan writes into the buffer.
static bool isWritten(const PlanView &plan, const fsdp_value &buffer) {
  const ByteRange own{buffer.offset, plan.spanBytes(buffer)};
  for (const fsdp_entry &entry : plan.entries()) {
    auto writes = [&](uint32_t value) {
      const fsdp_value &result = plan.values()[value];
      return overlap({result.offset, plan.spanBytes(result)}, own);
    };
    switch (entry.kind) {
    case FSDP_CALL:
    case FSDP_KERNEL:
      for (int64_t value : plan.results(entry))
        if (value >= 0 && writes(static_cast<uint32_t>(value)))
          return true;
      break;
    case FSDP_COPY:
    case FSDP_ACCUMULATE:
      if (writes(entry.destination_value))
        return true;
      break;
    default: // other entries write values of the plan
      break;
    }
  }
  return false;
}

Status fsdp::rt::checkBuffers(const PlanView &plan) {
  for (const fsdp_buffer &buffer : plan.buffers()) {
    const fsdp_value &value = plan.values()[buffer.value];
    if (!plan.isContiguous(value))
      return Status::error("buffer '" + std::string(plan.string(buffer.name)) + "' is " +
                           plan.describeValue(value) +
                           ", not contiguous: it cannot be stored in a checkpoint");
  }
  return {};
}

static StateRange rangeOf(const PlanView &plan, const fsdp_parameter &parameter,
                          const fsdp_piece &piece) {
  std::span<const int64_t> shape = plan.sizes(parameter);
  StateRange range;
  range.shards = plan.groups()[parameter.group].shards;
  range.dtype = static_cast<fsdp_dtype>(parameter.dtype);
  range.shape.assign(shape.begin(), shape.end());
  if (parameter.shard_dim == 0) {
    range.parts = cutRange(shape, piece.first, piece.count);
    return range;
  }
  const PlanView::Runs runs = plan.runsOf(parameter);
  Rectangle &part = range.parts.emplace_back(std::vector<int64_t>(shape.size(), 0), range.shape);
  part.offsets[parameter.shard_dim] = piece.first / runs.entry;
  part.sizes[parameter.shard_dim] = piece.count / runs.count / runs.entry;
  return range;
}

static void addParameter(const PlanView &plan, const fsdp_parameter &parameter,
                         const fsdp_piece &piece, std::vector<StateRange> &ranges) {
  const fsdp_group &group = plan.groups()[parameter.group];
  auto inShard = [&](uint32_t dtype) {
    return piece.shard_offset * static_cast<int64_t>(elementBytes(dtype));
  };
  std::vector<std::string> names = namesOf(plan, parameter);
  StateRange own = rangeOf(plan, parameter, piece);
  own.name = names[0];
  own.aliases.assign(names.begin() + 1, names.end());
  own.onHost = plan.areParametersOnHost(group);
  own.offset = (own.onHost ? group.host_shard : group.shard) + inShard(group.dtype);
  ranges.push_back(std::move(own));
  if (!isTrained(group, piece))
    return;
  for (unsigned i = 0; i < plan.numOptimizerStates(); ++i) {
    StateRange state = rangeOf(plan, parameter, piece);
    state.kind = StateRange::Kind::OptimizerState;
    state.name = optimizerTensorName(names[0], optimizerStateName(plan, i));
    for (size_t alias = 1; alias < names.size(); ++alias)
      state.aliases.push_back(optimizerTensorName(names[alias], optimizerStateName(plan, i)));
    if (plan.isAverage(i))
      state.substitutes = names;
    state.onHost = plan.isStateOnHost(group);
    state.dtype = static_cast<fsdp_dtype>(group.state_dtype[i]);
    state.offset =
        (state.onHost ? group.host_state[i] : group.state[i]) + inShard(group.state_dtype[i]);
    ranges.push_back(std::move(state));
  }
}

std::vector<StateRange> fsdp::rt::stateOf(const PlanView &plan, unsigned rank) {
  std::vector<StateRange> ranges;
  for (const fsdp_parameter &parameter : plan.parameters())
    for (const fsdp_piece &piece : plan.piecesOf(parameter))
      if (piece.rank == PlanView::shardOf(plan.groups()[parameter.group], rank) && piece.count > 0)
        addParameter(plan, parameter, piece, ranges);
  for (const fsdp_buffer &buffer : plan.buffers()) {
    const fsdp_value &value = plan.values()[buffer.value];
    std::span<const int64_t> shape = plan.sizes(value);
    StateRange range;
    std::vector<std::string> names = namesOf(plan, buffer);
    range.name = names[0];
    range.aliases.assign(names.begin() + 1, names.end());
    range.kind = StateRange::Kind::Buffer;
    range.dtype = static_cast<fsdp_dtype>(value.dtype);
    range.shape.assign(shape.begin(), shape.end());
    range.parts = cutRange(shape, 0, plan.numElements(value));
    range.offset = value.offset;
    range.isTransient = plan.isTransient(buffer);
    range.ownOfRank = isWritten(plan, value);
    ranges.push_back(std::move(range));
  }
  return ranges;
}
