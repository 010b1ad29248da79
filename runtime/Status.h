//===- Status.h - Errors as values of the runtime ----------------*- C++ -*-===//

#ifndef FSDP_RUNTIME_STATUS_H
#define FSDP_RUNTIME_STATUS_H

#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace fsdp::rt {

/// Success, or one line that tells a person what went wrong: it names the flag, file, parameter,
/// peer or plan entry, and both values where two disagree.
class [[nodiscard]] Status {
public:
  Status() = default;
  static Status error(std::string message) { return Status(std::move(message)); }

  /// An error that rank `rank` told all ranks of, by Communicator::abort.
  static Status aborted(unsigned rank, std::string message) {
    Status status(std::move(message));
    status.rank = rank;
    return status;
  }

  bool ok() const { return text.empty(); }
  const std::string &message() const { return text; }
  /// The rank whose abort this is; nothing for an error of another kind.
  std::optional<unsigned> abortedBy() const { return rank; }

  /// The same error, said with more words.
  Status withMessage(std::string message) const {
    Status status(std::move(message));
    status.rank = rank;
    return status;
  }

private:
  explicit Status(std::string message) : text(std::move(message)) {}
  std::string text;
  std::optional<unsigned> rank;
};

/// A T or an error.
template <typename T> class [[nodiscard]] Result {
public:
  Result(T value) : content(std::move(value)) {}
  Result(Status error) : content(std::move(error)) {}

  bool ok() const { return std::holds_alternative<T>(content); }
  T &operator*() { return std::get<T>(content); }
  T *operator->() { return &std::get<T>(content); }
  const T &operator*() const { return std::get<T>(content); }
  const T *operator->() const { return &std::get<T>(content); }
  Status status() const { return ok() ? Status() : std::get<Status>(content); }

private:
  std::variant<T, Status> content;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_STATUS_H
