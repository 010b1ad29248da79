//===- Store.cpp - The key-value store where ranks meet -------------------===//

#include "comm/Store.h"
#include "comm/BoundedCalls.h"
#include "comm/CollectiveNames.h"
#include "comm/Exceptions.h"
#include "comm/ServerSocket.h"

#include <c10/util/Logging.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

using namespace fsdp::rt;

/// Silences torch's log: c10d writes stack traces to stderr for exceptions, which become a Status
/// here. torch's own environment variable turns the log on again.
static void quietTorchLog() {
  if (std::getenv("TORCH_CPP_LOG_LEVEL"))
    c10::initLogging();
  else
    FLAGS_caffe2_log_level = 3; // fatal errors only
}

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

struct Store::Implementation {
  unsigned rank = 0, worldSize = 0;
  std::string place;
  milliseconds timeout{};
  Clock::time_point deadline; // of meet()
  // Calls that hang share ownership, and are the last to use it.
  c10::intrusive_ptr<c10d::Store> store;
  BoundedCalls calls; // last member: it ends before the members that it uses

  /// The result of `call` on the store. Throws c10d's exceptions, also if the call takes too long.
  template <typename Call> auto ask(Call call, milliseconds patience) {
    auto answer = calls.ask([store = store, call] { return call(*store); }, patience);
    if (!answer)
      throw std::runtime_error("no answer " + within(patience));
    return *std::move(answer);
  }
};

Store::Store(std::unique_ptr<Implementation> implementation)
    : implementation(std::move(implementation)) {}

Store::~Store() = default;

c10d::Store &Store::native() { return *implementation->store; }

std::string Store::place(const LaunchEnvironment &environment) {
  return environment.masterAddress + " port " + std::to_string(environment.masterPort) +
         " (launched by " + environment.launcher + "; MASTER_ADDR and MASTER_PORT set the place)";
}

std::string Store::within(std::chrono::milliseconds timeout) {
  char text[32];
  std::snprintf(text, sizeof(text), "within %g s", std::chrono::duration<double>(timeout).count());
  return text;
}

Result<std::unique_ptr<Store>> Store::connect(const LaunchEnvironment &environment,
                                              std::chrono::milliseconds timeout) {
  quietTorchLog();
  Clock::time_point deadline = Clock::now() + timeout;
  c10d::TCPStoreOptions options;
  FileDescriptor socket;
  options.port = environment.masterPort;
  options.isServer = !environment.agentStore && environment.rank == 0;
  options.waitWorkers = false;
  options.timeout = timeout;
  if (options.isServer) {
    Result<FileDescriptor> bound =
        bindWhereNamed(environment.masterAddress, environment.masterPort);
    if (!bound.ok())
      return Status::error("rank 0 cannot serve the rendezvous at " + place(environment) + ": " +
                           bound.status().message());
    socket = std::move(*bound);
  }
  try {
    if (socket.valid())
      options.masterListenFd = socket.release();
    auto server = c10::make_intrusive<c10d::TCPStore>(environment.masterAddress, options);
    auto implementation = std::make_unique<Implementation>();
    implementation->rank = environment.rank;
    implementation->worldSize = environment.worldSize;
    implementation->place = place(environment);
    implementation->timeout = timeout;
    implementation->deadline = deadline;
    implementation->store =
        c10::make_intrusive<c10d::PrefixStore>("fsdpc/" + environment.runId, server);
    implementation->store->setTimeout(timeout);
    return std::unique_ptr<Store>(new Store(std::move(implementation)));
  } catch (const std::exception &exception) {
    return Status::error((options.isServer ? "rank 0 cannot serve the rendezvous at "
                                           : "no rendezvous with rank 0 at ") +
                         place(environment) + ": " + firstLine(exception));
  }
}

Status Store::meet() {
  auto keyOf = [](unsigned rank) { return "come/" + std::to_string(rank); };
  if (Status status = set(keyOf(implementation->rank), "yes"); !status.ok())
    return status;
  std::vector<std::string> keys;
  for (unsigned rank = 0; rank < implementation->worldSize; ++rank)
    keys.push_back(keyOf(rank));
  std::string error;
  try {
    // At least 1 ms, since c10d takes a timeout of 0 for no timeout.
    auto left = std::max(std::chrono::ceil<milliseconds>(implementation->deadline - Clock::now()),
                         milliseconds(1));
    implementation->ask(
        [keys, left](c10d::Store &store) {
          store.wait(keys, left);
          return true;
        },
        left + kRendezvousGrace / 2);
    return {};
  } catch (const std::exception &exception) {
    error = firstLine(exception);
  }
  const std::string rendezvous = " the rendezvous of " + std::to_string(implementation->worldSize) +
                                 " ranks at " + implementation->place;
  std::vector<unsigned> missing;
  try {
    missing = implementation->ask(
        [keys](c10d::Store &store) {
          std::vector<unsigned> ranks;
          for (unsigned rank = 0; rank < keys.size(); ++rank)
            if (!store.check({keys[rank]}))
              ranks.push_back(rank);
          return ranks;
        },
        kRendezvousGrace / 2);
  } catch (const std::exception &) {
    if (Clock::now() < implementation->deadline)
      return Status::error("rank 0 left" + rendezvous + " before all had come: " + error);
    // Rank 0 has waited as long and names the missing ranks.
    return Status::error("some ranks did not come to" + rendezvous + " " +
                         within(implementation->timeout));
  }
  if (missing.empty()) // the last rank came just now
    return {};
  return Status::error(listRanks(missing) + " did not come to" + rendezvous + " " +
                       within(implementation->timeout));
}

Status Store::set(const std::string &key, const std::string &value) {
  try {
    implementation->ask(
        [key, value](c10d::Store &store) {
          store.set(key, std::vector<uint8_t>(value.begin(), value.end()));
          return true;
        },
        implementation->timeout);
    return {};
  } catch (const std::exception &exception) {
    return Status::error("the rendezvous is lost: " + firstLine(exception));
  }
}

Result<std::string> Store::get(const std::string &key) {
  try {
    return implementation->ask(
        [key](c10d::Store &store) {
          std::vector<uint8_t> value = store.get(key);
          return std::string(value.begin(), value.end());
        },
        implementation->timeout + kRendezvousGrace / 2);
  } catch (const std::exception &exception) {
    return Status::error("the rendezvous has no '" + key + "': " + firstLine(exception));
  }
}
