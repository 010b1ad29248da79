//===- ResultReaders.cpp - Until when a result is read ---------------------===//

#include "executor/ResultReaders.h"
#include "plan/DType.h"

#include <algorithm>
#include <map>
#include <numeric>

using namespace fsdp::rt;

ResultReaders::ResultReaders(const PlanView &view) : view(view), last(view.values().size(), 0) {
  findReadingCalls();
  findOtherReaders();
}

void ResultReaders::findReadingCalls() {
  std::vector<uint32_t> roots(last.size()); // by value: whose memory it is
  std::iota(roots.begin(), roots.end(), 0);
  for (size_t i = 0; i < view.entries().size(); ++i) {
    const fsdp_entry &entry = view.entries()[i];
    if (entry.kind == FSDP_COPY)
      last[roots[entry.source_value]] = i;
    if (entry.kind != FSDP_CALL && entry.kind != FSDP_VIEW)
      continue;
    std::span<const fsdp_argument> arguments = view.arguments(entry);
    if (entry.kind == FSDP_VIEW && !arguments.empty() && arguments[0].kind == FSDP_ARG_VALUE) {
      for (int64_t result : view.results(entry))
        if (result >= 0)
          roots[result] = roots[arguments[0].index];
      continue;
    }
    for (const fsdp_argument &argument : arguments) {
      if (argument.kind == FSDP_ARG_VALUE)
        last[roots[argument.index]] = i;
      if (argument.kind == FSDP_ARG_VALUE_LIST)
        for (int64_t value : view.integers(argument.index, argument.count))
          if (value >= 0)
            last[roots[value]] = i;
    }
  }
}

namespace {
/// Bytes of the arena.
class ByteRanges {
public:
  void add(int64_t begin, int64_t bytes) {
    if (bytes <= 0)
      return;
    int64_t end = begin + bytes;
    auto next = ranges.upper_bound(begin);
    if (next != ranges.begin() && std::prev(next)->second >= begin)
      --next;
    while (next != ranges.end() && next->first <= end) {
      begin = std::min(begin, next->first);
      end = std::max(end, next->second);
      next = ranges.erase(next);
    }
    ranges.emplace_hint(next, begin, end);
  }

  void remove(int64_t begin, int64_t bytes) {
    int64_t end = begin + bytes;
    for (auto next = firstAfter(begin); next != ranges.end() && next->first < end;) {
      auto [first, past] = *next;
      next = ranges.erase(next);
      if (first < begin)
        ranges.emplace_hint(next, first, begin);
      if (past > end)
        ranges.emplace_hint(next, end, past);
    }
  }

  bool meets(int64_t begin, int64_t bytes) {
    auto next = firstAfter(begin);
    return bytes > 0 && next != ranges.end() && next->first < begin + bytes;
  }

private:
  /// The first range that ends after `place`.
  std::map<int64_t, int64_t>::iterator firstAfter(int64_t place) {
    auto next = ranges.upper_bound(place);
    return next != ranges.begin() && std::prev(next)->second > place ? std::prev(next) : next;
  }

  std::map<int64_t, int64_t> ranges; // from first byte to end; disjoint
};
} // namespace

/// Goes back through the step with the bytes that are still to be read.
void ResultReaders::findOtherReaders() {
  ByteRanges always, awaited;
  auto addValue = [&](uint32_t value) {
    always.add(view.values()[value].offset, view.spanBytes(view.values()[value]));
  };
  for (const fsdp_group &group : view.groups()) {
    always.add(group.shard, view.shardBytes(group));
    always.add(group.gather_shard, view.gatherShardBytes(group));
    for (unsigned state = 0; state < view.numOptimizerStates(); ++state)
      always.add(group.state[state], view.shardBytes(group));
  }
  for (const fsdp_input &input : view.inputs())
    addValue(input.value);
  for (const fsdp_buffer &buffer : view.buffers())
    addValue(buffer.value);
  for (const fsdp_constant &constant : view.constants())
    addValue(constant.value);
  addValue(view.tables().loss_value);

  for (size_t i = view.entries().size(); i-- > 0;) {
    const fsdp_entry &entry = view.entries()[i];
    const auto elementSize = static_cast<int64_t>(elementBytes(entry.dtype));
    switch (entry.kind) {
    case FSDP_CALL:
      for (int64_t result : view.results(entry)) {
        if (result < 0)
          continue;
        const fsdp_value &value = view.values()[result];
        int64_t bytes = view.spanBytes(value);
        if (always.meets(value.offset, bytes) || awaited.meets(value.offset, bytes))
          last[result] = kEver;
        if (view.isContiguous(value))
          awaited.remove(value.offset, bytes);
      }
      break;
    case FSDP_ALL_GATHER_START:
      awaited.add(entry.source, entry.bytes);
      break;
    case FSDP_REDUCE_SCATTER_START:
      awaited.add(entry.source, view.numShards() * entry.count * elementSize);
      break;
    case FSDP_ALL_REDUCE_START:
    case FSDP_SQUARE_SUM_ALL_REDUCE_START:
      awaited.add(entry.source, entry.count * elementSize);
      break;
    case FSDP_UPDATE: {
      const fsdp_group &group = view.groups()[entry.target];
      awaited.add(entry.source,
                  group.shard_elements * static_cast<int64_t>(elementBytes(group.reduce_dtype)));
      break;
    }
    case FSDP_SQUARE_SUM: // what the updates behind it read
    case FSDP_CLIP_FACTOR:
    case FSDP_FETCH_STATE_START:
    case FSDP_STORE_STATE_START:
    case FSDP_VIEW:
    case FSDP_COPY:
    case FSDP_WAIT:
    case FSDP_RELEASE:
    case FSDP_ZERO:
      break;
    default: // anything may be read
      always.add(0, view.tables().arena_bytes);
    }
  }
}
