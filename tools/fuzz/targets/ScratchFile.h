//===- ScratchFile.h - An input as a file ------------------------*- C++ -*-===//

#ifndef FSDP_TOOLS_FUZZ_SCRATCHFILE_H
#define FSDP_TOOLS_FUZZ_SCRATCHFILE_H

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>
#include <unistd.h>

namespace fsdp::fuzz {

/// A file in memory, for readers that take a path. Removed at the end.
class ScratchFile {
public:
  explicit ScratchFile(const std::string &suffix)
      : path("/dev/shm/fsdp-fuzz-" + std::to_string(::getpid()) + suffix) {}
  ~ScratchFile() { std::filesystem::remove(path); }

  void write(std::span<const uint8_t> bytes) const {
    std::FILE *file = std::fopen(path.c_str(), "wb");
    if (!file || std::fwrite(bytes.data(), 1, bytes.size(), file) != bytes.size() ||
        std::fclose(file) != 0)
      std::abort();
  }

  const std::string path;
};

} // namespace fsdp::fuzz

#endif // FSDP_TOOLS_FUZZ_SCRATCHFILE_H
