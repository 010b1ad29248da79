//===- CostModel.h - What operations and collectives cost --------*- C++ -*-===//
//
// Durations for planning, each with its source: measured on the device (fsdp-profile), or from a
// roofline of a device that is not at hand. Collectives cost latency + bytes / bandwidth, by kind
// and topology. Times are nanoseconds, sizes bytes, rates per second.
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

/// Where a figure comes from.
enum class Origin : uint8_t {
  Measured, // a profile's entry for this operator or kernel, shapes and dtypes, this device
  Roofline  // arithmetic and bytes over the device's rates
};

struct OperationCost {
  double durationNs = 0;      // median, or the model's figure
  double spread = 0;          // relative standard deviation; 0: unknown
  int64_t temporaryBytes = 0; // inside the operator, beyond its results
  Origin origin = Origin::Roofline;
};

enum class CollectiveKind : uint8_t { AllGather, ReduceScatter, AllReduce, CopyEngineGather };

/// By the whole group's bytes: what an all-gather yields, what a reduce-scatter takes on each rank,
/// what an all-reduce takes.
struct CollectiveCost : schedule::CollectiveCost {
  double spread = 0;
  Origin origin = Origin::Roofline;
};

/// What a user names on the command line; empty: the default.
struct CostOptions {
  std::string device = {}; // "h100", "h200", "b200", "a100", "cpu"; default cpu
  std::string profile =
      {}; // JSON file of fsdp-profile; its device must be `device` if that is given
  std::string network =
      {}; // a preset's name or a JSON file (Network.h); default: the device's preset
  /// Relative standard deviations of durations, percent: "2.5"; default: as measured, else unknown.
  std::string computeJitter = {}, networkJitter = {};
};

/// Not thread-safe: answers are remembered, by what is unique in a context. A context that was
/// asked about lives until the last question.
class CostModel {
public:
  virtual ~CostModel() = default;

  /// Errors name the option, the file and what is wrong with it.
  static llvm::Expected<std::unique_ptr<CostModel>> create(const CostOptions &options);

  /// A view costs nothing. Constant time for a call like one that was asked for before.
  virtual OperationCost getCost(aten::CallOp call) const = 0;
  /// A generated kernel that was not measured takes as long as moving its operands and results at
  /// the rate of such kernels.
  virtual OperationCost getCost(LaunchOp launch) const = 0;
  /// What a call's products, convolutions and attention take at the device's peak, nanoseconds; 0
  /// where it has none.
  virtual double getPeakNs(aten::CallOp call) const = 0;
  /// The optimizer's update of `elements` of a shard, with `stateBytes` of state.
  virtual OperationCost getUpdateCost(OptimizerKind kind, int64_t elements, mlir::Type element,
                                      int64_t stateBytes) const = 0;
  /// Copying `bytes` on the device, as the per-param layout does around collectives.
  virtual OperationCost getCopyCost(int64_t bytes) const = 0;
  /// Copying `bytes` between the memories of host and device, one way; both ways run at once.
  virtual OperationCost getHostCopyCost(int64_t bytes) const = 0;
  /// A collective over `ranks` ranks, of which two neighbours are `stride` apart in the numbering,
  /// in which ranks fill whole nodes first. The other ranks do the same at the same time.
  virtual CollectiveCost getCollectiveCost(CollectiveKind kind, int64_t ranks,
                                           int64_t stride = 1) const = 0;

  /// A gather by the devices' copy engines; none where the network does not say what it costs.
  virtual std::optional<CollectiveCost> getCopyEngineCost(int64_t ranks) const = 0;
  /// Whether these are all on one host, as far as the network says how many it has.
  virtual bool areOnOneHost(int64_t ranks) const = 0;

  /// Ranks of a host, which a faster network joins than hosts; 0: the network does not say.
  virtual int64_t getRanksPerHost() const = 0;

  /// Whether one launch of several collectives has one latency.
  virtual bool doesCoalesce() const = 0;
  /// Where ranks have one core each, a collective stops computation: that factor is large (100).
  virtual schedule::Contention getContention() const = 0;
  /// Whether the host issues work long before the device runs it: every GPU.
  virtual bool doesHostRunAhead() const = 0;
  /// Memory of the device, bytes; 0: unknown (a CPU).
  virtual int64_t getMemoryBytes() const = 0;
  /// Of these, what the driver and libraries take before a step begins.
  virtual int64_t getReservedBytes() const = 0;

  /// Of the calls and launches that were asked for, for reports: "measured on AMD EPYC, 1 thread:
  /// 181 of 204 distinct calls; roofline of one thread of a server CPU: 23; network shared-memory
  /// (...)".
  virtual std::string describeSources() const = 0;
};

} // namespace fsdp::cost

#endif // FSDP_COSTMODEL_COSTMODEL_H
