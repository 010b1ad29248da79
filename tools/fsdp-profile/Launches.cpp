//===- Launches.cpp - The collectives of a step, as costed ----------------===//

#include "Launches.h"

using namespace fsdp;
using namespace fsdp::profile;
using cost::CollectiveKind;
using explain::CollectiveView;
using explain::RunCollective;

namespace {

/// Reads the launches of one step. All members of a launch have one mesh.
class LaunchReader {
public:
  LaunchReader(const explain::ExplainedModule &module, const GroupTable &groups,
               const cost::Network &network)
      : problem(module.problem), plan(module.plan), groups(groups.getGroups()), network(network) {}

  Launch readGather(const CollectiveView &gather) const;
  Launch readReduction(const CollectiveView &reduction) const;
  Launch readAcross(const CollectiveView &reduction) const;

private:
  std::optional<SizedCollective> findCosted(const CollectiveView &launch,
                                            SizedCollective collective) const {
    const bool isOne = problem.coalesces || launch.groups.size() == 1;
    return isOne && collective.ranks > 1 ? std::optional(collective) : std::nullopt;
  }
  const GroupInfo &getGroup(const schedule::ReductionBucket &bucket) const {
    return groups[problem.reductions[bucket.reductions.front()].group];
  }

  const schedule::Problem &problem;
  const schedule::Plan &plan;
  llvm::ArrayRef<GroupInfo> groups; // by group of the problem
  const cost::Network &network;
};

} // namespace

Launch LaunchReader::readGather(const CollectiveView &gather) const {
  const schedule::GatherBucket &bucket = plan.gathers[gather.bucket];
  const uint32_t use = bucket.uses.front();
  const GroupInfo &info = groups[problem.uses[use].group];
  const uint8_t number = plan.chunkedOf(use);
  const schedule::Chunk *chunk = number > 0 ? &problem.chunkOf(use, number) : nullptr;
  const bool byCopyEngine = problem.goesByCopyEngine(use, chunk, bucket.byCopyEngine);
  Launch launch{
      bucket.byCopyEngine ? RunCollective::Kind::CopyEngineGather : RunCollective::Kind::Gather,
      problem.ofGather(bucket.uses, plan.chunked, bucket.byCopyEngine).latencyNs, std::nullopt};
  const bool isMixed =
      llvm::any_of(bucket.uses, [&](uint32_t other) { return plan.chunkedOf(other) != number; });
  const bool isFromHost = chunk ? chunk->isOnHost : GroupOp(info.op).areParametersOnHost();
  if (isMixed || isFromHost || (byCopyEngine && !network.copyEngines))
    return launch;
  launch.costed = findCosted(
      gather, {byCopyEngine ? CollectiveKind::CopyEngineGather : CollectiveKind::AllGather,
               chunk ? chunk->ranks : info.getShards(),
               /*stride=*/1, gather.sizeBytes});
  return launch;
}

Launch LaunchReader::readReduction(const CollectiveView &reduction) const {
  const schedule::ReductionBucket &bucket = plan.reductions[reduction.bucket];
  return {RunCollective::Kind::Reduction, problem.ofReduction(bucket.reductions).latencyNs,
          findCosted(reduction, {CollectiveKind::ReduceScatter, getGroup(bucket).getShards(),
                                 /*stride=*/1, reduction.sizeBytes})};
}

Launch LaunchReader::readAcross(const CollectiveView &reduction) const {
  const schedule::ReductionBucket &bucket = plan.reductions[reduction.bucket];
  const GroupInfo &info = getGroup(bucket);
  return {RunCollective::Kind::Across, problem.ofAcross(bucket.reductions).latencyNs,
          findCosted(reduction, {CollectiveKind::AllReduce, info.replicas, info.getShards(),
                                 reduction.acrossBytes})};
}

std::vector<Launch> fsdp::profile::readLaunches(const explain::ExplainedModule &module,
                                                const GroupTable &groups,
                                                const cost::Network &network) {
  const LaunchReader reader(module, groups, network);
  std::vector<Launch> launches;
  for (const CollectiveView &collective : module.view.collectives) {
    const bool gathers = collective.kind == explain::CollectiveKind::AllGather;
    launches.push_back(gathers ? reader.readGather(collective) : reader.readReduction(collective));
    if (collective.across)
      launches.push_back(reader.readAcross(collective));
  }
  return launches;
}
