//===- Recorder.h - Records operator calls below autograd --------*- C++ -*-===//

#ifndef FSDP_LIB_FRONTEND_RECORDER_H
#define FSDP_LIB_FRONTEND_RECORDER_H

#include "GradientSums.h"
#include "Graph.h"
#include "KnownResults.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <functional>
#include <map>
#include <memory>
#include <thread>

namespace fsdp::frontend {

/// Records operators that run on functional tensors over meta tensors. While a recorder lives,
/// every operator has a boxed kernel at the Fake key: below autograd, so that the operators of the
/// backward are recorded, and below functionalization, so that none of them mutates. At most one
/// recorder lives at a time; it records on the thread that made it.
class Recorder {
public:
  explicit Recorder(KnownResults knownResults);
  ~Recorder();
  Recorder(const Recorder &) = delete;
  Recorder &operator=(const Recorder &) = delete;

  /// Operators are recorded while a Region lives.
  class Region {
  public:
    explicit Region(Recorder &recorder);
    ~Region();

  private:
    Recorder &recorder;
    c10::impl::IncludeDispatchKeyGuard fake{c10::DispatchKey::Fake};
    c10::impl::IncludeDispatchKeyGuard functionalize{c10::DispatchKey::Functionalize};
    at::functionalization::impl::FunctionalizationReapplyViewsGuard reapplyViews{true};
  };

  /// Starts the backward of `loss`: later operators have the places of the forward calls whose
  /// autograd nodes run.
  void beginBackward(const at::Tensor &loss) {
    inBackward = true;
    sums.watch(loss);
  }

  /// A functional tensor for a tensor of the model or the batch. It has the sizes and dtype of
  /// `tensor` and is contiguous.
  at::Tensor wrap(const at::Tensor &tensor, ValueKind kind, std::string name, bool requiresGrad);

  /// A functional tensor for the literal `data`; `name` is empty if it has none.
  at::Tensor wrapConstant(const at::Tensor &data, std::string name = {});

  /// A Python number for a tensor, as in `1e-4 * x`: it does not promote dtypes.
  static at::Tensor wrapNumber(const at::Tensor &number);

  /// Refuses operators on this tensor, which the program holds as `name`: it is no parameter,
  /// buffer or literal, and would have no value at run time. The tensor must outlive the recording.
  void refuse(const at::Tensor &tensor, std::string name);

  /// The current value of a functional tensor; `what` names it in the error if its origin is
  /// unknown.
  int getValue(const at::Tensor &functional, const std::string &what);

  KnownResults knownResults;
  Graph graph;
  GradientSums sums{[this](uint64_t sequence) { return findPlace(sequence); }};

  /// Returns the place of the forward's current call, as an index into graph.places.
  std::function<int()> getPlace = [] { return 0; };

  /// The first error of a recorded operator: interpreters may wrap the exceptions that pass them.
  std::optional<std::string> error;

  /// The boxed kernel.
  void record(const c10::OperatorHandle &op, c10::DispatchKeySet below, torch::jit::Stack &stack);
  bool isRecording() const { return recording; }

private:
  /// Replaces the arguments on the stack by the results, on the meta device.
  void callOnMeta(const c10::OperatorHandle &op, c10::DispatchKeySet below,
                  torch::jit::Stack &stack);
  int findPlace(uint64_t nextSequence) const;
  void trackSequence();
  [[noreturn]] void fail(const c10::OperatorHandle &op, const std::string &reason);
  bool checkOperands(const c10::OperatorHandle &op, const std::vector<c10::IValue> &arguments,
                     std::string &origin);
  int getCurrentPlace() const;
  void checkDtypes(const GraphNode &node);
  void checkResults(const GraphNode &node);
  void checkAliasing(const GraphNode &node);

  std::map<std::string, std::unique_ptr<torch::Library>> libraries;
  std::thread::id thread = std::this_thread::get_id();
  bool recording = false, inBackward = false;
  /// Autograd sequence number -> forward node.
  std::unordered_map<uint64_t, int> nodeOfSequence;
  uint64_t lastSequence = 0;
  std::unordered_map<const at::TensorImpl *, std::string> refused;
  /// Results of dropped calls, which keep their addresses, with the first dropped call.
  std::unordered_map<const at::TensorImpl *, std::pair<at::Tensor, std::string>> unknown;
};

/// True for the dtypes of captured tensors.
bool isSupportedDtype(at::ScalarType dtype);

} // namespace fsdp::frontend

#endif // FSDP_LIB_FRONTEND_RECORDER_H
