//===- SameFile.cpp - Paths of a command line that name one file ----------===//

#include "fsdp/Files/SameFile.h"

#include "Target.h"

using namespace fsdp;
namespace fs = std::filesystem;

bool fsdp::nameOneFile(const std::string &left, const std::string &right) {
  if (left.empty() || right.empty())
    return false;
  if (left == "-" || right == "-")
    return left == right;
  std::string problem;
  std::optional<Target> a = findTarget(left, problem), b = findTarget(right, problem);
  // A device may be named twice. A path that leads nowhere is refused when it is opened.
  if (!a || !b || a->isDirect || b->isDirect)
    return false;
  std::error_code code;
  if (a->exists && b->exists)
    return fs::equivalent(a->file, b->file, code);
  return fs::weakly_canonical(fs::absolute(a->file, code), code) ==
         fs::weakly_canonical(fs::absolute(b->file, code), code);
}

std::optional<std::string> fsdp::findClash(const std::vector<NamedPath> &inputs,
                                           const std::vector<NamedPath> &outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const NamedPath &output = outputs[i];
    for (const NamedPath &input : inputs)
      if (output.path != "-" && nameOneFile(output.path, input.path))
        return output.flag + " '" + output.path + "' is the file that " + input.flag +
               " reads, and would destroy it";
    for (size_t j = 0; j < i; ++j)
      if (nameOneFile(output.path, outputs[j].path))
        return outputs[j].flag + " and " + output.flag + " both write " +
               (output.path == "-" ? "standard output" : "'" + output.path + "'");
  }
  return std::nullopt;
}
