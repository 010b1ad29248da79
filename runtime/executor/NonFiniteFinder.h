//===- NonFiniteFinder.h - Where numbers cease to be finite ------*- C++ -*-===//
//
// Looks at what each entry of a step reads and writes, and remembers where NaN and Inf came from.
// Inf alone is no fault: masks hold it. A step is spoiled if its loss, the gradients that a rank
// gives to a reduce-scatter, those of an update or the parameters behind it are not finite; then
// the way back from there, from result to operand, ends at the first entry whose operands were
// finite.
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
  /// `rank`: of the run. The arguments outlive the object.
  NonFiniteFinder(const PlanView &view, std::byte *arena, unsigned rank);

  /// Around each step, and around each of its entries: after() where the entry has succeeded. Of
  /// starts that are coalesced both are called for the first. `tensors` are the plan's values.
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
  /// NaN or Inf that has been written.
  struct Trace {
    std::vector<ByteRange> bytes; // that still hold it
    Counts counts;
    uint32_t place;      // NonFinite::place
    std::string what;    // a value that was not finite before the step; "" if an entry wrote it
    int64_t cause;       // the trace that it comes from; kNone: it begins here
    const char *because; // ends the message if it begins here: why no operand explains it
  };

  static Counts count(const at::Tensor &tensor);
  at::Tensor tensorAt(int64_t offset, int64_t elements, uint32_t dtype) const;
  ByteRange rangeOf(uint32_t value) const;
  /// The last trace of which `bytes` hold something.
  int64_t causeAt(ByteRange bytes) const;
  /// `bytes` have been overwritten: they hold nothing of the traces.
  void forget(ByteRange bytes);
  /// Adds a trace if `counts` are not finite; its index, or kNone.
  int64_t note(ByteRange bytes, const Counts &counts, uint32_t entry, int64_t cause,
               const char *because = ", of finite operands");
  void noteBefore(ByteRange bytes, const Counts &counts, const std::string &what);
  /// What the values that `entry` reads hold: the cause of NaN, else of Inf, else kNone.
  int64_t causeIn(const std::vector<uint32_t> &values, std::span<const at::Tensor> tensors);
  std::vector<uint32_t> operandsOf(const fsdp_entry &entry) const;
  std::vector<uint32_t> resultsOf(const fsdp_entry &entry) const;
  void afterWait(const fsdp_entry &wait);
  /// Of the entry's `elements` gradients: the trace that spoils the step, or kNone.
  int64_t spoiledGradients(uint32_t entry, int64_t elements);
  void afterUpdate(uint32_t entry);
  std::string describe(const Trace &trace) const;

  const PlanView &view;
  std::byte *const arena;
  const unsigned rank;
  std::vector<uint32_t> starts; // by handle: its entry
  std::vector<Trace> traces;    // of the step, in its order
  std::vector<int64_t> spoiled; // traces that results of the step hold
  int64_t cause = kNone;        // of what the entry that runs may make
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_NONFINITEFINDER_H
