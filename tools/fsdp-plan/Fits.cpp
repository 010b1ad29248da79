//===- Fits.cpp - Whether a step fits a device's memory -------------------===//

#include "Fits.h"

#include "fsdp/CostModel/Temporaries.h"
#include "fsdp/Explain/ExplainModule.h"
#include "fsdp/Explain/Quantities.h"
#include "fsdp/Explain/TextTable.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/StringExtras.h"

#include <cmath>
#include <map>

using namespace mlir;
using namespace fsdp;
using namespace fsdp::explain;
using namespace fsdp::plan_tool;
using Align = TextTable::Align;

/// Runs the passes of fsdpc up to `phase`. Only the phase planned is compiled under the cap; for
/// other phases, policies that depend on a cap decide nothing.
static LogicalResult compile(ModuleOp module, MeshSize size, ModulePhase phase,
                             const SweepOptions &sweep, const FitOptions &options) {
  PipelineOptions pipeline;
  pipeline.config = sweep.config;
  pipeline.mesh = describeMesh(sweep, size);
  if (sweep.microbatches.front() > 1) {
    pipeline.microbatches = sweep.microbatches.front();
    pipeline.gradientSync = sweep.gradientSync.front();
  }
  bool isCapped = phase == ModulePhase::Planned;
  if (isCapped || options.recompute != RecomputePolicy::Auto)
    pipeline.recompute = options.recompute;
  else
    pipeline.recompute = RecomputePolicy::Cheap;
  if (isCapped || options.offload != OffloadPolicy::Auto)
    pipeline.offloadOptimizer = options.offload;
  if (isCapped || options.activations != OffloadPolicy::Auto)
    pipeline.offloadActivations = options.activations;
  pipeline.schedule = ScheduleChoice::Auto;
  pipeline.fusion = sweep.fusion;
  pipeline.transport = sweep.transport;
  pipeline.budget = sweep.simulationBudget;
  if (sweep.maxBucketBytes)
    pipeline.maxBucketSize = std::to_string(*sweep.maxBucketBytes);
  pipeline.device = options.costs.device;
  pipeline.profile = options.costs.profile;
  pipeline.network = options.costs.network;
  pipeline.computeJitter = options.costs.computeJitter;
  pipeline.networkJitter = options.costs.networkJitter;
  pipeline.upTo = phase;
  if (isCapped)
    pipeline.memoryCap = std::to_string(options.capBytes - options.reservedBytes);
  PassManager manager(module.getContext());
  buildPipeline(manager, pipeline);
  return manager.run(module);
}

/// Returns whether the step fits. If not, `refusal` has the compiler's diagnostics, one per line.
static bool compileQuietly(ModuleOp module, MeshSize size, const SweepOptions &sweep,
                           const FitOptions &options, std::vector<std::string> &refusal) {
  ScopedDiagnosticHandler collect(module.getContext(), [&](Diagnostic &diag) {
    refusal.push_back(diag.str());
    for (const Diagnostic &note : diag.getNotes())
      refusal.push_back(note.str());
    return success();
  });
  if (failed(compile(module, size, ModulePhase::Planned, sweep, options)))
    return false;
  refusal.clear(); // it has warnings only
  return true;
}

/// "recompute full in 3 of 33 groups" for each policy.
static std::vector<std::string> describeChoices(ModuleOp module) {
  std::map<RecomputePolicy, size_t> groupsOf;
  size_t numGroups = 0, numOnHost = 0, numOffloaded = 0;
  for (auto group : module.getOps<GroupOp>()) {
    ++numGroups;
    ++groupsOf[group.getRecomputed().value_or(RecomputePolicy::None)];
    numOnHost += group.isStateOnHost();
    numOffloaded += group.areActivationsOnHost();
  }
  auto share = [&](size_t count) {
    return count == numGroups ? std::string()
                              : " in " + formatCount(static_cast<int64_t>(count)) + " of " +
                                    formatCount(static_cast<int64_t>(numGroups)) + " groups";
  };
  std::vector<std::string> choices;
  for (auto [policy, count] : groupsOf)
    choices.push_back("recompute " + stringifyRecomputePolicy(policy).str() + share(count));
  if (numOnHost > 0)
    choices.push_back("optimizer state on the host" + share(numOnHost));
  if (numOffloaded > 0)
    choices.push_back("activations on the host" + share(numOffloaded));
  return choices;
}

static LogicalResult describeFit(ModuleOp planned, const cost::CostModel &costs, Fit &fit) {
  fit.choices = describeChoices(planned);
  fit.arenaBytes = planned->getAttrOfType<IntegerAttr>(FsdpDialect::getArenaAttrName()).getInt();
  cost::Temporaries temporaries = cost::findTemporaries(planned, costs);
  fit.scratchBytes = temporaries.scratchBytes;
  fit.areTemporariesKnown = temporaries.areKnown();
  FailureOr<ExplainedModule> explained = explainModule(planned, costs, {});
  if (failed(explained))
    return failure();
  const ScheduleView &view = explained->view;
  fit.stepNs = view.makespanNs;
  if (!view.memory.empty())
    fit.peakBytes = view.memory[view.peakSample].bytes;
  return success();
}

FailureOr<std::vector<Fit>> fsdp::plan_tool::findFits(ModuleOp captured, const std::string &model,
                                                      const cost::CostModel &costs,
                                                      const SweepOptions &sweep,
                                                      const FitOptions &options) {
  if (failed(checkIsCaptured(captured)))
    return failure();
  auto [items, item] = countItems(captured);
  double peakNs = getPeakNs(captured, costs);
  std::vector<Fit> fits;
  for (MeshSize size : sweep.meshes) {
    Fit fit;
    fit.model = model;
    fit.ranks = size.getRanks();
    fit.replicas = size.replicas;
    fit.reservedBytes = options.reservedBytes;
    fit.itemsPerStep = items * fit.ranks * sweep.microbatches.front();
    fit.item = item;
    fit.peakNs = peakNs * static_cast<double>(sweep.microbatches.front());
    // A failure without a cap is an error of the step; a failure under the cap means that it does
    // not fit.
    OwningOpRef<ModuleOp> sharded = captured.clone();
    if (failed(compile(*sharded, size, ModulePhase::Sharded, sweep, options)))
      return failure();
    OwningOpRef<ModuleOp> planned = captured.clone();
    if (compileQuietly(*planned, size, sweep, options, fit.refusal) &&
        failed(describeFit(*planned, costs, fit)))
      return failure();
    fits.push_back(std::move(fit));
  }
  return fits;
}

static void printMemory(const Fit &fit, int64_t capBytes, llvm::raw_ostream &os) {
  TextTable table({{"", Align::Left}, {"", Align::Right}, {"", Align::Right}});
  auto add = [&](std::string_view name, int64_t bytes) {
    if (bytes != 0)
      table.addRow({std::string(name), formatBytes(bytes),
                    formatShare(static_cast<double>(bytes) / static_cast<double>(capBytes))});
  };
  for (unsigned i = 0; i < kNumMemoryCategories; ++i)
    add(getName(MemoryCategory(i)), fit.peakBytes[i]);
  add("holes", fit.arenaBytes - getTotal(fit.peakBytes));
  add("beside the arena", fit.scratchBytes);
  add("driver, libraries", fit.reservedBytes);
  add("to spare", capBytes - fit.getNeededBytes());
  table.print(os, 2);
}

void fsdp::plan_tool::printFits(llvm::ArrayRef<Fit> fits, int64_t capBytes, llvm::raw_ostream &os) {
  for (const Fit &fit : fits) {
    os << fit.model << " on " << formatCount(fit.ranks) << " ranks";
    if (fit.replicas > 1)
      os << " in " << formatCount(fit.replicas) << " replicas";
    os << ": ";
    if (!fit.refusal.empty()) {
      os << "no: " << fit.refusal.front() << '\n';
      for (const std::string &line : llvm::ArrayRef(fit.refusal).drop_front())
        os << "  " << line << '\n';
      if (fit.reservedBytes > 0)
        os << "  beside " << formatBytes(fit.reservedBytes)
           << " that are reserved for the driver and libraries\n";
      continue;
    }
    double itemsPerSec = static_cast<double>(fit.itemsPerStep) / (fit.stepNs / 1e9);
    os << "yes, in " << formatBytes(fit.getNeededBytes()) << " of " << formatBytes(capBytes)
       << ", by " << llvm::join(fit.choices, ", ") << ": " << formatTime(fit.stepNs) << " a step, "
       << formatCount(std::llround(itemsPerSec)) << ' ' << fit.item << "/s, "
       << formatShare(fit.peakNs / fit.stepNs) << " MFU\n";
    printMemory(fit, capBytes, os);
    if (!fit.areTemporariesKnown)
      os << "  without temporaries inside operators that nothing has measured\n";
  }
}
