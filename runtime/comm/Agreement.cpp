//===- Agreement.cpp - Ranks exchange their errors ------------------------===//

#include "comm/Agreement.h"

#include <algorithm>

using namespace fsdp::rt;

namespace {
// A rank's message to the others, cut to a fixed size.
struct Report {
  uint32_t failed = 0, saidBytes = 0;
  char message[1020] = {};
};
} // namespace

Outcome fsdp::rt::agree(Communicator &communicator, const Status &own) {
  Report report;
  report.failed = !own.ok();
  size_t length = own.message().copy(report.message, sizeof(report.message) - 1);
  size_t cut = own.message().size() - length;
  report.saidBytes = static_cast<uint32_t>(own.said().size() - std::min(own.said().size(), cut));
  std::vector<Report> reports(communicator.size());
  Status status = communicator.allGather(kControlLane, &report, reports.data(), sizeof(Report));
  if (!status.ok())
    return own.ok() ? Outcome{status, false} : Outcome{own, false};
  for (unsigned rank = 0; rank < reports.size(); ++rank)
    if (reports[rank].failed) {
      Status told = rank == communicator.rank()
                        ? own
                        : Status::relayed(reports[rank].message, reports[rank].saidBytes);
      return {rank == 0 ? told : Status::saidBy(rank, told), true};
    }
  return {};
}

Outcome fsdp::rt::inRounds(Communicator &communicator,
                           const std::function<Result<bool>(int64_t bytes)> &work) {
  // Limits how long a rank waits for another with a slower disk.
  constexpr int64_t kRoundBytes = int64_t{128} << 20;
  enum State : uint32_t { Working, Done, Failed };
  for (bool done = false;;) {
    Status own;
    if (!done) {
      Result<bool> result = work(kRoundBytes);
      own = result.status();
      done = own.ok() && *result;
    }
    State state = !own.ok() ? Failed : done ? Done : Working;
    std::vector<State> states(communicator.size());
    if (Status status = communicator.allGather(kControlLane, &state, states.data(), sizeof(state));
        !status.ok())
      return {status, false};
    if (std::ranges::count(states, Failed))
      return agree(communicator, own);
    if (!std::ranges::count(states, Working))
      return {};
  }
}
