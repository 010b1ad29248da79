//===- fsdp-reduce.cpp - Reduces a failing step ---------------------------===//

#include "../FatalErrors.h"
#include "../LlvmOptions.h"
#include "../ResponseFiles.h"
#include "fsdp/Files/SameFile.h"
#include "fsdp/IR/Fsdp.h"
#include "fsdp/IR/OutputFile.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Tools/mlir-reduce/MlirReduceMain.h"
#include "passes/Passes.h"
#include "passes/Pipelines.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Signals.h"

namespace {

/// The arguments with a temporary file as output, since MLIR's reducer empties its output before it
/// reads its input.
struct Redirected {
  std::vector<std::string> texts;
  std::vector<std::string> files; // positional arguments
  std::string output = "-";
};

} // namespace

static Redirected redirect(fsdp::ExpandedArguments &arguments, llvm::StringRef temporary) {
  Redirected result;
  for (int i = 0; i < arguments.getCount(); ++i) {
    llvm::StringRef text = arguments.get()[i];
    llvm::StringRef name = text.split('=').first;
    if (name != "-o" && name != "--o") {
      result.texts.push_back(text.str());
      if (i > 0 && !text.starts_with("-"))
        result.files.push_back(text.str());
      continue;
    }
    if (text.contains('='))
      result.output = text.split('=').second.str();
    else if (i + 1 < arguments.getCount())
      result.output = arguments.get()[++i];
  }
  if (result.output != "-")
    result.texts.push_back("-o=" + temporary.str());
  return result;
}

static int fail(const llvm::Twine &message) {
  llvm::errs() << "fsdp-reduce: error: " << message << '\n';
  return 1;
}

int main(int argc, char **argv) {
  fsdp::endOnFatalErrors("fsdp-reduce");
  fsdp::setVersion("fsdp-reduce");
  mlir::DialectRegistry registry;
  registry.insert<mlir::func::FuncDialect, fsdp::aten::AtenDialect, fsdp::FsdpDialect>();
  fsdp::registerFsdpPasses();
  fsdp::registerFsdpPipelines();
  mlir::MLIRContext context(registry);
  fsdp::ExpandedArguments arguments(argc, argv);
  if (!arguments)
    return 1;
  llvm::SmallString<128> temporary;
  if (std::error_code code = llvm::sys::fs::createTemporaryFile("fsdp-reduce", "mlir", temporary))
    return fail("cannot make a temporary file: " + code.message());
  llvm::FileRemover remover(temporary);
  llvm::sys::RemoveFileOnSignal(temporary);
  Redirected command = redirect(arguments, temporary);
  std::vector<fsdp::NamedPath> inputs;
  for (const std::string &file : command.files)
    inputs.push_back({"INPUT", file});
  if (std::optional<std::string> clash = fsdp::findClash(inputs, {{"-o", command.output}}))
    return fail(*clash);
  std::vector<char *> texts;
  for (std::string &text : command.texts)
    texts.push_back(text.data());
  texts.push_back(nullptr);
  if (mlir::failed(mlir::mlirReduceMain(static_cast<int>(texts.size()) - 1, texts.data(), context)))
    return 1;
  if (command.output == "-")
    return 0;
  auto reduced = llvm::MemoryBuffer::getFile(temporary);
  if (!reduced)
    return fail("cannot read the reduced module: " + reduced.getError().message());
  llvm::Error error = fsdp::printFile(
      command.output, [&](llvm::raw_ostream &os) { os << (*reduced)->getBuffer(); });
  return error ? fail(llvm::toString(std::move(error))) : 0;
}
