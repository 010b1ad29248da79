//===- Report.cpp - Events and collectives of a step as JSON --------------===//

#include "fsdp/Export/Report.h"

#include "fsdp/Analysis/Step.h"
#include "fsdp/Config/ShardingConfig.h"
#include "mlir/Support/FileUtilities.h"
#include "passes/Passes.h"
#include "llvm/Support/ToolOutputFile.h"

namespace fsdp {
#define GEN_PASS_DEF_REPORT
#include "passes/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

namespace {
struct ReportPass : public fsdp::impl::ReportBase<ReportPass> {
  using ReportBase::ReportBase;

  /// `--fsdp-report=FILE` says the same as `--fsdp-report=file=FILE`.
  LogicalResult
  initializeOptions(StringRef options,
                    function_ref<LogicalResult(const Twine &)> errorHandler) override {
    bool isBareName = !options.empty() && !options.contains('=');
    std::string named = isBareName ? ("file=" + options).str() : options.str();
    return ReportBase::initializeOptions(named, errorHandler);
  }

  void runOnOperation() override {
    markAllAnalysesPreserved();
    ModuleOp module = getOperation();
    if (failed(expectPhase(module, getArgument(), {ModulePhase::Scheduled, ModulePhase::Planned})))
      return signalPassFailure();
    std::string message;
    std::unique_ptr<llvm::ToolOutputFile> output = openOutputFile(file, &message);
    if (!output) {
      module.emitError("cannot write the report: ") << message;
      return signalPassFailure();
    }
    llvm::Expected<int64_t> capBytes = parseSizeBytes(memoryCap, "memory-cap");
    if (!capBytes) {
      module.emitError(llvm::toString(capBytes.takeError()));
      return signalPassFailure();
    }
    PredictionOptions options;
    options.costs = {.device = device, .profile = profile, .network = network};
    if (*capBytes > 0)
      options.memoryCapBytes = *capBytes;
    if (failed(writeReport(module, options, output->os())))
      return signalPassFailure();
    output->keep();
  }
};
} // namespace
