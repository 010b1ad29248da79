//===- Status.h - Errors as values of the runtime ----------------*- C++ -*-===//

#ifndef FSDP_RUNTIME_STATUS_H
#define FSDP_RUNTIME_STATUS_H

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

  bool ok() const { return text.empty(); }
  const std::string &message() const { return text; }

private:
  explicit Status(std::string message) : text(std::move(message)) {}
  std::string text;
};

/// A T or an error.
template <typename T>
class [[nodiscard]] Result {
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
