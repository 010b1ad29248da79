//===- Report.cpp - Events and collectives of a step as JSON --------------===//

#include "fsdp/Export/Report.h"

#include "fsdp/Analysis/Step.h"
#include "fsdp/IR/OutputFile.h"
#include "fsdp/Transforms/ScheduleSearch.h"
#include "passes/Passes.h"

namespace fsdp {
#define GEN_PASS_DEF_REPORT
#include "passes/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

namespace {
struct ReportPass : public fsdp::impl::ReportBase<ReportPass> {
  using ReportBase::ReportBase;

  /// `--fsdp-report=FILE` is short for `--fsdp-report=file=FILE`.
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
    FailureOr<int64_t> capBytes = parseSizeOption(module, "memory-cap", memoryCap);
    if (failed(capBytes))
      return signalPassFailure();
    FailureOr<std::shared_ptr<cost::CostModel>> costs =
        loadCosts(module, {device, profile, network, computeJitter, networkJitter});
    if (failed(costs))
      return signalPassFailure();
    PredictionOptions options;
    if (*capBytes > 0)
      options.memoryCapBytes = *capBytes;
    std::string report;
    llvm::raw_string_ostream os(report);
    if (failed(writeReport(module, **costs, options, os)))
      return signalPassFailure();
    if (llvm::Error error = printFile(file, [&](raw_ostream &out) { out << report; })) {
      module.emitError("the report: ") << llvm::toString(std::move(error));
      signalPassFailure();
    }
  }
};
} // namespace
