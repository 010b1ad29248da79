//===- CheckpointFolder.cpp - The checkpoints of a run --------------------===//

#include "checkpoint/CheckpointFolder.h"
#include "checkpoint/Manifest.h"
#include "fsdp/Files/OutputFile.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace fsdp::rt;
namespace fs = std::filesystem;

static constexpr std::string_view kPrefix = "step-", kPartial = ".partial";

std::string fsdp::rt::checkpointName(int64_t step) {
  char name[48];
  std::snprintf(name, sizeof(name), "step-%09lld", static_cast<long long>(step));
  return name;
}

std::string fsdp::rt::partialPath(const std::string &folder, int64_t step) {
  return folder + "/" + checkpointName(step) + std::string(kPartial);
}

/// The step in a checkpoint's name; -1 if `name` is not a checkpoint's.
static int64_t stepOf(std::string_view name) {
  if (!name.starts_with(kPrefix))
    return -1;
  int64_t step = -1;
  name.remove_prefix(kPrefix.size());
  auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  bool whole = error == std::errc() && end == name.data() + name.size() && step >= 0;
  return whole && checkpointName(step).substr(kPrefix.size()) == name ? step : -1;
}

static Status failed(const std::string &what, const std::string &path, const std::string &why) {
  return Status::error("cannot " + what + " '" + path + "': " + why);
}

Result<std::vector<CheckpointEntry>> fsdp::rt::listCheckpoints(const std::string &folder) {
  std::vector<CheckpointEntry> entries;
  std::error_code error;
  fs::directory_iterator files(folder, error);
  if (error == std::errc::no_such_file_or_directory)
    return entries;
  for (; !error && files != fs::directory_iterator(); files.increment(error)) {
    const int64_t step = stepOf(files->path().filename().string());
    std::error_code ignored;
    if (step >= 0 && files->is_directory(ignored))
      entries.push_back({step, files->path().string(),
                         ::access((files->path() / kManifestName).c_str(), F_OK) == 0});
  }
  if (error)
    return failed("read folder", folder, error.message());
  std::ranges::sort(entries, {}, &CheckpointEntry::step);
  return entries;
}

static Status removeFolder(const std::string &path) {
  std::error_code error;
  fs::remove_all(path, error);
  return error ? failed("remove", path, error.message()) : Status();
}

/// Removes the checkpoints that killed runs were writing or removing.
static Status removePartial(const std::string &folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::directory_iterator files(folder, error); !error && files != fs::directory_iterator();
       files.increment(error)) {
    std::string name = files->path().filename().string();
    if (name.ends_with(kPartial) &&
        stepOf(std::string_view(name).substr(0, name.size() - kPartial.size())) >= 0)
      paths.push_back(files->path().string());
  }
  if (error)
    return failed("read folder", folder, error.message());
  for (const std::string &path : paths)
    if (Status status = removeFolder(path); !status.ok())
      return status;
  return {};
}

static Status makeFolder(const std::string &path) {
  std::error_code error;
  fs::create_directories(path, error);
  return error ? failed("make folder", path, error.message()) : Status();
}

Result<FileDescriptor> fsdp::rt::lockFolder(const std::string &folder) {
  if (Status status = makeFolder(folder); !status.ok())
    return status;
  FileDescriptor lock(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock.valid())
    return failed("open", folder, std::strerror(errno));
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return failed("save to", folder, "another run on this host saves there");
  return lock;
}

Status fsdp::rt::beginCheckpoint(const std::string &folder, int64_t step) {
  if (Status status = makeFolder(folder); !status.ok())
    return status;
  if (Status status = removePartial(folder); !status.ok())
    return status;
  const std::string path = partialPath(folder, step);
  if (::mkdir(path.c_str(), 0777) != 0)
    return failed("make folder", path, std::strerror(errno));
  return {};
}

static Status syncFolder(const std::string &path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0)
    return failed("open", path, std::strerror(errno));
  // EINVAL: the file system cannot sync folders.
  const bool synced = ::fsync(descriptor) == 0 || errno == EINVAL;
  Status status = synced ? Status() : failed("sync", path, std::strerror(errno));
  ::close(descriptor);
  return status;
}

Result<std::string> fsdp::rt::commitCheckpoint(const std::string &folder, int64_t step,
                                               const std::string &manifest) {
  const std::string partial = partialPath(folder, step), path = folder + "/" + checkpointName(step),
                    manifestPath = partial + "/" + kManifestName;
  std::string problem;
  std::optional<OutputFile> file = OutputFile::open(manifestPath, problem);
  std::optional<std::string> error = problem;
  if (file)
    error = file->write(manifest.data(), manifest.size());
  if (file && !error)
    error = file->commit();
  if (error)
    return failed("write", manifestPath, *error);
  if (Status status = syncFolder(partial); !status.ok())
    return status;
  if (::rename(partial.c_str(), path.c_str()) != 0)
    return failed("put in place", path, std::strerror(errno));
  if (Status status = syncFolder(folder); !status.ok())
    return status;
  return path;
}

void fsdp::rt::abandonCheckpoint(const std::string &folder, int64_t step) {
  std::error_code ignored;
  fs::remove_all(partialPath(folder, step), ignored);
}

Status fsdp::rt::removeOldCheckpoints(const std::string &folder, uint64_t keep,
                                      uint64_t keepEvery) {
  Result<std::vector<CheckpointEntry>> listed = listCheckpoints(folder);
  if (!listed.ok())
    return listed.status();
  std::erase_if(*listed, [](const CheckpointEntry &entry) { return !entry.complete; });
  for (size_t i = 0; i + keep < listed->size(); ++i) {
    const CheckpointEntry &old = (*listed)[i];
    if (keepEvery != 0 && static_cast<uint64_t>(old.step) % keepEvery == 0)
      continue;
    // Renamed first, so that a half removed checkpoint is not taken for a complete one.
    const std::string partial = partialPath(folder, old.step);
    if (::rename(old.path.c_str(), partial.c_str()) != 0)
      return failed("remove", old.path, std::strerror(errno));
    if (Status status = removeFolder(partial); !status.ok())
      return status;
  }
  return {};
}
