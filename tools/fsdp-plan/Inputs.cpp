//===- Inputs.cpp - The captured modules of a run --------------------------===//

#include "Inputs.h"

#include "passes/VerifyPhase.h"
#include "llvm/Support/Path.h"

using namespace fsdp;
using namespace fsdp::plan_tool;

/// A row's name: the file's name without folder, or its path if another file has that name.
static std::string getModelName(const std::vector<std::string> &paths, const std::string &path) {
  llvm::StringRef stem = llvm::sys::path::stem(path);
  auto hasStem = [&](const std::string &other) { return llvm::sys::path::stem(other) == stem; };
  return llvm::count_if(paths, hasStem) > 1 ? path : stem.str();
}

llvm::Expected<InputTexts> InputTexts::read(const std::vector<std::string> &paths) {
  InputTexts inputs{paths, {}};
  for (const std::string &path : paths) {
    std::string message;
    inputs.texts.push_back(mlir::openInputFile(path, &message));
    if (!inputs.texts.back())
      return llvm::createStringError(message);
  }
  return inputs;
}

llvm::Expected<std::unique_ptr<Inputs>> Inputs::load(const InputTexts &texts,
                                                     const PlanSettings &settings) {
  auto inputs = std::make_unique<Inputs>();
  llvm::Expected<std::unique_ptr<cost::CostModel>> costs = cost::CostModel::create(settings.costs);
  if (!costs)
    return costs.takeError();
  inputs->costs = std::move(*costs);
  for (auto [path, text] : llvm::zip_equal(texts.paths, texts.texts)) {
    llvm::Expected<std::unique_ptr<explain::ModuleFile>> file =
        explain::ModuleFile::parse(llvm::MemoryBuffer::getMemBuffer(text->getMemBufferRef()), path);
    if (!file)
      return file.takeError();
    mlir::ModuleOp module = inputs->files.emplace_back(std::move(*file))->get();
    if (failed(verifyPhase(module)))
      return llvm::createStringError("'" + path + "' is not valid");
    mlir::FailureOr<PointPlanner> planner =
        PointPlanner::create(module, getModelName(texts.paths, path), *inputs->costs, settings);
    if (failed(planner))
      return llvm::createStringError("'" + path + "' cannot be planned");
    inputs->planners.push_back(std::move(*planner));
  }
  return inputs;
}
