//===- Status.h - Errors as values of the runtime ----------------*- C++ -*-===//

#ifndef FSDP_RUNTIME_STATUS_H
#define FSDP_RUNTIME_STATUS_H

#include <algorithm>
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

  /// The error as rank `rank` reports it to all ranks: "[rank 1] ...". An error that a rank has
  /// reported before stays unchanged.
  static Status saidBy(unsigned rank, const Status &error) {
    std::string said =
        error.said().empty() ? "[rank " + std::to_string(rank) + "] " + error.text : error.said();
    Status status = relayed(said, said.size());
    status.rank = error.rank;
    return status;
  }

  /// An error whose last `saidBytes` bytes a rank has reported to all ranks; the whole message if
  /// it is shorter.
  static Status relayed(std::string message, size_t saidBytes) {
    Status status(std::move(message));
    status.saidBytes = std::min(saidBytes, status.text.size());
    return status;
  }

  /// An error of the whole run, caused by rank `rank`, which called Communicator::abort, died, left
  /// or was late. `saidBytes` as above.
  static Status aborted(unsigned rank, std::string message, size_t saidBytes = 0) {
    Status status = relayed(std::move(message), saidBytes);
    status.rank = rank;
    return status;
  }

  bool ok() const { return text.empty(); }
  const std::string &message() const { return text; }
  /// The rank that caused an error of the whole run; nothing for other errors.
  std::optional<unsigned> abortedBy() const { return rank; }
  /// The part of the message that a rank has reported to all ranks; "" if there is none.
  std::string said() const { return text.substr(text.size() - saidBytes); }

  /// The same error with `prefix` before its message.
  Status within(const std::string &prefix) const {
    Status status = *this;
    status.text = prefix + text;
    status.subjectBytes = 0;
    return status;
  }

  /// Prepends `subject`: "<subject>: <error>". A subject that an earlier of() prepended is
  /// replaced: the outer caller knows the entry, the inner one only the collective.
  Status of(const std::string &subject) const {
    Status status = *this;
    status.text = subject + ": " + text.substr(subjectBytes);
    status.subjectBytes = subject.size() + 2;
    return status;
  }

  /// The same error with `more` after its message; `more` counts as reported, too.
  Status followedBy(const std::string &more) const {
    Status status = *this;
    status.text += more;
    status.saidBytes += saidBytes ? more.size() : 0;
    return status;
  }

private:
  explicit Status(std::string message) : text(std::move(message)) {}
  std::string text;
  size_t saidBytes = 0;
  size_t subjectBytes = 0; // at the beginning of `text`, including the colon
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
