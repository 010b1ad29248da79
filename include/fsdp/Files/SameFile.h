//===- SameFile.h - Paths of a command line that name one file ---*- C++ -*-===//

#ifndef FSDP_FILES_SAMEFILE_H
#define FSDP_FILES_SAMEFILE_H

#include <optional>
#include <string>
#include <vector>

namespace fsdp {

/// A path and the flag or argument that gives it. An empty path is ignored.
struct NamedPath {
  std::string flag, path;
};

/// True if writing `left` would change the file at `right`: the same regular file, also by another
/// spelling or by links, and also if it does not exist yet; or standard output ("-") for both.
bool nameOneFile(const std::string &left, const std::string &right);

/// Describes a conflict between inputs and outputs: an output that would overwrite an input, or two
/// outputs to one file. nullopt without conflict. "-" is standard input or output.
std::optional<std::string> findClash(const std::vector<NamedPath> &inputs,
                                     const std::vector<NamedPath> &outputs);

} // namespace fsdp

#endif // FSDP_FILES_SAMEFILE_H
