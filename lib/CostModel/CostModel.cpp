//===- CostModel.cpp - Measured costs first, a roofline for the rest -------===//

#include "fsdp/CostModel/CostModel.h"

#include "fsdp/CostModel/Device.h"
#include "fsdp/CostModel/MeasuredCosts.h"
#include "fsdp/IR/TensorLayout.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/FormatVariadic.h"

#include <map>
#include <optional>
#include <tuple>

using namespace mlir;
using namespace fsdp;
using namespace fsdp::cost;

namespace {

/// Relative standard deviations that replace measured ones.
struct GivenSpreads {
  std::optional<double> compute, network;
};

class MergedCosts final : public CostModel {
public:
  MergedCosts(const Device &device, std::optional<Profile> given, Network network,
              const GivenSpreads &spreads, double hostCopyFactor)
      : device(device), profile(std::move(given)), network(std::move(network)), spreads(spreads),
        hostCopyFactor(hostCopyFactor) {
    if (!profile)
      return;
    for (const ProfiledCall &call : profile->calls)
      callByKey.try_emplace(call.key.str(), &call);
    for (const ProfiledKernel &kernel : profile->kernels)
      kernelByKey.try_emplace(kernel.key.str(), &kernel);
  }

  OperationCost getCost(aten::CallOp call) const override;
  OperationCost getCost(LaunchOp launch) const override;
  double getPeakNs(aten::CallOp call) const override { return device.getPeakNs(countWork(call)); }
  OperationCost getUpdateCost(OptimizerKind kind, int64_t elements, Type element,
                              int64_t stateBytes) const override;
  OperationCost getCopyCost(int64_t bytes) const override;
  OperationCost getHostCopyCost(int64_t bytes) const override;
  CollectiveCost getCollectiveCost(CollectiveKind kind, int64_t ranks,
                                   int64_t stride) const override {
    CollectiveCost cost = network.getCost(kind, ranks, stride);
    cost.spread = spreads.network.value_or(cost.spread);
    return cost;
  }
  std::optional<CollectiveCost> getCopyEngineCost(int64_t ranks) const override {
    if (!network.copyEngines)
      return std::nullopt;
    return getCollectiveCost(CollectiveKind::CopyEngineGather, ranks, /*stride=*/1);
  }
  bool areOnOneHost(int64_t ranks) const override {
    const int64_t most = getRanksPerHost();
    return most == 0 || ranks <= most;
  }
  int64_t getRanksPerHost() const override { return network.getRanksPerHost(); }
  bool doesCoalesce() const override { return network.coalesces; }
  schedule::Contention getContention() const override { return network.getContention(); }
  bool isForGpus() const override { return device.hostBytesPerSec > 0; }
  int64_t getMemoryBytes() const override { return device.memoryBytes; }
  int64_t getReservedBytes() const override { return device.reservedBytes; }
  std::string describeSources() const override;

private:
  OperationCost computeCost(aten::CallOp call) const;
  OperationCost computeCost(LaunchOp launch, KernelOp kernel) const;
  OperationCost computeUpdateCost(OptimizerKind kind, int64_t elements, Type element,
                                  int64_t stateBytes) const;
  OperationCost computeCopyCost(int64_t bytes) const;
  OperationCost withSpread(OperationCost cost) const {
    cost.spread = spreads.compute.value_or(cost.spread);
    return cost;
  }
  static OperationCost readCurve(llvm::ArrayRef<SizedDuration> curve, int64_t size);
  OperationCost costOfTraffic(int64_t bytes) const;

  const Device &device;
  std::optional<Profile> profile;
  Network network;
  GivenSpreads spreads;
  const double hostCopyFactor;
  llvm::StringMap<const ProfiledCall *> callByKey;
  llvm::StringMap<const ProfiledKernel *> kernelByKey;
  /// Calls seen so far. Their attributes are unique in the context, so pointers identify them.
  using CallKey = std::tuple<const void *, const void *, const void *>;
  mutable llvm::DenseMap<CallKey, OperationCost> known;
  /// Likewise for kernels, by the attributes of their bodies' calls.
  using KernelParts = std::vector<uintptr_t>;
  static KernelParts getParts(KernelOp kernel);
  mutable std::map<KernelParts, OperationCost> knownKernels;
};

} // namespace

OperationCost MergedCosts::computeCost(aten::CallOp call) const {
  if (profile)
    if (const ProfiledCall *measured = callByKey.lookup(ProfileKey::of(call).str()))
      return {measured->medianNs, measured->spread, measured->temporaryBytes, Origin::Measured};
  return {.durationNs = device.getDurationNs(countWork(call)), .origin = Origin::Roofline};
}

OperationCost MergedCosts::getCost(aten::CallOp call) const {
  if (call.isView())
    return {};
  // The result types follow from the rest; the key needs only one uniqued type.
  auto types = FunctionType::get(call->getContext(), call->getOperandTypes(), {});
  CallKey key{call.getCalleeAttr().getAsOpaquePointer(), call.getArgsAttr().getAsOpaquePointer(),
              types.getAsOpaquePointer()};
  auto found = known.find(key);
  if (found == known.end())
    found = known.try_emplace(key, withSpread(computeCost(call))).first;
  return found->second;
}

OperationCost MergedCosts::computeCost(LaunchOp launch, KernelOp kernel) const {
  if (profile)
    if (const ProfiledKernel *measured = kernelByKey.lookup(KernelKey::of(kernel).str()))
      return {measured->medianNs, measured->spread, /*temporaryBytes=*/0, Origin::Measured};
  return {.durationNs = device.getGeneratedNs(countWork(launch)), .origin = Origin::Roofline};
}

/// The components of a KernelKey, without printing them.
MergedCosts::KernelParts MergedCosts::getParts(KernelOp kernel) {
  KernelParts parts{static_cast<uintptr_t>(kernel.getRounding())};
  auto add = [&](const void *unique) { parts.push_back(reinterpret_cast<uintptr_t>(unique)); };
  llvm::DenseMap<Value, uintptr_t> numbers;
  auto define = [&](Value value) { numbers.try_emplace(value, numbers.size()); };
  for (Value operand : kernel.getBody().front().getArguments()) {
    add(operand.getType().getAsOpaquePointer());
    define(operand);
  }
  for (auto call : kernel.getBody().front().getOps<aten::CallOp>()) {
    add(call.getCalleeAttr().getAsOpaquePointer());
    add(call.getArgsAttr().getAsOpaquePointer());
    for (Value operand : call.getOperands())
      parts.push_back(numbers.lookup(operand));
    llvm::for_each(call.getResults(), define);
  }
  for (Value result : kernel.getYielded())
    parts.push_back(numbers.lookup(result));
  return parts;
}

OperationCost MergedCosts::getCost(LaunchOp launch) const {
  KernelOp kernel = launch.getDeclaration();
  auto [slot, isNew] = knownKernels.try_emplace(getParts(kernel));
  if (isNew)
    slot->second = withSpread(computeCost(launch, kernel));
  return slot->second;
}

OperationCost MergedCosts::readCurve(llvm::ArrayRef<SizedDuration> curve, int64_t size) {
  OperationCost cost{.durationNs = interpolate(curve, size), .origin = Origin::Measured};
  for (const SizedDuration &duration : curve)
    cost.spread = std::max(cost.spread, duration.spread);
  return cost;
}

OperationCost MergedCosts::costOfTraffic(int64_t bytes) const {
  OperatorWork work;
  work.bytes = bytes;
  return {.durationNs = device.getDurationNs(work), .origin = Origin::Roofline};
}

OperationCost MergedCosts::getUpdateCost(OptimizerKind kind, int64_t elements, Type element,
                                         int64_t stateBytes) const {
  return elements == 0 ? OperationCost()
                       : withSpread(computeUpdateCost(kind, elements, element, stateBytes));
}

OperationCost MergedCosts::getCopyCost(int64_t bytes) const {
  return bytes == 0 ? OperationCost() : withSpread(computeCopyCost(bytes));
}

OperationCost MergedCosts::computeUpdateCost(OptimizerKind kind, int64_t elements, Type element,
                                             int64_t stateBytes) const {
  std::string dtype;
  llvm::raw_string_ostream(dtype) << element;
  if (profile)
    for (const ProfiledUpdate &update : profile->updates)
      if (update.optimizer == kind && update.dtype == dtype)
        return readCurve(update.durations, elements);
  // Gradient, parameter and states are read; parameter and states are written.
  return costOfTraffic(3 * elements * getElementBytes(element) + 2 * stateBytes);
}

OperationCost MergedCosts::computeCopyCost(int64_t bytes) const {
  if (profile && !profile->copies.empty())
    return readCurve(profile->copies, bytes);
  return costOfTraffic(2 * bytes);
}

OperationCost MergedCosts::getHostCopyCost(int64_t bytes) const {
  OperationCost cost;
  if (bytes == 0 || device.hostBytesPerSec == 0) {
    cost = getCopyCost(bytes);
  } else {
    double bytesPerSec = device.hostBytesPerSec * device.hostFraction;
    cost.durationNs = device.kernelNs + static_cast<double>(bytes) / bytesPerSec * 1e9;
  }
  cost.durationNs *= hostCopyFactor;
  return cost;
}

std::string MergedCosts::describeSources() const {
  auto isMeasured = [](const auto &entry) { return entry.second.origin == Origin::Measured; };
  const size_t all = known.size() + knownKernels.size();
  const auto measured = static_cast<size_t>(llvm::count_if(known, isMeasured) +
                                            llvm::count_if(knownKernels, isMeasured));
  std::string text;
  llvm::raw_string_ostream os(text);
  if (profile)
    os << "measured on " << profile->description << ": " << measured << " of " << all
       << " distinct calls; ";
  os << "roofline of " << device.fullName << " (" << device.calibration << "): " << all - measured
     << "; network " << network.name << " (" << network.source << ")";
  if (spreads.compute)
    os << llvm::formatv("; jitter of computation {0:f1} %, as given", *spreads.compute * 100);
  if (spreads.network)
    os << llvm::formatv("; jitter of the network {0:f1} %, as given", *spreads.network * 100);
  return text;
}

/// Parses a percentage: "2.5" is 0.025.
static llvm::Error readJitter(llvm::StringRef option, llvm::StringRef text,
                              std::optional<double> &spread) {
  if (text.empty())
    return llvm::Error::success();
  double percent;
  if (text.getAsDouble(percent) || !(percent >= 0 && percent <= 100))
    return llvm::createStringError(option + " is '" + text +
                                   "', expected percent from 0 to 100, as in 2.5");
  spread = percent / 100;
  return llvm::Error::success();
}

llvm::Expected<std::unique_ptr<CostModel>> CostModel::create(const CostOptions &options) {
  GivenSpreads spreads;
  if (llvm::Error error = readJitter("compute-jitter", options.computeJitter, spreads.compute))
    return error;
  if (llvm::Error error = readJitter("network-jitter", options.networkJitter, spreads.network))
    return error;
  std::optional<Profile> profile;
  std::string name = options.device;
  if (!options.profile.empty()) {
    llvm::Expected<Profile> read = readProfile(options.profile);
    if (!read)
      return read.takeError();
    if (!name.empty() && name != read->device)
      return llvm::createStringError("profile '" + options.profile + "' was measured on device '" +
                                     read->device + "', but device '" + name + "' is asked for");
    name = read->device;
    profile = std::move(*read);
  }
  llvm::Expected<const Device *> device = lookupDevice(name.empty() ? "cpu" : name);
  if (!device)
    return device.takeError();
  llvm::Expected<Network> network =
      loadNetwork(options.network.empty() ? (*device)->network.str() : options.network);
  if (!network)
    return network.takeError();
  return std::make_unique<MergedCosts>(**device, std::move(profile), std::move(*network), spreads,
                                       options.hostCopyFactor);
}

llvm::Expected<std::unique_ptr<CostModel>> fsdp::cost::createCostModel(Profile profile,
                                                                       Network network) {
  llvm::Expected<const Device *> device = lookupDevice(profile.device);
  if (!device)
    return device.takeError();
  return std::make_unique<MergedCosts>(**device, std::move(profile), std::move(network),
                                       GivenSpreads(), /*hostCopyFactor=*/1);
}
