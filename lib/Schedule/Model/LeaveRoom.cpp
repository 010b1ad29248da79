//===- LeaveRoom.cpp - Memory that plans should leave free ----------------===//

#include "fsdp/Schedule/LeaveRoom.h"

#include <algorithm>
#include <cassert>

using namespace fsdp::schedule;

bool fsdp::schedule::leaveRoom(Problem &problem, std::span<const int64_t> roomBytes) {
  assert(problem.memoryCapBytes && "room is left below a cap");
  std::vector<Operation> operations = problem.operations;
  std::vector<int64_t> unavoidable = problem.unavoidableBytes();
  for (size_t i = 0; i < unavoidable.size(); ++i)
    problem.operations[i].liveBytes +=
        std::clamp<int64_t>(*problem.memoryCapBytes - unavoidable[i], 0, roomBytes[i]);
  if (problem.minimumPeak().bytes <= *problem.memoryCapBytes)
    return true;
  problem.operations = std::move(operations);
  return false;
}
