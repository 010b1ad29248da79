//===- Store.cpp - The key-value store where ranks meet -------------------===//

#include "comm/Store.h"
#include "comm/Exceptions.h"

#include <c10/util/Logging.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

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

struct Store::Implementation {
  c10::intrusive_ptr<c10d::Store> store;
};

Store::Store(std::unique_ptr<Implementation> implementation)
    : implementation(std::move(implementation)) {}

Store::~Store() = default;

c10d::Store &Store::native() { return *implementation->store; }

Result<std::unique_ptr<Store>> Store::connect(const LaunchEnvironment &environment,
                                              std::chrono::milliseconds timeout) {
  quietTorchLog();
  c10d::TCPStoreOptions options;
  options.port = environment.masterPort;
  options.isServer = !environment.agentStore && environment.rank == 0;
  options.waitWorkers = false;
  options.timeout = timeout;
  try {
    auto server = c10::make_intrusive<c10d::TCPStore>(environment.masterAddress, options);
    auto implementation = std::make_unique<Implementation>();
    implementation->store =
        c10::make_intrusive<c10d::PrefixStore>("fsdpc/" + environment.runId, server);
    implementation->store->setTimeout(timeout);
    return std::unique_ptr<Store>(new Store(std::move(implementation)));
  } catch (const std::exception &exception) {
    std::string place =
        environment.masterAddress + " port " + std::to_string(environment.masterPort);
    return Status::error((options.isServer ? "rank 0 cannot serve the rendezvous at "
                                           : "no rendezvous with rank 0 at ") +
                         place + " (launched by " + environment.launcher +
                         "; MASTER_ADDR and MASTER_PORT set the place): " + firstLine(exception));
  }
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
