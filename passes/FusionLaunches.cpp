//===- FusionLaunches.cpp - Contents and positions of launches ------------===//

#include "fsdp/Codegen/Rearrangement.h"
#include "passes/FusionClusters.h"

using namespace mlir;
using namespace fsdp;
using aten::CallOp;

/// Decides which values each launch computes and stores, backwards from the values that the step
/// needs.
class FusionClusters::Settler {
public:
  explicit Settler(FusionClusters &all)
      : all(all), live(all.clusters.size()), outputs(all.clusters.size()) {}
  std::vector<Launch> run();

private:
  /// Notes that `value` is read from memory, so a launch must store it.
  void need(Value value);
  /// Notes that the cluster computes `call`, and follows its operands.
  void compute(Number cluster, Operation *call);
  Launch build(Number cluster);
  void findPositions();
  unsigned findEnd(size_t launch);
  void findPosition(size_t launch);

  FusionClusters &all;
  std::vector<llvm::SmallPtrSet<Operation *, 16>> live; // by cluster; with the views inside it
  std::vector<llvm::SetVector<Value>> outputs;
  std::vector<Launch> launches;
  DenseMap<Operation *, size_t> launchOf; // of the operations of outputs
  std::vector<SmallVector<size_t>> sources, readers;
  std::vector<std::optional<unsigned>> ends;
  std::vector<unsigned> lasts; // for each launch, the position of its last call
  std::vector<bool> isPlaced;
};

void FusionClusters::Settler::need(Value value) {
  value = getRoot(value);
  Operation *op = value.getDefiningOp();
  auto owner = all.owners.find(op);
  if (owner == all.owners.end() || !outputs[owner->second].insert(value))
    return;
  compute(owner->second, op);
}

void FusionClusters::Settler::compute(Number number, Operation *op) {
  auto isMember = [&](Operation *other) { return all.clusters[number].members.contains(other); };
  SmallVector<Operation *> work{op};
  while (!work.empty()) {
    Operation *next = work.pop_back_val();
    if (!live[number].insert(next).second)
      continue;
    for (Value operand : next->getOperands()) {
      if (!findMember(operand, isMember))
        need(operand);
      else // a member, or a view of one
        work.push_back(operand.getDefiningOp());
    }
  }
}

FusionClusters::Launch FusionClusters::Settler::build(Number number) {
  llvm::SmallPtrSet<Operation *, 16> &members = live[number];
  // Add slices of columns whose source the kernel also reads as a whole.
  SmallVector<Operation *> slices;
  auto isRead = [&](Value value) {
    return llvm::any_of(value.getUsers(), [&](Operation *user) { return members.contains(user); });
  };
  for (Operation *op : members)
    for (Value operand : op->getOperands())
      if (auto slice = operand.getDefiningOp<CallOp>(); slice && !members.contains(slice) &&
                                                        codegen::isColumnSlice(slice) &&
                                                        isRead(slice.getOperand(0)))
        slices.push_back(slice);
  members.insert(slices.begin(), slices.end());

  Launch launch;
  for (Operation *op : members)
    launch.calls.push_back(cast<CallOp>(op));
  auto isBefore = [&](Operation *a, Operation *b) {
    return all.getPosition(a) < all.getPosition(b);
  };
  llvm::sort(launch.calls, isBefore);
  llvm::SetVector<Value> inputs;
  for (CallOp call : launch.calls)
    for (Value operand : call.getOperands())
      if (!members.contains(operand.getDefiningOp()))
        inputs.insert(operand);
  launch.inputs = inputs.takeVector();
  launch.outputs = outputs[number].takeVector();
  llvm::sort(launch.outputs,
             [&](Value a, Value b) { return isBefore(a.getDefiningOp(), b.getDefiningOp()); });
  return launch;
}

/// The position of the first operation that needs the launch.
unsigned FusionClusters::Settler::findEnd(size_t number) {
  if (ends[number])
    return *ends[number];
  unsigned end = all.windowEnds[lasts[number]];
  for (Value output : launches[number].outputs)
    forReaders(output, [&](Operation *reader) {
      if (!all.isFusible(reader))
        end = std::min(end, all.getDeadline(reader));
    });
  for (size_t reader : readers[number])
    end = std::min(end, findEnd(reader));
  ends[number] = end;
  return end;
}

/// Places the launch at its last call, or earlier if another operation needs it before that.
void FusionClusters::Settler::findPosition(size_t number) {
  if (isPlaced[number])
    return;
  isPlaced[number] = true;
  Launch &launch = launches[number];
  launch.position = std::min(lasts[number], findEnd(number));
  for (size_t source : sources[number]) {
    findPosition(source);
    launch.position = std::max(launch.position, launches[source].position);
    launch.rank = std::max(launch.rank, launches[source].rank + 1);
  }
  for (Value input : launch.inputs)
    if (Operation *source = getRoot(input).getDefiningOp();
        source && !all.isFusible(source) && all.getPosition(source) >= launch.position)
      llvm::report_fatal_error("fsdp-fuse would launch a kernel before what it reads");
}

void FusionClusters::Settler::findPositions() {
  sources.resize(launches.size());
  readers.resize(launches.size());
  ends.resize(launches.size());
  isPlaced.resize(launches.size());
  for (auto [number, launch] : llvm::enumerate(launches))
    for (Value input : launch.inputs)
      if (auto found = launchOf.find(getRoot(input).getDefiningOp()); found != launchOf.end()) {
        sources[number].push_back(found->second);
        readers[found->second].push_back(number);
      }
  for (size_t number = 0; number < launches.size(); ++number)
    findPosition(number);
}

std::vector<FusionClusters::Launch> FusionClusters::Settler::run() {
  for (Operation *op : all.operations) {
    auto call = dyn_cast<CallOp>(op);
    if (all.isFusible(op) || (call && call.isView()))
      continue;
    llvm::for_each(op->getOperands(), [&](Value operand) { need(operand); });
  }
  for (Number number = 0; number < all.clusters.size(); ++number) {
    if (outputs[number].empty())
      continue;
    for (Value output : outputs[number])
      launchOf[output.getDefiningOp()] = launches.size();
    unsigned last = 0;
    for (Operation *op : live[number])
      if (auto owner = all.owners.find(op); owner != all.owners.end() && owner->second == number)
        last = std::max(last, all.getPosition(op));
    lasts.push_back(last);
    launches.push_back(build(number));
  }
  findPositions();
  llvm::stable_sort(launches, [](const Launch &a, const Launch &b) {
    return std::tie(a.position, a.rank) < std::tie(b.position, b.rank);
  });
  return std::move(launches);
}

std::vector<FusionClusters::Launch> FusionClusters::settle() { return Settler(*this).run(); }
