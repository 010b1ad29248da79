//===- FusionClusters.cpp - Clusters of calls that form one kernel --------===//

#include "passes/FusionClusters.h"

#include "fsdp/Codegen/KernelShape.h"
#include "fsdp/Codegen/Rearrangement.h"
#include "fsdp/Codegen/ScalarCode.h"
#include "fsdp/CostModel/OperatorWork.h"
#include "passes/FusionLimits.h"

using namespace mlir;
using namespace fsdp;
using aten::CallOp;

/// Number of a call's cluster if the call has not joined one yet.
static constexpr unsigned kUnplaced = -1;
/// Limit on the clusters that one query visits, which keeps compilation linear.
static constexpr size_t kMostVisited = 64;
/// Limit on the clusters considered that read the same value.
static constexpr size_t kMostBeside = 4;

static ArrayRef<int64_t> getShape(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

bool fsdp::isGradientCast(CallOp call) {
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

static bool isFloatConcatenation(CallOp call) {
  if (!codegen::isColumnConcatenation(call))
    return false;
  auto type = cast<RankedTensorType>(call.getResult(0).getType());
  return codegen::isKernelElement(type.getElementType()) && type.getShape().back() <= 8192;
}

/// True for a copy of an activation to or from the host. Kernels may cross it as far as their
/// operands and readers allow, since it reads or makes one value only.
static bool isActivationCopy(Operation &op) {
  return isa<StoreStartOp, StoreWaitOp, FetchStartOp, FetchWaitOp>(op) && !getGroupOf(&op);
}

bool fsdp::endsWindow(Operation &op) {
  return !isa<CallOp, aten::ConstantOp>(op) && !isActivationCopy(op);
}

FusionClusters::FusionClusters(func::FuncOp step, Rounding rounding) : rounding(rounding) {
  unsigned begin = 0;
  auto endWindow = [&] {
    windowEnds.resize(operations.size(), operations.size());
    begin = operations.size() + 1;
  };
  for (Operation &op : step.getBody().front()) {
    auto call = dyn_cast<CallOp>(op);
    if (endsWindow(op))
      endWindow();
    positions[&op] = operations.size();
    operations.push_back(&op);
    windowBegins.push_back(begin);
    if (call && !isGradientCast(call) &&
        (codegen::isElementwise(call, rounding) || codegen::isRowReduction(call, rounding) ||
         codegen::isRowOperator(call, rounding) || codegen::isColumnSum(call, rounding) ||
         isFloatConcatenation(call)))
      owners[call] = kUnplaced;
  }
  endWindow();
}

Value FusionClusters::getRoot(Value value) {
  for (auto call = value.getDefiningOp<CallOp>(); call && call.isView();
       call = value.getDefiningOp<CallOp>())
    value = call.getOperand(0);
  return value;
}

Value FusionClusters::findMember(Value operand, function_ref<bool(Operation *)> isMember) {
  for (Operation *op = operand.getDefiningOp(); op; op = operand.getDefiningOp()) {
    if (isMember(op))
      return operand;
    auto call = dyn_cast<CallOp>(op);
    if (!call || !codegen::isKernelView(call))
      return {};
    operand = call.getOperand(0);
  }
  return {};
}

void FusionClusters::forReaders(Value value, function_ref<void(Operation *)> visit) {
  for (Operation *user : value.getUsers()) {
    auto call = dyn_cast<CallOp>(user);
    if (!call || !call.isView())
      visit(user);
    else
      forReaders(user, visit);
  }
}

void FusionClusters::forReaders(Operation *op, function_ref<void(Operation *)> visit) {
  for (Value result : op->getResults())
    forReaders(result, visit);
}

bool FusionClusters::canWait(Operation *op) const {
  auto call = dyn_cast<CallOp>(op);
  if (!call || isFusible(op) || cost::countWork(call).arithmetic != cost::Arithmetic::MatrixProduct)
    return false;
  bool isWanted = false, canWait = true;
  forReaders(call, [&](Operation *reader) {
    isWanted = true;
    canWait &= !isFusible(reader);
  });
  return isWanted && canWait;
}

unsigned FusionClusters::getDeadline(Operation *reader) const {
  if (!canWait(reader))
    return getPosition(reader);
  unsigned deadline = windowEnds[getPosition(reader)];
  forReaders(reader, [&](Operation *next) { deadline = std::min(deadline, getPosition(next)); });
  return deadline;
}

//===----------------------------------------------------------------------===//
// Conditions for one kernel
//===----------------------------------------------------------------------===//

bool FusionClusters::contains(const Union &all, Operation *op) const {
  auto owner = owners.find(op);
  return owner != owners.end() && (op == all.added || llvm::is_contained(all.parts, owner->second));
}

unsigned FusionClusters::countTensors(const Union &all) const {
  auto isMember = [&](Operation *op) { return contains(all, op); };
  llvm::SmallPtrSet<Value, 16> inputs;
  unsigned outputs = 0;
  auto isReadOutside = [&](auto &self, Value value) -> bool {
    return llvm::any_of(value.getUsers(), [&](Operation *user) {
      auto call = dyn_cast<CallOp>(user);
      if (call && codegen::isKernelView(call))
        return llvm::any_of(call.getResults(), [&](Value view) { return self(self, view); });
      return !isMember(user);
    });
  };
  auto count = [&](CallOp call) {
    for (Value operand : call.getOperands())
      if (!findMember(operand, isMember))
        inputs.insert(operand);
    outputs += isReadOutside(isReadOutside, call.getResult(0));
  };
  for (Number part : all.parts)
    llvm::for_each(clusters[part].calls, count);
  count(all.added);
  return inputs.size() + outputs;
}

/// True if all calls, and the views through which they read each other, enumerate their rows by the
/// same dimensions, or if one flattened dimension can enumerate the rows of all.
bool FusionClusters::canShareRows(ArrayRef<CallOp> calls) const {
  auto getRows = [&](Value value) { return codegen::getRowShape(getShape(value)); };
  const auto rows = getRows(CallOp(calls.front()).getResult(0));
  const llvm::SmallPtrSet<Operation *, 16> members(calls.begin(), calls.end());
  auto isMember = [&](Operation *op) { return members.contains(op); };
  auto isReadAlike = [&](Value operand) {
    if (!findMember(operand, isMember))
      return true;
    for (; !isMember(operand.getDefiningOp()); operand = operand.getDefiningOp()->getOperand(0))
      if (getRows(operand) != rows)
        return false;
    return true;
  };
  return llvm::all_of(calls,
                      [&](CallOp call) {
                        return getRows(call.getResult(0)) == rows &&
                               llvm::all_of(call.getOperands(), isReadAlike);
                      }) ||
         llvm::all_of(calls, [&](CallOp call) { return codegen::canFlatten(call, rounding); });
}

bool FusionClusters::canBeOne(const Union &all) const {
  const unsigned window = windowBegins[getPosition(all.added)];
  auto isMember = [&](Operation *op) { return contains(all, op); };
  auto isHere = [&](Operation *op) { return windowBegins[getPosition(op)] == window; };
  SmallVector<CallOp> members;
  for (Number part : all.parts)
    llvm::append_range(members, clusters[part].calls);
  members.push_back(all.added);
  if (members.size() > kMostFusedCalls || !canShareRows(members))
    return false;

  // Upwards: the last operation that must precede the launch.
  unsigned begin = 0;
  llvm::SmallDenseSet<Number, 16> visited;
  SmallVector<CallOp> work(members);
  for (size_t i = 0; i < work.size(); ++i)
    for (Value operand : work[i].getOperands()) {
      if (isMember(work[i]) && findMember(operand, isMember))
        continue;
      Operation *source = getRoot(operand).getDefiningOp();
      if (!source || !isHere(source))
        continue;
      if (isMember(source)) // the cluster would read back its own result from memory
        return false;
      if (auto owner = owners.find(source); owner == owners.end())
        begin = std::max(begin, getPosition(source) + 1);
      else if (visited.insert(owner->second).second)
        llvm::append_range(work, clusters[owner->second].calls);
      if (visited.size() > kMostVisited)
        return false;
    }
  // Downwards: the first operation that must follow the launch.
  unsigned end = windowEnds[getPosition(all.added)];
  visited.clear();
  work = members;
  for (size_t i = 0; i < work.size(); ++i)
    forReaders(work[i].getResult(0), [&](Operation *reader) {
      if (isMember(reader) || !isHere(reader))
        return;
      auto owner = owners.find(reader);
      if (owner == owners.end())
        end = std::min(end, getDeadline(reader));
      else if (owner->second != kUnplaced && visited.insert(owner->second).second)
        llvm::append_range(work, clusters[owner->second].calls);
    });
  return begin <= end && visited.size() <= kMostVisited && countTensors(all) <= kMostFusedTensors;
}

//===----------------------------------------------------------------------===//
// Forming clusters
//===----------------------------------------------------------------------===//

bool FusionClusters::hasReduction(const FusionCluster &cluster) const {
  return llvm::any_of(cluster.calls, [&](CallOp call) {
    return codegen::isRowReduction(call, rounding) || codegen::isRowOperator(call, rounding);
  });
}

/// True if both shapes have the same rows; views may enumerate them by other dimensions
/// (canShareRows).
static bool isSameDomain(ArrayRef<int64_t> a, ArrayRef<int64_t> b) {
  return a == b || codegen::flattenRows(a) == codegen::flattenRows(b);
}

/// The cluster's domain after the call has joined; none if the call cannot join.
std::optional<SmallVector<int64_t>> FusionClusters::join(const FusionCluster &cluster,
                                                         CallOp call) const {
  Value shaped = codegen::getDomainValue(call, rounding);
  bool isReduction = shaped != call.getResult(0);
  SmallVector<int64_t> own(getShape(shaped));
  if (isSameDomain(own, cluster.domain))
    return own;
  // The call has one element per row of the cluster.
  if (isSameDomain(own, codegen::getRowShape(cluster.domain)) && !isReduction)
    return cluster.domain;
  // So far the cluster has one element per row of the call.
  if (isSameDomain(codegen::getRowShape(own), cluster.domain) && !hasReduction(cluster))
    return own;
  return std::nullopt;
}

void FusionClusters::unite(const Union &all, ArrayRef<int64_t> domain) {
  Number home = all.parts.empty() ? clusters.size() : all.parts.front();
  if (all.parts.empty())
    clusters.emplace_back();
  FusionCluster &cluster = clusters[home];
  for (Number part : llvm::drop_begin(all.parts, all.parts.empty() ? 0 : 1)) {
    for (CallOp call : clusters[part].calls) {
      cluster.add(call);
      owners[call] = home;
    }
    clusters[part] = {};
  }
  cluster.add(all.added);
  owners[all.added] = home;
  cluster.domain = llvm::to_vector(domain);
  llvm::sort(cluster.calls, [&](CallOp a, CallOp b) { return getPosition(a) < getPosition(b); });
  for (Value operand : all.added->getOperands())
    if (getShape(operand) == domain)
      besides[operand].push_back(all.added);
}

/// A cluster that reads an operand of the added call, and can be merged with the union.
std::optional<FusionClusters::Number> FusionClusters::findBeside(const Union &all) const {
  CallOp call = all.added;
  ArrayRef<int64_t> own = getShape(codegen::getDomainValue(call, rounding));
  for (Value operand : call.getOperands()) {
    auto found = besides.find(operand);
    if (getShape(operand) != own || found == besides.end())
      continue;
    for (Operation *reader : llvm::reverse(ArrayRef(found->second).take_back(kMostBeside))) {
      Number number = owners.lookup(reader);
      if (windowBegins[getPosition(reader)] == windowBegins[getPosition(call)] &&
          ArrayRef<int64_t>(clusters[number].domain) == own &&
          !llvm::is_contained(all.parts, number)) {
        Union more = all;
        more.parts.push_back(number);
        if (canBeOne(more))
          return number;
      }
    }
  }
  return std::nullopt;
}

/// The clusters of the same window whose members a call reads, directly or through views that a
/// kernel can read through.
SmallVector<unsigned> FusionClusters::findSources(CallOp call) const {
  SmallVector<Number> sources;
  auto isCandidate = [&](Operation *op) { return owners.contains(op); };
  for (Value operand : call.getOperands())
    if (Value member = findMember(operand, isCandidate))
      if (Operation *source = member.getDefiningOp();
          windowBegins[getPosition(source)] == windowBegins[getPosition(call)] &&
          !llvm::is_contained(sources, owners.lookup(source)))
        sources.push_back(owners.lookup(source));
  return sources;
}

/// The largest domain of clusters that read each other; none if they cannot share a domain.
std::optional<SmallVector<int64_t>> FusionClusters::getCommonDomain(ArrayRef<Number> parts,
                                                                    CallOp call) const {
  SmallVector<int64_t> domain;
  for (Number part : parts) {
    std::optional<SmallVector<int64_t>> joined = join(clusters[part], call);
    if (!joined)
      return std::nullopt;
    if (domain.empty() || isSameDomain(codegen::getRowShape(*joined), domain))
      domain = *joined;
  }
  // A cluster of another domain must have one element per row of this domain.
  for (Number part : parts)
    if (!isSameDomain(clusters[part].domain, domain) &&
        (!isSameDomain(clusters[part].domain, codegen::getRowShape(domain)) ||
         hasReduction(clusters[part])))
      return std::nullopt;
  return domain;
}

void FusionClusters::place(CallOp call) {
  SmallVector<int64_t> domain(getShape(codegen::getDomainValue(call, rounding)));
  Union all{.parts = {}, .added = call};
  auto take = [&](ArrayRef<Number> parts) {
    Union more = all;
    llvm::append_range(more.parts, parts);
    std::optional<SmallVector<int64_t>> common = getCommonDomain(more.parts, call);
    if (!common || !canBeOne(more))
      return false;
    all = more;
    domain = *common;
    return true;
  };
  // Sources that read each other can only be merged together.
  SmallVector<Number> sources = findSources(call);
  if (sources.size() < 2 || !take(sources))
    for (Number source : sources)
      take(source);
  if (ArrayRef<int64_t>(domain) == getShape(codegen::getDomainValue(call, rounding)))
    if (std::optional<Number> beside = findBeside(all))
      all.parts.push_back(*beside);
  unite(all, domain);
}

/// True for a cluster of fewer columns whose results only itself and the concatenation read.
bool FusionClusters::isNarrowPart(Number part, CallOp concatenation) const {
  const FusionCluster &cluster = clusters[part];
  SmallVector<int64_t> domain(getShape(concatenation.getResult(0)));
  return codegen::getRowShape(cluster.domain) == codegen::getRowShape(domain) &&
         !hasReduction(cluster) && llvm::all_of(cluster.calls, [&](CallOp call) {
           return llvm::all_of(call->getUsers(), [&](Operation *user) {
             return user == concatenation || cluster.members.contains(user);
           });
         });
}

void FusionClusters::placeConcatenation(CallOp call) {
  ArrayRef<int64_t> domain = getShape(call.getResult(0));
  SmallVector<Number> sources = findSources(call);
  llvm::erase_if(sources, [&](Number part) {
    return ArrayRef<int64_t>(clusters[part].domain) != domain && !isNarrowPart(part, call);
  });
  // Narrow parts may be computed from columns of wide ones, and are merged with them.
  Union all{.parts = {sources.begin(), sources.end()}, .added = call};
  if (!canBeOne(all)) {
    all.parts.clear();
    for (Number source : sources) {
      Union more = all;
      more.parts.push_back(source);
      if (canBeOne(more))
        all = more;
    }
  }
  unite(all, domain);
}

void FusionClusters::form() {
  for (Operation *op : operations) {
    auto call = dyn_cast<CallOp>(op);
    if (!call || !isFusible(call))
      continue;
    if (codegen::isColumnConcatenation(call))
      placeConcatenation(call);
    else
      place(call);
  }
  for (auto [number, cluster] : llvm::enumerate(clusters))
    for (CallOp call : cluster.calls)
      holders[call].push_back(number);
}
