//===- Float8Gathers.cpp - Groups that are gathered as float8 -------------===//

#include "fsdp/Transforms/Float8Gathers.h"

#include "fsdp/IR/AtenBuilders.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace fsdp;
using aten::CallOp;

//===----------------------------------------------------------------------===//
// Requests
//===----------------------------------------------------------------------===//

/// True if some group may be asked to gather parameters as float8.
static bool asksFloat8(const ShardingConfig &choices) {
  auto asks = [](const GroupOptions &options) {
    return options.mixedPrecision && options.mixedPrecision->getFloat8();
  };
  return choices.mixedPrecision.getFloat8() || asks(choices.root) ||
         (choices.groups &&
          llvm::any_of(*choices.groups, [&](const GroupRule &rule) { return asks(rule.options); }));
}

Float8CastsByParam fsdp::findAskedCasts(Step &step, const ShardingConfig &choices) {
  return asksFloat8(choices) ? findFloat8Casts(step) : Float8CastsByParam();
}

std::optional<GatherDtype> fsdp::getGatherDtype(const Float8CastsByParam &casts, ParamOp param) {
  auto found = casts.find(param.getSymNameAttr());
  if (found == casts.end() || !found->second.canGather())
    return std::nullopt;
  return isa<Float8E4M3FNType>(found->second.cast.getDtype()) ? GatherDtype::Float8E4M3
                                                              : GatherDtype::Float8E5M2;
}

llvm::Error fsdp::checkFloat8Requests(Step &step, const ShardingConfig &choices,
                                      ArrayRef<ParamGroup> groups,
                                      const Float8CastsByParam &casts) {
  bool isMet = false, isSharded = false;
  const std::optional<GatherDtype> ofAll = choices.mixedPrecision.getFloat8();
  for (const ParamGroup &group : groups) {
    const auto asked = group.options.mixedPrecision.value_or(choices.mixedPrecision).getFloat8();
    if (!asked || group.options.mesh->axes.back().size == 1)
      continue;
    isSharded = true;
    isMet |= group.isFloat8;
    Float8CastAttr cast;
    StringRef first;
    for (unsigned index : group.params) {
      ParamOp param = step.params[index];
      auto found = casts.find(param.getSymNameAttr());
      if (found == casts.end())
        continue;
      if (!found->second.problem.empty())
        return failAt(choices, group.place,
                      "parameter @" + param.getSymName() + " cannot be gathered as " +
                          getName(*asked) +
                          ", to which the model casts it: " + found->second.problem);
      if (!group.isFloat8)
        continue;
      if (cast && cast != found->second.cast)
        return failAt(choices, group.place,
                      "parameters @" + first + " and @" + param.getSymName() +
                          " are cast to float8 in two ways; put their modules into groups of "
                          "their own, or gather one of them in param_dtype");
      cast = found->second.cast;
      first = param.getSymName();
    }
    auto isOfRoot = [](const ParamGroup &part) {
      return part.partOf == "" || part.modules.front().empty();
    };
    const bool isOwn = group.options.mixedPrecision.has_value();
    const bool isBeside = llvm::any_of(groups, [&](const ParamGroup &other) {
      return other.isFloat8 &&
             (other.modules == group.modules || (isOfRoot(other) && isOfRoot(group)));
    });
    if (isOwn && !isBeside)
      return failAt(choices, group.place,
                    "gather_dtype is " + getName(*asked) +
                        ", but the model casts no parameter of "
                        "'" +
                        llvm::join(group.modules, ", ") +
                        "' to it by a scale of its largest absolute value");
  }
  if (ofAll && isSharded && !isMet)
    return failAt(choices, {},
                  "gather_dtype is " + getName(*ofAll) +
                      ", but the model casts no parameter to it by a scale of its largest absolute "
                      "value");
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Reads
//===----------------------------------------------------------------------===//

LogicalResult fsdp::checkFloat8Casts(Step &step, GroupOp group, const Float8CastsByParam &casts) {
  for (ParamOp param : step.getParams(group)) {
    auto found = casts.find(param.getSymNameAttr());
    const bool isCast = found != casts.end();
    if (isCast && found->second.canGather() && found->second.cast == group.getFloat8CastAttr())
      continue;
    InFlightDiagnostic diag = group.emitError("group @")
                              << group.getSymName() << " cannot be gathered as "
                              << group.getFloat8CastAttr().getDtype() << ": parameter @"
                              << param.getSymName();
    if (!isCast)
      return diag << " is not cast to it";
    if (found->second.problem.empty())
      return diag << " is cast by " << found->second.cast << ", expected "
                  << group.getFloat8CastAttr();
    diag << " is cast to it, but " << found->second.problem;
    diag.attachNote(found->second.place->getLoc()) << "used here";
    return diag;
  }
  return success();
}

/// Erases the operation, and those that only it uses, if nothing uses it.
static void eraseUnused(Operation *op, DenseSet<Operation *> &erased) {
  if (!op || erased.contains(op) || !op->use_empty() || !isa<CallOp, ReadOp>(op))
    return;
  SmallVector<Operation *> makers;
  for (Value operand : op->getOperands())
    makers.push_back(operand.getDefiningOp());
  erased.insert(op);
  op->erase();
  for (Operation *maker : makers)
    eraseUnused(maker, erased);
}

static Type getElementType(Value value) {
  return cast<RankedTensorType>(value.getType()).getElementType();
}

unsigned fsdp::readAsFloat8(Step &step, GroupOp group, const Float8CastsByParam &casts) {
  unsigned numCasts = 0;
  for (ParamOp param : step.getParams(group)) {
    const Float8Casts &own = casts.find(param.getSymNameAttr())->second;
    auto name = FlatSymbolRefAttr::get(param.getSymNameAttr());
    ReadOp first = own.reads.front();
    OpBuilder builder(first);
    auto type = cast<RankedTensorType>(param.getType());
    Value read = ReadOp::create(builder, first.getLoc(), type.clone(own.cast.getDtype()), name);
    Value amax = AmaxOp::create(builder, first.getLoc(),
                                RankedTensorType::get({}, builder.getF32Type()), name,
                                /*total=*/Value());
    SmallVector<Operation *> replaced;
    for (CallOp call : own.casts) {
      // The cast, perhaps the limits, and the product.
      auto product = call;
      while (product.getCallee() != "mul.Tensor")
        product = product.getOperand(0).getDefiningOp<CallOp>();
      Value scaled = product.getOperand(0);
      if (cast<RankedTensorType>(scaled.getType()).getRank() == 0) // the scale
        scaled = product.getOperand(1);
      builder.setInsertionPoint(call);
      Value made = makeViewOf(builder, scaled, read, call.getPhase());
      call.getResult(0).replaceAllUsesWith(made);
      replaced.push_back(call);
    }
    for (CallOp call : own.amaxes) {
      Value value = amax;
      builder.setInsertionPoint(call);
      auto castTo = [&](Type dtype) {
        if (dtype && dtype != getElementType(value))
          value = aten::castTo(builder, call.getLoc(), value, dtype, call.getPhase(),
                               call.getScopeAttr());
      };
      castTo(own.cast.getFrom()); // the largest of rounded numbers is the largest, rounded
      castTo(getElementType(call.getResult(0)));
      call.getResult(0).replaceAllUsesWith(value);
      replaced.push_back(call);
    }
    numCasts += own.casts.size();
    DenseSet<Operation *> erased;
    for (Operation *op : replaced)
      eraseUnused(op, erased);
  }
  return numCasts;
}
