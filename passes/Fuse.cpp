//===- Fuse.cpp - Fuses operators into generated kernels ------------------===//

#include "fsdp/Analysis/Program.h"
#include "fsdp/Analysis/Step.h"
#include "fsdp/Codegen/KernelShape.h"
#include "fsdp/CostModel/OperatorWork.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Pass/PassManager.h"
#include "passes/FusionClusters.h"
#include "passes/FusionSplits.h"
#include "passes/KernelChoice.h"
#include "passes/Passes.h"
#include "passes/WidenProducts.h"
#include "llvm/ADT/MapVector.h"

namespace fsdp {
#define GEN_PASS_DEF_FUSE
#include "passes/Passes.h.inc"
} // namespace fsdp

#define DEBUG_TYPE "fsdp-fuse"

using namespace mlir;
using namespace fsdp;
using aten::CallOp;

namespace {
struct FusionCounts {
  int64_t kernels = 0, launches = 0, calls = 0;
  int64_t wideProducts = 0;
  // Bytes moved by all operators but matrix products and attention.
  int64_t bytesBefore = 0, bytesAfter = 0;
  struct Traffic {
    int64_t times = 0, bytes = 0;
  };
  llvm::MapVector<StringAttr, Traffic> traffic; // after fusion: kernels and the remaining operators
};

/// Fuses the calls of one step.
class Fuser {
public:
  Fuser(ModuleOp module, func::FuncOp step, Rounding rounding)
      : module(module), step(step), rounding(rounding), symbols(module) {}
  FusionCounts run();

private:
  using Launch = FusionClusters::Launch;

  void makeLaunches(ArrayRef<Launch> launches);
  KernelOp makeKernel(const Launch &launch);
  void order(ArrayRef<Launch> launches);
  int64_t countTraffic();

  ModuleOp module;
  func::FuncOp step;
  Rounding rounding;
  SymbolTable symbols;
  std::optional<FusionClusters> clusters;
  FusionCounts counts;
  llvm::SmallSetVector<Operation *, 16> launched; // for each launch: the launch, or its only call
  llvm::StringMap<KernelOp> kernels;              // by the text of their bodies
};
} // namespace

//===----------------------------------------------------------------------===//
// The kernel and its launch
//===----------------------------------------------------------------------===//

KernelOp Fuser::makeKernel(const Launch &launch) {
  MLIRContext *context = module.getContext();
  OpBuilder builder(context);
  std::string name = "fused";
  for (CallOp call : ArrayRef(launch.calls).take_front(4))
    name += ("_" + call.getBaseName().ltrim('_')).str();
  auto kernel = KernelOp::create(builder, step.getLoc(), name, rounding);
  Block &body = kernel.getBody().emplaceBlock();
  IRMapping mapping;
  for (Value input : launch.inputs)
    mapping.map(input, body.addArgument(input.getType(), input.getLoc()));
  builder.setInsertionPointToEnd(&body);
  auto scope = aten::ScopeAttr::get(context, builder.getStringAttr(""), {});
  for (CallOp call : launch.calls) {
    auto copy = cast<CallOp>(builder.clone(*call, mapping));
    // The kernel's copy has no module path: each launch has one.
    copy.setScopeAttr(scope);
    copy.setPhase(aten::Phase::Forward);
    copy->setLoc(builder.getUnknownLoc());
  }
  YieldOp::create(
      builder, builder.getUnknownLoc(),
      llvm::map_to_vector(launch.outputs, [&](Value value) { return mapping.lookup(value); }));
  // Equal kernels, as those of equal layers, are shared.
  std::string text;
  llvm::raw_string_ostream os(text);
  kernel.print(os, OpPrintingFlags().assumeVerified());
  auto [known, isNew] = kernels.try_emplace(text, kernel);
  if (!isNew) {
    kernel.erase();
    return known->second;
  }
  symbols.insert(kernel, Block::iterator(step));
  ++counts.kernels;
  return kernel;
}

/// Makes the kernels of all launches before any launch, since the bodies are copies of calls that
/// read each other's results.
void Fuser::makeLaunches(ArrayRef<Launch> launches) {
  SmallVector<KernelOp> made;
  for (const Launch &launch : launches) {
    KernelOp &kernel = made.emplace_back();
    if (launch.calls.size() == 1)
      continue;
    kernel = makeKernel(launch);
    std::string problem;
    if (!codegen::KernelShape::of(kernel, problem))
      llvm::report_fatal_error(llvm::Twine("fsdp-fuse made a kernel that does not fit: ") +
                               problem);
  }
  OpBuilder builder = OpBuilder::atBlockTerminator(&step.getBody().front());
  for (auto [launch, kernel] : llvm::zip_equal(launches, made)) {
    CallOp last = launch.calls.back();
    if (!kernel) {
      launched.insert(last);
      continue;
    }
    Location loc =
        FusedLoc::get(module.getContext(),
                      llvm::map_to_vector(launch.calls, [](CallOp call) { return call.getLoc(); }));
    auto launchOp = LaunchOp::create(builder, loc, ValueRange(launch.outputs).getTypes(),
                                     kernel.getSymNameAttr(), launch.inputs, last.getPhase(),
                                     last.getScopeAttr(), /*offsets=*/nullptr);
    launched.insert(launchOp);
    ++counts.launches;
    counts.calls += launch.calls.size();
  }
  for (auto [launch, op] : llvm::zip_equal(launches, launched))
    if (isa<LaunchOp>(op))
      for (auto [output, result] : llvm::zip_equal(launch.outputs, op->getResults()))
        Value(output).replaceAllUsesWith(result);
}

static bool isView(Operation *op) {
  auto call = dyn_cast_if_present<CallOp>(op);
  return call && call.isView();
}

/// Reorders the block in one permutation: launches go to their positions, a view goes after the
/// viewed value and before its readers, a call that can wait goes after the launches that it reads,
/// and all other operations keep their order.
void Fuser::order(ArrayRef<Launch> launches) {
  Block &block = step.getBody().front();
  llvm::SmallPtrSet<Operation *, 16> placed;
  DenseMap<Operation *, SmallVector<Operation *>> waiting; // by the operations that they read
  SmallVector<Operation *> order, replaced;
  auto findUnplaced = [&](Operation *op) -> Operation * {
    for (Value operand : op->getOperands())
      if (Operation *source = operand.getDefiningOp();
          source && source->getBlock() == &block && !placed.contains(source))
        return source;
    return nullptr;
  };
  auto place = [&](auto &self, Operation *op) -> void {
    if (Operation *source = clusters->canWait(op) ? findUnplaced(op) : nullptr) {
      waiting[source].push_back(op);
      return;
    }
    if (!placed.insert(op).second)
      return;
    // A launch may be placed before a view of its operand, which then moves up.
    for (Value operand : op->getOperands())
      if (isView(operand.getDefiningOp()))
        self(self, operand.getDefiningOp());
    order.push_back(op);
    for (Operation *reader : waiting.lookup(op))
      self(self, reader);
  };
  size_t next = 0;
  for (auto [position, op] : llvm::enumerate(clusters->getOperations())) {
    for (; next < launches.size() && launches[next].position == position; ++next)
      place(place, launched[next]);
    Operation *shown = isView(op) ? op->getOperand(0).getDefiningOp() : nullptr;
    if (isView(op) || (clusters->isFusible(op) && !launched.contains(op)))
      replaced.push_back(op);
    if (shown && shown->getBlock() == &block && !placed.contains(shown) && !placed.contains(op))
      waiting[shown].push_back(op);
    else if (!clusters->isFusible(op))
      place(place, op);
  }
  for (Operation *op : order)
    op->moveBefore(&block, block.end());
  for (Operation *op : llvm::reverse(replaced))
    if (op->use_empty())
      op->erase();
}

//===----------------------------------------------------------------------===//
// A step
//===----------------------------------------------------------------------===//

int64_t Fuser::countTraffic() {
  int64_t sum = 0;
  counts.traffic.clear();
  auto note = [&](StringAttr name, int64_t bytes) {
    FusionCounts::Traffic &own = counts.traffic[name];
    ++own.times;
    own.bytes += bytes;
    sum += bytes;
  };
  for (Operation &op : step.getBody().front()) {
    if (auto launch = dyn_cast<LaunchOp>(op))
      note(launch.getKernelAttr().getAttr(), cost::getMovedBytes(&op));
    if (auto call = dyn_cast<CallOp>(op))
      if (cost::OperatorWork work = cost::countWork(call);
          work.arithmetic == cost::Arithmetic::None && !work.runsNothing)
        note(call.getCalleeAttr(), work.bytes);
  }
  return sum;
}

FusionCounts Fuser::run() {
  counts.bytesBefore = countTraffic();
  if (rounding == Rounding::Fast && getTarget(module) == Target::Cuda)
    counts.wideProducts = widenProducts(step);
  splitCalls(step, rounding);
  clusters.emplace(step, rounding);
  clusters->form();
  clusters->copyCheapCalls();
  std::vector<FusionClusters::Launch> launches = clusters->settle();
  makeLaunches(launches);
  order(launches);
  counts.bytesAfter = countTraffic();
  return counts;
}

namespace {
struct FusePass : public fsdp::impl::FuseBase<FusePass> {
  using FuseBase::FuseBase;

  /// True if the arena of a scheduled module fits the cap.
  bool fitsCap(ModuleOp scheduled) {
    ScopedDiagnosticHandler quiet(&getContext(), [](Diagnostic &) { return success(); });
    OwningOpRef<ModuleOp> planned = scheduled.clone();
    PassManager manager(&getContext());
    manager.addPass(createPlanMemory({.memoryCap = memoryCap, .profile = profile}));
    return succeeded(manager.run(*planned));
  }

  void runOnOperation() override {
    if (failed(expectPhase(getOperation(), getArgument(),
                           {ModulePhase::Sharded, ModulePhase::Scheduled})))
      return signalPassFailure();
    SmallVector<ModuleOp> modules = getSteps(getOperation());
    const FusionChoice choice = resolve(fusion, getTarget(modules.front()));
    if (choice == FusionChoice::Off)
      return;
    for (ModuleOp module : modules)
      if (auto kernels = module.getOps<KernelOp>(); !kernels.empty()) {
        (*kernels.begin()).emitError("the step has been fused before: it has kernels");
        return signalPassFailure();
      }
    OwningOpRef<ModuleOp> unfused;
    if (listKernelChoices(fusion, memoryCap != "0").size() > 1)
      unfused = getOperation().clone();
    FusionCounts counts;
    for (ModuleOp module : modules)
      for (auto step : module.getOps<func::FuncOp>()) {
        FusionCounts own =
            Fuser(module, step, choice == FusionChoice::Exact ? Rounding::Exact : Rounding::Fast)
                .run();
        counts.kernels += own.kernels;
        counts.launches += own.launches;
        counts.calls += own.calls;
        counts.wideProducts += own.wideProducts;
        counts.bytesBefore += own.bytesBefore;
        counts.bytesAfter += own.bytesAfter;
        for (auto [name, traffic] : own.traffic) {
          counts.traffic[name].times += traffic.times;
          counts.traffic[name].bytes += traffic.bytes;
        }
      }
    if (unfused && !fitsCap(getOperation()) && fitsCap(*unfused))
      return leaveOutKernels(getOperation(), *unfused);
    remark::analysis(getOperation().getLoc(),
                     remark::RemarkOpts::name("fusion").category(DEBUG_TYPE))
        << remark::metric("Kernels", counts.kernels) << remark::metric("Launches", counts.launches)
        << remark::metric("FusedCalls", counts.calls)
        << remark::metric("WideProducts", counts.wideProducts)
        << remark::metric("ElementwiseBytesBefore", counts.bytesBefore)
        << remark::metric("ElementwiseBytesAfter", counts.bytesAfter);
    auto sorted = counts.traffic.takeVector();
    llvm::stable_sort(sorted,
                      [](const auto &a, const auto &b) { return a.second.bytes > b.second.bytes; });
    for (auto [name, traffic] : sorted)
      remark::analysis(getOperation().getLoc(),
                       remark::RemarkOpts::name("traffic").category(DEBUG_TYPE))
          << remark::metric("Operator", name.getValue()) << remark::metric("Times", traffic.times)
          << remark::metric("Bytes", traffic.bytes);
  }
};
} // namespace
