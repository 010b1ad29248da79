//===- OutputFile.cpp - Atomic replacement of files -----------------------===//

#include "fsdp/Files/OutputFile.h"

#include "Target.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <random>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

using namespace fsdp;

static std::string getError() { return std::strerror(errno); }

/// A random name. O_EXCL and linkat detect collisions.
static std::string makeName() {
  std::random_device random;
  char name[32];
  std::snprintf(name, sizeof(name), ".fsdp-%08x%08x.tmp", random(), random());
  return name;
}

static std::string getLinkOf(int descriptor) {
  return "/proc/self/fd/" + std::to_string(descriptor);
}

/// Calls `make` with new names until one is free. Returns the name, or nullopt with errno set.
template <typename Make> static std::optional<std::string> makeUnique(Make make) {
  for (unsigned attempt = 0; attempt < 100; ++attempt) {
    std::string name = makeName();
    if (make(name.c_str()))
      return name;
    if (errno != EEXIST)
      break;
  }
  return std::nullopt;
}

static int openWhereItIs(const std::string &path) {
  // O_APPEND keeps what is already in a file that is stdout; devices ignore it.
  return ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY);
}

std::optional<OutputFile> OutputFile::open(const std::string &path, std::string &problem,
                                           Mode mode) {
  std::optional<Target> target = findTarget(path, problem);
  if (!target)
    return std::nullopt;
  if (target->isDirectory) {
    problem = "is a directory";
    return std::nullopt;
  }
  OutputFile file;
  file.path = path;
  if (target->isDirect) {
    file.descriptor = openWhereItIs(path);
    if (file.descriptor >= 0)
      return file;
    problem = getError();
    return std::nullopt;
  }
  // A rename would replace a file without write permission.
  if (target->exists && ::access(target->file.c_str(), W_OK) != 0) {
    problem = getError();
    return std::nullopt;
  }
  file.folderPath = target->file.has_parent_path() ? target->file.parent_path().string() : ".";
  file.name = target->file.filename();
  if (file.name.empty()) {
    problem = path.empty() ? "the path is empty" : "is a directory";
    return std::nullopt;
  }
  file.folder = ::open(file.folderPath.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file.folder < 0) {
    problem = getError();
    return std::nullopt;
  }
  mode_t bits = mode == Mode::Executable ? 0777 : 0666;
  file.descriptor = ::openat(file.folder, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, bits);
  if (file.descriptor >= 0 && ::access(getLinkOf(file.descriptor).c_str(), F_OK) != 0)
    ::close(std::exchange(file.descriptor, -1)); // without /proc it cannot be linked to a name
  if (file.descriptor < 0) {
    auto made = makeUnique([&](const char *name) {
      file.descriptor = ::openat(file.folder, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, bits);
      return file.descriptor >= 0;
    });
    if (!made) {
      problem = getError();
      return std::nullopt;
    }
    file.temporary = *made;
  }
  struct stat old;
  bool keepsMode = target->exists && mode == Mode::Data;
  if (keepsMode && ::stat(target->file.c_str(), &old) == 0 &&
      ::fchmod(file.descriptor, old.st_mode & 0777) != 0) {
    problem = getError();
    return std::nullopt;
  }
  return file;
}

OutputFile::OutputFile(OutputFile &&other) noexcept { *this = std::move(other); }

OutputFile &OutputFile::operator=(OutputFile &&other) noexcept {
  std::swap(path, other.path);
  std::swap(folderPath, other.folderPath);
  std::swap(name, other.name);
  std::swap(temporary, other.temporary);
  std::swap(descriptor, other.descriptor);
  std::swap(folder, other.folder);
  return *this;
}

OutputFile::~OutputFile() { release(); }

void OutputFile::release() {
  if (descriptor >= 0)
    ::close(std::exchange(descriptor, -1));
  if (!temporary.empty())
    ::unlinkat(folder, temporary.c_str(), 0);
  temporary.clear();
  if (folder >= 0)
    ::close(std::exchange(folder, -1));
}

std::string OutputFile::getTemporaryPath() const {
  return temporary.empty() ? "" : folderPath + "/" + temporary;
}

std::optional<std::string> OutputFile::write(const void *data, size_t bytes) {
  const char *next = static_cast<const char *>(data);
  while (bytes != 0) {
    ssize_t written = ::write(descriptor, next, bytes);
    if (written < 0 && errno != EINTR)
      return getError();
    if (written > 0) {
      next += written;
      bytes -= static_cast<size_t>(written);
    }
  }
  return std::nullopt;
}

std::optional<std::string> OutputFile::commit() {
  if (isDirect()) {
    // Some file systems report only here that the disk is full.
    return ::close(std::exchange(descriptor, -1)) == 0 ? std::nullopt : std::optional(getError());
  }
  if (::fsync(descriptor) != 0)
    return getError();
  // Signals are blocked between the link and the rename, so that none leaves the temporary name.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  std::optional<std::string> problem;
  if (temporary.empty()) {
    std::string link = getLinkOf(descriptor);
    auto made = makeUnique([&](const char *fresh) {
      return ::linkat(AT_FDCWD, link.c_str(), folder, fresh, AT_SYMLINK_FOLLOW) == 0;
    });
    if (made)
      temporary = *made;
    else
      problem = getError();
  }
  if (!problem && ::renameat(folder, temporary.c_str(), folder, name.c_str()) != 0)
    problem = getError();
  if (!problem)
    temporary.clear();
  else if (!temporary.empty())
    ::unlinkat(folder, std::exchange(temporary, {}).c_str(), 0);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  // A rename is durable after an fsync of the directory, which some file systems do not support.
  if (!problem && ::fsync(folder) != 0 && errno != EINVAL)
    problem = getError();
  release();
  return problem;
}
