//===- SourcePath.cpp - Names of source files -----------------------------===//

#include "fsdp/Files/SourcePath.h"

#include <filesystem>

namespace fs = std::filesystem;

std::string fsdp::shortenSourcePath(const std::string &path) {
  const fs::path file = fs::path(path).lexically_normal();
  if (!file.is_absolute())
    return path;
  for (const char *folder : {"/site-packages/", "/dist-packages/"})
    if (size_t begin = file.native().rfind(folder); begin != std::string::npos)
      return file.native().substr(begin + std::string_view(folder).size());
  std::error_code code;
  const fs::path here = fs::current_path(code);
  // In the root folder every file would be below the working directory.
  if (!code && here.has_relative_path()) {
    const fs::path below = file.lexically_relative(here);
    if (!below.empty() && *below.begin() != "..")
      return below.native();
  }
  return file.filename().native();
}
