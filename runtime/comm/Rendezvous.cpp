//===- Rendezvous.cpp - How the processes of a run find each other --------===//

#include "comm/Rendezvous.h"
#include "comm/Backends.h"

#include <atomic>
#include <future>
#include <system_error>
#include <thread>

using namespace fsdp::rt;

namespace {

using Connected = Result<std::unique_ptr<Communicator>>;

/// A rendezvous in a thread of its own.
struct Attempt {
  std::atomic<bool> allHaveCome{false};
  std::promise<Connected> result;
};

} // namespace

static Connected rendezvous(const std::string &backend, const LaunchEnvironment &environment,
                            const CommunicatorOptions &options, Attempt &attempt) {
  Result<std::unique_ptr<Store>> store = Store::connect(environment, options.connectTimeout);
  if (!store.ok())
    return store.status();
  if (Status status = (*store)->meet(); !status.ok())
    return status;
  attempt.allHaveCome = true;
  if (backend == "shm")
    return connectShm(environment, std::move(*store), options);
  return connectGloo(environment, std::move(*store), options);
}

Result<std::unique_ptr<Communicator>> fsdp::rt::connect(const std::string &backend,
                                                        const LaunchEnvironment &environment,
                                                        const CommunicatorOptions &options) {
  if (backend != "shm" && backend != "gloo")
    return Status::error("no communicator '" + backend +
                         "' between processes, expected shm or gloo");
  // A single rank needs no rendezvous.
  if (environment.worldSize == 1) {
    auto communicators = makeLocalCommunicators(1, options);
    if (communicators.empty())
      return Status::error("no memory for a communicator");
    return std::move(communicators[0]);
  }
  // c10d bounds most of its waits, but not waits for a name server or for a store that accepts a
  // connection and does not answer. So the rendezvous runs in a thread, which is abandoned in that
  // case.
  auto attempt = std::make_shared<Attempt>();
  std::future<Connected> result = attempt->result.get_future();
  try {
    std::thread([=] {
      attempt->result.set_value(rendezvous(backend, environment, options, *attempt));
    }).detach();
  } catch (const std::system_error &error) {
    return Status::error(std::string("no thread for the rendezvous: ") + error.what());
  }
  if (result.wait_for(options.connectTimeout + kRendezvousGrace) == std::future_status::ready)
    return result.get();
  std::string where = Store::place(environment), time = Store::within(options.connectTimeout);
  if (attempt->allHaveCome)
    return Status::error("all " + std::to_string(environment.worldSize) +
                         " ranks came to the rendezvous at " + where +
                         ", but some did not connect " + time + "; one may have died");
  return Status::error("no rendezvous with rank 0 at " + where + ": no answer " + time);
}
