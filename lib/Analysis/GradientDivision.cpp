//===- GradientDivision.cpp - Divisors of gradient reductions -------------===//

#include "fsdp/Analysis/GradientDivision.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>

using namespace mlir;
using namespace fsdp;

std::string fsdp::describe(const Reduction &reduction) {
  std::string text = stringifyReduceOp(reduction.op).str();
  llvm::raw_string_ostream os(text);
  if (reduction.predivide != 1)
    os << llvm::format(" predivide %g", reduction.predivide);
  if (reduction.postdivide != 1)
    os << llvm::format(" postdivide %g", reduction.postdivide);
  return text;
}

/// True if sums of `dtype` are not divided by the collective: FSDP2 calls all dtypes but f32 and
/// bf16 at risk of overflow.
static bool isSplit(Type dtype) { return !dtype.isF32() && !dtype.isBF16(); }

/// The divisor before a sum of a dtype that may overflow: the power of two near the root of
/// `factor` that divides it.
static double getPredivision(double factor) {
  double before = 1;
  while (std::fmod(factor, before) == 0 && factor / before > before)
    before *= 2;
  return before;
}

static GradientDivision getDivisionOfStep(GroupOp group, Type dtype, int64_t shards,
                                          int64_t replicas) {
  std::optional<double> asked;
  if (std::optional<llvm::APFloat> factor = group.getGradientDivideFactor())
    asked = factor->convertToDouble();
  bool isAcross = replicas > 1, isSharded = shards > 1;
  GradientDivision division;
  if (!isSplit(dtype) && !group.getForceSumReduction()) {
    if (!asked)
      return division;
    division.across.op = ReduceOp::Sum;
    if (!isSharded)
      (isAcross ? division.across.predivide : division.alone) = *asked;
    else if (*asked != shards)
      division.scatter = {ReduceOp::PremulSum, *asked};
    return division;
  }
  double factor = asked.value_or(static_cast<double>(shards * replicas));
  double before = isSplit(dtype) ? getPredivision(factor) : 1;
  division.scatter.op = division.across.op = ReduceOp::Sum;
  (isSharded ? division.scatter : division.across).predivide = before;
  (isAcross ? division.across : division.scatter).postdivide = factor / before;
  return division;
}

GradientDivision fsdp::getGradientDivision(GroupOp group, Type dtype, int64_t shards,
                                           int64_t replicas) {
  GradientDivision division = getDivisionOfStep(group, dtype, shards, replicas);
  // Gradients that accumulate before their all-reduce over replicas are divided before the sum.
  if (shards == 1 && replicas > 1 && group.getGradientSync() == GradientSync::ReduceScatter)
    std::swap(division.alone, division.across.predivide);
  return division;
}

bool fsdp::overwritesPacked(Operation *op) {
  if (auto start = dyn_cast<ReduceScatterStartOp>(op))
    return start.getPredivide().has_value();
  auto pack = dyn_cast<PackOp>(op);
  if (!pack)
    return false;
  // Reductions over replicas, hooks and sums work in place.
  return pack.getDivisor() != 1 || llvm::any_of(pack.getResult().getUsers(), [&](Operation *user) {
           auto inStep = dyn_cast<StepOpInterface>(user);
           return inStep && llvm::any_of(user->getResults(), [&](OpResult result) {
                    return inStep.getAlias(result) == pack.getResult();
                  });
         });
}

std::optional<std::string> fsdp::checkGradientDivision(Step &step, GroupOp group) {
  if (group.getParams().empty())
    return std::nullopt;
  Type dtype = group.getReduceDtype() ? Type(*group.getReduceDtype()) : step.getDtype(group);
  const GradientDivision division =
      getGradientDivision(group, dtype, step.getShards(group), step.getReplicas(group));
  const double behind =
      step.getReplicas(group) > 1 ? division.across.postdivide : division.scatter.postdivide;
  std::string text;
  llvm::raw_string_ostream os(text);
  if (group.getAllReduceHook() && behind != 1) {
    os << "all_reduce_hook is '" << *group.getAllReduceHook()
       << llvm::format("' and gradients are divided by %g behind their last reduction", behind)
       << ", as they are reduced in " << dtype << (group.getForceSumReduction() ? " by sums" : "")
       << ": FSDP2 calls the hook before that division; reduce in f32 or bf16, without "
          "force_sum_reduction_for_comms";
    return text;
  }
  std::optional<llvm::APFloat> factor = group.getGradientDivideFactor();
  if (!factor || step.getShards(group) > 1 || factor->convertToDouble() == 1 ||
      (!isSplit(dtype) && !group.getForceSumReduction()))
    return std::nullopt;
  os << llvm::format("gradient_divide_factor is %g and ", factor->convertToDouble());
  if (group.getForceSumReduction())
    os << "reductions are to be sums";
  else
    os << "gradients are reduced in " << dtype;
  os << ": where a parameter lies on one rank alone, FSDP2 divides twice then; leave "
        "gradient_divide_factor to its default";
  return text;
}
