//===- Network.h - Costs of collectives -------------------------*- C++ -*-===//
//
// A network is described by its levels, from the inside of a node outwards, or by lines fitted to
// measurements (fsdp-profile --collectives), or by both; measurements take precedence.
//
// Levels. Ranks fill nodes one by one. Algorithm `ring` is NCCL's: one pipelined ring through all
// nodes, as fast as its slowest level, with one hop per rank. `hierarchical` gathers first between
// nodes (each rank its own share) and then inside each node, and reduces in the opposite order.
// With n ranks, levels of p_0, p_0 p_1, ... ranks and u_l = ceil(n / (p_0 ... p_l)) units:
//
//   ring           latency = base + sum_l (u_{l-1} - u_l) hop_l
//                  per byte = (n - 1) / n / min_l (rate_l x min(n, p_0 ... p_{l-1}))
//   hierarchical   latency = base + sum_l (m_l - 1) hop_l,  m_l = ceil(u_{l-1} / u_l)
//                  per byte = sum_l (m_l - 1) / m_l / rate_l / (m_0 ... m_{l-1})
//   all-reduce     twice the time per byte; the latency of a tree over nodes:
//                  base + 2 ((m_0 - 1) treeHop_0 + sum_{l > 0} ceil(log2 m_l) treeHop_l)
//
// A collective over replicas has n ranks that are `stride` apart. On each level, n x stride
// consecutive ranks would join m_l units; units that `stride` consecutive ranks alone would join
// count as one. The formulas are then the same, with only the collective's own ranks in each unit:
// the other ranks run their own collectives. Between ranks that are alone in their units, a ring's
// hop takes as long as a tree's.
//
// An all-gather of which each host has one rank takes a ring or PAT, NCCL's parallel aggregated
// trees, whichever is faster for its bytes (`rate` is that of the ring):
//
//   PAT            latency = base + ceil(log2 n) hop + n perRank;  per byte = 1 / (share x rate)
//
// A gather by copy engines, inside a host: each rank copies its share to the n - 1 other ranks.
//
//                  latency = base + (n - 1) hop;  per byte = (n - 1) / n / rate
//
// Source for the form of the latencies: NCCL, src/graph/tuning.cc.
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
  /// How many units of the level below (ranks, for the first level) form one unit; 0: any number,
  /// only for the last level.
  int64_t units = 0;
  double hopNs = 0;                // of a ring
  std::optional<double> treeHopNs; // none: equal to hopNs
  double bytesPerSec = 0;          // of each rank, one direction, as reached by collectives
  std::string source;
};

/// Gathers by the devices' copy engines (NCCL 2.28's zero-CTA policy).
struct CopyEngines {
  double baseNs = 0, hopNs = 0;
  double bytesPerSec = 0; // of each rank, one direction
  /// The factor by which computation slows down beside these gathers alone.
  double computeContention = 1;
  std::string source = {};
};

/// Gathers by PAT, of algorithm `ring`, where the levels tell that each host has one of the ranks.
struct Pat {
  double baseNs = 0;
  double hopNs = 0;     // whenever the number of ranks doubles
  double perRankNs = 0; // for each rank
  double rateShare = 1; // of a ring's rate, in (0, 1]
  std::string source = {};
};

/// One collective over one number of ranks; sizes are whole groups' bytes.
struct MeasuredCollective {
  CollectiveKind kind = CollectiveKind::AllGather;
  int64_t ranks = 0;
  double latencyNs = 0, nsPerByte = 0; // the fit: for other numbers of ranks, and without durations
  double spread = 0;
  std::vector<SizedDuration> durations; // the fitted measurements; may be empty

  /// The measured durations, made monotonic in size; the line if there are none.
  CollectiveCost getCost() const;
};

struct Network {
  std::string name, source;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::Ring;
  double baseNs = 0;
  std::vector<NetworkLevel> levels;
  std::vector<MeasuredCollective> measured;
  bool coalesces = true;           // a launch of several collectives has a single latency
  schedule::Contention contention; // without `replicas` and `copyEngines`
  std::optional<CopyEngines> copyEngines = std::nullopt; // none: unknown
  std::optional<Pat> pat = std::nullopt;                 // none: rings only

  /// The units of the first level if there are several levels; else 0.
  int64_t getRanksPerHost() const { return levels.size() > 1 ? levels.front().units : 0; }

  /// With the remaining factors: all-reduces over replicas as other lanes, unknown copy engines as
  /// kernels.
  schedule::Contention getContention() const;

  /// 0 for one rank. Without levels, ranks without a measurement take the one with the nearest
  /// number of ranks, scaled as a ring (its origin is then Roofline). Measurements are of
  /// consecutive ranks; a network with levels does not use them for ranks with a larger stride.
  CollectiveCost getCost(CollectiveKind kind, int64_t ranks, int64_t stride = 1) const;
};

/// "all_gather", "reduce_scatter", "all_reduce", "copy_engine_all_gather".
llvm::StringRef getName(CollectiveKind kind);

/// The preset of this name, else the file of this name. Errors name the presets, or the file and
/// its wrong or missing field.
llvm::Expected<Network> loadNetwork(const std::string &nameOrFile);

/// Writes the JSON that loadNetwork reads. Its schema: docs/costs.md.
void writeNetwork(const Network &network, llvm::raw_ostream &os);

} // namespace fsdp::cost

#endif // FSDP_COSTMODEL_NETWORK_H
