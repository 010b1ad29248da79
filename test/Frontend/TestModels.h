//===- TestModels.h - The exported models of the capture's tests -*- C++ -*-===//

#ifndef FSDP_TEST_FRONTEND_TESTMODELS_H
#define FSDP_TEST_FRONTEND_TESTMODELS_H

#include "fsdp/Frontend/Capture.h"
#include "gtest/gtest.h"

namespace fsdp::frontend {

/// A file of export_models.py.
inline std::string getModelPath(const std::string &file) {
  return std::string(FSDP_TEST_MODELS) + "/" + file;
}

/// Options for a file, with inputs as on the command line.
inline CaptureOptions makeOptions(const std::string &file,
                                  const std::vector<std::string> &inputs = {}) {
  CaptureOptions options;
  options.model = getModelPath(file);
  for (const std::string &text : inputs)
    options.inputs.push_back(llvm::cantFail(parseInputSpec(text)));
  return options;
}

/// The inputs of a model of test/models, by its name in export_models.py.
inline std::vector<std::string> getInputs(const std::string &model) {
  if (model == "mlp" || model == "shared")
    return {"x:f32[4,32]", "targets:i64[4]"};
  if (model == "vit" || model == "convnet")
    return {"images:f32[4,3,16,16]", "targets:i64[4]"};
  return {"tokens:i64[4,16]", "targets:i64[4,16]"};
}

/// Captures, or fails the test.
inline mlir::OwningOpRef<mlir::ModuleOp> capture(const CaptureOptions &options,
                                                 mlir::MLIRContext &context,
                                                 const std::string &weights = "") {
  std::optional<OutputFile> file;
  std::string problem;
  if (!weights.empty()) {
    file = OutputFile::open(weights, problem);
    EXPECT_TRUE(file) << problem;
  }
  llvm::Expected<CapturedStep> step = captureStep(options, file ? &*file : nullptr, context);
  if (!step) {
    ADD_FAILURE() << llvm::toString(step.takeError());
    return {};
  }
  if (file && step->hasWeights) {
    EXPECT_EQ(file->commit(), std::nullopt);
  }
  return std::move(step->module);
}

} // namespace fsdp::frontend

#endif // FSDP_TEST_FRONTEND_TESTMODELS_H
