//===- Folder.h - A folder of one test ----------------------------*- C++ -*-===//

#ifndef FSDP_TEST_FILES_FOLDER_H
#define FSDP_TEST_FILES_FOLDER_H

#include "gtest/gtest.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <unistd.h>

namespace fsdp {

/// Empty at first, removed with all that is in it.
class Folder : public testing::Test {
protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "fsdp-files-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(root); }

  std::string path(const std::string &name) const { return (root / name).string(); }
  void put(const std::string &name, const std::string &text) const {
    std::ofstream(path(name)) << text;
  }
  std::string get(const std::string &name) const {
    std::ifstream file(path(name));
    return {std::istreambuf_iterator<char>(file), {}};
  }
  size_t count() const { return std::distance(std::filesystem::directory_iterator(root), {}); }

  std::filesystem::path root;
};

} // namespace fsdp

#endif // FSDP_TEST_FILES_FOLDER_H
