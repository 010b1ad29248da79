//===- Backends.h - Communicators between processes --------------*- C++ -*-===//

#ifndef FSDP_RUNTIME_COMM_BACKENDS_H
#define FSDP_RUNTIME_COMM_BACKENDS_H

#include "comm/Store.h"

namespace fsdp::rt {

/// Ranks that are processes of one host, which meet in shared memory without a name: when the last
/// of them is gone, however it ended, so is the memory.
Result<std::unique_ptr<Communicator>> connectShm(const LaunchEnvironment &environment,
                                                 std::unique_ptr<Store> store,
                                                 const CommunicatorOptions &options);

/// Ranks on any hosts, over c10d's gloo process groups: one per lane.
Result<std::unique_ptr<Communicator>> connectGloo(const LaunchEnvironment &environment,
                                                  std::unique_ptr<Store> store,
                                                  const CommunicatorOptions &options);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_COMM_BACKENDS_H
