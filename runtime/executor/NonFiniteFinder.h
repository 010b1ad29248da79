//===- NonFiniteFinder.h - Finds the origin of NaN and Inf ---- -*- C++ -*-===//
//
// Checks the operands and results of each entry of a step, and remembers the origin of NaN and Inf.
// Inf in a value is no fault by itself: masks contain it. A step is spoiled if its loss, this
// rank's gradients for a reduce-scatter, or the gradients or new parameters of an update are not
// finite. Then the chain from result to operand is followed back to the first entry whose operands
// were finite.
//
// For CPUs; used by the thread that runs the step. May throw torch's exceptions.
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
  /// `rank`: the rank in the run. The arguments outlive the object.
  NonFiniteFinder(const PlanView &view, std::byte *arena, unsigned rank);

  /// To be called around each step and each of its entries; after() only if the entry has
  /// succeeded. For coalesced starts both are called for the first one. `tensors` are the plan's
  /// values.
  void beginStep(std::span<const at::Tensor> tensors);
  void before(uint32_t entry, std::span<const at::Tensor> tensors);
  void after(uint32_t entry, std::span<const at::Tensor> tensors);
  void endStep(std::span<const at::Tensor> tensors);

  /// The origin of NaN or Inf in the last step, if it is spoiled.
  std::optional<NonFinite> finding() const;

private:
  struct Counts {
    int64_t nans = 0, infinities = 0, all = 0;
    bool finite() const { return nans == 0 && infinities == 0; }
  };
  static constexpr int64_t kNone = -1;
  /// NaN or Inf that has been written.
  struct Trace {
    std::vector<ByteRange> bytes; // that still hold the NaN or Inf
    Counts counts;
    uint32_t place;      // NonFinite::place
    std::string what;    // a value that was not finite before the step; "" if an entry wrote it
    int64_t cause;       // the trace that caused this one; kNone: it begins here
    const char *because; // end of the message if it begins here: why no operand explains it
  };

  static Counts count(const at::Tensor &tensor);
  at::Tensor tensorAt(int64_t offset, int64_t elements, uint32_t dtype) const;
  ByteRange rangeOf(uint32_t value) const;
  /// The last trace that still has bytes in `bytes`.
  int64_t causeAt(ByteRange bytes) const;
  /// `bytes` have been overwritten: removes them from all traces.
  void forget(ByteRange bytes);
  /// Adds a trace if `counts` has NaN or Inf. Returns its index, or kNone.
  int64_t note(ByteRange bytes, const Counts &counts, uint32_t entry, int64_t cause,
               const char *because = ", of finite operands");
  void noteBefore(ByteRange bytes, const Counts &counts, const std::string &what);
  /// The cause in the values that the entry reads: the trace of a NaN, else of an Inf, else kNone.
  int64_t causeIn(const std::vector<uint32_t> &values, std::span<const at::Tensor> tensors);
  std::vector<uint32_t> operandsOf(const fsdp_entry &entry) const;
  std::vector<uint32_t> resultsOf(const fsdp_entry &entry) const;
  void afterWait(const fsdp_entry &wait);
  /// The trace in the entry's `elements` gradients that spoils the step, or kNone.
  int64_t spoiledGradients(uint32_t entry, int64_t elements);
  void afterUpdate(uint32_t entry);
  std::string describe(const Trace &trace) const;

  const PlanView &view;
  std::byte *const arena;
  const unsigned rank;
  std::vector<uint32_t> starts; // by handle: its entry
  std::vector<Trace> traces;    // of the step, in order
  std::vector<int64_t> spoiled; // traces in results of the step
  int64_t cause = kNone;        // cause of NaN and Inf in the results of the running entry
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_NONFINITEFINDER_H
