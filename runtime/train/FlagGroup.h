//===- FlagGroup.h - Flags under one heading of the help ---------*- C++ -*-===//

#ifndef FSDP_RUNTIME_FLAGGROUP_H
#define FSDP_RUNTIME_FLAGGROUP_H

#include <CLI/CLI.hpp>

#include <charconv>

namespace fsdp::rt {

/// Adds flags to a command line: each with the target of its value, the placeholder of the value in
/// the help, and the help text.
class FlagGroup {
public:
  FlagGroup(CLI::App &app, const char *name) : app(app), name(name) {}

  template <typename T>
  CLI::Option *value(const char *flag, T &target, const char *type, const std::string &text) {
    return app.add_option(flag, target, text)->type_name(type)->group(name);
  }
  /// A whole number from 0 to `most`. (CLI11's own conversion wraps negative numbers around.)
  template <typename T>
  void whole(const char *flag, T &target, const char *type, uint64_t most,
             const std::string &text) {
    value(flag, target, type, text)->check(wholeNumber(most));
  }
  /// One of the words of `words`, "local|shm".
  void choice(const char *flag, std::string &target, const char *words, const std::string &text) {
    value(flag, target, words, text)
        ->check(CLI::IsMember(CLI::detail::split(words, '|')).description(""));
  }
  void flag(const char *flag, bool &target, const std::string &text) {
    app.add_flag(flag, target, text)->group(name);
  }

private:
  static CLI::Validator wholeNumber(uint64_t most) {
    return CLI::Validator(
        [most](const std::string &text) -> std::string {
          uint64_t value = 0;
          const char *end = text.data() + text.size();
          auto [stop, error] = std::from_chars(text.data(), end, value);
          if (error == std::errc() && stop == end && value <= most)
            return "";
          return "'" + text + "' is not a whole number from 0 to " + std::to_string(most);
        },
        "");
  }

  CLI::App &app;
  const char *name;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_FLAGGROUP_H
