//===- OperatorCall.h - One resolved operator call of a plan ----*- C++ -*-===//
//
// The arguments of a call are tensors at fixed addresses, so the argument stack is built once. In
// the first step the call is measured: it allocates freely, its results are compared with the plan
// and copied to their planned addresses, and its allocations are sorted into results and
// temporaries. A result with other strides than the plan's counts as a temporary, and is copied in
// every step. From then on results are allocated at their planned addresses and temporaries in a
// scratch area. A kernel of the runtime that gives the same bits may replace the operator; it needs
// no allocation.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_OPERATORCALL_H
#define FSDP_RUNTIME_OPERATORCALL_H

#include "cpu/KernelChoice.h"
#include "executor/Arguments.h"
#include "executor/OperatorAllocations.h"
#include "executor/OperatorRuntime.h"
#include "fsdp/Frontend/OperatorFacts.h"

namespace fsdp::rt {

/// State that the calls of an executor share while a step runs.
struct CallContext {
  const PlanView &view;
  ExecutorStatistics &statistics;
  OperatorRuntime &runtime;
  Stream &compute;
  /// Operators may allocate on helper threads: count those allocations too.
  bool countOtherThreads = false;

  OperatorAllocations allocations = {};
  std::vector<c10::IValue> stack = {};
  /// Findings of the first step: results with other dtypes, sizes or strides than the plan's.
  std::vector<OperatorFact> facts = {};
};

class OperatorCall {
public:
  /// Resolves the call (or view) `entry` for a rank of the run; `tensors` are the plan's values, in
  /// memory of `device` at `arena`.
  static Result<OperatorCall> resolve(const PlanView &view, const fsdp_entry &entry,
                                      std::span<const at::Tensor> tensors, std::byte *arena,
                                      c10::Device device, unsigned rank);

  /// For a view: makes the view of its argument and checks its address against the plan.
  Status checkView(CallContext &context) const;
  /// Runs the call for the first time.
  Status measure(CallContext &context);
  /// After a first run that failed: sets the results to zero, unless the call is a view.
  void leaveOut(CallContext &context) const;
  /// From the second step on runs a kernel of the runtime, if `chooser` has one for the call.
  /// Returns true if it has. `tensors` as for resolve().
  bool chooseKernel(std::span<const at::Tensor> tensors, KernelChooser &chooser);
  /// Bytes for the temporaries of the call, known once it is measured.
  size_t scratchBytes() const {
    return kernel ? std::max(kernel->workspaceBytes(), scratchSize) : scratchSize;
  }
  /// Places the temporaries at `scratch`, 64-byte aligned; calls may share it.
  void placeTemporaries(std::byte *scratch);
  /// True if the operator reads results of the device on the host, and so waits for the device.
  bool waitsForDevice() const;
  /// Runs the measured call. May throw what the operator throws.
  Status run(CallContext &context);

private:
  explicit OperatorCall(c10::OperatorHandle op) : op(op) {}

  /// Result `slot` of the schema (element of the list, if it returns one) at its planned place.
  struct PlannedResult {
    uint32_t slot;
    uint32_t value;
    int64_t elements;
    size_t spanBytes;
    std::byte *address;    // null: no elements
    bool isRelaid = false; // the operator gives it other strides; known after measure()
  };

  void invoke(CallContext &context);
  at::Tensor resultOf(const CallContext &context, const PlannedResult &result) const;
  /// Compares dtype and sizes with the plan.
  Status check(const CallContext &context, const PlannedResult &result,
               const at::Tensor &actual) const;
  bool hasPlannedStrides(const CallContext &context, const PlannedResult &result,
                         const at::Tensor &actual) const;
  Status mismatch(const CallContext &context, const PlannedResult &result,
                  const at::Tensor &actual) const;
  /// Notes dtype, sizes and strides of a result that differ from the plan.
  void noteFact(CallContext &context, const PlannedResult &result, const at::Tensor &actual) const;
  /// The planned memory of a result, as a tensor with the plan's strides.
  static at::Tensor placeOf(const CallContext &context, const PlannedResult &result,
                            const at::TensorOptions &options);
  bool isPlaced(const CallContext &context, const PlannedResult &result) const;
  Status moveToPlace(CallContext &context);
  void noteFallbacks(CallContext &context, int64_t count) const;

  c10::OperatorHandle op;
  const fsdp_entry *entry = nullptr;
  bool returnsList = false;
  bool isDerivative = false; // by its name
  std::vector<c10::IValue> arguments;
  std::vector<PlannedResult> results;

  std::vector<PlannedAllocation> allocations;
  std::vector<std::pair<size_t, size_t>> temporaries; // index in `allocations`, offset in scratch
  size_t scratchSize = 0;
  /// Planned addresses of results whose memory the measured call did not allocate on the device.
  std::vector<PlannedAllocation> unmeasured;

  std::unique_ptr<OperatorKernel> kernel; // instead of the operator
  std::byte *workspace = nullptr;         // of the kernel
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_OPERATORCALL_H
