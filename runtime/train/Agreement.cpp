//===- Agreement.cpp - Errors that all ranks know -------------------------===//

#include "train/Agreement.h"

#include <algorithm>
#include <cctype>
#include <cstring>

using namespace fsdp::rt;

namespace {
// What a rank tells the others: its message, cut to a fixed size.
struct Report {
  uint32_t failed = 0;
  char message[1020] = {};
};
} // namespace

Outcome fsdp::rt::agree(Communicator &communicator, const Status &own) {
  Report report;
  report.failed = !own.ok();
  own.message().copy(report.message, sizeof(report.message) - 1);
  std::vector<Report> reports(communicator.size());
  Status status = communicator.allGather(kControlLane, &report, reports.data(), sizeof(Report));
  if (!status.ok())
    return own.ok() ? Outcome{status, false} : Outcome{own, false};
  for (unsigned rank = 0; rank < reports.size(); ++rank)
    if (reports[rank].failed) {
      std::string message = rank == communicator.rank() ? own.message() : reports[rank].message;
      return {Status::error(rank == 0 ? message : abortReason(rank, message)), true};
    }
  return {};
}

std::string fsdp::rt::abortReason(unsigned rank, const std::string &message) {
  // Passing on what another rank said keeps that rank's name.
  if (std::string relayed = relayedReason(message); !relayed.empty())
    return relayed;
  return "[rank " + std::to_string(rank) + "] " + message;
}

std::string fsdp::rt::relayedReason(const std::string &message) {
  size_t begin = message.find("[rank ");
  return begin == std::string::npos ? "" : message.substr(begin);
}
