//===- CollectiveNames.cpp - Text about collectives for messages ----------===//

#include "comm/CollectiveNames.h"
#include "DType.h"
#include "comm/Reduction.h"

#include <cstdio>

using namespace fsdp::rt;

CollectiveDescriptor fsdp::rt::describeReduction(CollectiveKind kind, size_t count,
                                                 fsdp_dtype dtype, ReduceOp op) {
  CollectiveDescriptor what{};
  what.kind = kind;
  what.op = op;
  what.dtype = dtype;
  what.count = count;
  return what;
}

CollectiveDescriptor fsdp::rt::describeTransfer(CollectiveKind kind, size_t bytes, unsigned root) {
  CollectiveDescriptor what{};
  what.kind = kind;
  what.root = root;
  what.count = bytes;
  return what;
}

std::string fsdp::rt::describeCollective(const CollectiveDescriptor &descriptor) {
  std::string bytes = " of " + std::to_string(descriptor.count) + " bytes";
  std::string elements = " of " + std::to_string(descriptor.count) + " " +
                         dtypeName(descriptor.dtype) + " (" + reduceOpName(descriptor.op) + ")";
  switch (descriptor.kind) {
  case CollectiveKind::AllGather:
    return "all_gather" + bytes;
  case CollectiveKind::ReduceScatter:
    return "reduce_scatter" + elements;
  case CollectiveKind::AllReduce:
    return "all_reduce" + elements;
  case CollectiveKind::Broadcast:
    return "broadcast" + bytes + " from rank " + std::to_string(descriptor.root);
  case CollectiveKind::Barrier:
    return "barrier";
  }
  return "collective";
}

std::string fsdp::rt::listRanks(const std::vector<unsigned> &ranks) {
  constexpr size_t kMost = 8;
  std::string result = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size() && i < kMost; ++i) {
    if (i != 0)
      result += i + 1 == ranks.size() ? " and " : ", ";
    result += std::to_string(ranks[i]);
  }
  if (ranks.size() > kMost)
    result += " and " + std::to_string(ranks.size() - kMost) + " more";
  return result;
}

std::string fsdp::rt::describeWait(unsigned rank, std::chrono::nanoseconds waited,
                                   std::chrono::nanoseconds deadline) {
  using Seconds = std::chrono::duration<double>;
  char text[96];
  std::snprintf(text, sizeof(text), "; rank %u has waited %.3f s, the deadline is %g s", rank,
                Seconds(waited).count(), Seconds(deadline).count());
  return text;
}

Status fsdp::rt::checkRoot(unsigned root, unsigned size) {
  if (root < size)
    return {};
  return Status::error("broadcast from rank " + std::to_string(root) + ", but there are " +
                       std::to_string(size) + " ranks");
}

Status fsdp::rt::otherLanes(unsigned rank, unsigned peer) {
  return Status::error("rank " + std::to_string(peer) + " has other communicators than rank " +
                       std::to_string(rank) + ": do they run one program?");
}
