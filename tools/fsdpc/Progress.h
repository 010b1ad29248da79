//===- Progress.h - The stages of a compilation ------------------*- C++ -*-===//

#ifndef FSDP_TOOLS_FSDPC_PROGRESS_H
#define FSDP_TOOLS_FSDPC_PROGRESS_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "llvm/Support/Error.h"

#include <chrono>
#include <string>

namespace fsdp {

/// The current stage of the compilation. Prints progress lines and errors, to stderr.
class Stage {
public:
  explicit Stage(bool quiet) : quiet(quiet) {}

  void begin(llvm::StringRef stageName);
  /// A progress line with the time since begin(), unless quiet.
  void end(const llvm::Twine &outcome);
  /// Prints a note, also with --quiet: about an outcome that a user may not expect.
  void note(const llvm::Twine &text);
  /// Prints the error; yields the exit code.
  int fail(const llvm::Twine &reason);
  int fail(llvm::Error error) { return fail(llvm::toString(std::move(error))); }

private:
  bool quiet;
  std::string name;
  std::chrono::steady_clock::time_point started;
};

/// Ends a stage when the verifier of its phase has passed, and saves the module under --save-temps.
class Progress : public mlir::PassInstrumentation {
public:
  /// `saveTemps`: the folder for modules, or empty; `prefix`: prefix of their file names. `stage`
  /// and `saveTemps` must outlive the instrumentation.
  Progress(Stage &stage, const std::string &saveTemps, std::string prefix)
      : stage(stage), saveTemps(saveTemps), prefix(std::move(prefix)) {}

  void runAfterPass(mlir::Pass *pass, mlir::Operation *op) override;
  void runAfterPassFailed(mlir::Pass *pass, mlir::Operation *op) override;

  /// The pass that failed, if one did.
  std::string failedPass;
  /// Errors of writing intermediate modules.
  llvm::Error saveErrors = llvm::Error::success();

private:
  Stage &stage;
  const std::string &saveTemps;
  const std::string prefix;
};

/// Prints a diagnostic of the compiler as a line of fsdpc.
void printDiagnostic(mlir::Diagnostic &diagnostic);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPC_PROGRESS_H
