//===- Backends.h - Communicators between processes --------------*- C++ -*-===//

#ifndef FSDP_RUNTIME_COMM_BACKENDS_H
#define FSDP_RUNTIME_COMM_BACKENDS_H

#include "comm/Store.h"

namespace fsdp::rt {

/// A communicator of processes on one host, in unnamed shared memory: the memory is freed with the
/// last process, however that ends.
Result<std::unique_ptr<Communicator>> connectShm(const LaunchEnvironment &environment,
                                                 std::unique_ptr<Store> store,
                                                 const CommunicatorOptions &options);

/// A communicator of ranks on any hosts, over c10d's gloo process groups, one per lane.
Result<std::unique_ptr<Communicator>> connectGloo(const LaunchEnvironment &environment,
                                                  std::unique_ptr<Store> store,
                                                  const CommunicatorOptions &options);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_COMM_BACKENDS_H
