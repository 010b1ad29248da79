//===- Store.cpp - The key-value store where ranks meet -------------------===//

#include "comm/Store.h"
#include "comm/Exceptions.h"

#include <c10/util/Logging.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

using namespace fsdp::rt;

/// c10d writes stack traces to stderr for what it also throws, and what becomes a Status here. They
/// are there for those who ask with torch's own variable.
static void quietTorchLog() {
  if (std::getenv("TORCH_CPP_LOG_LEVEL"))
    c10::initLogging();
  else
    FLAGS_caffe2_log_level = 3; // fatal errors only
}

using Clock = std::chrono::steady_clock;

struct Store::Implementation {
  unsigned rank = 0, worldSize = 0;
  std::string place;
  std::chrono::milliseconds timeout{};
  Clock::time_point deadline; // of meet()
  c10::intrusive_ptr<c10d::Store> store;
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
  options.port = environment.masterPort;
  options.isServer = !environment.agentStore && environment.rank == 0;
  options.waitWorkers = false;
  options.timeout = timeout;
  try {
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

/// "rank 1", "ranks 1, 2 and 5", "ranks 1, 2, 3, 4, 5, 6, 7, 8 and 3 more".
static std::string listRanks(const std::vector<unsigned> &ranks) {
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

Status Store::meet() {
  auto keyOf = [](unsigned rank) { return "come/" + std::to_string(rank); };
  if (Status status = set(keyOf(implementation->rank), "yes"); !status.ok())
    return status;
  std::vector<std::string> keys;
  for (unsigned rank = 0; rank < implementation->worldSize; ++rank)
    keys.push_back(keyOf(rank));
  std::string error;
  try {
    auto left =
        std::chrono::ceil<std::chrono::milliseconds>(implementation->deadline - Clock::now());
    // c10d takes a timeout of 0 for none.
    implementation->store->wait(keys, std::max(left, std::chrono::milliseconds(1)));
    return {};
  } catch (const std::exception &exception) {
    error = firstLine(exception);
  }
  std::vector<unsigned> missing;
  try {
    for (unsigned rank = 0; rank < implementation->worldSize; ++rank)
      if (!implementation->store->check({keys[rank]}))
        missing.push_back(rank);
  } catch (const std::exception &) {
    return Status::error("rank 0 left the rendezvous of " +
                         std::to_string(implementation->worldSize) + " ranks at " +
                         implementation->place + " before all had come: " + error);
  }
  if (missing.empty()) // the last came just now
    return {};
  return Status::error(listRanks(missing) + " did not come to the rendezvous of " +
                       std::to_string(implementation->worldSize) + " ranks at " +
                       implementation->place + " " + within(implementation->timeout));
}

Status Store::set(const std::string &key, const std::string &value) {
  try {
    implementation->store->set(key, std::vector<uint8_t>(value.begin(), value.end()));
    return {};
  } catch (const std::exception &exception) {
    return Status::error("the rendezvous is lost: " + firstLine(exception));
  }
}

Result<std::string> Store::get(const std::string &key) {
  try {
    std::vector<uint8_t> value = implementation->store->get(key);
    return std::string(value.begin(), value.end());
  } catch (const std::exception &exception) {
    return Status::error("the rendezvous has no '" + key + "': " + firstLine(exception));
  }
}

std::string Store::getIfSet(const std::string &key, std::chrono::milliseconds patience) {
  try {
    // check() would wait without bound for the answer of a server that hangs.
    implementation->store->wait({key}, patience);
    std::vector<uint8_t> value = implementation->store->get(key);
    return std::string(value.begin(), value.end());
  } catch (const std::exception &) {
    return "";
  }
}
