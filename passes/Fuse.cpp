//===- Fuse.cpp - Operators that become generated kernels -----------------===//

#include "fsdp/Analysis/Program.h"
#include "fsdp/Analysis/Step.h"
#include "fsdp/Codegen/KernelShape.h"
#include "fsdp/Codegen/ScalarCode.h"
#include "fsdp/CostModel/OperatorWork.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"
#include "passes/Passes.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace fsdp {
#define GEN_PASS_DEF_FUSE
#include "passes/Passes.h.inc"
} // namespace fsdp

#define DEBUG_TYPE "fsdp-fuse"

using namespace mlir;
using namespace fsdp;
using aten::CallOp;

/// Keeps compilation linear, and the addresses of a kernel in registers.
static constexpr size_t kMostCalls = 48, kMostTensors = 24;

static ArrayRef<int64_t> getShape(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

/// True for the cast of a gradient that is reduced or added to others. It stays a call: what the
/// gradient was before it is asked for by name.
static bool isGradientCast(CallOp call) {
  if (call.getBaseName() != "_to_copy" && call.getBaseName() != "clone")
    return false;
  return llvm::any_of(call->getUsers(), [&](Operation *user) {
    auto copy = dyn_cast<CallOp>(user);
    auto uses = dyn_cast<StepOpInterface>(user);
    return isa<AccumulateOp>(user) ||
           (uses && llvm::is_contained(uses.getPacked(), call.getResult(0))) ||
           (copy && copy.getBaseName() == "clone" && isGradientCast(copy));
  });
}

namespace {
/// Calls, in program order, that are to be one kernel. Until it is closed, only they read what they
/// compute.
struct Cluster {
  SmallVector<CallOp> calls;
  SmallVector<int64_t> domain;
};

struct FusionCounts {
  int64_t kernels = 0, launches = 0, calls = 0;
  int64_t bytesBefore = 0, bytesAfter = 0; // that elementwise operators and row sums move
};

/// Fuses the calls of one step.
class Fuser {
public:
  Fuser(ModuleOp module, func::FuncOp step, Rounding rounding)
      : module(module), step(step), rounding(rounding), symbols(module) {}
  FusionCounts run();

private:
  bool isFusible(CallOp call) const {
    return (codegen::isElementwise(call, rounding) || codegen::isRowReduction(call, rounding)) &&
           !isGradientCast(call);
  }
  /// The domain that a cluster has with `call`; none if it cannot join.
  std::optional<SmallVector<int64_t>> join(const Cluster &cluster, CallOp call) const;
  void add(CallOp call);
  /// Closes the clusters of which `op` reads something.
  void closeReadBy(Operation &op);
  void closeAll();
  void close(size_t cluster);
  void launch(const Cluster &cluster);
  KernelOp makeKernel(const Cluster &cluster, ArrayRef<Value> inputs, ArrayRef<Value> outputs);
  int64_t countTraffic();

  ModuleOp module;
  func::FuncOp step;
  Rounding rounding;
  SymbolTable symbols;
  FusionCounts counts;
  llvm::MapVector<size_t, Cluster> open; // by number
  size_t numClusters = 0;
  DenseMap<Operation *, size_t> clusterOf;
  llvm::StringMap<KernelOp> kernels; // by their text
};
} // namespace

//===----------------------------------------------------------------------===//
// Which calls are one kernel
//===----------------------------------------------------------------------===//

std::optional<SmallVector<int64_t>> Fuser::join(const Cluster &cluster, CallOp call) const {
  bool isReduction = codegen::isRowReduction(call, rounding);
  ArrayRef<int64_t> shape = getShape(isReduction ? call.getOperand(0) : call.getResult(0));
  SmallVector<int64_t> own(shape);
  if (cluster.calls.size() >= kMostCalls)
    return std::nullopt;
  const SmallVector<int64_t> rows = codegen::getRowShape(cluster.domain);
  if (own == cluster.domain)
    return own;
  // One number for each row of the cluster.
  if (ArrayRef<int64_t>(own) == ArrayRef<int64_t>(rows) && !isReduction)
    return cluster.domain;
  // The cluster has so far one number for each row of the call.
  if (ArrayRef<int64_t>(codegen::getRowShape(own)) == ArrayRef<int64_t>(cluster.domain) &&
      llvm::none_of(cluster.calls,
                    [&](CallOp other) { return codegen::isRowReduction(other, rounding); }))
    return own;
  return std::nullopt;
}

void Fuser::add(CallOp call) {
  llvm::SmallSetVector<size_t, 4> sources;
  for (Value operand : call.getOperands())
    if (auto found = clusterOf.find(operand.getDefiningOp());
        found != clusterOf.end() && open.contains(found->second))
      sources.insert(found->second);
  // The cluster that the call joins is that of its first source; others join, too, or end here.
  std::optional<size_t> home;
  for (size_t source : sources) {
    Cluster &cluster = open[source];
    std::optional<SmallVector<int64_t>> domain = join(cluster, call);
    if (!domain) {
      close(source);
      continue;
    }
    if (!home) {
      home = source;
      cluster.domain = *domain;
      continue;
    }
    Cluster &first = open[*home];
    bool fits =
        cluster.domain == first.domain ||
        ArrayRef<int64_t>(cluster.domain) == ArrayRef<int64_t>(codegen::getRowShape(first.domain));
    bool hasReduction = llvm::any_of(
        cluster.calls, [&](CallOp other) { return codegen::isRowReduction(other, rounding); });
    if (!fits || (hasReduction && cluster.domain != first.domain) ||
        first.calls.size() + cluster.calls.size() >= kMostCalls) {
      close(source);
      continue;
    }
    first.calls.append(cluster.calls);
    llvm::sort(first.calls, [](CallOp a, CallOp b) { return a->isBeforeInBlock(b); });
    for (CallOp moved : cluster.calls)
      clusterOf[moved] = *home;
    open.erase(source);
  }
  if (!home) {
    home = numClusters++;
    bool isReduction = codegen::isRowReduction(call, rounding);
    open[*home].domain =
        llvm::to_vector(getShape(isReduction ? call.getOperand(0) : call.getResult(0)));
  }
  open[*home].calls.push_back(call);
  clusterOf[call] = *home;
}

void Fuser::closeReadBy(Operation &op) {
  for (Value operand : op.getOperands())
    if (auto found = clusterOf.find(operand.getDefiningOp()); found != clusterOf.end())
      if (open.contains(found->second))
        close(found->second);
}

void Fuser::closeAll() {
  while (!open.empty())
    close(open.begin()->first);
}

void Fuser::close(size_t number) {
  Cluster cluster = std::move(open[number]);
  open.erase(number);
  if (cluster.calls.size() > 1)
    launch(cluster);
}

//===----------------------------------------------------------------------===//
// The kernel and its launch
//===----------------------------------------------------------------------===//

KernelOp Fuser::makeKernel(const Cluster &cluster, ArrayRef<Value> inputs,
                           ArrayRef<Value> outputs) {
  MLIRContext *context = module.getContext();
  OpBuilder builder(context);
  std::string name = "fused";
  for (CallOp call : ArrayRef(cluster.calls).take_front(4))
    name += ("_" + call.getBaseName().ltrim('_')).str();
  auto kernel = KernelOp::create(builder, step.getLoc(), name, rounding);
  Block &body = kernel.getBody().emplaceBlock();
  IRMapping mapping;
  for (Value input : inputs)
    mapping.map(input, body.addArgument(input.getType(), input.getLoc()));
  builder.setInsertionPointToEnd(&body);
  auto scope = aten::ScopeAttr::get(context, builder.getStringAttr(""), {});
  for (CallOp call : cluster.calls) {
    auto copy = cast<CallOp>(builder.clone(*call, mapping));
    // Where a call comes from, each launch says.
    copy.setScopeAttr(scope);
    copy.setPhase(aten::Phase::Forward);
    copy->setLoc(builder.getUnknownLoc());
  }
  YieldOp::create(builder, builder.getUnknownLoc(),
                  llvm::map_to_vector(outputs, [&](Value value) { return mapping.lookup(value); }));
  // Layers have equal kernels.
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

void Fuser::launch(const Cluster &cluster) {
  llvm::SmallPtrSet<Operation *, 16> members;
  llvm::SmallSetVector<Value, 16> inputs;
  SmallVector<Value> outputs;
  for (CallOp call : cluster.calls)
    members.insert(call);
  for (CallOp call : cluster.calls) {
    for (Value operand : call.getOperands())
      if (!members.contains(operand.getDefiningOp()))
        inputs.insert(operand);
    if (llvm::any_of(call->getUsers(), [&](Operation *user) { return !members.contains(user); }))
      outputs.push_back(call.getResult(0));
  }
  if (outputs.empty() || inputs.size() + outputs.size() > kMostTensors)
    return;
  KernelOp kernel = makeKernel(cluster, inputs.getArrayRef(), outputs);
  std::string problem;
  if (!codegen::KernelShape::of(kernel, problem))
    llvm::report_fatal_error(llvm::Twine("fsdp-fuse made a kernel that does not fit: ") + problem);
  CallOp last = cluster.calls.back();
  OpBuilder builder(last);
  auto launched = LaunchOp::create(builder, last.getLoc(), ValueRange(outputs).getTypes(),
                                   kernel.getSymNameAttr(), inputs.getArrayRef(), last.getPhase(),
                                   last.getScopeAttr(), /*offsets=*/nullptr);
  for (auto [output, result] : llvm::zip_equal(outputs, launched.getResults()))
    output.replaceUsesWithIf(result,
                             [&](OpOperand &use) { return !members.contains(use.getOwner()); });
  for (CallOp call : llvm::reverse(cluster.calls))
    call.erase();
  ++counts.launches;
  counts.calls += cluster.calls.size();
}

//===----------------------------------------------------------------------===//
// A step
//===----------------------------------------------------------------------===//

int64_t Fuser::countTraffic() {
  int64_t bytes = 0;
  for (Operation &op : step.getBody().front()) {
    auto call = dyn_cast<CallOp>(op);
    if (isa<LaunchOp>(op) || (call && (codegen::isElementwise(call, Rounding::Fast) ||
                                       codegen::isRowReduction(call, Rounding::Fast))))
      bytes += cost::getMovedBytes(&op);
  }
  return bytes;
}

FusionCounts Fuser::run() {
  counts.bytesBefore = countTraffic();
  for (Operation &op : llvm::make_early_inc_range(step.getBody().front())) {
    auto call = dyn_cast<CallOp>(op);
    if (call && isFusible(call))
      add(call);
    else if (call || isa<aten::ConstantOp>(op))
      closeReadBy(op);
    else
      closeAll();
  }
  closeAll();
  counts.bytesAfter = countTraffic();
  return counts;
}

namespace {
struct FusePass : public fsdp::impl::FuseBase<FusePass> {
  using FuseBase::FuseBase;

  void runOnOperation() override {
    if (failed(expectPhase(getOperation(), getArgument(), ModulePhase::Scheduled)))
      return signalPassFailure();
    if (fusion == FusionChoice::Off)
      return;
    FusionCounts counts;
    for (ModuleOp module : getSteps(getOperation()))
      for (auto step : module.getOps<func::FuncOp>()) {
        FusionCounts own =
            Fuser(module, step, fusion == FusionChoice::Exact ? Rounding::Exact : Rounding::Fast)
                .run();
        counts.kernels += own.kernels;
        counts.launches += own.launches;
        counts.calls += own.calls;
        counts.bytesBefore += own.bytesBefore;
        counts.bytesAfter += own.bytesAfter;
      }
    remark::analysis(getOperation().getLoc(),
                     remark::RemarkOpts::name("fusion").category(DEBUG_TYPE))
        << remark::metric("Kernels", counts.kernels) << remark::metric("Launches", counts.launches)
        << remark::metric("FusedCalls", counts.calls)
        << remark::metric("ElementwiseBytesBefore", counts.bytesBefore)
        << remark::metric("ElementwiseBytesAfter", counts.bytesAfter);
  }
};
} // namespace
