//===- LibraryCollectives.cpp - Collectives of a shared library ------------===//

#include "comm/LibraryCollectives.h"
#include "comm/BoundedCalls.h"

#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <functional>

using namespace fsdp::rt;

Result<const fsdp_collectives *> fsdp::rt::loadCollectives(const std::string &path) {
  const std::string flag = "--collectives " + path + ": ";
  // An absolute path, since a bare name would be searched in the system's folders.
  void *library = dlopen(std::filesystem::absolute(path).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return Status::error(flag + dlerror());
  auto get =
      reinterpret_cast<decltype(&fsdp_get_collectives)>(dlsym(library, "fsdp_get_collectives"));
  if (!get)
    return Status::error(flag + "it exports no fsdp_get_collectives (fsdp/Plan/CollectivesAbi.h)");
  const fsdp_collectives *collectives = get();
  if (!collectives || !collectives->name)
    return Status::error(flag + "fsdp_get_collectives returns no table with a name");
  if (collectives->abi_version != FSDP_COLLECTIVES_ABI_VERSION)
    return Status::error(flag + "ABI version " + std::to_string(collectives->abi_version) +
                         ", this runtime speaks " + std::to_string(FSDP_COLLECTIVES_ABI_VERSION) +
                         "; compile the library again");
  return collectives;
}

namespace {
using OwnCollective = std::function<Status(Communicator &, const fsdp_collective &)>;

/// One call of the library. It may outlive the collective that made it.
struct LibraryCall {
  std::shared_ptr<Communicator> inner; // owns the memory that the library reads and writes
  fsdp_run_collective run;
  OwnCollective own;
  std::string lane;
  fsdp_collective collective;
  Status ofInner = {}; // of the communicator, if the library called it

  Status operator()();
};

class LibraryCommunicator final : public Communicator {
public:
  LibraryCommunicator(std::shared_ptr<Communicator> communicator, const fsdp_collectives &library,
                      std::chrono::milliseconds deadline)
      : Communicator(*communicator), inner(std::move(communicator)), library(library),
        deadline(deadline), groups(numLanes(), ""), calls(numLanes()) {}

  Result<std::byte *> makeArena(size_t bytes) override { return inner->makeArena(bytes); }
  void setGroup(unsigned lane, const char *group) override { groups[lane] = group; }
  Status allGather(unsigned lane, const void *input, void *output, size_t bytes) override;
  Status reduceScatter(unsigned lane, const void *input, void *output, size_t count,
                       fsdp_dtype dtype, ReduceOp op) override;
  Status allReduce(unsigned lane, void *data, size_t count, fsdp_dtype dtype, ReduceOp op) override;
  Status broadcast(unsigned lane, void *data, size_t bytes, unsigned root) override {
    return inner->broadcast(lane, data, bytes, root);
  }
  Status barrier(unsigned lane) override { return inner->barrier(lane); }
  Status health() override { return inner->health(); }
  void abort(const Status &reason) override { inner->abort(reason); }

private:
  Status run(const char *kind, unsigned lane, fsdp_run_collective function,
             const fsdp_collective &collective, OwnCollective own);
  bool isOwn(unsigned lane, fsdp_run_collective run) const {
    return lane != kControlLane && lane < numLanes() && run;
  }

  std::shared_ptr<Communicator> inner;
  const fsdp_collectives &library;
  const std::chrono::milliseconds deadline;
  std::vector<const char *> groups; // of the next collective, by lane
  std::vector<BoundedCalls> calls;  // by lane
};
} // namespace

/// The first line that a library wrote to `error`.
static std::string textOf(const char *error, size_t bytes) {
  const std::string text(error, strnlen(error, bytes));
  return text.empty() ? "it gives no reason" : text.substr(0, text.find('\n'));
}

Status LibraryCall::operator()() {
  char error[512] = {};
  collective.lane = lane.c_str();
  collective.run = this;
  collective.otherwise = [](const fsdp_collective *asked) {
    auto &call = *static_cast<LibraryCall *>(asked->run);
    call.ofInner = call.own(*call.inner, *asked);
    return call.ofInner.ok() ? 0 : 1;
  };
  collective.has_failed = [](const fsdp_collective *asked) {
    return static_cast<LibraryCall *>(asked->run)->inner->health().ok() ? 0 : 1;
  };
  try {
    if (run(&collective, error, sizeof(error)) == 0)
      return {};
  } catch (const std::exception &exception) {
    return Status::error(std::string("it throws: ") + exception.what());
  } catch (...) {
    return Status::error("it throws");
  }
  // A failed peer is not the library's error.
  return ofInner.ok() ? Status::error(textOf(error, sizeof(error))) : ofInner;
}

Status LibraryCommunicator::run(const char *kind, unsigned lane, fsdp_run_collective function,
                                const fsdp_collective &collective, OwnCollective own) {
  const LaneRanks with = ranksOf(lane);
  LibraryCall call{inner, function, std::move(own), lanes()[lane].name, collective, {}};
  call.collective.group = groups[lane];
  call.collective.rank = with.index;
  call.collective.ranks = with.size;
  call.collective.first = with.first;
  call.collective.stride = with.stride;
  call.collective.deadline_ms = deadline.count();
  std::optional<Status> status = calls[lane].ask(std::move(call), deadline + kLibraryGrace);
  const std::string subject = "collectives '" + std::string(library.name) + "', " + kind +
                              " on the " + laneName(lane) + " at rank " + std::to_string(rank()) +
                              ": ";
  if (!status)
    return Status::error(subject + "no answer within " + std::to_string(deadline.count()) + " ms");
  return status->ok() || status->abortedBy() ? *status : status->within(subject);
}

/// A descriptor without the ranks that meet, which run() fills in.
static fsdp_collective makeCollective(const void *input, void *output, size_t count,
                                      fsdp_dtype dtype) {
  fsdp_collective collective{};
  collective.input = input;
  collective.output = output;
  collective.count = count;
  collective.dtype = dtype;
  return collective;
}

static fsdp_collective makeReduction(const void *input, void *output, size_t count,
                                     fsdp_dtype dtype, ReduceOp op) {
  fsdp_collective collective = makeCollective(input, output, count, dtype);
  collective.reduce_op = op == ReduceOp::Average ? FSDP_AVERAGE : FSDP_SUM;
  collective.takes_max = op == ReduceOp::Max;
  return collective;
}

Status LibraryCommunicator::allGather(unsigned lane, const void *input, void *output,
                                      size_t bytes) {
  if (!isOwn(lane, library.all_gather))
    return inner->allGather(lane, input, output, bytes);
  return run("all_gather", lane, library.all_gather, makeCollective(input, output, bytes, FSDP_U8),
             [lane](Communicator &own, const fsdp_collective &asked) {
               return own.allGather(lane, asked.input, asked.output, asked.count);
             });
}

Status LibraryCommunicator::reduceScatter(unsigned lane, const void *input, void *output,
                                          size_t count, fsdp_dtype dtype, ReduceOp op) {
  if (!isOwn(lane, library.reduce_scatter))
    return inner->reduceScatter(lane, input, output, count, dtype, op);
  return run("reduce_scatter", lane, library.reduce_scatter,
             makeReduction(input, output, count, dtype, op),
             [lane, dtype, op](Communicator &own, const fsdp_collective &asked) {
               return own.reduceScatter(lane, asked.input, asked.output, asked.count, dtype, op);
             });
}

Status LibraryCommunicator::allReduce(unsigned lane, void *data, size_t count, fsdp_dtype dtype,
                                      ReduceOp op) {
  if (!isOwn(lane, library.all_reduce))
    return inner->allReduce(lane, data, count, dtype, op);
  return run("all_reduce", lane, library.all_reduce, makeReduction(data, data, count, dtype, op),
             [lane, dtype, op](Communicator &own, const fsdp_collective &asked) {
               return own.allReduce(lane, asked.output, asked.count, dtype, op);
             });
}

std::unique_ptr<Communicator>
fsdp::rt::makeLibraryCommunicator(std::unique_ptr<Communicator> inner,
                                  const fsdp_collectives &library,
                                  std::chrono::milliseconds deadline) {
  return std::make_unique<LibraryCommunicator>(std::move(inner), library, deadline);
}
