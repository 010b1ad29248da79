//===- ProgramSteps.h - The steps of a program, as flags say -----*- C++ -*-===//

#ifndef FSDP_TOOLS_FSDPC_PROGRAMSTEPS_H
#define FSDP_TOOLS_FSDPC_PROGRAMSTEPS_H

#include "fsdp/Files/SameFile.h"
#include "fsdp/Frontend/Capture.h"

namespace CLI {
class App;
}

namespace fsdp {

/// A step that is captured.
struct ProgramStep {
  frontend::CaptureOptions capture;
  /// Of the names of its modules that --save-temps keeps: "", "step_2.", "evaluate.",
  /// "evaluate_2.".
  std::string prefix;
  /// The flag that asks for it, with its value, for errors; "" for MODEL itself.
  std::string source;
};

/// --also-model, --also-inputs, --eval-model: the steps beside MODEL's.
class ProgramFlags {
public:
  /// Adds the flags to the application; this object must outlive its parsing.
  void addTo(CLI::App &app);

  /// The steps in the program's order, of which `first` is MODEL's. Errors quote the flag.
  llvm::Expected<std::vector<ProgramStep>> getSteps(const frontend::CaptureOptions &first) const;

  /// The models, with their flags.
  std::vector<NamedPath> getFiles() const;

  bool hasSeveralShapes() const { return !alsoModels.empty() || !alsoInputs.empty(); }

private:
  llvm::Error checkShapes(bool isExported) const;
  llvm::Expected<std::vector<std::vector<frontend::InputSpec>>> parseAlsoInputs() const;

  std::vector<std::string> alsoModels, alsoInputs, evalModels;
};

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPC_PROGRAMSTEPS_H
