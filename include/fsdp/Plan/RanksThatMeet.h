//===- RanksThatMeet.h - The ranks of a collective --------------*- C++ -*-===//

#ifndef FSDP_PLAN_RANKSTHATMEET_H
#define FSDP_PLAN_RANKSTHATMEET_H

namespace fsdp::plan {

/// The ranks that meet, from the view of one of them: first, first + stride, ...
struct RanksThatMeet {
  unsigned first = 0, stride = 1, size = 1;
  unsigned index = 0; // of the viewing rank, which is at(index)

  unsigned at(unsigned i) const { return first + i * stride; }
};

/// The ranks that meet with `rank`, in groups of `ranks` ranks that are `stride` apart
/// (fsdp_communicator). Along an axis of a mesh, `stride` is the number of ranks of the axes after
/// it.
inline RanksThatMeet getRanksThatMeet(unsigned ranks, unsigned stride, unsigned rank) {
  return {rank / (ranks * stride) * (ranks * stride) + rank % stride, stride, ranks,
          rank / stride % ranks};
}

} // namespace fsdp::plan

#endif // FSDP_PLAN_RANKSTHATMEET_H
