//===- Store.h - The key-value store where ranks meet ------------*- C++ -*-===//

#ifndef FSDP_RUNTIME_COMM_STORE_H
#define FSDP_RUNTIME_COMM_STORE_H

#include "comm/Rendezvous.h"

namespace c10d {
class Store;
}

namespace fsdp::rt {

/// A c10d TCPStore, whose errors are values. Keys are those of one run: a prefix tells runs and
/// restarts apart that share a store. Thread-safe. c10d waits for the server's answers without
/// bound; here all calls but connect() and those on native() are bounded, also if the server hangs.
class Store {
public:
  /// Connects to the launcher's store or, without one, to that of rank 0, which serves it as long
  /// as its object lives, where MASTER_ADDR says (ServerSocket.h). `timeout` bounds connect() and
  /// meet() together, and each set() and get(), but a server that takes connections and does not
  /// answer is waited for without bound in connect().
  static Result<std::unique_ptr<Store>> connect(const LaunchEnvironment &environment,
                                                std::chrono::milliseconds timeout);
  ~Store();

  /// Waits until all ranks have called this. An error names those that have not.
  Status meet();

  Status set(const std::string &key, const std::string &value);
  /// The value of `key`; waits until it is set.
  Result<std::string> get(const std::string &key);

  /// For process groups, and for what asks in a thread of its own (Alarm.h).
  c10d::Store &native();

  /// Where `environment` says that ranks meet, and who says so, for messages.
  static std::string place(const LaunchEnvironment &environment);
  /// "within 1.5 s"
  static std::string within(std::chrono::milliseconds timeout);

private:
  struct Implementation;
  explicit Store(std::unique_ptr<Implementation> implementation);
  std::unique_ptr<Implementation> implementation;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_COMM_STORE_H
