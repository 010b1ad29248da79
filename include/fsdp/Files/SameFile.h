//===- SameFile.h - Paths of a command line that name one file ---*- C++ -*-===//

#ifndef FSDP_FILES_SAMEFILE_H
#define FSDP_FILES_SAMEFILE_H

#include <optional>
#include <string>
#include <vector>

namespace fsdp {

/// A path and the flag or argument that gives it. An empty path is none.
struct NamedPath {
  std::string flag, path;
};

/// Whether writing `left` would change what `right` names: one regular file, be it by other
/// spellings, links or hard links, and also before it exists; or both are standard output, "-".
bool nameOneFile(const std::string &left, const std::string &right);

/// Why these inputs and outputs cannot be together: an output that is an input, which it would
/// destroy, or two outputs that are one file. None if they can. "-" is standard input or output.
std::optional<std::string> findClash(const std::vector<NamedPath> &inputs,
                                     const std::vector<NamedPath> &outputs);

} // namespace fsdp

#endif // FSDP_FILES_SAMEFILE_H
