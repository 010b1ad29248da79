//===- Target.h - Where a path leads ------------------------------*- C++ -*-===//

#ifndef FSDP_LIB_FILES_TARGET_H
#define FSDP_LIB_FILES_TARGET_H

#include <filesystem>
#include <optional>
#include <string>

namespace fsdp {

/// What a path that is to be written leads to.
struct Target {
  /// The file behind all symbolic links, which may be missing; a path of its directory and name.
  std::filesystem::path file;
  bool exists = false;
  /// A device, a pipe, or a file that is open already and named through /proc (/dev/stdout).
  bool isDirect = false;
  bool isDirectory = false;
};

/// None, and `problem` says why, where links lead nowhere.
std::optional<Target> findTarget(const std::string &path, std::string &problem);

} // namespace fsdp

#endif // FSDP_LIB_FILES_TARGET_H
