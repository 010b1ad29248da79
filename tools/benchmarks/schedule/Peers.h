//===- Peers.h - Decisions of other compilers ----------------- -*- C++ -*-===//
//
// The decisions that XLA's latency-hiding scheduler, DeepCompile and TorchInductor would make for
// the same problem, put through a list scheduler that respects the cap, which these compilers do
// not have.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_BENCHMARKS_SCHEDULE_PEERS_H
#define FSDP_BENCHMARKS_SCHEDULE_PEERS_H

#include "fsdp/Schedule/ListSchedule.h"

#include <string_view>

namespace fsdp::benchmark {

enum class Peer : uint8_t { XlaLatencyHiding, DeepCompile, Inductor };

std::string_view getName(Peer peer); // "xla-lhs", "deepcompile", "inductor"

schedule::Decisions decideAs(const schedule::Problem &problem, Peer peer);

} // namespace fsdp::benchmark

#endif // FSDP_BENCHMARKS_SCHEDULE_PEERS_H
