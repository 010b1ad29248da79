//===- ResultReaders.cpp - Until when a result is read ---------------------===//

#include "executor/ResultReaders.h"
#include "plan/EntryBytes.h"

#include <algorithm>
#include <map>

using namespace fsdp::rt;

namespace {
/// The last reader of each byte of the arena, seen from a place of the step; 0 for bytes that are
/// overwritten before anybody reads them.
class ByteReaders {
public:
  explicit ByteReaders(int64_t bytes) : end(bytes) { readers[0] = 0; }

  void set(ByteRange range, size_t reader) {
    auto [first, past] = cut(range);
    first->second = reader;
    readers.erase(std::next(first), past);
  }
  /// Whoever reads later stays the last reader.
  void atLeast(ByteRange range, size_t reader) {
    auto [first, past] = cut(range);
    for (; first != past; ++first)
      first->second = std::max(first->second, reader);
  }
  size_t lastOf(ByteRange range) const {
    size_t last = 0;
    for (auto part = std::prev(readers.upper_bound(range.begin));
         part != readers.end() && part->first < range.begin + range.bytes; ++part)
      last = std::max(last, part->second);
    return last;
  }

private:
  using Parts = std::map<int64_t, size_t>; // by first byte: up to the next part

  Parts::iterator cutAt(int64_t place) {
    auto part = std::prev(readers.upper_bound(place));
    return part->first == place ? part : readers.emplace_hint(std::next(part), place, part->second);
  }
  std::pair<Parts::iterator, Parts::iterator> cut(ByteRange range) {
    auto first = cutAt(range.begin);
    int64_t past = range.begin + range.bytes;
    return {first, past >= end ? readers.end() : cutAt(past)};
  }

  const int64_t end;
  Parts readers;
};
} // namespace

/// Goes back through the step.
ResultReaders::ResultReaders(const PlanView &view) : last(view.values().size(), 0) {
  ByteReaders readers(view.tables().arena_bytes);
  for (ByteRange range : bytesAfterStep(view))
    readers.set(range, kEver);
  std::vector<size_t> waits(view.tables().num_handles); // by handle: the next one
  for (size_t i = view.entries().size(); i-- > 0;) {
    const fsdp_entry &entry = view.entries()[i];
    if (entry.kind == FSDP_WAIT)
      waits[entry.handle] = i;
    if (entry.kind == FSDP_CALL)
      for (int64_t result : view.results(entry))
        if (result >= 0) {
          const fsdp_value &value = view.values()[result];
          ByteRange range{value.offset, view.spanBytes(value)};
          if (range.begin >= 0 && range.bytes > 0)
            last[result] = std::max(last[result], readers.lastOf(range));
        }
    const EntryBytes bytes = EntryBytes::of(view, entry);
    for (ByteRange range : bytes.overwrites)
      readers.set(range, 0);
    for (ByteRange range : bytes.reads)
      readers.atLeast(range, std::max(i, bytes.untilWait ? waits[entry.handle] : 0));
  }
}
