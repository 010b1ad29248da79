//===- FindDataFiles.cpp - Patterns of file names -------------------------===//

#include "data/SampleFile.h"

#include <glob.h>
#include <unistd.h>

using namespace fsdp::rt;

Result<std::vector<std::string>> fsdp::rt::findDataFiles(const std::vector<std::string> &patterns,
                                                         const char *flag) {
  std::vector<std::string> paths;
  for (const std::string &pattern : patterns) {
    if (pattern.find_first_of("*?[") == std::string::npos || ::access(pattern.c_str(), F_OK) == 0) {
      paths.push_back(pattern);
      continue;
    }
    glob_t found{};
    if (::glob(pattern.c_str(), GLOB_ERR, nullptr, &found) == 0)
      paths.insert(paths.end(), found.gl_pathv, found.gl_pathv + found.gl_pathc);
    const bool none = found.gl_pathc == 0;
    ::globfree(&found);
    if (none)
      return Status::error(std::string(flag) + " '" + pattern + "' matches no file");
  }
  return paths;
}
