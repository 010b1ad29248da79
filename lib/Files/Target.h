//===- Target.h - Where a path leads ------------------------------*- C++ -*-===//

#ifndef FSDP_LIB_FILES_TARGET_H
#define FSDP_LIB_FILES_TARGET_H

#include <filesystem>
#include <optional>
#include <string>

namespace fsdp {

/// The file that a path for writing leads to.
struct Target {
  /// The file behind all symbolic links, with its directory; the file itself may be missing.
  std::filesystem::path file;
  bool exists = false;
  /// A device, a pipe, or a file that is already open and named through /proc (/dev/stdout).
  bool isDirect = false;
  bool isDirectory = false;
};

/// Returns nullopt and sets `problem` if links lead nowhere.
std::optional<Target> findTarget(const std::string &path, std::string &problem);

} // namespace fsdp

#endif // FSDP_LIB_FILES_TARGET_H
