//===- ProgramSteps.h - The steps of a program, from flags -------*- C++ -*-===//

#ifndef FSDP_TOOLS_FSDPC_PROGRAMSTEPS_H
#define FSDP_TOOLS_FSDPC_PROGRAMSTEPS_H

#include "fsdp/Files/SameFile.h"
#include "fsdp/Frontend/Capture.h"

namespace CLI {
class App;
}

namespace fsdp {

/// A step to capture.
struct ProgramStep {
  frontend::CaptureOptions capture;
  /// Prefix of the step's files under --save-temps: "", "step_2.", "evaluate.", "evaluate_2.".
  std::string prefix;
  /// The flag that asks for the step, with its value, for error messages; "" for MODEL itself.
  std::string source;
};

/// --also-model, --also-inputs and --eval-model: further steps beside MODEL's.
class ProgramFlags {
public:
  /// Adds the flags to the application; this object must outlive its parsing.
  void addTo(CLI::App &app);

  /// The steps in the program's order. The first one is MODEL's, `first`. Errors quote the flag.
  llvm::Expected<std::vector<ProgramStep>> getSteps(const frontend::CaptureOptions &first) const;

  /// Paths of the models, with the flags that name them.
  std::vector<NamedPath> getFiles() const;

  bool hasSeveralShapes() const { return !alsoModels.empty() || !alsoInputs.empty(); }

private:
  llvm::Error checkShapes(bool isExported) const;
  llvm::Expected<std::vector<std::vector<frontend::InputSpec>>> parseAlsoInputs() const;

  std::vector<std::string> alsoModels, alsoInputs, evalModels;
};

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPC_PROGRAMSTEPS_H
