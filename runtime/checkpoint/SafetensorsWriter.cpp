//===- SafetensorsWriter.cpp - Write named tensors, crash-safe ------------===//

#include "checkpoint/SafetensorsWriter.h"
#include "checkpoint/SafetensorsReader.h"
#include "plan/DType.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

using namespace fsdp::rt;

static bool writeAll(int descriptor, const void *data, size_t bytes, int64_t position) {
  const char *next = static_cast<const char *>(data);
  while (bytes != 0) {
    ssize_t written = ::pwrite(descriptor, next, bytes, position);
    if (written < 0) {
      if (errno == EINTR)
        continue;
      return false;
    }
    next += written;
    position += written;
    bytes -= static_cast<size_t>(written);
  }
  return true;
}

static std::string folderOf(const std::string &path) {
  size_t slash = path.rfind('/');
  if (slash == std::string::npos)
    return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Status SafetensorsWriter::failed(const std::string &what) const {
  return Status::error("cannot write '" + path + "': " + what + ": " + std::strerror(errno));
}

Result<SafetensorsWriter> SafetensorsWriter::create(const std::string &path,
                                                    const std::vector<TensorToStore> &tensors) {
  SafetensorsWriter writer;
  writer.path = path;
  nlohmann::ordered_json header;
  header["__metadata__"] = {{"format", "pt"}};
  int64_t position = 0;
  for (const TensorToStore &tensor : tensors) {
    auto bytes = static_cast<int64_t>(elementBytes(tensor.dtype));
    for (int64_t size : tensor.shape)
      bytes *= size;
    header[tensor.name] = {{"dtype", safetensorsName(tensor.dtype)},
                           {"shape", tensor.shape},
                           {"data_offsets", {position, position + bytes}}};
    writer.begins.push_back(position);
    position += bytes;
  }
  std::string text = header.dump();
  // Readers that map the file want the data aligned; the format allows trailing spaces.
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string prefix(8, '\0');
  for (unsigned i = 0; i < 8; ++i)
    prefix[i] = static_cast<char>(text.size() >> (8 * i) & 0xff);
  text = prefix + text;
  for (int64_t &begin : writer.begins)
    begin += static_cast<int64_t>(text.size());

  if (!writer.openTemporary())
    return writer.failed("making a temporary file beside it");
  if (::ftruncate(writer.descriptor, static_cast<int64_t>(text.size()) + position) != 0 ||
      !writeAll(writer.descriptor, text.data(), text.size(), 0))
    return writer.failed("writing the header");
  return writer;
}

/// Until commit() the file has no name, where the file system has such files: a process that is
/// killed leaves nothing behind.
bool SafetensorsWriter::openTemporary() {
  descriptor = ::open(folderOf(path).c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
  if (descriptor >= 0)
    return true;
  std::string pattern = path + ".XXXXXX";
  descriptor = ::mkostemp(pattern.data(), O_CLOEXEC);
  if (descriptor < 0)
    return false;
  temporary = pattern;
  // mkostemp makes private files; give this one the mode of any other new file.
  mode_t mask = ::umask(0);
  ::umask(mask);
  return ::fchmod(descriptor, 0666 & ~mask) == 0;
}

/// Gives the file a name beside the path, to be renamed.
bool SafetensorsWriter::nameTemporary() {
  const std::string file = "/proc/self/fd/" + std::to_string(descriptor);
  for (unsigned attempt = 0; temporary.empty(); ++attempt) {
    std::string name = path + "." + std::to_string(::getpid()) + "-" + std::to_string(attempt);
    if (::linkat(AT_FDCWD, file.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0)
      temporary = name;
    else if (errno != EEXIST)
      return false;
  }
  return true;
}

SafetensorsWriter::SafetensorsWriter(SafetensorsWriter &&other) noexcept
    : path(std::move(other.path)), temporary(std::exchange(other.temporary, {})),
      descriptor(std::exchange(other.descriptor, -1)), begins(std::move(other.begins)) {}

SafetensorsWriter::~SafetensorsWriter() {
  if (descriptor >= 0)
    ::close(descriptor);
  if (!temporary.empty())
    ::unlink(temporary.c_str());
}

Status SafetensorsWriter::write(size_t index, int64_t offset, const void *data, size_t bytes) {
  if (!writeAll(descriptor, data, bytes, begins[index] + offset))
    return failed("writing a tensor");
  return {};
}

Status SafetensorsWriter::flush() {
  return ::fdatasync(descriptor) == 0 ? Status() : failed("syncing");
}

Status SafetensorsWriter::commit() {
  if (::fsync(descriptor) != 0)
    return failed("syncing");
  if (!nameTemporary())
    return failed("naming the temporary file");
  if (::close(std::exchange(descriptor, -1)) != 0)
    return failed("closing");
  if (std::rename(temporary.c_str(), path.c_str()) != 0)
    return failed("renaming");
  temporary.clear();
  // The rename itself is durable once the folder is.
  int folder = ::open(folderOf(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  bool synced = folder >= 0 && (::fsync(folder) == 0 || errno == EINVAL);
  if (folder >= 0)
    ::close(folder);
  return synced ? Status() : failed("syncing its folder");
}
