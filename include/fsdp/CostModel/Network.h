//===- Network.h - What collectives cost, by topology or measured -*- C++ -*-===//
//
// A network is described by its levels, from the inside of a node outwards, or by lines fitted to
// measurements (fsdp-profile --collectives), or by both; measurements come first.
//
// Levels. Ranks fill nodes first. Algorithm `ring` is NCCL's: one pipelined ring through all nodes,
// as fast as its slowest level, with one hop per rank; `hierarchical` gathers between nodes first
// (each rank for its own share) and then inside each node, and reduces the other way round. With n
// ranks, levels of p_0, p_0 p_1, ... ranks and u_l = ceil(n / (p_0 ... p_l)) units:
//
//   ring           latency = base + sum_l (u_{l-1} - u_l) hop_l
//                  per byte = (n - 1) / n / min_l (rate_l x min(n, p_0 ... p_{l-1}))
//   hierarchical   latency = base + sum_l (m_l - 1) hop_l,  m_l = ceil(u_{l-1} / u_l)
//                  per byte = sum_l (m_l - 1) / m_l / rate_l / (m_0 ... m_{l-1})
//   all-reduce     twice the rate's part; latency of a tree over nodes:
//                  base + 2 ((m_0 - 1) treeHop_0 + sum_{l > 0} ceil(log2 m_l) treeHop_l)
//
// A collective over replicas: its n ranks are `stride` apart. Of the m_l units that n x stride
// ranks join on a level, those of `stride` ranks alone make one; with what remains the formulas are
// the same, and the ranks inside a unit are those of the collective there: the others have their
// own. Between ranks that are alone in their units a ring's hop takes as long as a tree's.
//
// A gather by copy engines, inside a host: each rank copies its share to the n - 1 others.
//
//                  latency = base + (n - 1) hop;  per byte = (n - 1) / n / rate
//
// Source of the latencies' form: NCCL, src/graph/tuning.cc.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_COSTMODEL_NETWORK_H
#define FSDP_COSTMODEL_NETWORK_H

#include "fsdp/CostModel/CostModel.h"
#include "fsdp/CostModel/FitLine.h"
#include "llvm/Support/raw_ostream.h"

#include <optional>
#include <vector>

namespace fsdp::cost {

enum class CollectiveAlgorithm : uint8_t { Ring, Hierarchical };

struct NetworkLevel {
  std::string name; // "NVLink"
  /// Units of the level below that it joins (ranks, for the first level); 0: any number, the last.
  int64_t units = 0;
  double hopNs = 0;                // of a ring
  std::optional<double> treeHopNs; // none: as a ring's
  double bytesPerSec = 0; // of each rank, one direction, as collectives reach it
  std::string source;
};

/// Gathers by the devices' copy engines (NCCL 2.28's zero-CTA policy).
struct CopyEngines {
  double baseNs = 0, hopNs = 0;
  double bytesPerSec = 0; // of each rank, one direction
  /// How much slower computation is while nothing else is busy.
  double computeContention = 1;
  std::string source = {};
};

/// One collective over one number of ranks; sizes are whole groups' bytes.
struct MeasuredCollective {
  CollectiveKind kind = CollectiveKind::AllGather;
  int64_t ranks = 0;
  double latencyNs = 0, nsPerByte = 0; // for other numbers of ranks, and without durations
  double spread = 0;
  std::vector<SizedDuration> durations; // what the line was fitted to; may be empty

  /// The measured durations, of which none is longer than one of more bytes, or, if there are none,
  /// the line.
  CollectiveCost getCost() const;
};

struct Network {
  std::string name, source;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::Ring;
  double baseNs = 0;
  std::vector<NetworkLevel> levels;
  std::vector<MeasuredCollective> measured;
  bool coalesces = true;           // one launch of several collectives has one latency
  schedule::Contention contention; // without those over replicas and of copy engines
  std::optional<CopyEngines> copyEngines = std::nullopt; // none: unknown

  /// The units of the first of several levels; 0: there are no several.
  int64_t getRanksPerHost() const { return levels.size() > 1 ? levels.front().units : 0; }

  /// Over replicas as between lanes. Of copy engines that are unknown, as of kernels.
  schedule::Contention getContention() const;

  /// Nothing for one rank. Without levels, ranks that were not measured take the measurement with
  /// the nearest number of ranks, scaled as a ring (and count as roofline). Measurements are of
  /// consecutive ranks; where there are levels, ranks that are further apart do not take them.
  CollectiveCost getCost(CollectiveKind kind, int64_t ranks, int64_t stride = 1) const;
};

/// "all_gather", "reduce_scatter", "all_reduce", "copy_engine_all_gather".
llvm::StringRef getName(CollectiveKind kind);

/// The preset of this name, or the file of this name if there is no such preset. Errors name the
/// presets, or the file and its wrong or missing field.
llvm::Expected<Network> loadNetwork(const std::string &nameOrFile);

/// Writes the JSON that loadNetwork reads. Its schema: docs/costs.md.
void writeNetwork(const Network &network, llvm::raw_ostream &os);

} // namespace fsdp::cost

#endif // FSDP_COSTMODEL_NETWORK_H
