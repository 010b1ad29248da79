//===- FsdpGroup.cpp - Groups of parameters -------------------------------===//

#include "fsdp/IR/Fsdp.h"
#include "fsdp/IR/Limits.h"

#include "SymbolChecks.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace fsdp;

bool GroupOp::isRoot() {
  return getModules().size() == 1 && cast<StringAttr>(getModules()[0]).getValue().empty();
}

std::string GroupOp::getModuleName() {
  if (isRoot())
    return "root";
  return llvm::join(llvm::map_range(getModules().getAsRange<StringAttr>(),
                                    [](StringAttr module) { return module.getValue(); }),
                    ", ");
}

StringAttr GroupOp::getReason(Subject subject) {
  if (ArrayAttr decisions = getDecisionsAttr())
    for (auto decision : decisions.getAsRange<DecisionAttr>())
      if (decision.getSubject() == subject)
        return decision.getReason();
  return {};
}

void GroupOp::setReason(Subject subject, const Twine &reason) {
  SmallVector<Attribute> decisions;
  if (ArrayAttr earlier = getDecisionsAttr())
    for (auto decision : earlier.getAsRange<DecisionAttr>())
      if (decision.getSubject() != subject)
        decisions.push_back(decision);
  decisions.push_back(
      DecisionAttr::get(getContext(), subject, StringAttr::get(getContext(), reason)));
  setDecisionsAttr(ArrayAttr::get(getContext(), decisions));
}

/// Checks a dtype of the group's collectives: its parameters' own, or for f32 a narrower one.
static LogicalResult checkTravelDtype(GroupOp group, Type dtype, StringRef what, ParamOp param) {
  if (!dtype || !param)
    return success();
  Type own = cast<RankedTensorType>(param.getType()).getElementType();
  if (Float8CastAttr float8 = group.getFloat8CastAttr(); float8 && what == "gather_dtype") {
    if (dtype == float8.getDtype())
      return success();
    return group.emitOpError("has gather_dtype ")
           << dtype << ", but float8_cast casts its parameters to " << float8.getDtype();
  }
  if (dtype == own || (own.isF32() && (dtype.isBF16() || dtype.isF16())))
    return success();
  MLIRContext *context = group.getContext();
  InFlightDiagnostic diag = group.emitOpError("has ")
                            << what << ' ' << dtype << " for parameters of " << own
                            << "; expected theirs, or " << BFloat16Type::get(context) << " or "
                            << Float16Type::get(context) << " for parameters of f32";
  diag.attachNote(param.getLoc()) << "declared here";
  return diag;
}

/// Checks requested and decided dtypes.
static LogicalResult checkTravelDtypes(GroupOp group, ParamOp param) {
  auto decided = [](TypeAttr dtype) { return dtype ? dtype.getValue() : Type(); };
  SmallVector<std::pair<Type, StringRef>> dtypes = {
      {decided(group.getGatherDtypeAttr()), "gather_dtype"},
      {decided(group.getReduceDtypeAttr()), "reduce_dtype"}};
  if (MixedPrecisionAttr asked = group.getMixedPrecisionAttr()) {
    dtypes.push_back({asked.getParamDtype(), "param_dtype"});
    dtypes.push_back({asked.getReduceDtype(), "reduce_dtype"});
  }
  for (auto [dtype, what] : dtypes)
    if (failed(checkTravelDtype(group, dtype, what, param)))
      return failure();
  return success();
}

/// A subject is decided once, with a reason. `auto` is no decision.
static LogicalResult checkDecisions(GroupOp group) {
  if (group.getRecomputed() == RecomputePolicy::Auto)
    return group.emitOpError("has recomputed auto, expected the policy that was decided");
  if (!group.getDecisions())
    return success();
  llvm::SmallDenseSet<Subject> subjects;
  for (auto decision : group.getDecisionsAttr().getAsRange<DecisionAttr>()) {
    StringRef subject = stringifySubject(decision.getSubject());
    if (!subjects.insert(decision.getSubject()).second)
      return group.emitOpError("has two decisions of ") << subject << ", expected one";
    if (decision.getReason().getValue().trim().empty())
      return group.emitOpError("has a decision of ") << subject << " without a reason";
  }
  return success();
}

/// One dimension per parameter, which exists and, if it is not dimension 0, is divisible by the
/// ranks.
static LogicalResult checkShardDims(GroupOp group, ArrayRef<ParamOp> params, int64_t ranks) {
  std::optional<ArrayRef<int64_t>> dims = group.getShardDims();
  if (!dims)
    return success();
  if (group.getLayout() == Layout::Flat)
    return group.emitOpError(
        "has shard_dims and the flat layout, which cuts no dimension; expected "
        "the per_param layout");
  if (dims->size() != params.size())
    return group.emitOpError("has ") << dims->size() << " shard_dims, expected one for each of its "
                                     << params.size() << " parameters";
  for (auto [dim, param] : llvm::zip_equal(*dims, params)) {
    ParamOp op = param; // accessors of operations are not const
    auto shape = cast<RankedTensorType>(op.getType()).getShape();
    const bool isThere = dim >= 0 && dim < std::max<int64_t>(shape.size(), 1);
    if (isThere && (dim == 0 || shape[dim] % ranks == 0))
      continue;
    InFlightDiagnostic diag = group.emitOpError("cuts parameter @")
                              << op.getSymName() << " on dimension " << dim;
    if (isThere)
      diag << ", whose size " << shape[dim] << " is not divisible by the " << ranks
           << " ranks of axis '" << group.getAxis() << "'; only dimension 0 is padded";
    else
      diag << ", but it has " << shape.size() << " dimensions";
    diag.attachNote(op.getLoc()) << "declared here";
    return diag;
  }
  return success();
}

static InFlightDiagnostic refuse(GroupOp group, const Twine &what, const Twine &why) {
  return group.emitOpError("@") << group.getSymName() << " has " << what << " and " << why;
}

/// Each rank encodes its part of f32 parameters, in memory of the device, for gathers from all
/// ranks.
static LogicalResult checkEncoded(GroupOp group, const Twine &what, ParamOp param, int64_t ranks) {
  if (ranks == 1)
    return refuse(group, what, "shards on 1 rank, where nothing is gathered; expected at least 2");
  if (std::optional<int64_t> kept = group.getReshardRanks())
    return refuse(group, what,
                  "keeps chunks over " + Twine(*kept) +
                      " ranks; expected reshard_after_forward true or false");
  if (group.areParametersOnHost())
    return refuse(group, what, "offload_policy cpu; expected none");
  Type own = param ? cast<RankedTensorType>(param.getType()).getElementType() : Type();
  if (!own || own.isF32())
    return success();
  InFlightDiagnostic diag = refuse(group, what, "parameters of ");
  diag << own << "; expected f32";
  diag.attachNote(param.getLoc()) << "declared here";
  return diag;
}

/// An extension encodes contiguous shards.
static LogicalResult checkExtension(GroupOp group, ParamOp param, int64_t ranks) {
  AllGatherExtensionAttr extension = group.getAllGatherExtensionAttr();
  if (!extension)
    return success();
  const std::string what = ("all_gather_extension " + extension.getName().getValue()).str();
  if (group.getLayout() == Layout::Flat)
    return refuse(group, what,
                  "the flat layout; expected per_param, in which each rank holds a part of each "
                  "parameter");
  for (auto [index, dim] : llvm::enumerate(group.getShardDims().value_or(ArrayRef<int64_t>())))
    if (dim != 0)
      return refuse(group, what,
                    "cuts parameter " +
                        cast<FlatSymbolRefAttr>(group.getParams()[index]).getValue() +
                        " on dimension " + Twine(dim) + "; expected 0");
  return checkEncoded(group, what, param, ranks);
}

static LogicalResult checkFloat8Cast(GroupOp group, ParamOp param, int64_t ranks) {
  if (!group.getFloat8Cast())
    return success();
  if (group.getAllGatherExtension())
    return refuse(group, "a float8_cast", "an all_gather_extension; expected one of them");
  return checkEncoded(group, "a float8_cast", param, ranks);
}

LogicalResult Float8CastAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, Type dtype,
                                     Type from, Type scale, FloatAttr eps, bool) {
  if (!isa<Float8E4M3FNType, Float8E5M2Type>(dtype))
    return emitError() << "float8_cast casts to " << dtype << ", expected f8E4M3FN or f8E5M2";
  if (from && !from.isBF16() && !from.isF16())
    return emitError() << "float8_cast rounds parameters to " << from << ", expected bf16 or f16";
  if (!scale.isF32() && !scale.isF64())
    return emitError() << "float8_cast computes the scale in " << scale << ", expected f32 or f64";
  if (!eps.getType().isF64() || !(eps.getValueAsDouble() > 0))
    return emitError() << "float8_cast has eps " << eps << ", expected an f64 above 0";
  return success();
}

LogicalResult AllGatherExtensionAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError,
                                             StringAttr name, int64_t bytesPerElement,
                                             int64_t bytesPerPart) {
  if (std::optional<std::string> wrong =
          checkExtensionSizes(name.getValue(), bytesPerElement, bytesPerPart))
    return emitError() << *wrong;
  return success();
}

LogicalResult GroupOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (failed(checkDecisions(*this)))
    return failure();
  FailureOr<MeshOp> mesh = resolve<MeshOp>(*this, getMeshAttr(), symbols, "mesh");
  if (failed(mesh))
    return failure();
  // The shards of one replica have consecutive ranks.
  SmallVector<StringAttr, 2> axes;
  if (StringAttr replicated = getReplicateAxisAttr())
    axes.push_back(replicated);
  axes.push_back(getAxisAttr());
  if (!llvm::equal(mesh->getAxes().getAsRange<StringAttr>(), axes)) {
    InFlightDiagnostic diag = emitOpError("is ");
    if (getReplicateAxis())
      diag << "replicated over axis '" << *getReplicateAxis() << "' and ";
    diag << "sharded over axis '" << getAxis() << "', but mesh " << getMeshAttr() << " has "
         << (mesh->getAxes().size() == 1 ? "axis " : "axes ");
    llvm::interleaveComma(mesh->getAxes().getAsRange<StringAttr>(), diag,
                          [&](StringAttr axis) { diag << "'" << axis.getValue() << "'"; });
    diag.attachNote(mesh->getLoc()) << "declared here";
    return diag;
  }
  if (std::optional<int64_t> kept = getReshardRanks()) {
    int64_t ranks = mesh->getSizes().back();
    if (getReshardAfterForward() != Reshard::Always && getReshardAfterForward() != Reshard::Auto)
      return emitOpError("keeps chunks over ")
             << *kept << " ranks, but its reshard_after_forward is "
             << stringifyReshard(getReshardAfterForward()) << ", expected true or auto";
    // A schedule may keep the whole group on a host of one rank.
    const bool isAlone = *kept == 1 && getReshardAfterForward() == Reshard::Auto;
    if ((*kept <= 1 && !isAlone) || *kept >= ranks || ranks % *kept != 0)
      return emitOpError("keeps chunks over ")
             << *kept << " ranks, expected a factor of the " << ranks << " of axis '" << getAxis()
             << "', other than 1 and all";
  }
  ParamOp first, frozen;
  SmallVector<ParamOp> params;
  for (Attribute name : getParams()) {
    auto symbol = cast<FlatSymbolRefAttr>(name);
    FailureOr<ParamOp> param = resolve<ParamOp>(*this, symbol, symbols, "parameter");
    if (failed(param))
      return failure();
    params.push_back(*param);
    if (!first)
      first = *param;
    Type element = cast<RankedTensorType>(param->getType()).getElementType();
    Type expected = cast<RankedTensorType>(first.getType()).getElementType();
    if (element != expected) {
      InFlightDiagnostic diag = emitOpError("holds parameter ")
                                << symbol << " of " << element << " beside @" << first.getSymName()
                                << " of " << expected << "; a group has one dtype";
      diag.attachNote(param->getLoc()) << "declared here";
      return diag;
    }
    if (frozen && !param->getFrozen()) {
      InFlightDiagnostic diag = emitOpError("has parameter ")
                                << symbol << " behind @" << frozen.getSymName()
                                << ", which is frozen; frozen parameters are last";
      diag.attachNote(frozen.getLoc()) << "declared here";
      return diag;
    }
    if (param->getFrozen())
      frozen = *param;
  }
  if (failed(checkShardDims(*this, params, mesh->getSizes().back())) ||
      failed(checkExtension(*this, first, mesh->getSizes().back())) ||
      failed(checkFloat8Cast(*this, first, mesh->getSizes().back())))
    return failure();
  for (ArrayAttr list : {getForwardPrefetchAttr(), getBackwardPrefetchAttr()})
    for (Attribute name : list ? list.getValue() : ArrayRef<Attribute>()) {
      auto symbol = cast<FlatSymbolRefAttr>(name);
      if (failed(resolve<GroupOp>(*this, symbol, symbols, "group")))
        return failure();
      if (symbol.getAttr() == getSymNameAttr())
        return emitOpError("prefetches itself, @") << getSymName();
    }
  if (frozen && !first.getFrozen() && getLayout() == Layout::Flat)
    return emitOpError("has the flat layout and holds frozen parameters, as @")
           << frozen.getSymName() << ", beside others, as @" << first.getSymName()
           << "; put them into groups of their own, or use the per_param layout";
  if (std::optional<llvm::APFloat> factor = getGradientDivideFactor())
    if (std::optional<std::string> problem = checkDivideFactor(factor->convertToDouble()))
      return emitOpError("gradient_divide_factor ") << *problem;
  if (std::optional<StringRef> hook = getAllReduceHook())
    if (std::optional<std::string> problem = checkExtensionName(*hook))
      return emitOpError("all_reduce_hook ") << *problem;
  return checkTravelDtypes(*this, first);
}
