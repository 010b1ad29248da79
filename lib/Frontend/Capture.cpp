//===- Capture.cpp - A training step of a PyTorch model as IR -------------===//

#include "fsdp/Frontend/Capture.h"

#include "InPlaceStrides.h"
#include "MetaKernels.h"
#include "Model.h"
#include "OptimizerChoice.h"
#include "Overrides.h"
#include "StepBuilder.h"
#include "TorchErrors.h"
#include "Weights.h"
#include "fsdp/Frontend/Operators.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <torch/csrc/autograd/autograd.h>

#include <mutex>

using namespace fsdp;
using namespace fsdp::frontend;

static void loadModel(const CaptureOptions &options, bool needsValues, Model &model) {
  if (!llvm::sys::fs::exists(options.model))
    throw CaptureError("no such file");
  llvm::StringRef stem = llvm::sys::path::stem(options.model);
  model.name = stem.str();
  bool isExported = llvm::sys::path::extension(options.model) == ".pt2";
  if (!options.paramDtype.empty()) {
    if (isExported)
      throw CaptureError("param-dtype is " + options.paramDtype +
                         ", but a .pt2 file fixes the dtypes of its computation: export a model "
                         "that casts, or save it with torch.jit.script");
    model.paramDtype = parseDtype(options.paramDtype);
  }
  if (isExported)
    loadExportedProgram(options, needsValues, model);
  else
    loadTorchScript(options, needsValues, model);
}

static void checkLoss(const at::Tensor &loss, bool needsGradient) {
  if (!loss.defined() || loss.dim() != 0)
    throw CaptureError("the loss is " + describe(loss.scalar_type(), loss.sizes()) +
                       ", expected a scalar");
  if (!at::isFloatingType(loss.scalar_type()))
    throw CaptureError(std::string("the loss has dtype ") + getDtypeName(loss.scalar_type()) +
                       ", expected a floating-point type");
  if (needsGradient && !loss.requires_grad())
    throw CaptureError("the loss needs no gradient: it depends on no parameter");
}

/// Records the final values of buffers. Writing to a constant is an error: the value would be lost.
static void noteWrites(Model &model, StepOutputs &outputs) {
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    const ModelTensor &tensor = model.tensors[i];
    int value = model.recorder.getValue(tensor.wrapper, "the new value of '" + tensor.name + "'");
    if (value == tensor.value)
      continue;
    if (tensor.isParameter)
      throw CaptureError(
          "parameter '" + tensor.name +
          "' is written by the forward, but only the optimizer writes parameters: make what "
          "the forward keeps, such as a moving average, a buffer");
    if (tensor.sharesMemory)
      throw CaptureError(
          "buffer '" + tensor.name +
          "' is written by the forward, but shares a part of its memory with another "
          "tensor: make it a clone()");
    outputs.writes.push_back({i, value});
  }
  for (const NamedConstant &constant : model.constants)
    if (model.recorder.getValue(constant.wrapper, "constant '" + constant.name + "'") !=
        constant.value)
      throw CaptureError("'" + constant.name +
                         "' is written by the forward, but it is a constant: make it a buffer, by "
                         "register_buffer(..., persistent=False) if it is not to be saved");
}

/// Runs only the forward, as under torch.no_grad().
static StepOutputs recordEvaluation(Model &model) {
  StepOutputs outputs;
  outputs.isEvaluation = true;
  Recorder::Region region(model.recorder);
  at::NoGradGuard noGradients;
  at::Tensor loss = model.forward();
  checkLoss(loss, /*needsGradient=*/false);
  outputs.loss = model.recorder.getValue(loss, "the loss");
  noteWrites(model, outputs);
  return outputs;
}

/// torch.amp.GradScaler does not unscale fp16 gradients, which lose what a scale keeps.
static void checkScaledParameters(const std::vector<ModelTensor *> &trained) {
  for (const ModelTensor *tensor : trained)
    if (tensor->data.scalar_type() == at::kHalf)
      throw CaptureError("parameter '" + tensor->name +
                         "' is f16, but a scaled loss needs parameters of f32 or bf16, whose "
                         "gradients are unscaled in their dtype: keep them in f32 and compute in "
                         "f16 by param_dtype");
}

/// Runs forward and backward under the recorder.
static StepOutputs recordStep(Model &model, bool scalesLoss) {
  Recorder &recorder = model.recorder;
  StepOutputs outputs;
  std::vector<at::Tensor> parameters;
  std::vector<ModelTensor *> entries;
  for (ModelTensor &tensor : model.tensors)
    if (tensor.isParameter && !tensor.isFrozen) {
      parameters.push_back(tensor.wrapper);
      entries.push_back(&tensor);
    }
  at::Tensor scale;
  if (scalesLoss) {
    checkScaledParameters(entries);
    scale = model.addLossScale(outputs.lossScale);
  }
  Recorder::Region region(recorder);
  at::Tensor loss = model.forward();
  checkLoss(loss, /*needsGradient=*/true);
  at::Tensor scaled = scalesLoss ? loss.mul(scale) : loss; // as GradScaler.scale(loss)
  recorder.beginBackward(scaled);
  auto gradients = torch::autograd::grad({scaled}, parameters, /*grad_outputs=*/{},
                                         /*retain_graph=*/false, /*create_graph=*/false,
                                         /*allow_unused=*/true);
  outputs.loss = recorder.getValue(loss, "the loss");
  for (size_t i = 0; i < parameters.size(); ++i) {
    const std::string &name = entries[i]->name;
    if (!gradients[i].defined()) {
      entries[i]->isFrozen = true;
      model.notes.push_back("parameter '" + name +
                            "' is frozen: the loss does not depend on it, it has no gradient");
      continue;
    }
    if (gradients[i].layout() != at::kStrided)
      throw CaptureError("parameter '" + name + "' has a sparse gradient, which cannot be sharded");
    outputs.gradients.push_back(
        recorder.getValue(gradients[i], "the gradient of parameter '" + name + "'"));
  }
  noteWrites(model, outputs);
  return outputs;
}

/// Turns transient buffers that the step does not write into literals.
static void makeLiterals(Model &model, StepOutputs &outputs) {
  std::vector<ModelTensor> kept;
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    ModelTensor &tensor = model.tensors[i];
    auto write = llvm::find_if(outputs.writes, [&](auto &entry) { return entry.first == i; });
    if (tensor.isTransient && write == outputs.writes.end()) {
      GraphValue &value = model.recorder.graph.values[tensor.value];
      value.kind = ValueKind::Constant;
      value.data = tensor.data.contiguous();
      continue;
    }
    if (write != outputs.writes.end())
      write->first = kept.size();
    kept.push_back(std::move(tensor));
  }
  model.tensors = std::move(kept);
}

static bool drawsNumbers(mlir::ModuleOp step) {
  return step
      .walk([](aten::CallOp call) {
        return call.getRng() ? mlir::WalkResult::interrupt() : mlir::WalkResult::advance();
      })
      .wasInterrupted();
}

llvm::Expected<CapturedStep> fsdp::frontend::captureStep(const CaptureOptions &options,
                                                         OutputFile *weights,
                                                         mlir::MLIRContext &context) {
  context.loadDialect<mlir::func::FuncDialect, aten::AtenDialect, FsdpDialect>();
  auto fail = [&](const llvm::Twine &reason) {
    return llvm::createStringError(options.model + ": " + reason);
  };
  // The recorder registers kernels for the whole process.
  static std::mutex oneAtATime;
  std::lock_guard<std::mutex> lock(oneAtATime);
  std::optional<Recorder> recording;
  registerOperators(); // before the recorder, which records all that are registered
  try {
    Recorder &recorder = recording.emplace(KnownResults(options.operatorFacts));
    // An evaluation receives the optimizer of the training step later.
    const OptimizerSpec asked =
        options.isEvaluation ? OptimizerSpec{.kind = OptimizerKind::AdamW} : options.optimizer;
    checkOptimizer(asked);
    MetaKernels metaKernels(options.target);
    Overrides overrides(options);
    InPlaceStrides inPlaceStrides;
    Model model(recorder);
    loadModel(options, weights != nullptr, model);
    OptimizerSpec optimizer = chooseOptimizer(asked, model.optimizer, model.lossScaling);
    bool hasParameter = llvm::any_of(model.tensors, [](auto &t) { return t.isParameter; });
    if (!hasParameter)
      throw CaptureError("the model has no parameters");
    CapturedStep step;
    StepOutputs outputs = options.isEvaluation
                              ? recordEvaluation(model)
                              : recordStep(model, optimizer.lossScaling.has_value());
    if (!options.isFurther)
      makeLiterals(model, outputs);
    step.module = buildStep(model, outputs, optimizer, context);
    if (options.target != Target::Cpu)
      (*step.module)
          ->setAttr(FsdpDialect::getTargetAttrName(), TargetAttr::get(&context, options.target));
    step.notes = model.notes;
    if (std::string unused = recorder.knownResults.describeUnused(); !unused.empty())
      step.notes.push_back(unused);
    if (options.isEvaluation && drawsNumbers(*step.module))
      step.notes.push_back("the evaluation draws random numbers, as dropout does in training: was "
                           "the model exported in eval()?");
    if (mlir::failed(mlir::verify(*step.module)))
      return fail("the captured step is invalid");
    step.hasWeights = model.hasWeights;
    if (weights && model.hasWeights) {
      model.checkValues();
      writeWeights(model.tensors, *weights);
    }
    return step;
  } catch (const std::exception &exception) {
    if (recording && recording->error)
      return fail(*recording->error);
    return fail(getReason(exception));
  }
}
