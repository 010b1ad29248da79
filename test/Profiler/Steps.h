//===- Steps.h - Steps of the tests' inputs, planned -------------*- C++ -*-===//

#ifndef FSDP_TEST_PROFILER_STEPS_H
#define FSDP_TEST_PROFILER_STEPS_H

#include "PlannedStep.h"
#include "fsdp/Explain/ModuleFile.h"

#include <gtest/gtest.h>

namespace fsdp::profile {

/// A captured step and its plan.
struct StepOfFile {
  std::unique_ptr<explain::ModuleFile> file;
  PlannedStep planned;
};

/// `path`: under test/. `change` is made to the captured step.
inline StepOfFile readStep(
    const std::string &path, int64_t ranks, FusionChoice fusion = FusionChoice::Off,
    llvm::function_ref<void(mlir::ModuleOp)> change = [](mlir::ModuleOp) {}) {
  StepOfFile step{llvm::cantFail(explain::ModuleFile::read(INPUTS "/" + path)), {}};
  change(step.file->get());
  llvm::Expected<PlannedStep> planned = planStep(step.file->get(), ranks, fusion);
  if (planned)
    step.planned = std::move(*planned);
  else
    ADD_FAILURE() << llvm::toString(planned.takeError());
  return step;
}

} // namespace fsdp::profile

#endif // FSDP_TEST_PROFILER_STEPS_H
