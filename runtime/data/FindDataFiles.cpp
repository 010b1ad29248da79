//===- FindDataFiles.cpp - Patterns of file names -------------------------===//

#include "data/SampleFile.h"

#include <glob.h>
#include <unistd.h>

using namespace fsdp::rt;

std::pair<std::string, std::string> fsdp::rt::splitShape(const std::string &path) {
  const size_t end = path.find_first_not_of("0123456789");
  if (end == 0 || end == std::string::npos || path[end] != ':' || ::access(path.c_str(), F_OK) == 0)
    return {"", path};
  return {path.substr(0, end + 1), path.substr(end + 1)};
}

Result<std::vector<std::string>> fsdp::rt::findDataFiles(const std::vector<std::string> &patterns,
                                                         const char *flag) {
  std::vector<std::string> paths;
  for (const std::string &named : patterns) {
    const auto [shape, pattern] = splitShape(named);
    if (pattern.find_first_of("*?[") == std::string::npos || ::access(pattern.c_str(), F_OK) == 0) {
      paths.push_back(named);
      continue;
    }
    glob_t found{};
    if (::glob(pattern.c_str(), GLOB_ERR, nullptr, &found) == 0)
      for (size_t i = 0; i < found.gl_pathc; ++i)
        paths.push_back(shape + found.gl_pathv[i]);
    const bool none = found.gl_pathc == 0;
    ::globfree(&found);
    if (none)
      return Status::error(std::string(flag) + " '" + pattern + "' matches no file");
  }
  return paths;
}
