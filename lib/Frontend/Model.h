//===- Model.h - A loaded model, ready to be run under the recorder ------*- C++ -*-===//

#ifndef FSDP_LIB_FRONTEND_MODEL_H
#define FSDP_LIB_FRONTEND_MODEL_H

#include "Recorder.h"
#include "fsdp/Frontend/Capture.h"

#include <functional>
#include <map>
#include <tuple>

namespace fsdp::frontend {

/// A MixedPrecisionPolicy whose casts are operators of the program.
struct ExportedPolicy {
  std::vector<std::string> modules;
  std::optional<at::ScalarType> paramDtype, reduceDtype;
};

/// The role of a model's tensor. A transient buffer (`persistent=False`) is not in the state_dict.
enum class TensorRole { Parameter, Buffer, TransientBuffer };

/// A parameter or buffer.
struct ModelTensor {
  std::string name;                 // the first of its qualified names; if some are in the
                                    // state_dict, the first of those
  std::vector<std::string> aliases; // the others in the state_dict
  bool isParameter = false;
  bool isFrozen = false;    // a parameter without a gradient
  bool isTransient = false; // a buffer outside of the model's state_dict, with values
  bool sharesMemory = false; // a buffer that shares a part of its memory with another tensor
  at::Tensor data;          // as loaded; on meta if the model was saved on meta
  at::Tensor wrapper;       // the functional tensor that the program uses
  int value = -1;           // in the graph, at the beginning of the step
};

/// A tensor other than parameters and buffers: its values belong to the program.
struct NamedConstant {
  std::string name;
  at::Tensor wrapper; // the functional tensor that the program uses
  int value;          // in the graph, at the beginning of the step
};

/// A model whose tensors are known to the recorder.
class Model {
public:
  explicit Model(Recorder &recorder) : recorder(recorder) {}

  /// Adds a parameter or buffer under a qualified name; returns the functional tensor that the
  /// program uses in its place. Names of the same memory share one tensor.
  at::Tensor addTensor(const std::string &name, const at::Tensor &tensor, TensorRole role);

  /// The functional tensor for a parameter or buffer that has been added; undefined for other
  /// tensors.
  at::Tensor findTensor(const at::Tensor &tensor) const;

  /// Adds a constant of the program, which the forward must not write.
  at::Tensor addConstant(const std::string &name, const at::Tensor &data);

  /// Adds an input; inputs are added in the order of the forward's arguments.
  at::Tensor addInput(const InputSpec &spec);

  /// Adds `fsdp.loss_scale`, whose value in the graph is `value`.
  at::Tensor addLossScale(int &value);

  /// Casts to paramDtype if it is given: parameters, once each, and floating-point inputs. Called
  /// while the step is recorded; `tensor` is the result of addTensor() or addInput().
  at::Tensor castForForward(const at::Tensor &tensor);

  /// Refuses a model in which only some tensors have values.
  void checkValues() const;

  Recorder &recorder;
  std::string name; // of the file, without directory and extension
  std::vector<ModelTensor> tensors;
  std::vector<NamedConstant> constants;
  std::vector<int> inputs;                  // values, in order
  bool hasWeights = false;                  // false: it was saved on meta
  std::optional<at::ScalarType> paramDtype; // of CaptureOptions
  std::optional<OptimizerSpec> optimizer;   // from the file
  std::optional<LossScaling> lossScaling;   // from the file
  std::vector<ExportedPolicy> policies;     // from the file
  std::optional<int64_t> ranks; // from the file: how many ranks the model was exported for
  std::vector<std::string> notes;           // for CapturedStep
  /// Runs the forward; returns the loss.
  std::function<at::Tensor()> forward;

private:
  /// Adds another name of the same tensor.
  void addName(ModelTensor &tensor, const std::string &tensorName, bool isTransient);

  /// Storage, offset, sizes, strides.
  using Identity = std::tuple<const void *, int64_t, std::vector<int64_t>, std::vector<int64_t>>;
  static Identity identify(const at::Tensor &tensor);
  std::map<Identity, size_t> tensorOfIdentity;
  std::map<const void *, size_t> tensorOfStorage;
  std::map<const void *, at::Tensor> castOf; // by the original tensor
};

/// Loads a TorchScript file. `needsValues`: the tensors' data is read, too.
void loadTorchScript(const CaptureOptions &options, bool needsValues, Model &model);

/// Loads a file of torch.export.save.
void loadExportedProgram(const CaptureOptions &options, bool needsValues, Model &model);

/// The dtype of an InputSpec; throws CaptureError.
at::ScalarType parseDtype(const std::string &name);
/// The name of a dtype: f32, i64; `?` if tensors of the step cannot have it.
const char *getDtypeName(at::ScalarType dtype);
/// True for the dtypes of parameters, inputs and, but for complex ones, buffers.
bool isRealInFiles(at::ScalarType dtype);

/// `f32[4,128]`.
std::string describe(at::ScalarType dtype, at::IntArrayRef sizes);

} // namespace fsdp::frontend

#endif // FSDP_LIB_FRONTEND_MODEL_H
