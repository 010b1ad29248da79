//===- CommandLine.h - The flags of a capture --------------------*- C++ -*-===//
//
// Shared by fsdp-capture and fsdpc. The file that makes the application includes CLI/CLI.hpp.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_FRONTEND_COMMANDLINE_H
#define FSDP_FRONTEND_COMMANDLINE_H

#include "fsdp/Files/SameFile.h"
#include "fsdp/Frontend/Capture.h"

namespace CLI {
class App;
}

namespace fsdp::frontend {

/// MODEL, --input, --load-library, --method, --optimizer and its hyper-parameters, --target,
/// --param-dtype, --operator-facts.
class CaptureFlags {
public:
  /// Adds the flags to the application; this object must outlive its parsing.
  void addTo(CLI::App &app);

  /// The options after parsing, or an error that quotes the flag. Loads the operator libraries.
  llvm::Expected<CaptureOptions> getOptions() const;

  const std::string &getModel() const { return model; }
  /// MODEL, the libraries and the facts: files that no output may overwrite.
  std::vector<NamedPath> getFiles() const;
  /// float32, bfloat16, float16; "": absent.
  const std::string &getParamDtype() const { return paramDtype; }
  void setParamDtype(const std::string &dtype) { paramDtype = dtype; }
  /// Absent: no flag asks for it.
  const std::optional<LossScaling> &getLossScaling() const { return lossScaling; }
  void setLossScaling(const std::optional<LossScaling> &scaling) { lossScaling = scaling; }

private:
  std::string model, method = "forward", optimizer, target = "cpu", paramDtype, stateDtype;
  std::vector<std::string> inputs, libraries, operatorFacts;
  OptimizerOptions optimizerOptions;
  std::optional<double> clipGradNorm;
  std::string clipNormType;
  std::optional<LossScaling> lossScaling;
};

/// The inputs of one entry point. Two inputs of one name are an error.
llvm::Expected<std::vector<InputSpec>> parseInputSpecs(const std::vector<std::string> &texts);

/// Writes the module as bytecode if `path` ends in .mlirbc, else as text with locations; "-" is
/// standard output.
llvm::Error writeModule(mlir::ModuleOp module, const std::string &path);

} // namespace fsdp::frontend

#endif // FSDP_FRONTEND_COMMANDLINE_H
