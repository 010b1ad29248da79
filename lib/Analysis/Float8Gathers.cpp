//===- Float8Gathers.cpp - Gathers of parameters as float8 ----------------===//

#include "fsdp/Analysis/Float8Gathers.h"

#include "ShardingDiagnostics.h"
#include "fsdp/Analysis/GradientDivision.h"

using namespace mlir;
using namespace fsdp;

PartialAmaxOp fsdp::findPartialAmax(Value total) {
  auto wait = total ? total.getDefiningOp<AllReduceWaitOp>() : AllReduceWaitOp();
  return wait ? wait.getStart().getSource().getDefiningOp<PartialAmaxOp>() : PartialAmaxOp();
}

static FlatSymbolRefAttr getGroup(Value shard) {
  return cast<ShardType>(shard.getType()).getGroup();
}

std::optional<int64_t> fsdp::findAmaxBegin(PartialAmaxOp part, FlatSymbolRefAttr group) {
  int64_t begin = 0;
  for (Value shard : part.getShards()) {
    if (getGroup(shard) == group)
      return begin;
    auto op = SymbolTable::lookupNearestSymbolFrom<GroupOp>(part, getGroup(shard));
    begin += op.getParams().size();
  }
  return std::nullopt;
}

/// The values of whole parameters, of which `user` takes those of `group`.
static LogicalResult checkTotal(Step &step, Operation *user, Value total, GroupOp group) {
  const std::string name = ("group @" + group.getSymName()).str();
  PartialAmaxOp part = findPartialAmax(total);
  if (!part)
    return fail(user,
                "S2: the amax by which " + name + " is gathered as float8 is not that of all " +
                    Twine(step.getShards(group)) + " ranks, from a " +
                    AllReduceWaitOp::getOperationName() + " of a " +
                    PartialAmaxOp::getOperationName(),
                total ? total.getDefiningOp() : nullptr, "it is made here");
  if (!findAmaxBegin(part, FlatSymbolRefAttr::get(group.getSymNameAttr())))
    return fail(user, "S2: the amax by which " + name + " is gathered as float8 lacks its shard",
                part, "it is taken here");
  return success();
}

static LogicalResult checkPart(Step &step, PartialAmaxOp part, PartialAmaxOp other) {
  if (other)
    return fail(part, "S2: the amax of parameters is taken twice", other, "the first time is here");
  MeshOp mesh;
  StringAttr axis;
  DenseSet<Attribute> taken;
  for (Value shard : part.getShards()) {
    GroupOp group = step.groups[step.groupByName.lookup(getGroup(shard).getAttr())];
    if (!shard.getDefiningOp<ShardOp>())
      return fail(part,
                  "S2: the amax of group @" + group.getSymName() + " is not taken of its shard",
                  shard.getDefiningOp(), "made here");
    if (!taken.insert(getGroup(shard)).second)
      return fail(part, "S2: the amax of group @" + group.getSymName() + " is taken twice", group,
                  "the group is declared here");
    if (mesh && mesh != step.getMesh(group))
      return fail(part,
                  "S2: the amax is taken of groups of several meshes, as @" + group.getSymName(),
                  group, "the group is declared here");
    mesh = step.getMesh(group);
    axis = group.getAxisAttr();
  }
  auto start = part.getResult().hasOneUse()
                   ? dyn_cast<AllReduceStartOp>(*part.getResult().getUsers().begin())
                   : AllReduceStartOp();
  if (!start)
    return fail(part, "S2: the amax of this rank's shards is not the operand of one all-reduce",
                nullptr, "");
  const Reduction reduction = getReduction(start), expected{ReduceOp::Max};
  auto axes = ArrayAttr::get(part.getContext(), axis);
  if (reduction == expected && start.getAxes() == axes)
    return success();
  std::string got, wanted;
  llvm::raw_string_ostream(got) << start.getAxes();
  llvm::raw_string_ostream(wanted) << axes;
  return fail(start,
              "S2: reduces the amax of parameters by " + describe(reduction) + " over " + got +
                  ", expected " + describe(expected) + " over " + wanted,
              nullptr, "");
}

LogicalResult fsdp::checkFloat8Gathers(Step &step) {
  PartialAmaxOp part;
  for (Operation &op : step.getBody()) {
    if (auto taken = dyn_cast<PartialAmaxOp>(op)) {
      if (failed(checkPart(step, taken, part)))
        return failure();
      part = taken;
    } else if (auto encode = dyn_cast<EncodeOp>(op); encode && encode.getAmax()) {
      GroupOp group =
          step.groups[step.groupByName.lookup(encode.getSource().getType().getGroup().getAttr())];
      if (failed(checkTotal(step, encode, encode.getAmax(), group)))
        return failure();
    } else if (auto amax = dyn_cast<AmaxOp>(op)) {
      auto member = step.memberByParam.find(amax.getParamAttr().getAttr());
      GroupOp group = step.groups[member->second.group];
      if (!group.isGatheredAsFloat8())
        return fail(amax,
                    "S2: the amax of parameter @" + amax.getParam() +
                        " is read, which is not gathered as float8",
                    group, "its group is declared here");
      if (failed(checkTotal(step, amax, amax.getTotal(), group)))
        return failure();
    }
  }
  return success();
}
