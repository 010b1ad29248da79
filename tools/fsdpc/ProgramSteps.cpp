//===- ProgramSteps.cpp - The steps of a program, from flags --------------===//

#include "ProgramSteps.h"

#include "fsdp/Frontend/CommandLine.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <CLI/CLI.hpp>

using namespace fsdp;

static bool isExportedFile(llvm::StringRef path) { return path.ends_with(".pt2"); }

void ProgramFlags::addTo(CLI::App &app) {
  app.add_option("--also-model", alsoModels,
                 "also compile the training step of this .pt2 file: the same model, exported with "
                 "inputs of another shape. All steps share one state; once for each shape")
      ->allow_extra_args(false)
      ->check(CLI::ExistingFile);
  app.add_option("--also-inputs", alsoInputs,
                 "also compile the training step of a TorchScript MODEL with inputs of another "
                 "shape, 'NAME:DTYPE[DIMS] ...', as for --input; once for each further shape")
      ->allow_extra_args(false)
      ->delimiter('\0');
  app.add_option("--eval-model", evalModels,
                 "also compile the forward of this model as an evaluation with the same state: the "
                 "TorchScript file, whose modules are set to eval(), for each shape of MODEL; or a "
                 ".pt2 file exported in eval mode, once for each shape of samples")
      ->allow_extra_args(false)
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
    capture.isFurther = true;
    steps.push_back(
        {std::move(capture), "step_" + std::to_string(steps.size() + 1) + ".", std::move(source)});
  };
  for (const std::string &path : alsoModels) {
    frontend::CaptureOptions capture = first;
    capture.model = path;
    capture.inputs.clear();
    addShape(std::move(capture), "--also-model " + path);
  }
  llvm::Expected<std::vector<std::vector<frontend::InputSpec>>> inputs = parseAlsoInputs();
  if (!inputs)
    return inputs.takeError();
  for (auto [text, own] : llvm::zip_equal(alsoInputs, *inputs)) {
    frontend::CaptureOptions capture = first;
    capture.inputs = own;
    addShape(std::move(capture), "--also-inputs '" + text + "'");
  }
  unsigned numEvaluations = 0;
  auto addEvaluation = [&](const std::string &path, std::vector<frontend::InputSpec> own) {
    frontend::CaptureOptions capture = first;
    capture.model = path;
    capture.inputs = std::move(own);
    capture.isEvaluation = capture.isFurther = true;
    std::string number = ++numEvaluations == 1 ? "" : "_" + std::to_string(numEvaluations);
    steps.push_back({std::move(capture), "evaluate" + number + ".", "--eval-model " + path});
  };
  for (const std::string &path : evalModels) {
    if (!isExportedFile(path) && evalModels.size() > 1)
      return llvm::createStringError("--eval-model " + path +
                                     ": a TorchScript file is evaluated with every shape of MODEL; "
                                     "name it alone");
    // A .pt2 file has its own shapes.
    addEvaluation(path, numEvaluations == 0 ? first.inputs : std::vector<frontend::InputSpec>());
    if (!isExportedFile(path))
      for (const std::vector<frontend::InputSpec> &own : *inputs)
        addEvaluation(path, own);
  }
  return steps;
}

/// One list of inputs for each --also-inputs.
llvm::Expected<std::vector<std::vector<frontend::InputSpec>>>
ProgramFlags::parseAlsoInputs() const {
  std::vector<std::vector<frontend::InputSpec>> inputs;
  for (const std::string &text : alsoInputs) {
    llvm::SmallVector<llvm::StringRef> words;
    llvm::SplitString(text, words);
    llvm::Expected<std::vector<frontend::InputSpec>> own =
        frontend::parseInputSpecs(std::vector<std::string>(words.begin(), words.end()));
    if (!own)
      return llvm::createStringError("--also-inputs '" + text +
                                     "': " + llvm::toString(own.takeError()));
    inputs.push_back(std::move(*own));
  }
  return inputs;
}

std::vector<NamedPath> ProgramFlags::getFiles() const {
  std::vector<NamedPath> files;
  for (const std::string &path : evalModels)
    files.push_back({"--eval-model", path});
  for (const std::string &path : alsoModels)
    files.push_back({"--also-model", path});
  return files;
}
