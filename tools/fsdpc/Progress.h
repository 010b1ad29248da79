//===- Progress.h - The stages of a compilation ------------------*- C++ -*-===//

#ifndef FSDP_TOOLS_FSDPC_PROGRESS_H
#define FSDP_TOOLS_FSDPC_PROGRESS_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "llvm/Support/Error.h"

#include <chrono>
#include <string>

namespace fsdp {

/// What is being done, for progress lines and errors, which go to stderr.
class Stage {
public:
  explicit Stage(bool quiet) : quiet(quiet) {}

  void begin(llvm::StringRef stageName);
  /// A progress line with the time since begin(), unless quiet.
  void end(const llvm::Twine &outcome);
  /// A line on what a user may not expect, quiet or not.
  void note(const llvm::Twine &text);
  /// Prints the error; yields the exit code.
  int fail(const llvm::Twine &reason);
  int fail(llvm::Error error) { return fail(llvm::toString(std::move(error))); }

private:
  bool quiet;
  std::string name;
  std::chrono::steady_clock::time_point started;
};

/// Ends a stage where the verifier of its phase has passed, and keeps the module if asked to.
class Progress : public mlir::PassInstrumentation {
public:
  /// `saveTemps`: the folder for modules, or empty; `prefix`: of their names. The others outlive
  /// the instrumentation.
  Progress(Stage &stage, const std::string &saveTemps, std::string prefix)
      : stage(stage), saveTemps(saveTemps), prefix(std::move(prefix)) {}

  void runAfterPass(mlir::Pass *pass, mlir::Operation *op) override;
  void runAfterPassFailed(mlir::Pass *pass, mlir::Operation *op) override;

  /// The pass that failed, if one did.
  std::string failedPass;
  /// What went wrong while intermediate modules were written.
  llvm::Error saveErrors = llvm::Error::success();

private:
  Stage &stage;
  const std::string &saveTemps;
  const std::string prefix;
};

/// Prints the compiler's diagnostics as lines of fsdpc.
void printDiagnostic(mlir::Diagnostic &diagnostic);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPC_PROGRESS_H
