//===- OperatorLibrary.cpp - Libraries with further operators -------------===//

#include "executor/OperatorLibrary.h"

#include <dlfcn.h>
#include <exception>
#include <filesystem>

using namespace fsdp::rt;

Status fsdp::rt::loadOperatorLibrary(const std::string &path) {
  try {
    // An absolute path, since a bare name would be searched in the system's folders.
    if (!dlopen(std::filesystem::absolute(path).c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE))
      return Status::error("--load-library " + path + ": " + dlerror());
  } catch (const std::exception &error) {
    const std::string text = error.what(); // torch's messages have several lines
    return Status::error("--load-library " + path + ": " + text.substr(0, text.find('\n')));
  }
  return {};
}
