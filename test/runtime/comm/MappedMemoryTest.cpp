#include "comm/MappedMemory.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace fsdp::rt;

namespace {

/// Why this process does not open its own descriptor as memory of 8192 bytes.
std::string refusal(int file) { return openMemoryFile(getpid(), file, 8192).status().message(); }

void expectWords(const std::string &message, const std::vector<std::string> &words) {
  for (const std::string &word : words)
    EXPECT_NE(message.find(word), std::string::npos) << message << "\nlacks " << word;
}

} // namespace

TEST(MemoryFile, IsSharedWithWhoOpensIt) {
  Result<FileDescriptor> made = createMemoryFile("test", 8192);
  ASSERT_TRUE(made.ok()) << made.status().message();
  Result<FileDescriptor> opened = openMemoryFile(getpid(), made->get(), 8192);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  Result<MappedMemory> first = MappedMemory::shared(*made, 8192),
                       second = MappedMemory::shared(*opened, 8192);
  ASSERT_TRUE(first.ok() && second.ok());
  first->begin()[8191] = std::byte(7);
  EXPECT_EQ(second->begin()[8191], std::byte(7));
}

// What is mapped stays: no process can change its size, and other users cannot open it.
TEST(MemoryFile, IsSealedAndOfItsUserAlone) {
  Result<FileDescriptor> made = createMemoryFile("test", 8192);
  ASSERT_TRUE(made.ok());
  for (off_t size : {0, 4096, 16384}) {
    EXPECT_EQ(ftruncate(made->get(), size), -1);
    EXPECT_EQ(errno, EPERM);
  }
  EXPECT_EQ(fcntl(made->get(), F_ADD_SEALS, F_SEAL_WRITE), -1);
  struct stat information = {};
  ASSERT_EQ(fstat(made->get(), &information), 0);
  EXPECT_EQ(information.st_mode & 0777, 0600u);
}

TEST(MemoryFile, WhatIsNoMemoryOfTheRunIsRefused) {
  Result<FileDescriptor> other = createMemoryFile("test", 4096);
  expectWords(refusal(other->get()),
              {"process " + std::to_string(getpid()), "4096 bytes", "expected 8192"});
  FileDescriptor open(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(open.get(), 8192), 0);
  expectWords(refusal(open.get()), {"size is not sealed"});
  std::FILE *file = std::tmpfile();
  ASSERT_EQ(ftruncate(fileno(file), 8192), 0);
  expectWords(refusal(fileno(file)), {"size is not sealed"});
  std::fclose(file);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  expectWords(refusal(ends[1]), {"no memory that the run has made"});
  close(ends[0]);
  close(ends[1]);
  expectWords(refusal(-1), {"cannot open the shared memory of process"});
  expectWords(refusal(1 << 20), {"cannot open the shared memory of process"});
}

// Root may open it, and is told whose it is.
TEST(MemoryFile, OfAnotherUserIsRefused) {
  if (geteuid() != 0)
    GTEST_SKIP() << "only root opens other users' files";
  FileDescriptor file(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(file.get(), 8192), 0);
  ASSERT_EQ(fchown(file.get(), 65534, 65534), 0);
  ASSERT_EQ(fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  expectWords(refusal(file.get()), {"belongs to user 65534", "user 0"});
}
