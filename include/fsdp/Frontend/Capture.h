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

/// Parses `NAME:DTYPE[DIMS]`. The error quotes the text and says what is expected.
llvm::Expected<InputSpec> parseInputSpec(llvm::StringRef text);

/// Parameters with options of their own, by name; absent options are the optimizer's.
struct OptimizerGroupSpec {
  std::vector<std::string> parameters;
  OptimizerOptions options = {};
};

/// Options of torch.optim's optimizers under torch's names. The defaults of absent options are the
/// model file's, or torch's if the user names another kind.
struct OptimizerSpec {
  std::optional<OptimizerKind> kind = {}; // absent: the file's, else AdamW
  OptimizerOptions options = {};
  std::optional<double> clipGradNorm = {}; // absent: gradients are not clipped
  NormType clipNormType = NormType::Two;
  std::optional<LossScaling> lossScaling = {}; // absent: the file's, else the loss is not scaled
  StateDtypes stateDtypes = {}; // empty: the parameters' dtypes
  std::vector<OptimizerGroupSpec> groups = {};
};

struct CaptureOptions {
  std::string model;              // TorchScript file or .pt2
  std::string method = "forward"; // TorchScript entry
  std::vector<InputSpec> inputs;  // TorchScript: one per argument, in order; .pt2: none, or checked
  OptimizerSpec optimizer;
  Target target = Target::Cpu; // decides which variants of fused operators are recorded
  /// For Target::Cuda: 80, 90 or 100, the architecture sm_NN whose choice of attention kernel in
  /// torch is recorded. The step also runs on other architectures from sm_80 on.
  unsigned cudaArchitecture = 80;
  /// Only the forward, in evaluation mode and without gradients. A .pt2 file has the mode in which
  /// it was exported.
  bool isEvaluation = false;
  /// A further step of a program keeps all transient buffers as buffers: the first step decides
  /// which of them become state (takeStateOf).
  bool isFurther = false;
  /// The dtype to which fp32 parameters and floating-point inputs are cast before the forward,
  /// under autograd (`param_dtype` of FSDP2's MixedPrecisionPolicy): bf16 or f16; "": no cast.
  /// TorchScript only: a .pt2 file fixes the dtypes of its computation.
  std::string paramDtype = {};
  /// Files of OperatorFacts. Without any, meta kernels determine the results' dtypes and strides.
  std::vector<std::string> operatorFacts = {};
};

struct CapturedStep {
  mlir::OwningOpRef<mlir::ModuleOp> module; // phase captured
  bool hasWeights = false;                  // false: the model was saved on meta
  std::vector<std::string> notes;           // surprising facts for the user, a sentence each
};

/// Captures one training step (forward, loss, backward, update), or an evaluation. Writes
/// parameters and persistent buffers to `weights` as safetensors, by qualified name, if it is not
/// null and the model has weights; the caller commits the file. Errors are one line that names the
/// operator, module, input or file, and the reason.
llvm::Expected<CapturedStep> captureStep(const CaptureOptions &options, OutputFile *weights,
                                         mlir::MLIRContext &context);

} // namespace fsdp::frontend

#endif // FSDP_FRONTEND_CAPTURE_H
