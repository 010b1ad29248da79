//===- CostModel.h - Costs of operations and collectives --------*- C++ -*-===//
//
// Durations for planning, each with its source: measured on the device (fsdp-profile), or from a
// roofline of a device that is not available. A collective costs latency + bytes / bandwidth, which
// depend on its kind and the topology. Times are nanoseconds, sizes bytes, rates per second.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_COSTMODEL_COSTMODEL_H
#define FSDP_COSTMODEL_COSTMODEL_H

#include "fsdp/IR/Fsdp.h"
#include "fsdp/Schedule/CollectiveCost.h"
#include "fsdp/Schedule/Contention.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <optional>
#include <string>

namespace fsdp::cost {

/// The source of a figure.
enum class Origin : uint8_t {
  Measured, // a profile's entry for this operator or kernel, with its shapes, dtypes and device
  Roofline  // arithmetic and bytes over the device's rates
};

struct OperationCost {
  double durationNs = 0;      // the median, or the roofline's figure
  double spread = 0;          // relative standard deviation; 0: unknown
  int64_t temporaryBytes = 0; // allocated inside the operator, besides its results
  Origin origin = Origin::Roofline;
};

enum class CollectiveKind : uint8_t { AllGather, ReduceScatter, AllReduce, CopyEngineGather };

/// As a function of the whole group's bytes: the output of an all-gather, the input of a
/// reduce-scatter on each rank, the input of an all-reduce.
struct CollectiveCost : schedule::CollectiveCost {
  double spread = 0;
  Origin origin = Origin::Roofline;
};

/// A user's options; empty: the default.
struct CostOptions {
  std::string device = {}; // "h100", "h200", "b200", "a100", "cpu"; default cpu
  std::string profile =
      {}; // JSON file of fsdp-profile, for the same device as `device` if that is given
  std::string network =
      {}; // a preset's name or a JSON file (Network.h); default: the device's preset
  /// Relative standard deviations of durations, percent: "2.5"; default: the measured ones, if any.
  std::string computeJitter = {}, networkJitter = {};
  /// Copies between the memories of host and device take this many times as long.
  double hostCopyFactor = 1;
};

/// Not thread-safe: answers are cached, with keys from the operation's MLIR context. That context
/// must outlive the last question.
class CostModel {
public:
  virtual ~CostModel() = default;

  /// Errors name the option and the file, and describe the problem.
  static llvm::Expected<std::unique_ptr<CostModel>> create(const CostOptions &options);

  /// A view costs nothing. Constant time for a call that equals an earlier one.
  virtual OperationCost getCost(aten::CallOp call) const = 0;
  /// Without a measurement a generated kernel takes as long as moving its operands and results at
  /// the device's rate for generated kernels.
  virtual OperationCost getCost(LaunchOp launch) const = 0;
  /// Nanoseconds for the call's products, convolutions and attention at the device's peak; 0
  /// without any.
  virtual double getPeakNs(aten::CallOp call) const = 0;
  /// The optimizer's update of `elements` of a shard, with `stateBytes` of state.
  virtual OperationCost getUpdateCost(OptimizerKind kind, int64_t elements, mlir::Type element,
                                      int64_t stateBytes) const = 0;
  /// Copying `bytes` on the device, as the per-param layout does around collectives.
  virtual OperationCost getCopyCost(int64_t bytes) const = 0;
  /// Copying `bytes` between the memories of host and device, one way; both ways run at once.
  virtual OperationCost getHostCopyCost(int64_t bytes) const = 0;
  /// A collective over `ranks` ranks that are `stride` apart in the numbering of ranks, which fills
  /// nodes one by one. The other ranks run the same collectives at the same time.
  virtual CollectiveCost getCollectiveCost(CollectiveKind kind, int64_t ranks,
                                           int64_t stride = 1) const = 0;

  /// A gather by the devices' copy engines; nullopt if the network does not give its cost.
  virtual std::optional<CollectiveCost> getCopyEngineCost(int64_t ranks) const = 0;
  /// True if `ranks` ranks fit on one host, or if the network does not tell the size of a host.
  virtual bool areOnOneHost(int64_t ranks) const = 0;

  /// Ranks per host, connected by a faster network than hosts are; 0: the network does not tell.
  virtual int64_t getRanksPerHost() const = 0;

  /// True if a launch of several collectives has a single latency.
  virtual bool doesCoalesce() const = 0;
  /// A large factor (100) means that a collective stops computation: ranks with one core each.
  virtual schedule::Contention getContention() const = 0;
  /// True if the device is a GPU: the host issues work long before it runs.
  virtual bool isForGpus() const = 0;
  /// Memory of the device, bytes; 0: unknown (a CPU).
  virtual int64_t getMemoryBytes() const = 0;
  /// The part of getMemoryBytes() that driver and libraries use before a step begins.
  virtual int64_t getReservedBytes() const = 0;
  /// The rest of getMemoryBytes(); 0: unknown.
  int64_t getFreeBytes() const { return getMemoryBytes() - getReservedBytes(); }

  /// A summary for reports of the calls and launches asked so far: "measured on AMD EPYC, 1 thread:
  /// 181 of 204 distinct calls; roofline of one thread of a server CPU: 23; network shared-memory
  /// (...)".
  virtual std::string describeSources() const = 0;
};

} // namespace fsdp::cost

#endif // FSDP_COSTMODEL_COSTMODEL_H
