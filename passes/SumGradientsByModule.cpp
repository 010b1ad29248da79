//===- SumGradientsByModule.cpp - Sums of gradients in FSDP2's order ------===//

#include "fsdp/Analysis/Step.h"
#include "fsdp/Config/ModuleTree.h"
#include "fsdp/IR/Aten.h"
#include "fsdp/IR/GradientSum.h"
#include "fsdp/IR/TensorLayout.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Remarks.h"
#include "passes/Passes.h"

namespace fsdp {
#define GEN_PASS_DEF_SUMGRADIENTSBYMODULE
#include "passes/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;
using aten::CallOp;
using aten::ScopeAttr;

namespace {

/// One call of a module: the number of each module on the way to it.
struct ModuleCall {
  const Module *module;
  SmallVector<int64_t> numbers;
  bool operator==(const ModuleCall &other) const = default;
};

/// One gradient of a value, and the calls of groups' modules that contribute it, outermost first.
struct Contribution {
  Value value;
  SmallVector<ModuleCall> calls;
};

/// The additions of one sum: `additions[i]` adds contribution i + 1.
struct Chain {
  SmallVector<Contribution> contributions;
  SmallVector<CallOp> additions;
};

struct SumGradientsByModulePass
    : public fsdp::impl::SumGradientsByModuleBase<SumGradientsByModulePass> {
  void runOnOperation() override;

private:
  void findModules(Step &step);
  SmallVector<ModuleCall> listCalls(ScopeAttr scope);
  SmallVector<const Module *> listHolders(Step &step, CallOp sum);
  FailureOr<Chain> readChain(CallOp last, ArrayRef<Attribute> scopes,
                             ArrayRef<const Module *> holders);

  std::shared_ptr<ModuleTree> tree; // for this run of the pass
  llvm::SmallDenseSet<const Module *> modules;
};

} // namespace

/// Finds the modules whose inputs FSDP2 wraps. A group of several modules takes its inputs where
/// the first of them runs. The root's inputs have no gradient, and FSDP2 has no modules for parts
/// of the root.
void SumGradientsByModulePass::findModules(Step &step) {
  for (GroupOp group : step.groups) {
    if (!group.isBlock())
      continue;
    SmallVector<const Module *> held =
        llvm::map_to_vector(group.getModules().getAsValueRange<StringAttr>(),
                            [&](StringRef path) { return &tree->add(path); });
    if (held.size() == 1) {
      modules.insert(held.front());
      continue;
    }
    for (auto call : step.getBody().getOps<CallOp>()) {
      const Module &caller = tree->add(call.getModule());
      auto found = llvm::find_if(held, [&](const Module *module) { return caller.isIn(*module); });
      if (found == held.end())
        continue;
      modules.insert(*found);
      break;
    }
  }
}

SmallVector<ModuleCall> SumGradientsByModulePass::listCalls(ScopeAttr scope) {
  SmallVector<ModuleCall> calls;
  SmallVector<int64_t> numbers;
  for (const Module *module : getChain(tree->add(scope.getModule()))) {
    if (!module->isRoot())
      numbers.push_back(scope.getCall(module->depth));
    if (modules.contains(module))
      calls.push_back({module, numbers});
  }
  return calls;
}

/// The use of a call's result as a parameter's gradient; null if there is none.
static GradOp findGradient(CallOp call) {
  for (Operation *user : call->getUsers())
    if (auto grad = dyn_cast<GradOp>(user))
      return grad;
  return {};
}

/// The modules that hold the parameter whose copy in another dtype has the gradient `sum`. FSDP2
/// casts parameters in its hooks: such a copy is a parameter, not an input, of these modules.
SmallVector<const Module *> SumGradientsByModulePass::listHolders(Step &step, CallOp sum) {
  SmallVector<const Module *> holders;
  for (Operation *user : sum->getUsers()) {
    auto cast = dyn_cast<CallOp>(user);
    GradOp grad = cast && cast.getCallee() == "_to_copy.default" ? findGradient(cast) : GradOp();
    if (!grad)
      continue;
    ParamOp param = step.paramByName.lookup(grad.getParamAttr().getAttr());
    holders.push_back(&tree->addHolder(param.getSymName()));
    if (ArrayAttr aliases = param.getAliasesAttr())
      for (StringRef alias : aliases.getAsValueRange<StringAttr>())
        holders.push_back(&tree->addHolder(alias));
  }
  return holders;
}

FailureOr<Chain> SumGradientsByModulePass::readChain(CallOp last, ArrayRef<Attribute> scopes,
                                                     ArrayRef<const Module *> holders) {
  if (scopes.size() < 3 || !llvm::all_of(scopes, llvm::IsaPred<ScopeAttr>))
    return last.emitOpError("has an aten.sum of ")
           << scopes.size() << " attributes, expected a scope and those of two gradients or more";
  SmallVector<ModuleCall> made = listCalls(cast<ScopeAttr>(scopes[0]));
  ArrayRef<Attribute> from = scopes.drop_front();
  Chain chain;
  Value rest = last.getResult(0);
  for (size_t i = from.size(); i-- > 0;) {
    // A value is no input of a call that makes it, or whose module holds it.
    SmallVector<ModuleCall> calls = listCalls(cast<ScopeAttr>(from[i]));
    llvm::erase_if(calls, [&](const ModuleCall &call) {
      return llvm::is_contained(made, call) || llvm::any_of(holders, [&](const Module *holder) {
               return holder->isIn(*call.module);
             });
    });
    if (i == 0) {
      chain.contributions.push_back({rest, std::move(calls)});
      break;
    }
    auto addition = rest.getDefiningOp<CallOp>();
    if (!addition || addition.getCallee() != "add.Tensor" || addition.getOperands().size() != 2 ||
        (addition != last && !rest.hasOneUse()))
      return last.emitOpError("has an aten.sum of ")
             << from.size() << " gradients, but adds up " << from.size() - i;
    chain.contributions.push_back({addition.getOperand(1), std::move(calls)});
    chain.additions.push_back(addition);
    rest = addition.getOperand(0);
  }
  std::reverse(chain.contributions.begin(), chain.contributions.end());
  std::reverse(chain.additions.begin(), chain.additions.end());
  return chain;
}

/// The end of the run of contributions from the same call, at nesting `depth`, as the one at
/// `begin`.
static size_t findRun(const Chain &chain, size_t begin, size_t end, size_t depth) {
  const Contribution &first = chain.contributions[begin];
  size_t next = begin + 1;
  if (first.calls.size() <= depth)
    return next;
  while (next < end && chain.contributions[next].calls.size() > depth &&
         chain.contributions[next].calls[depth] == first.calls[depth])
    ++next;
  return next;
}

/// True if autograd under FSDP2 adds up in the order of the chain.
static bool isInOrder(const Chain &chain, size_t begin, size_t end, size_t depth) {
  for (size_t i = begin; i < end;) {
    size_t next = findRun(chain, i, end, depth);
    if (next > i + 1 && (i > begin || !isInOrder(chain, i, next, depth + 1)))
      return false;
    i = next;
  }
  return true;
}

/// Sets the strides of the sum as torch does: the sum of two contiguous tensors is contiguous,
/// whatever the strides of the addition that it replaces.
static void setSumType(CallOp addition) {
  auto isContiguousValue = [](Value value) {
    return isContiguous(cast<RankedTensorType>(value.getType()));
  };
  if (!llvm::all_of(addition.getOperands(), isContiguousValue))
    return;
  Value sum = addition.getResult(0);
  auto type = cast<RankedTensorType>(sum.getType());
  sum.setType(RankedTensorType::get(type.getShape(), type.getElementType()));
}

/// Adds up contributions that share their first `depth` calls.
static Value addUp(const Chain &chain, size_t begin, size_t end, size_t depth) {
  Value sum;
  for (size_t i = begin; i < end;) {
    size_t next = findRun(chain, i, end, depth);
    Value part = next == i + 1 ? chain.contributions[i].value : addUp(chain, i, next, depth + 1);
    if (!sum) {
      sum = part;
    } else {
      // At the addition of the last contribution.
      CallOp model = chain.additions[next - 2];
      OpBuilder builder(model);
      auto addition = cast<CallOp>(builder.clone(*model));
      addition->setOperands({sum, part});
      const bool isWhole = depth == 0 && next == end; // users were captured with its strides
      if (!isWhole)
        setSumType(addition);
      sum = addition.getResult(0);
    }
    i = next;
  }
  return sum;
}

void SumGradientsByModulePass::runOnOperation() {
  FailureOr<Step> step = Step::collect(getOperation());
  if (failed(step) || failed(expectPhase(step->module, getArgument(), {ModulePhase::Captured})))
    return signalPassFailure();
  tree = std::make_shared<ModuleTree>();
  modules.clear();
  findModules(*step);
  int64_t numReordered = 0;
  for (CallOp call : llvm::make_early_inc_range(step->getBody().getOps<CallOp>())) {
    auto scopes = call->getAttrOfType<ArrayAttr>(aten::kGradientSumAttrName);
    if (!scopes)
      continue;
    call->removeAttr(aten::kGradientSumAttrName);
    FailureOr<Chain> chain = readChain(call, scopes.getValue(), listHolders(*step, call));
    if (failed(chain))
      return signalPassFailure();
    if (isInOrder(*chain, 0, chain->contributions.size(), 0))
      continue;
    call.getResult(0).replaceAllUsesWith(addUp(*chain, 0, chain->contributions.size(), 0));
    for (CallOp addition : llvm::reverse(chain->additions))
      addition.erase();
    ++numReordered;
  }
  remark::analysis(step->function.getLoc(),
                   remark::RemarkOpts::name("GradientSums").category(getArgument()))
      << remark::metric("Reordered", numReordered);
}
