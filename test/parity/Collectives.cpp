//===- Collectives.cpp - A library of collectives --------------------------===//
//
// Notes each collective in the file $FSDP_TEST_COLLECTIVES_LOG.<rank> as "all_gather <bytes>".
// Gathers it does itself, between threads of one process; reductions are the run's own. Fails at
// the rank that $FSDP_TEST_COLLECTIVES_FAIL names.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Plan/CollectivesAbi.h"

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace {
/// Where the ranks of a lane meet.
class Meeting {
public:
  void gather(const fsdp_collective &own) {
    std::unique_lock lock(mutex);
    inputs.resize(own.ranks);
    inputs[own.rank] = own.input;
    wait(lock, own.ranks);
    auto *output = static_cast<char *>(own.output);
    for (uint32_t rank = 0; rank < own.ranks; ++rank)
      if (char *place = output + rank * own.count; place != inputs[rank])
        std::memcpy(place, inputs[rank], own.count);
    wait(lock, own.ranks);
  }

private:
  void wait(std::unique_lock<std::mutex> &lock, uint32_t ranks) {
    const uint64_t turn = (here++ / ranks + 1) * ranks;
    everybody.notify_all();
    everybody.wait(lock, [&] { return here >= turn; });
  }

  std::mutex mutex;
  std::condition_variable everybody;
  std::vector<const void *> inputs;
  uint64_t here = 0;
};

std::mutex allMeetings;
std::map<std::string, Meeting> meetings; // by lane
} // namespace

static uint32_t runRankOf(const fsdp_collective &collective) {
  return collective.first + collective.rank * collective.stride;
}

static void note(const fsdp_collective &collective, const char *kind, uint64_t bytes) {
  if (const char *path = std::getenv("FSDP_TEST_COLLECTIVES_LOG")) {
    const std::string name =
        std::string(path) + "." + collective.lane + "." + std::to_string(runRankOf(collective));
    std::ofstream(name, std::ios::app) << kind << ' ' << bytes << '\n';
  }
}

static int fails(const fsdp_collective &collective, char *error, uint64_t bytes) {
  const char *rank = std::getenv("FSDP_TEST_COLLECTIVES_FAIL");
  if (!rank || std::to_string(runRankOf(collective)) != rank)
    return 0;
  std::snprintf(error, bytes, "the test wants it to fail");
  return 1;
}

static uint64_t bytesOf(const fsdp_collective &collective) {
  switch (collective.dtype) {
  case FSDP_F64:
  case FSDP_I64:
    return collective.count * 8;
  case FSDP_BF16:
  case FSDP_F16:
    return collective.count * 2;
  case FSDP_U8:
    return collective.count;
  default:
    return collective.count * 4;
  }
}

static int allGather(const fsdp_collective *collective, char *error, uint64_t bytes) {
  note(*collective, "all_gather", collective->count);
  Meeting *meeting;
  {
    std::lock_guard lock(allMeetings);
    meeting = &meetings[collective->lane + std::string(".") + std::to_string(collective->first)];
  }
  meeting->gather(*collective);
  return 0;
}

static int reduceScatter(const fsdp_collective *collective, char *error, uint64_t bytes) {
  note(*collective, "reduce_scatter", bytesOf(*collective));
  if (fails(*collective, error, bytes))
    return 1;
  return collective->otherwise(collective);
}

static int allReduce(const fsdp_collective *collective, char *error, uint64_t bytes) {
  note(*collective, "all_reduce", bytesOf(*collective));
  return collective->otherwise(collective);
}

extern "C" const fsdp_collectives *fsdp_get_collectives(void) {
  static const fsdp_collectives table = {FSDP_COLLECTIVES_ABI_VERSION, "noted", allGather,
                                         reduceScatter, allReduce};
  return &table;
}
