//===- fsdp-capture.cpp - A PyTorch model's training step as MLIR ---------===//

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
  CLI::App app("Captures one training step of a PyTorch model (forward, loss, backward, update) as "
               "MLIR.",
               "fsdp-capture");
  frontend::CaptureFlags flags;
  flags.addTo(app);
  std::string weights, output = "-";
  app.add_option("--weights", weights,
                 "write the initial parameters and buffers here "
                 "(safetensors)");
  app.add_option("-o", output, "MLIR; bytecode if it ends in .mlirbc (default: standard output)");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? 0 : 1;
  }
  llvm::Expected<frontend::CaptureOptions> options = flags.getOptions();
  if (!options)
    return fail(options.takeError());
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  llvm::Expected<frontend::CapturedStep> step = frontend::captureStep(*options, weights, context);
  if (!step)
    return fail(step.takeError());
  if (!weights.empty() && !step->hasWeights)
    std::cerr << "fsdp-capture: note: the model was saved on meta and has no values; '" << weights
              << "' is not written\n";
  if (llvm::Error error = frontend::writeModule(*step->module, output))
    return fail(std::move(error));
  return 0;
}
