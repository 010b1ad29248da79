//===- ModuleFile.cpp - A module and the file that it came from -----------===//

#include "fsdp/Explain/ModuleFile.h"

#include "fsdp/IR/Fsdp.h"
#include "fsdp/IR/UnknownLocations.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

using namespace fsdp::explain;

ModuleFile::ModuleFile() : context(mlir::MLIRContext::Threading::DISABLED) {
  context.loadDialect<mlir::func::FuncDialect, fsdp::aten::AtenDialect, fsdp::FsdpDialect>();
  context.printOpOnDiagnostic(false);
}

llvm::Expected<std::unique_ptr<ModuleFile>> ModuleFile::read(const std::string &path) {
  std::string message;
  std::unique_ptr<llvm::MemoryBuffer> buffer = mlir::openInputFile(path, &message);
  if (!buffer)
    return llvm::createStringError(message);
  return parse(std::move(buffer), path);
}

llvm::Expected<std::unique_ptr<ModuleFile>>
ModuleFile::parse(std::unique_ptr<llvm::MemoryBuffer> text, const std::string &path) {
  std::unique_ptr<ModuleFile> file(new ModuleFile);
  file->sources.AddNewSourceBuffer(std::move(text), llvm::SMLoc());
  file->diagnostics =
      std::make_unique<mlir::SourceMgrDiagnosticHandler>(file->sources, &file->context);
  fsdp::hideUnknownLocations(file->context);
  file->module = mlir::parseSourceFile<mlir::ModuleOp>(file->sources, &file->context);
  if (!file->module)
    return llvm::createStringError("'" + path + "' is no module");
  return file;
}
