//===- SafetensorsWriter.cpp - Write named tensors, crash-safe ------------===//

#include "checkpoint/SafetensorsWriter.h"
#include "DType.h"
#include "checkpoint/SafetensorsReader.h"

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <unistd.h>

using namespace fsdp::rt;

bool fsdp::rt::writeAt(int descriptor, const void *data, size_t bytes, int64_t position) {
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

Status SafetensorsWriter::failed(const std::string &problem) const {
  return Status::error("cannot write '" + path + "': " + problem);
}

static std::string because(const char *what) {
  return std::string(what) + ": " + std::strerror(errno);
}

int64_t TensorToStore::bytes() const {
  auto result = static_cast<int64_t>(elementBytes(dtype));
  for (int64_t size : shape)
    result *= size;
  return result;
}

std::string fsdp::rt::safetensorsHeader(std::span<const TensorToStore> tensors,
                                        const std::map<std::string, std::string> &metadata,
                                        size_t alignment) {
  nlohmann::ordered_json header;
  header["__metadata__"] = metadata;
  int64_t position = 0;
  for (const TensorToStore &tensor : tensors) {
    header[tensor.name] = {{"dtype", safetensorsName(tensor.dtype)},
                           {"shape", tensor.shape},
                           {"data_offsets", {position, position + tensor.bytes()}}};
    position += tensor.bytes();
  }
  std::string text = header.dump();
  // Aligns the data for readers that map the file; the format allows trailing spaces in the header.
  std::string prefix(sizeof(uint64_t), '\0');
  const size_t whole = prefix.size() + text.size();
  text.append((alignment - whole % alignment) % alignment, ' ');
  for (unsigned i = 0; i < prefix.size(); ++i)
    prefix[i] = static_cast<char>(text.size() >> (8 * i) & 0xff);
  return prefix + text;
}

Result<SafetensorsWriter> SafetensorsWriter::create(const std::string &path,
                                                    const std::vector<TensorToStore> &tensors) {
  SafetensorsWriter writer;
  writer.path = path;
  const std::string text = safetensorsHeader(tensors, {{"format", "pt"}}, sizeof(uint64_t));
  auto position = static_cast<int64_t>(text.size());
  for (const TensorToStore &tensor : tensors) {
    writer.begins.push_back(position);
    position += tensor.bytes();
  }

  std::string problem;
  writer.file = OutputFile::open(path, problem);
  if (!writer.file)
    return writer.failed(problem);
  if (writer.file->isDirect())
    return writer.failed("it is a device or a pipe, which cannot hold weights");
  int descriptor = writer.file->getDescriptor();
  if (::ftruncate(descriptor, position) != 0 || !writeAt(descriptor, text.data(), text.size(), 0))
    return writer.failed(because("writing the header"));
  return writer;
}

Status SafetensorsWriter::write(size_t index, int64_t offset, const void *data, size_t bytes) {
  if (!writeAt(file->getDescriptor(), data, bytes, begins[index] + offset))
    return failed(because("writing a tensor"));
  return {};
}

Status SafetensorsWriter::flush() {
  return ::fdatasync(file->getDescriptor()) == 0 ? Status() : failed(because("syncing"));
}

Status SafetensorsWriter::commit() {
  std::optional<std::string> problem = file->commit();
  file.reset();
  return problem ? failed(*problem) : Status();
}
