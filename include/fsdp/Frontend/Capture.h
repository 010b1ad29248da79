//===- Capture.h - A training step of a PyTorch model as IR ------*- C++ -*-===//

#ifndef FSDP_FRONTEND_CAPTURE_H
#define FSDP_FRONTEND_CAPTURE_H

#include "fsdp/Files/OutputFile.h"
#include "fsdp/IR/Fsdp.h"
#include "fsdp/IR/OptimizerOptions.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <string>
#include <vector>

namespace fsdp::frontend {

/// One input of the model's entry: `tokens:i64[4,128]`. dtypes: f64 f32 f16 bf16 i64 i32 i16 i8 u8
/// bool.
struct InputSpec {
  std::string name;
  std::string dtype;
  std::vector<int64_t> sizes;
};

/// Parses `NAME:DTYPE[DIMS]`; the error quotes the text and says what was expected.
llvm::Expected<InputSpec> parseInputSpec(llvm::StringRef text);

/// Parameters with values of their own, by their names; what is absent is the optimizer's.
struct OptimizerGroupSpec {
  std::vector<std::string> parameters;
  std::optional<double> lr = {}, weightDecay = {}, beta1 = {}, beta2 = {}, eps = {};
};

/// torch.optim's optimizers under torch's names and with torch's defaults for what is not given: by
/// the user or, where the user names no other kind, by the file.
struct OptimizerSpec {
  std::optional<OptimizerKind> kind = {}; // absent: the file's, else AdamW
  std::optional<double> lr = {}, weightDecay = {}, momentum = {}, beta1 = {}, beta2 = {}, eps = {};
  std::optional<double> clipGradNorm = {}; // absent: gradients are not clipped
  NormType clipNormType = NormType::Two;
  std::optional<double> dampening = {};
  bool nesterov = false, amsgrad = false, maximize = false;
  StateDtypes stateDtypes = {}; // absent: the parameters'
  std::vector<OptimizerGroupSpec> groups = {};
};

struct CaptureOptions {
  std::string model;              // TorchScript file or .pt2
  std::string method = "forward"; // TorchScript entry
  std::vector<InputSpec> inputs;  // TorchScript: one per argument, in order; .pt2: none, or checked
  OptimizerSpec optimizer;
  Target target = Target::Cpu; // decides which variants of fused operators are recorded
  /// Of Target::Cuda: 80, 90 or 100, the architecture sm_NN for which torch's choice of attention
  /// is recorded. The step runs on others from sm_80 on, too.
  unsigned cudaArchitecture = 80;
  /// The forward alone, in evaluation mode and without gradients. A .pt2 file has the mode in which
  /// it was exported.
  bool isEvaluation = false;
  /// A further step of a program: which of its transient buffers the program keeps as state, the
  /// first step decides (takeStateOf), so that all of them stay buffers.
  bool isFurther = false;
  /// The dtype to which fp32 parameters and floating-point inputs are cast before the forward,
  /// under autograd (`param_dtype` of FSDP2's MixedPrecisionPolicy): bf16 or f16; "": they are not.
  /// TorchScript only: a .pt2 file fixes the dtypes of its computation.
  std::string paramDtype = {};
  /// Files of OperatorFacts. Without any, meta kernels alone say how results lie in memory.
  std::vector<std::string> operatorFacts = {};
};

struct CapturedStep {
  mlir::OwningOpRef<mlir::ModuleOp> module; // phase captured
  bool hasWeights = false;                  // false: the model was saved on meta
  std::vector<std::string> notes;           // what a user may not expect, a sentence each
};

/// Captures one training step (forward, loss, backward, update), or one of evaluation. If there is
/// a file for weights and the model has some, writes parameters and buffers, transient ones left
/// out, to it as safetensors, by qualified name; the caller commits it. Errors are one line that
/// names the operator, module, input or file, and the reason.
llvm::Expected<CapturedStep> captureStep(const CaptureOptions &options, OutputFile *weights,
                                         mlir::MLIRContext &context);

} // namespace fsdp::frontend

#endif // FSDP_FRONTEND_CAPTURE_H
