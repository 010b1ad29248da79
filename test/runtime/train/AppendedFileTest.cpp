//===- AppendedFileTest.cpp - Files written from begin to end -------------===//

#include "checkpoint/AppendedFile.h"
#include "Files.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <memory>

using namespace fsdp::rt;
using namespace fsdp::test;

// Pieces of whole blocks and others, from memory that begins at a block and from other memory, in
// any order: the file is what was appended.
TEST(AppendedFile, IsWhatWasAppended) {
  constexpr size_t kBlock = AppendedFile::kBlockBytes, kMemory = 8 * kBlock;
  const std::unique_ptr<std::byte, decltype(&std::free)> memory(
      static_cast<std::byte *>(std::aligned_alloc(kBlock, kMemory)), std::free);
  for (size_t i = 0; i < kMemory; ++i)
    memory.get()[i] = static_cast<std::byte>(i * 7 + i / kBlock);
  struct Piece {
    size_t begin, bytes;
  };
  const Piece pieces[] = {{0, kBlock}, {kBlock, 3 * kBlock}, {8, kBlock},       {0, 2 * kBlock},
                          {0, 100},    {kBlock, kBlock},     {0, kBlock - 100}, {0, kMemory},
                          {0, 0},      {3 * kBlock, 17}};
  Folder folder;
  AppendedFile file;
  ASSERT_TRUE(file.open(folder.path("file")));
  std::string expected;
  for (const Piece &piece : pieces) {
    const std::span<const std::byte> bytes(memory.get() + piece.begin, piece.bytes);
    ASSERT_TRUE(file.append(bytes)) << std::strerror(errno);
    ASSERT_TRUE(file.sync()) << std::strerror(errno);
    expected.append(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  }
  EXPECT_TRUE(file.isOpen());
  ASSERT_TRUE(file.close()) << std::strerror(errno);
  EXPECT_FALSE(file.isOpen());
  std::ifstream written(folder.path("file"), std::ios::binary);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(written), {}), expected);
}

TEST(AppendedFile, ReplacesNoFile) {
  Folder folder;
  folder.write("file", std::string("before"));
  AppendedFile file;
  EXPECT_FALSE(file.open(folder.path("file")));
  EXPECT_EQ(errno, EEXIST);
  EXPECT_FALSE(file.isOpen());
}
