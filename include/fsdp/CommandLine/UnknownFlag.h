//===- UnknownFlag.h - Which flag a misspelt one is meant to be --*- C++ -*-===//
//
// For the tools and for training binaries, whose command lines are CLI11's.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_COMMANDLINE_UNKNOWNFLAG_H
#define FSDP_COMMANDLINE_UNKNOWNFLAG_H

#include <CLI/CLI.hpp>

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fsdp {

/// How many letters have to be changed, added or removed to make one word of the other.
inline size_t getEditDistance(std::string_view first, std::string_view second) {
  std::vector<size_t> row(second.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < first.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < second.size(); ++j) {
      const size_t replaced = diagonal + (first[i] == second[j] ? 0 : 1);
      diagonal = std::exchange(row[j + 1], std::min({row[j] + 1, row[j + 1] + 1, replaced}));
    }
  }
  return row.back();
}

/// The first argument of `app` that looks like a flag and is none, and the flag that is nearest to
/// it. Nothing where there is no such argument. `app` has parsed its arguments, with or without
/// success.
inline std::optional<std::string> describeUnknownFlag(const CLI::App &app) {
  for (const CLI::App *command : app.get_subcommands())
    if (std::optional<std::string> description = describeUnknownFlag(*command))
      return description;
  const std::vector<std::string> remaining = app.remaining();
  auto unknown = std::find_if(remaining.begin(), remaining.end(), [](const std::string &argument) {
    return argument.size() > 1 && argument.front() == '-';
  });
  if (unknown == remaining.end())
    return std::nullopt;
  const std::string typed = unknown->substr(0, unknown->find('='));
  std::string nearest;
  for (const CLI::Option *option : app.get_options())
    for (const std::string &name : option->get_lnames())
      if (nearest.empty() || getEditDistance(typed, "--" + name) < getEditDistance(typed, nearest))
        nearest = "--" + name;
  const bool isNear = getEditDistance(typed, nearest) <= typed.size() / 3;
  return "unknown flag '" + typed +
         (isNear ? "'; did you mean " + nearest + "?" : "'; --help lists all");
}

/// Has `app` report an unknown flag before all other errors: an unknown flag's value is taken for a
/// positional argument, and may be the cause of the other error.
inline void reportUnknownFlags(CLI::App &app) {
  app.failure_message([](const CLI::App *failed, const CLI::Error &error) {
    if (std::optional<std::string> description = describeUnknownFlag(*failed))
      return *description + '\n';
    return CLI::FailureMessage::simple(failed, error);
  });
}

} // namespace fsdp

#endif // FSDP_COMMANDLINE_UNKNOWNFLAG_H
