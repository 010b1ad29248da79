//===- RefusalTest.cpp - What the capture refuses, and how it says so -----===//

#include "TestModels.h"

using namespace fsdp;
using namespace fsdp::frontend;

/// The error of a capture that must fail, without the file's name before it.
static std::string getError(const CaptureOptions &options) {
  mlir::MLIRContext context;
  llvm::Expected<CapturedStep> step = captureStep(options, nullptr, context);
  if (step)
    return "no error";
  std::string text = llvm::toString(step.takeError()), prefix = options.model + ": ";
  EXPECT_EQ(text.find('\n'), std::string::npos) << "more than one line: " << text;
  EXPECT_EQ(text.rfind(prefix, 0), 0u) << "no file name: " << text;
  return text.substr(std::min(prefix.size(), text.size()));
}

static std::string getError(const std::string &file, const std::vector<std::string> &inputs) {
  return getError(makeOptions(file, inputs));
}

static void expectContains(const std::string &text, const std::vector<std::string> &parts) {
  for (const std::string &part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << "no '" << part << "' in: " << text;
}

// A value that is read back to the host, directly or as a condition.
TEST(Refusal, ValuesReadBack) {
  expectContains(getError("Item.pt", {"x:f32[4]"}), {"operator '_local_scalar_dense.default'",
                                                     "root module", "small_models.py:", ".item()"});
  expectContains(getError("Branch.pt", {"x:f32[4]"}), {"a tensor as a condition"});
}

// The module is named by its full path, the ModuleList included.
TEST(Refusal, DataDependentShapes) {
  expectContains(
      getError("BooleanMask.pt", {"x:f32[4]"}),
      {"operator 'index.Tensor' in module 'blocks.0'", "the shape of its result depends on data"});
}

TEST(Refusal, InputsWithNamesOfTheSteps) {
  expectContains(getError("NamedStep.pt", {"step:f32[4]"}),
                 {"input 'step' has the name of an input that each step has"});
}

TEST(Refusal, ConstantsOfUnknownOrigin) {
  expectContains(
      getError("ListConstant.pt", {"x:f32[4]"}),
      {"operator 'mul.Tensor' in the root module", "constant of unknown origin", "'factors'"});
}

TEST(Refusal, OperandsOfTwoDtypes) {
  expectContains(getError("MixedProduct.pt", {"x:f32[4,4]"}),
                 {"operator 'mm.default' in the root module",
                  "has operands of dtypes Float and BFloat16, which torch refuses"});
  expectContains(getError("MixedNorm.pt", {"x:f32[4,4]"}),
                 {"operator '_native_batch_norm_legit_functional.default' in module 'norm'",
                  "has operands of dtypes BFloat16 and Float, which torch refuses"});
}

TEST(Refusal, SparseGradients) {
  expectContains(getError("Sparse.pt", {"x:f32[4]"}),
                 {"in module 'embedding' (backward)", "sparse"});
}

TEST(Refusal, UnsupportedDtypes) {
  expectContains(
      getError("Complex.pt", {"x:f32[4]"}),
      {"operator '_to_copy.default' in the root module", "unsupported dtype ComplexHalf"});
}

TEST(Refusal, Losses) {
  EXPECT_EQ(getError("Vector.pt", {"x:f32[4]"}), "the loss is f32[4], expected a scalar");
  EXPECT_EQ(getError("Pair.pt", {"x:f32[4]"}),
            "method 'forward' returns Tuple, expected one tensor: the loss");
  EXPECT_EQ(getError("NoGradient.pt", {"x:f32[4]"}),
            "the loss needs no gradient: it depends on no parameter");
  EXPECT_EQ(getError("Detached.pt", {"x:f32[4]"}),
            "the loss needs no gradient: it depends on no parameter");
}

TEST(Refusal, Parameters) {
  EXPECT_EQ(
      getError("WritesParameter.pt", {"x:f32[4]"}),
      "parameter 'w' is written by the forward, but only the optimizer writes parameters: make "
      "what the forward keeps, such as a moving average, a buffer");
  expectContains(getError("NotContiguous.pt", {"x:f32[2,4]"}), {"parameter 'w' is not contiguous"});
}

TEST(Refusal, Files) {
  EXPECT_EQ(getError("missing.pt", {}), "no such file");
  expectContains(getError("truncated.pt", getInputs("mlp")), {"not a readable TorchScript file"});
  expectContains(getError("garbage.pt", {}), {"not a readable TorchScript file"});
  expectContains(getError("truncated.pt2", {}), {"not a readable file of torch.export.save"});
  expectContains(getError("dynamic.pt2", {}), {"a shape of the file is dynamic"});
  expectContains(getError("no-layout.pt2", {}), {"of tensor_values lacks 'layout'"});
}

// Inputs of TorchScript: names must be those of the arguments; shapes and dtypes must fit.
TEST(Refusal, InputsOfScripts) {
  EXPECT_EQ(getError("mlp.script.pt", {"x:f32[4,32]"}),
            "argument 'targets' of 'forward' has no --input; got 1 inputs, expected 2: x, targets");
  EXPECT_EQ(getError("mlp.script.pt", {"x:f32[4,32]", "target:i64[4]"}),
            "input 'target' is no argument of 'forward', whose arguments are: x, targets");
  EXPECT_EQ(getError("NotTensor.pt", {"x:f32[4]", "factor:f32[1]"}),
            "input 'factor' is a float, expected a tensor");
  expectContains(getError("mlp.script.pt", {"x:f32[4,33]", "targets:i64[4]"}),
                 {"in module 'layers.0.up'", "4x33 and 32x128"});
  expectContains(getError("mlp.script.pt", {"x:i64[4,32]", "targets:i64[4]"}),
                 {"in module 'layers.0.up'", "Long", "Float"});
}

// A path that data choose is named with its module.
TEST(Refusal, ControlFlowOfExportedPrograms) {
  expectContains(getError("Conditional.pt2", {}),
                 {"operator 'torch.ops.higher_order.cond' in the root module",
                  "small_models.py:", "control flow in the graph is not captured"});
}

// TorchScript would cast when it runs.
TEST(Refusal, AutocastOfScripts) {
  expectContains(getError("Autocast.pt", {"x:f32[4]"}),
                 {"torch.autocast in the root module", "torch.export"});
}

// Inputs of .pt2 are compared with the file's.
TEST(Refusal, InputsOfExportedPrograms) {
  EXPECT_EQ(getError("mlp.pt2", {"x:f32[4,32]"}),
            "input 'targets' (i64[4] in the file) has no --input");
  EXPECT_EQ(getError("mlp.pt2", {"x:f32[8,32]", "targets:i64[4]"}),
            "input 'x' is f32[8,32], but f32[4,32] in the file");
  EXPECT_EQ(getError("mlp.pt2", {"x:bf16[4,32]", "targets:i64[4]"}),
            "input 'x' is bf16[4,32], but f32[4,32] in the file");
  EXPECT_EQ(getError("mlp.pt2", {"x:f32[4,32]", "targets:i64[4]", "y:f32[1]"}),
            "input 'y' is no input of the file, which has 2");
}

TEST(Refusal, Methods) {
  CaptureOptions options = makeOptions("mlp.script.pt", getInputs("mlp"));
  options.method = "train_step";
  EXPECT_EQ(getError(options), "the model has no method 'train_step'");
  options = makeOptions("mlp.pt2");
  options.method = "train_step";
  EXPECT_EQ(getError(options), "a .pt2 file has no method 'train_step', only 'forward'");
}

// Options that the optimizer does not have, and values that torch refuses.
TEST(Refusal, OptimizerOptions) {
  CaptureOptions options = makeOptions("mlp.script.pt", getInputs("mlp"));
  auto expectError = [&](OptimizerSpec spec, const std::string &error) {
    options.optimizer = spec;
    EXPECT_EQ(getError(options), error);
  };
  expectError({.kind = OptimizerKind::SGD, .options = {{"betas", {0.9, 0.9}}}},
              "optimizer 'sgd' has no betas");
  expectError({.kind = OptimizerKind::SGD, .options = {{"eps", {1e-8}}}},
              "optimizer 'sgd' has no eps");
  expectError({.kind = OptimizerKind::Adam, .options = {{"momentum", {0.9}}}},
              "optimizer 'adam' has no momentum");
  expectError({.kind = OptimizerKind::AdamW, .options = {{"betas", {1.5, 0.9}}}},
              "optimizer 'adamw': betas is 1.5, expected at least 0 and less than 1");
  expectError({.kind = OptimizerKind::AdamW, .options = {{"betas", {0.9}}}},
              "optimizer 'adamw': betas holds 1 number, expected 2");
  expectError({.kind = OptimizerKind::AdamW, .options = {{"lr", {-1.0}}}},
              "optimizer 'adamw': lr is -1, expected a finite number, 0 or more");
  expectError({.kind = OptimizerKind::Adadelta, .options = {{"rho", {1.5}}}},
              "optimizer 'adadelta': rho is 1.5, expected at least 0 and at most 1");
}

// `NAME:DTYPE[DIMS]`: each mistake is quoted.
TEST(Refusal, InputSpecs) {
  auto getSpecError = [](llvm::StringRef text) {
    return llvm::toString(parseInputSpec(text).takeError());
  };
  expectContains(getSpecError("x"), {"'x'", "no name or no dtype", "tokens:i64[4,128]"});
  expectContains(getSpecError("x:f31[2]"), {"unknown dtype 'f31'"});
  expectContains(getSpecError("x:f32"), {"no [DIMS] at the end"});
  expectContains(getSpecError("x:f32[2,y]"), {"'y' is no size"});
  expectContains(getSpecError("x:f32[0]"), {"'0' is no size"});
  InputSpec scalar = llvm::cantFail(parseInputSpec("x:f32[]"));
  EXPECT_TRUE(scalar.sizes.empty());
}
