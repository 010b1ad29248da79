//===- CollectiveOrder.h - The order of a plan's collectives ----*- C++ -*-===//
//
// All ranks must issue the same collectives in the same order, else they deadlock. The compiler
// proves this for one plan. At the start of a run these hashes show whether all ranks have the same
// plan (train/OrderAgreement.h).
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_COLLECTIVEORDER_H
#define FSDP_RUNTIME_COLLECTIVEORDER_H

#include "plan/PlanView.h"

#include <vector>

namespace fsdp::rt {

/// True for all-reduces of the gradients' norm and of parameters' largest absolute values, which
/// belong to no group.
inline bool reducesNumbers(const fsdp_entry &entry) {
  return entry.kind == FSDP_NORM_ALL_REDUCE_START || entry.kind == FSDP_AMAX_ALL_REDUCE_START;
}

/// True for collectives of the model's own code, which run on the compute stream and belong to no
/// group.
inline bool isOfModel(const fsdp_entry &entry) {
  return entry.kind == FSDP_MODEL_ALL_REDUCE || entry.kind == FSDP_MODEL_ALL_GATHER ||
         entry.kind == FSDP_MODEL_REDUCE_SCATTER;
}

/// True for entries that start a collective on a stream of its own. Copies to and from the host run
/// on streams, too, but have no peers.
inline bool startsCollective(const fsdp_entry &entry) {
  return entry.kind == FSDP_ALL_GATHER_START || entry.kind == FSDP_REDUCE_SCATTER_START ||
         entry.kind == FSDP_ALL_REDUCE_START || reducesNumbers(entry);
}

/// True for entries in which peers take part.
inline bool isCollective(const fsdp_entry &entry) {
  return startsCollective(entry) || isOfModel(entry);
}

/// True for collectives of a group of parameters.
inline bool isOfGroup(const fsdp_entry &entry) {
  return startsCollective(entry) && !reducesNumbers(entry);
}

/// The kind of a group's collective that moves data as this collective does.
inline uint8_t groupKindOf(const fsdp_entry &entry) {
  if (reducesNumbers(entry) || entry.kind == FSDP_MODEL_ALL_REDUCE)
    return FSDP_ALL_REDUCE_START;
  if (entry.kind == FSDP_MODEL_ALL_GATHER)
    return FSDP_ALL_GATHER_START;
  if (entry.kind == FSDP_MODEL_REDUCE_SCATTER)
    return FSDP_REDUCE_SCATTER_START;
  return entry.kind;
}

/// The indices of the collective entries, in order of issue.
std::vector<uint32_t> collectiveEntries(const PlanView &plan);

/// One number per collective, in order of issue. Number n is a hash of the first n + 1 collectives
/// (kind, group by name, stream, phase, dtype, bytes, elements, places in the arena, and who
/// meets), so that the first difference between two plans is where their numbers begin to differ.
/// FNV-1a, 64 bits.
std::vector<uint64_t> collectiveOrderHashes(const PlanView &plan);

/// `all_gather of group "layers.1" in backward, 4096 bytes of f32 per rank on the gather stream,
/// arena [0] to [8192]`.
std::string describeCollectiveEntry(const PlanView &plan, const fsdp_entry &entry);

/// "compute", "gather", "reduce", "replicate".
const char *streamName(unsigned stream);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_COLLECTIVEORDER_H
