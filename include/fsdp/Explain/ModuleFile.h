//===- ModuleFile.h - A module and the file that it came from ----*- C++ -*-===//

#ifndef FSDP_EXPLAIN_MODULEFILE_H
#define FSDP_EXPLAIN_MODULEFILE_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Support/FileUtilities.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/SourceMgr.h"

#include <memory>

namespace fsdp::explain {

/// Reads a module, text or bytecode, and prints its diagnostics with their positions in the file.
class ModuleFile {
public:
  /// `path`: - is standard input. The error is about the file itself. Errors in the contents are
  /// printed at their position, and the returned error then only says so.
  static llvm::Expected<std::unique_ptr<ModuleFile>> read(const std::string &path);
  /// The same for what was read from `path`.
  static llvm::Expected<std::unique_ptr<ModuleFile>> parse(std::unique_ptr<llvm::MemoryBuffer> text,
                                                           const std::string &path);

  mlir::ModuleOp get() { return *module; }

private:
  ModuleFile();

  mlir::MLIRContext context;
  llvm::SourceMgr sources;
  std::unique_ptr<mlir::SourceMgrDiagnosticHandler> diagnostics;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

} // namespace fsdp::explain

#endif // FSDP_EXPLAIN_MODULEFILE_H
