//===- NonFiniteFinder.h - Where numbers cease to be finite ------*- C++ -*-===//
//
// Looks at what each entry of a step reads and writes, and remembers where NaN and Inf came from.
// Inf alone is no fault: masks hold it. A step is spoiled if its loss, the gradients of an update
// or the parameters behind it are not finite; then the way back from there, from result to operand,
// ends at the first entry whose operands were finite.
//
// On a CPU; belongs to the thread that runs the step. May throw what torch throws.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_NONFINITEFINDER_H
#define FSDP_RUNTIME_NONFINITEFINDER_H

#include "executor/Executor.h"
#include "plan/EntryBytes.h"

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace fsdp::rt {

class NonFiniteFinder {
public:
  /// `shard`: index of this rank's shards. The arguments outlive the object.
  NonFiniteFinder(const PlanView &view, std::byte *arena, unsigned shard);

  /// Around each step, and around each of its entries; `tensors` are the plan's values.
  void beginStep(std::span<const at::Tensor> tensors);
  void before(uint32_t entry, std::span<const at::Tensor> tensors);
  void after(uint32_t entry, std::span<const at::Tensor> tensors);
  void endStep(std::span<const at::Tensor> tensors);

  /// Where the numbers of the last step cease to be finite, if it is spoiled.
  std::optional<NonFinite> finding() const;

private:
  struct Counts {
    int64_t nans = 0, infinities = 0, all = 0;
    bool finite() const { return nans == 0 && infinities == 0; }
  };
  static constexpr int64_t kNone = -1;
  /// Bytes that hold NaN or Inf.
  struct Trace {
    ByteRange bytes;
    Counts counts;
    uint32_t place;     // NonFinite::place
    std::string what;   // of those before the step; else the entry says it
    int64_t cause;      // the trace that it comes from; kNone: it begins here
    bool fromElsewhere; // another rank may have brought it
  };

  static Counts count(const at::Tensor &tensor);
  at::Tensor tensorAt(int64_t offset, int64_t elements, uint32_t dtype) const;
  ByteRange rangeOf(uint32_t value) const;
  /// The last trace that overlaps `bytes`.
  int64_t causeAt(ByteRange bytes) const;
  /// Adds a trace if `counts` are not finite; its index, or kNone.
  int64_t note(ByteRange bytes, const Counts &counts, uint32_t entry, int64_t cause,
               bool fromElsewhere = false);
  void noteBefore(ByteRange bytes, const Counts &counts, const std::string &what);
  /// What the values that `entry` reads hold: the cause of NaN, else of Inf, else kNone.
  int64_t causeIn(const std::vector<uint32_t> &values, std::span<const at::Tensor> tensors);
  std::vector<uint32_t> operandsOf(const fsdp_entry &entry) const;
  std::vector<uint32_t> resultsOf(const fsdp_entry &entry) const;
  void afterWait(const fsdp_entry &wait);
  void beforeUpdate(uint32_t entry);
  void afterUpdate(uint32_t entry);
  std::string describe(const Trace &trace) const;

  const PlanView &view;
  std::byte *const arena;
  const unsigned shard;
  std::vector<uint32_t> starts; // by handle: its entry
  std::vector<Trace> traces;    // of the step, in its order
  std::vector<int64_t> spoiled; // traces that results of the step hold
  int64_t cause = kNone;        // of what the entry that runs may make
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_NONFINITEFINDER_H
