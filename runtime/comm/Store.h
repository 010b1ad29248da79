//===- Store.h - The key-value store where ranks meet ------------*- C++ -*-===//

#ifndef FSDP_RUNTIME_COMM_STORE_H
#define FSDP_RUNTIME_COMM_STORE_H

#include "comm/Rendezvous.h"

namespace c10d {
class Store;
}

namespace fsdp::rt {

/// A c10d TCPStore with errors as values. A prefix of the keys separates runs and restarts that
/// share a store. Thread-safe. c10d waits for the server's answers without bound; here all calls
/// but connect() and those on native() are bounded, also if the server hangs.
class Store {
public:
  /// Connects to the launcher's store or, if it has none, to the store of rank 0 at MASTER_ADDR
  /// (ServerSocket.h), which lives as long as rank 0's object. `timeout` bounds connect() and
  /// meet() together, and each set() and get(). Exception: connect() waits without bound for a
  /// server that accepts connections and does not answer.
  static Result<std::unique_ptr<Store>> connect(const LaunchEnvironment &environment,
                                                std::chrono::milliseconds timeout);
  ~Store();

  /// Waits until all ranks have called this. An error names those that have not.
  Status meet();

  Status set(const std::string &key, const std::string &value);
  /// The value of `key`; waits until it is set.
  Result<std::string> get(const std::string &key);

  /// The c10d store, for process groups and for callers with a thread of their own (Alarm.h).
  c10d::Store &native();

  /// The address at which ranks meet by `environment`, and its source, for messages.
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
