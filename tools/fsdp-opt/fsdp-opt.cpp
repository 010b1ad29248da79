//===- fsdp-opt.cpp - Run passes on captured training steps ---------------===//

#include "../FatalErrors.h"
#include "../LlvmOptions.h"
#include "../PlacesNote.h"
#include "../ResponseFiles.h"
#include "fsdp/IR/Fsdp.h"
#include "fsdp/IR/OutputFile.h"
#include "fsdp/IR/UnknownLocations.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Passes.h"
#include "passes/Pipelines.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"

/// LLVM's shared library registers some thousand options of its code generators. They are hidden,
/// so that --help lists ours.
static void hideOptionsOfLlvm() {
  for (auto &entry : llvm::cl::getRegisteredOptions())
    if (entry.second->ArgStr != "help" && entry.second->ArgStr != "version")
      entry.second->setHiddenFlag(llvm::cl::ReallyHidden);
}

/// Turns off the printing of the whole operation after an error, which would hide the error itself.
static void printNoModulesBehindErrors() {
  mlir::registerMLIRContextCLOptions();
  auto it = llvm::cl::getRegisteredOptions().find("mlir-print-op-on-diagnostic");
  if (it != llvm::cl::getRegisteredOptions().end())
    static_cast<llvm::cl::opt<bool> *>(it->second)->setInitialValue(false);
}

/// The context and its first handler are made inside MlirOptMain, before it reads a module and so
/// loads a dialect.
static void hideUnknownLocations(mlir::DialectRegistry &registry) {
  registry.addExtension(+[](mlir::MLIRContext *context, fsdp::FsdpDialect *) {
    fsdp::hideUnknownLocations(*context);
  });
}

static int fail(const llvm::Twine &message) {
  llvm::errs() << "fsdp-opt: error: " << message << '\n';
  return 1;
}

/// The output may be the input file: it replaces that file only when it is complete.
static int run(const std::string &input, const std::string &output,
               const mlir::MlirOptMainConfig &config, mlir::DialectRegistry &registry) {
  std::string message;
  std::unique_ptr<llvm::MemoryBuffer> file = mlir::openInputFile(input, &message);
  if (!file)
    return fail(message);
  const bool hasPlaces = fsdp::hasPlacesOfSource(file->getBuffer());
  bool failed = false;
  llvm::Error error = fsdp::writeFile(output, [&](llvm::raw_ostream &os) -> llvm::Error {
    failed = mlir::failed(mlir::MlirOptMain(os, std::move(file), registry, config));
    return failed ? llvm::make_error<llvm::StringError>("", llvm::inconvertibleErrorCode())
                  : llvm::Error::success();
  });
  if (failed) { // with diagnostics
    llvm::consumeError(std::move(error));
    if (hasPlaces)
      fsdp::printPlacesNote("fsdp-opt", input);
    return 1;
  }
  return error ? fail(llvm::toString(std::move(error))) : 0;
}

int main(int argc, char **argv) {
  fsdp::endOnFatalErrors("fsdp-opt");
  hideOptionsOfLlvm();
  printNoModulesBehindErrors();
  mlir::DialectRegistry registry;
  registry.insert<mlir::func::FuncDialect, fsdp::aten::AtenDialect, fsdp::FsdpDialect>();
  fsdp::registerFsdpPasses();
  fsdp::registerFsdpPipelines();
  mlir::registerTransformsPasses(); // cse, canonicalize, view-op-graph, ...
  fsdp::ExpandedArguments arguments(argc, argv);
  if (!arguments)
    return 1;
  fsdp::setVersion("fsdp-opt");
  auto [input, output] = mlir::registerAndParseCLIOptions(
      arguments.getCount(), arguments.get(), "fsdp-opt: FSDP passes on captured steps\n", registry);
  mlir::MlirOptMainConfig config = mlir::MlirOptMainConfig::createFromCLOptions();
  if (config.shouldShowDialects() || config.shouldListPasses())
    return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, input, output, registry));
  if (!config.shouldVerifyDiagnostics())
    hideUnknownLocations(registry);
  llvm::InitLLVM init(argc, argv);
  return run(input, output, config, registry);
}
