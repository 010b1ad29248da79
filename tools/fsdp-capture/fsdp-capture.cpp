//===- fsdp-capture.cpp - A PyTorch model's training step as MLIR ---------===//

#include "../FatalErrors.h"
#include "../Version.h"
#include "fsdp/CommandLine/UnknownFlag.h"
#include "fsdp/Files/SameFile.h"
#include "fsdp/Frontend/Capture.h"
#include "fsdp/Frontend/CommandLine.h"

#include <CLI/CLI.hpp>

#include <iostream>

using namespace fsdp;

static int fail(llvm::Error error) {
  std::cerr << "fsdp-capture: error: " << llvm::toString(std::move(error)) << "\n";
  return 1;
}

int main(int argc, char **argv) {
  fsdp::endOnFatalErrors("fsdp-capture");
  CLI::App app("Captures one training step of a PyTorch model (forward, loss, backward, update) as "
               "MLIR. Defaults are in parentheses.",
               "fsdp-capture");
  reportUnknownFlags(app);
  app.set_version_flag("--version", getVersion("fsdp-capture"));
  frontend::CaptureFlags flags;
  flags.addTo(app);
  std::string weights, output = "-";
  app.add_option("--weights", weights,
                 "write the initial parameters and buffers here "
                 "(safetensors)");
  app.add_option(
      "-o", output,
      "file for the MLIR module: bytecode if it ends in .mlirbc, else text (standard output)");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? 0 : 1;
  }
  if (std::optional<std::string> clash =
          findClash(flags.getFiles(), {{"-o", output}, {"--weights", weights}}))
    return fail(llvm::createStringError(*clash));
  llvm::Expected<frontend::CaptureOptions> options = flags.getOptions();
  if (!options)
    return fail(options.takeError());
  std::optional<OutputFile> weightsFile;
  if (!weights.empty()) {
    std::string problem;
    weightsFile = OutputFile::open(weights, problem);
    if (!weightsFile)
      return fail(llvm::createStringError("--weights: cannot write '" + weights + "': " + problem));
  }
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  llvm::Expected<frontend::CapturedStep> step =
      frontend::captureStep(*options, weightsFile ? &*weightsFile : nullptr, context);
  if (!step)
    return fail(step.takeError());
  for (const std::string &note : step->notes)
    std::cerr << "fsdp-capture: note: " << note << "\n";
  if (!weights.empty() && !step->hasWeights)
    std::cerr << "fsdp-capture: note: the model was saved on meta and has no values; '" << weights
              << "' is not written\n";
  if (llvm::Error error = frontend::writeModule(*step->module, output))
    return fail(std::move(error));
  if (weightsFile && step->hasWeights)
    if (std::optional<std::string> problem = weightsFile->commit())
      return fail(llvm::createStringError("cannot write '" + weights + "': " + *problem));
  return 0;
}
