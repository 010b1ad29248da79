//===- ProgramSteps.cpp - The steps of a program, as flags say ------------===//

#include "ProgramSteps.h"

#include "fsdp/Frontend/CommandLine.h"
#include "llvm/ADT/StringExtras.h"

#include <CLI/CLI.hpp>

using namespace fsdp;

static bool isExportedFile(llvm::StringRef path) { return path.ends_with(".pt2"); }

void ProgramFlags::addTo(CLI::App &app) {
  app.add_option("--also-model", alsoModels,
                 "also compile the training step of this .pt2, the same model exported with inputs "
                 "of another shape, over the same state; once for each shape")
      ->allow_extra_args(false)
      ->check(CLI::ExistingFile);
  app.add_option("--also-inputs", alsoInputs,
                 "also compile the training step of a scripted MODEL with inputs of another shape, "
                 "'NAME:DTYPE[DIMS] ...', as "
                 "for --input; once for each further shape")
      ->allow_extra_args(false)
      ->delimiter('\0');
  app.add_option(
         "--eval-model", evalModel,
         "also compile the forward of this model, as an evaluation over the same state: the "
         "TorchScript file, whose modules are set to eval(), or a .pt2 exported in that mode")
      ->check(CLI::ExistingFile);
}

llvm::Error ProgramFlags::checkShapes(bool isExported) const {
  if (isExported && !alsoInputs.empty())
    return llvm::createStringError("--also-inputs '" + alsoInputs.front() +
                                   "': a .pt2 file has the shapes with which it was exported; add "
                                   "an export with others by --also-model");
  for (const std::string &path : alsoModels)
    if (!isExported || !isExportedFile(path))
      return llvm::createStringError(
          "--also-model " + path + ": " + (isExported ? "it" : "MODEL") +
          " is a TorchScript file, which has no shapes of its own: give MODEL's further shapes by "
          "--also-inputs");
  return llvm::Error::success();
}

llvm::Expected<std::vector<ProgramStep>>
ProgramFlags::getSteps(const frontend::CaptureOptions &first) const {
  if (llvm::Error error = checkShapes(isExportedFile(first.model)))
    return error;
  std::vector<ProgramStep> steps = {{first, "", ""}};
  auto addShape = [&](frontend::CaptureOptions capture, std::string source) {
    steps.push_back(
        {std::move(capture), "step_" + std::to_string(steps.size() + 1) + ".", std::move(source)});
  };
  for (const std::string &path : alsoModels) {
    frontend::CaptureOptions capture = first;
    capture.model = path;
    capture.inputs.clear();
    addShape(std::move(capture), "--also-model " + path);
  }
  for (const std::string &text : alsoInputs) {
    llvm::SmallVector<llvm::StringRef> words;
    llvm::SplitString(text, words);
    llvm::Expected<std::vector<frontend::InputSpec>> inputs =
        frontend::parseInputSpecs(std::vector<std::string>(words.begin(), words.end()));
    if (!inputs)
      return llvm::createStringError("--also-inputs '" + text +
                                     "': " + llvm::toString(inputs.takeError()));
    frontend::CaptureOptions capture = first;
    capture.inputs = std::move(*inputs);
    addShape(std::move(capture), "--also-inputs '" + text + "'");
  }
  if (!evalModel.empty()) {
    frontend::CaptureOptions capture = first;
    capture.model = evalModel;
    capture.isEvaluation = true;
    steps.push_back({std::move(capture), "evaluate.", "--eval-model " + evalModel});
  }
  return steps;
}

std::vector<NamedPath> ProgramFlags::getFiles() const {
  std::vector<NamedPath> files = {{"--eval-model", evalModel}};
  for (const std::string &path : alsoModels)
    files.push_back({"--also-model", path});
  return files;
}
