//===- Verify.cpp - Is a plan complete and safe ---------------------------===//

#include "fsdp/Schedule/Plan.h"

#include <algorithm>

using namespace fsdp::schedule;

namespace {

using Wrong = std::optional<std::string>;

class Verifier {
public:
  Verifier(const Problem &problem, const Plan &plan)
      : problem(problem), plan(plan), previousUses(problem.previousUses()) {}

  Wrong checkUses() const;
  Wrong checkTransport(const GatherBucket &bucket, uint32_t use) const;
  Wrong checkGathers() const;
  Wrong checkReductions() const;
  Wrong checkMemory() const;

private:
  struct Moments;
  Moments findMoments() const;
  std::vector<uint32_t> findLastReaders() const;
  bool isFromHost(uint32_t use) const {
    return plan.isChunked(use) && problem.chunkOf(use, plan.chunked[use]).isOnHost;
  }
  std::string nameUse(uint32_t use) const {
    return "use " + std::to_string(use) + " of group '" + problem.groupOfUse(use).name + "'";
  }
  std::string nameReduction(uint32_t reduction) const {
    return "reduction " + std::to_string(reduction) + " of group '" +
           problem.groupOfReduction(reduction).name + "'";
  }

  const Problem &problem;
  const Plan &plan;
  const std::vector<int32_t> previousUses;
};

} // namespace

static std::string atPosition(uint32_t position) { return "position " + std::to_string(position); }

static std::string bucketName(const char *kind, size_t index) {
  return std::string(kind) + " bucket " + std::to_string(index);
}

Wrong Verifier::checkUses() const {
  auto hasAll = [&](const std::vector<uint8_t> &flags, const char *what) -> Wrong {
    if (flags.size() == problem.uses.size())
      return std::nullopt;
    return "the plan says of " + std::to_string(flags.size()) + " uses whether they are " + what +
           ", the problem has " + std::to_string(problem.uses.size());
  };
  if (Wrong wrong = hasAll(plan.kept, "kept"))
    return wrong;
  if (Wrong wrong = hasAll(plan.chunked, "gathered from chunks"); wrong && !plan.chunked.empty())
    return wrong;
  for (uint32_t use = 0; use < plan.kept.size(); ++use) {
    const Group &group = problem.groupOfUse(use);
    const bool hasPrevious = previousUses[use] >= 0;
    if (plan.kept[use] && !hasPrevious)
      return nameUse(use) + " is kept, although it is the first of its group";
    if (plan.kept[use] && group.keep == KeepRule::Never)
      return nameUse(use) + " is kept, although the group may not be";
    if (!plan.kept[use] && hasPrevious && group.keep == KeepRule::Always)
      return nameUse(use) + " is not kept, although the group must be";
    if (!plan.isChunked(use))
      continue;
    if (plan.kept[use])
      return nameUse(use) + " is kept and gathered from chunks";
    if (!hasPrevious)
      return nameUse(use) + " is gathered from chunks, although it is the first of its group";
    if (plan.chunked[use] > group.chunks.size())
      return nameUse(use) + " is gathered from chunk " + std::to_string(plan.chunked[use]) +
             ", the group has " + std::to_string(group.chunks.size());
  }
  return std::nullopt;
}

/// How the bucket's gather moves the use's bytes.
Wrong Verifier::checkTransport(const GatherBucket &bucket, uint32_t use) const {
  const Mesh &mesh = problem.meshOfUse(use);
  const bool isWhole = !plan.isChunked(use);
  if (bucket.byCopyEngine && !(isWhole && mesh.copyEngineCost))
    return nameUse(use) + " is gathered by copy engines, which it may not be";
  if (!bucket.byCopyEngine && isWhole && mesh.copyEngineCost && mesh.copyEngineOnly)
    return nameUse(use) + " is gathered by kernels, although it must be by copy engines";
  return std::nullopt;
}

static Wrong checkMeshes(const std::string &bucket, const Group &first, const Group &other) {
  if (first.mesh == other.mesh)
    return std::nullopt;
  return bucket + " has groups of several meshes: '" + first.name + "' and '" + other.name + "'";
}

Wrong Verifier::checkGathers() const {
  constexpr uint32_t kNone = UINT32_MAX;
  std::vector<uint32_t> bucketOfUse(problem.uses.size(), kNone);
  uint32_t earliest = 0;
  for (uint32_t index = 0; index < plan.gathers.size(); ++index) {
    const GatherBucket &bucket = plan.gathers[index];
    std::string name = bucketName("gather", index);
    if (bucket.uses.empty())
      return name + " is empty";
    if (bucket.launch < earliest)
      return name + " is launched at " + atPosition(bucket.launch) +
             ", before the one ahead of it on its lane at " + std::to_string(earliest);
    earliest = bucket.launch;
    for (size_t i = 0; i < bucket.uses.size(); ++i) {
      uint32_t use = bucket.uses[i];
      if (use >= problem.uses.size())
        return name + " has use " + std::to_string(use) + ", the problem has " +
               std::to_string(problem.uses.size());
      if (plan.kept[use])
        return nameUse(use) + " is kept and gathered";
      if (bucketOfUse[use] != kNone)
        return nameUse(use) + " is gathered twice, in buckets " + std::to_string(bucketOfUse[use]) +
               " and " + std::to_string(index);
      bucketOfUse[use] = index;
      if (i > 0 && use < bucket.uses[i - 1])
        return name + " has " + nameUse(use) + " behind use " + std::to_string(bucket.uses[i - 1]);
      if (bucket.launch > problem.uses[use].first)
        return nameUse(use) + " begins at operation " + std::to_string(problem.uses[use].first) +
               ", before its gather is launched at " + atPosition(bucket.launch);
      if (int32_t previous = previousUses[use]; previous >= 0) {
        const Use &before = problem.uses[previous];
        if (bucket.launch <= before.last)
          return nameUse(use) + " is gathered at " + atPosition(bucket.launch) +
                 ", while the group's copy is used until operation " + std::to_string(before.last);
        if (isFromHost(use) && bucket.launch <= before.storedBy)
          return nameUse(use) + " is gathered at " + atPosition(bucket.launch) +
                 ", while its chunk is stored on the host until operation " +
                 std::to_string(before.storedBy);
      }
      const uint32_t first = bucket.uses.front();
      if (plan.chunkedOf(use) != plan.chunkedOf(first))
        return name + " gathers uses from chunks " + std::to_string(plan.chunkedOf(first)) +
               " and " + std::to_string(plan.chunkedOf(use)) + " (0: from all ranks)";
      if (Wrong wrong = checkTransport(bucket, use))
        return wrong;
      if (Wrong wrong = checkMeshes(name, problem.groupOfUse(first), problem.groupOfUse(use)))
        return wrong;
    }
  }
  for (uint32_t use = 0; use < bucketOfUse.size(); ++use)
    if (!plan.kept[use] && bucketOfUse[use] == kNone)
      return nameUse(use) + " is neither kept nor gathered";
  return std::nullopt;
}

Wrong Verifier::checkReductions() const {
  constexpr uint32_t kNone = UINT32_MAX;
  std::vector<uint32_t> bucketOfReduction(problem.reductions.size(), kNone);
  uint32_t earliestLaunch = 0, earliestWait = 0;
  for (uint32_t index = 0; index < plan.reductions.size(); ++index) {
    const ReductionBucket &bucket = plan.reductions[index];
    std::string name = bucketName("reduction", index);
    if (bucket.reductions.empty())
      return name + " is empty";
    if (bucket.launch < earliestLaunch)
      return name + " is launched at " + atPosition(bucket.launch) +
             ", before the one ahead of it on its lane at " + std::to_string(earliestLaunch);
    if (bucket.wait < earliestWait)
      return name + " is waited for at " + atPosition(bucket.wait) +
             ", before the one ahead of it on its lane at " + std::to_string(earliestWait);
    if (bucket.wait < bucket.launch)
      return name + " is waited for at " + atPosition(bucket.wait) + ", before its launch at " +
             std::to_string(bucket.launch);
    earliestLaunch = bucket.launch;
    earliestWait = bucket.wait;
    for (size_t i = 0; i < bucket.reductions.size(); ++i) {
      uint32_t member = bucket.reductions[i];
      if (member >= problem.reductions.size())
        return name + " has reduction " + std::to_string(member) + ", the problem has " +
               std::to_string(problem.reductions.size());
      const Reduction &reduction = problem.reductions[member];
      if (bucketOfReduction[member] != kNone)
        return nameReduction(member) + " happens twice, in buckets " +
               std::to_string(bucketOfReduction[member]) + " and " + std::to_string(index);
      bucketOfReduction[member] = index;
      if (i > 0 && member < bucket.reductions[i - 1])
        return name + " has " + nameReduction(member) + " behind reduction " +
               std::to_string(bucket.reductions[i - 1]);
      if (bucket.launch < reduction.ready)
        return nameReduction(member) + " is launched at " + atPosition(bucket.launch) +
               ", before it is ready at " + std::to_string(reduction.ready);
      if (bucket.wait > reduction.update)
        return nameReduction(member) + " is updated by operation " +
               std::to_string(reduction.update) + ", before it is waited for at " +
               atPosition(bucket.wait);
      if (Wrong wrong = checkMeshes(name, problem.groupOfReduction(bucket.reductions.front()),
                                    problem.groupOfReduction(member)))
        return wrong;
    }
  }
  for (uint32_t i = 0; i < bucketOfReduction.size(); ++i)
    if (bucketOfReduction[i] == kNone)
      return nameReduction(i) + " is missing";
  return std::nullopt;
}

/// The step as a sequence of moments: each position has one moment per reduction that is launched
/// there, then one moment for the operation.
struct Verifier::Moments {
  std::vector<uint32_t> begin;       // by position: its first moment
  std::vector<uint32_t> ofReduction; // by bucket: the moment of its launch
  std::vector<uint32_t> positions;   // by moment
  /// By moment: bytes of buffers that become live minus bytes of buffers that died before it.
  std::vector<int64_t> changes;

  uint32_t ofOperation(uint32_t operation) const { return begin[operation + 1] - 1; }
  /// A buffer is live at the moments [first, end).
  void addBuffer(uint32_t first, uint32_t end, int64_t bytes) {
    changes[first] += bytes;
    changes[end] -= bytes;
  }
};

Verifier::Moments Verifier::findMoments() const {
  Moments moments;
  auto bucket = plan.reductions.begin();
  for (uint32_t i = 0; i < problem.operations.size(); ++i) {
    moments.begin.push_back(uint32_t(moments.positions.size()));
    for (; bucket != plan.reductions.end() && bucket->launch == i; ++bucket) {
      moments.ofReduction.push_back(uint32_t(moments.positions.size()));
      moments.positions.push_back(i);
    }
    moments.positions.push_back(i);
  }
  moments.begin.push_back(uint32_t(moments.positions.size()));
  moments.changes.resize(moments.positions.size() + 1);
  return moments;
}

/// By use that is gathered: the last operation that reads its copy.
std::vector<uint32_t> Verifier::findLastReaders() const {
  std::vector<uint32_t> gathered(problem.uses.size()), last(problem.uses.size());
  for (uint32_t use = 0; use < problem.uses.size(); ++use) {
    gathered[use] = plan.kept[use] ? gathered[previousUses[use]] : use;
    last[gathered[use]] = problem.uses[use].last;
  }
  return last;
}

/// Sums the live ranges of all buffers, as Problem.h states them. Shares no code with the code that
/// makes plans.
Wrong Verifier::checkMemory() const {
  if (!problem.memoryCapBytes)
    return std::nullopt;
  Moments moments = findMoments();
  std::vector<uint32_t> lastReaders = findLastReaders();
  for (const GatherBucket &bucket : plan.gathers)
    for (uint32_t use : bucket.uses)
      moments.addBuffer(moments.ofOperation(bucket.launch), moments.begin[lastReaders[use] + 1],
                        problem.groupOfUse(use).gatheredBytes);
  for (uint32_t use = 0; use < plan.chunked.size(); ++use)
    if (plan.chunked[use]) {
      const Use &before = problem.uses[previousUses[use]];
      const uint32_t last =
          isFromHost(use) ? std::max(before.last, before.storedBy) : problem.uses[use].first;
      moments.addBuffer(moments.ofOperation(before.last), moments.begin[last + 1],
                        problem.chunkOf(use, plan.chunked[use]).bytes);
    }
  for (size_t index = 0; index < plan.reductions.size(); ++index) {
    const ReductionBucket &bucket = plan.reductions[index];
    uint32_t launch = moments.ofReduction[index];
    for (uint32_t member : bucket.reductions) {
      const Reduction &reduction = problem.reductions[member];
      // A wait at the position of the launch follows the launch.
      uint32_t waited = bucket.wait == bucket.launch ? launch + 1 : moments.begin[bucket.wait];
      moments.addBuffer(moments.begin[reduction.ready], waited, reduction.inputBytes);
      moments.addBuffer(launch, moments.begin[reduction.update + 1], reduction.outputBytes);
    }
  }
  int64_t buffers = 0;
  for (uint32_t moment = 0; moment < moments.positions.size(); ++moment) {
    buffers += moments.changes[moment];
    uint32_t position = moments.positions[moment];
    const Operation &operation = problem.operations[position];
    bool isOperation = moment == moments.ofOperation(position);
    int64_t bytes = buffers + (isOperation ? operation.liveBytes : operation.carriedBytes);
    if (bytes > *problem.memoryCapBytes)
      return "the plan needs " + std::to_string(bytes) + " bytes at " +
             (isOperation ? "operation " : "the launch of a reduction before operation ") +
             std::to_string(position) + ", expected at most " +
             std::to_string(*problem.memoryCapBytes);
  }
  return std::nullopt;
}

// A plan that passes cannot deadlock: the collectives of each lane, and the waits, are in the order
// of issue, and each wait comes after its launch.
Wrong fsdp::schedule::verify(const Problem &problem, const Plan &plan) {
  Verifier verifier(problem, plan);
  for (auto check : {&Verifier::checkUses, &Verifier::checkGathers, &Verifier::checkReductions,
                     &Verifier::checkMemory})
    if (Wrong wrong = (verifier.*check)())
      return wrong;
  return std::nullopt;
}
