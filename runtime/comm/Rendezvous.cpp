//===- Rendezvous.cpp - How the processes of a run find each other --------===//

#include "comm/Rendezvous.h"
#include "comm/Backends.h"

using namespace fsdp::rt;

Result<std::unique_ptr<Communicator>> fsdp::rt::connect(const std::string &backend,
                                                        const LaunchEnvironment &environment,
                                                        CommunicatorOptions options) {
  if (backend != "shm" && backend != "gloo")
    return Status::error("no communicator '" + backend +
                         "' between processes, expected shm or gloo");
  // A rank alone needs to find nobody.
  if (environment.worldSize == 1) {
    auto communicators = makeLocalCommunicators(1, options);
    if (communicators.empty())
      return Status::error("no memory for a communicator");
    return std::move(communicators[0]);
  }
  Result<std::unique_ptr<Store>> store = Store::connect(environment, options.connectTimeout);
  if (!store.ok())
    return store.status();
  if (backend == "shm")
    return connectShm(environment, std::move(*store), options);
  return connectGloo(environment, std::move(*store), options);
}
