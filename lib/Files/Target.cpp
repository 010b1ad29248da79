//===- Target.cpp - Where a path leads ------------------------------------===//

#include "Target.h"

#include <cerrno>
#include <cstring>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

using namespace fsdp;
namespace fs = std::filesystem;

/// True for links in /proc, which name open files: their text is not a path to follow.
static bool isInProc(const fs::path &link) {
  struct statfs system;
  fs::path folder = link.has_parent_path() ? link.parent_path() : fs::path(".");
  return ::statfs(folder.c_str(), &system) == 0 && system.f_type == PROC_SUPER_MAGIC;
}

std::optional<Target> fsdp::findTarget(const std::string &path, std::string &problem) {
  Target target;
  target.file = path;
  // The kernel follows as many links.
  for (unsigned links = 0; links <= 40; ++links) {
    std::error_code code;
    fs::file_status own = fs::symlink_status(target.file, code);
    if (own.type() == fs::file_type::none) {
      problem = code.message();
      return std::nullopt;
    }
    if (own.type() != fs::file_type::symlink) {
      target.exists = own.type() != fs::file_type::not_found;
      target.isDirectory = own.type() == fs::file_type::directory;
      target.isDirect =
          target.exists && !target.isDirectory && own.type() != fs::file_type::regular;
      return target;
    }
    if (isInProc(target.file)) {
      target.exists = target.isDirect = true;
      return target;
    }
    fs::path next = fs::read_symlink(target.file, code);
    if (code) {
      problem = code.message();
      return std::nullopt;
    }
    target.file = target.file.parent_path() / next;
  }
  problem = std::strerror(ELOOP);
  return std::nullopt;
}
