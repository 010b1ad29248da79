//===- Files.h - Files of a test ---------------------------------*- C++ -*-===//

#ifndef FSDP_TEST_FILES_H
#define FSDP_TEST_FILES_H

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

namespace fsdp::test {

/// A folder of its own, removed at the end.
class Folder {
public:
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "fsdp-test-XXXXXX").string();
    root = mkdtemp(pattern.data());
  }
  ~Folder() { std::filesystem::remove_all(root); }
  Folder(const Folder &) = delete;

  std::string path(const std::string &name) const { return root + "/" + name; }
  std::string write(const std::string &name, std::span<const std::byte> bytes) const {
    std::ofstream(path(name), std::ios::binary)
        .write(reinterpret_cast<const char *>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    return path(name);
  }
  std::string write(const std::string &name, const std::string &text) const {
    return write(name, std::as_bytes(std::span(text)));
  }
  size_t numFiles() const {
    auto files = std::filesystem::directory_iterator(root);
    return static_cast<size_t>(std::distance(begin(files), end(files)));
  }

private:
  std::string root;
};

/// A safetensors file with this header and data.
inline std::string safetensorsBytes(const std::string &header, const std::string &data) {
  std::string bytes(8, '\0');
  for (unsigned i = 0; i < 8; ++i)
    bytes[i] = static_cast<char>(header.size() >> (8 * i) & 0xff);
  return bytes + header + data;
}

template <typename T> std::string rawBytes(const std::vector<T> &values) {
  return {reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T)};
}

inline std::string readFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

} // namespace fsdp::test

#endif // FSDP_TEST_FILES_H
