//===- OffloadGradients.cpp - Keeps waiting gradients in host memory ------===//

#include "fsdp/Transforms/OffloadGradients.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace fsdp;

namespace {

/// A reduced gradient that nothing reads between `last` and `reader`.
struct Waiting {
  Value gradient;
  Operation *last;
  Operation *reader; // an accumulation, an update or a reduction over replicas
  Operation *fetchBefore;
};

class Offloader {
public:
  explicit Offloader(Step &step) : step(step), builder(step.module.getContext()) {}
  void run();

private:
  void takeNormsAhead();
  void findWaiting();
  void noteWaiting(Value gradient);
  Operation *findFetchPlace(Operation *reader, Operation *last);
  bool isOnHost(Value gradient);
  bool isLongBetween(Operation *first, Operation *second) const;
  void insertCopies();

  Step &step;
  OpBuilder builder;
  DenseMap<Operation *, unsigned> placeOf;
  std::vector<unsigned> workBefore; // for each place, the number of computing operations before it
  SmallVector<Waiting> waiting;
};

} // namespace

bool Offloader::isOnHost(Value gradient) {
  auto shard = cast<ShardType>(gradient.getType());
  return step.groups[step.groupByName.lookup(shard.getGroup().getAttr())].areParametersOnHost();
}

/// Computes a gradient's part of the norm where the gradient is made, so that the gradient need not
/// be in the arena when the norm is computed.
void Offloader::takeNormsAhead() {
  for (auto norm : step.getBody().getOps<PartialNormOp>())
    for (OpOperand &operand : norm.getGradientsMutable()) {
      auto shard = dyn_cast<ShardType>(operand.get().getType());
      if (!shard || !isOnHost(operand.get()))
        continue;
      builder.setInsertionPointAfterValue(operand.get());
      auto type = ShardNormType::get(builder.getContext(), shard.getGroup());
      operand.set(
          ShardNormOp::create(builder, norm.getLoc(), type, norm.getNormType(), operand.get()));
    }
}

/// True if there is a computation, reduction or update between two operations.
bool Offloader::isLongBetween(Operation *first, Operation *second) const {
  return workBefore[placeOf.lookup(second)] > workBefore[placeOf.lookup(first) + 1];
}

/// The operation before which the fetch starts: the start of the copy or collective whose result
/// `reader` also needs, else `reader`.
Operation *Offloader::findFetchPlace(Operation *reader, Operation *last) {
  Operation *place = nullptr;
  if (auto update = dyn_cast<UpdateOp>(reader); update && update.getState())
    place = update.getState().getDefiningOp<FetchStateWaitOp>().getStart();
  else if (auto sum = dyn_cast<AccumulateOp>(reader))
    if (ReduceScatterStartOp start = getReductionOf(sum.getGradient())) {
      while (start.getCoalesced()) // back to the first start of the bucket
        start = cast<ReduceScatterStartOp>(start->getPrevNode());
      place = start;
    }
  return place && placeOf.lookup(place) > placeOf.lookup(last) ? place : reader;
}

void Offloader::noteWaiting(Value gradient) {
  Operation *last = gradient.getDefiningOp(), *reader = nullptr;
  for (Operation *user : gradient.getUsers())
    if (isa<ShardNormOp>(user))
      last = user;
    else if (!reader)
      reader = user;
    else
      return; // read twice, as no pass produces: the gradient stays in the arena
  if (!reader || !isa<AccumulateOp, UpdateOp, AllReduceStartOp>(reader) ||
      !isLongBetween(last, reader))
    return;
  if (auto sum = dyn_cast<AccumulateOp>(reader); sum && sum.getSum() != gradient)
    return; // the added gradient is reduced just before the sum
  waiting.push_back({gradient, last, reader, findFetchPlace(reader, last)});
}

/// True for an operation that yields a reduced gradient, in a buffer of its own or in that of
/// another value.
static bool makesGradient(Operation &op) {
  auto inStep = dyn_cast<StepOpInterface>(op);
  if (!inStep || op.getNumResults() != 1 || !isa<ShardType>(op.getResult(0).getType()))
    return false;
  std::optional<BufferCategory> made = inStep.getMadeCategory(op.getResult(0));
  return made == BufferCategory::ReducedShard || made == BufferCategory::Gradient ||
         inStep.getAlias(op.getResult(0));
}

void Offloader::findWaiting() {
  workBefore.push_back(0);
  for (Operation &op : step.getBody()) {
    placeOf[&op] = workBefore.size() - 1;
    auto inStep = dyn_cast<StepOpInterface>(op);
    const bool isModel = inStep && inStep.getRole() == StepRole::Compute && !inStep.isOfGroups();
    const bool isWork = isModel || isa<UpdateOp, ReduceScatterWaitOp, AllReduceWaitOp>(op);
    workBefore.push_back(workBefore.back() + isWork);
  }
  for (Operation &op : step.getBody())
    if (makesGradient(op) && isOnHost(op.getResult(0)))
      noteWaiting(op.getResult(0));
  llvm::stable_sort(waiting, [&](const Waiting &a, const Waiting &b) {
    return placeOf.lookup(a.last) < placeOf.lookup(b.last);
  });
}

/// The wait of a store is before the next store's start, so that at most two gradients are in the
/// arena at a time.
void Offloader::insertCopies() {
  auto handle = HandleType::get(builder.getContext());
  for (auto [index, entry] : llvm::enumerate(waiting)) {
    auto shard = cast<ShardType>(entry.gradient.getType());
    Location loc = entry.gradient.getLoc();
    builder.setInsertionPointAfter(entry.last);
    auto store = StoreStartOp::create(builder, loc, handle, entry.gradient,
                                      /*offset=*/nullptr);
    Operation *next = index + 1 < waiting.size() ? waiting[index + 1].last : nullptr;
    if (next && placeOf.lookup(next) < placeOf.lookup(entry.fetchBefore))
      builder.setInsertionPointAfter(next);
    else
      builder.setInsertionPoint(entry.fetchBefore);
    auto host = HostType::get(builder.getContext(), shard);
    Value stored = StoreWaitOp::create(builder, loc, host, store.getHandle());
    builder.setInsertionPoint(entry.fetchBefore);
    auto fetch = FetchStartOp::create(builder, loc, handle, stored, /*offset=*/nullptr);
    builder.setInsertionPoint(entry.reader);
    Value fetched = FetchWaitOp::create(builder, loc, shard, fetch.getHandle());
    entry.reader->replaceUsesOfWith(entry.gradient, fetched);
  }
}

void Offloader::run() {
  takeNormsAhead();
  findWaiting();
  insertCopies();
}

void fsdp::offloadGradients(Step &step) { Offloader(step).run(); }
