//===- Inputs.h - The captured modules of a run ------------------*- C++ -*-===//

#ifndef FSDP_TOOLS_PLAN_INPUTS_H
#define FSDP_TOOLS_PLAN_INPUTS_H

#include "PlanStep.h"
#include "fsdp/Explain/ModuleFile.h"

namespace fsdp::plan_tool {

/// The contents of the input files. They are read once, as a file may be a pipe.
struct InputTexts {
  std::vector<std::string> paths;
  std::vector<std::unique_ptr<llvm::MemoryBuffer>> texts; // by path

  static llvm::Expected<InputTexts> read(const std::vector<std::string> &paths);
};

/// The captured modules of a run, each with a planner. An MLIR context delivers its diagnostics to
/// whichever handler is the last, so each thread has inputs of its own.
class Inputs {
public:
  /// The arguments must outlive the inputs. Errors in a module are printed at their position.
  static llvm::Expected<std::unique_ptr<Inputs>> load(const InputTexts &texts,
                                                      const PlanSettings &settings);

  llvm::ArrayRef<PointPlanner> getPlanners() const { return planners; } // by path
  const cost::CostModel &getCosts() const { return *costs; }

private:
  std::unique_ptr<cost::CostModel> costs;
  std::vector<std::unique_ptr<explain::ModuleFile>> files; // the cost model refers to these
  std::vector<PointPlanner> planners;
};

} // namespace fsdp::plan_tool

#endif // FSDP_TOOLS_PLAN_INPUTS_H
