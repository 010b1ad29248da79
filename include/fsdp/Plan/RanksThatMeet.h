//===- RanksThatMeet.h - Who takes part in a collective ---------*- C++ -*-===//

#ifndef FSDP_PLAN_RANKSTHATMEET_H
#define FSDP_PLAN_RANKSTHATMEET_H

namespace fsdp::plan {

/// The ranks that meet, seen by one of them: first, first + stride, ...
struct RanksThatMeet {
  unsigned first = 0, stride = 1, size = 1;
  unsigned index = 0; // of the rank itself: it is at(index)

  unsigned at(unsigned i) const { return first + i * stride; }
};

/// With whom `rank` meets, of a run's ranks in groups of `ranks` that are `stride` apart
/// (fsdp_communicator): along the axis of a mesh, `stride` is the number of ranks of the axes
/// behind.
inline RanksThatMeet getRanksThatMeet(unsigned ranks, unsigned stride, unsigned rank) {
  return {rank / (ranks * stride) * (ranks * stride) + rank % stride, stride, ranks,
          rank / stride % ranks};
}

} // namespace fsdp::plan

#endif // FSDP_PLAN_RANKSTHATMEET_H
