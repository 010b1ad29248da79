#include "fsdp/Files/OutputFile.h"
#include "Folder.h"

#include <csignal>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

using namespace fsdp;
namespace fs = std::filesystem;

namespace {

using OutputFileTest = Folder;

OutputFile open(const std::string &path, OutputFile::Mode mode = OutputFile::Mode::Data) {
  std::string problem;
  std::optional<OutputFile> file = OutputFile::open(path, problem, mode);
  EXPECT_TRUE(file) << problem;
  return std::move(*file);
}

std::string explainRefusal(const std::string &path) {
  std::string problem;
  return OutputFile::open(path, problem) ? "" : problem;
}

void write(OutputFile &file, const std::string &text) {
  EXPECT_EQ(file.write(text.data(), text.size()), std::nullopt);
}

TEST_F(OutputFileTest, AppearsWholeAtCommit) {
  put("a", "before");
  OutputFile file = open(path("a"));
  write(file, "af");
  EXPECT_EQ(get("a"), "before");
  write(file, "ter");
  EXPECT_EQ(file.commit(), std::nullopt);
  EXPECT_EQ(get("a"), "after");
  EXPECT_EQ(count(), 1u);
}

TEST_F(OutputFileTest, LeavesNothingWithoutCommit) {
  {
    OutputFile file = open(path("a"));
    write(file, "text");
  }
  EXPECT_EQ(count(), 0u);
}

// Not even where the process has no chance to clean up.
TEST_F(OutputFileTest, LeavesNothingWhenTheProcessIsKilled) {
  pid_t child = ::fork();
  if (child == 0) {
    std::string problem;
    std::optional<OutputFile> file = OutputFile::open(path("a"), problem);
    if (!file || !file->getTemporaryPath().empty())
      ::_exit(0); // this file system has no files without names
    ::raise(SIGKILL);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (!WIFSIGNALED(status))
    GTEST_SKIP() << "no unnamed files in " << root;
  EXPECT_EQ(count(), 0u);
}

TEST_F(OutputFileTest, FollowsLinksAndKeepsThem) {
  fs::create_directory(root / "elsewhere");
  put("elsewhere/file", "before");
  fs::create_symlink("elsewhere/file", root / "link");
  fs::create_symlink("elsewhere/new", root / "dangling");
  for (const char *name : {"link", "dangling"}) {
    OutputFile file = open(path(name));
    write(file, name);
    EXPECT_EQ(file.commit(), std::nullopt);
    EXPECT_TRUE(fs::is_symlink(root / name));
  }
  EXPECT_EQ(get("elsewhere/file"), "link");
  EXPECT_EQ(get("elsewhere/new"), "dangling");
}

TEST_F(OutputFileTest, RefusesALoopOfLinks) {
  fs::create_symlink("a", root / "b");
  fs::create_symlink("b", root / "a");
  EXPECT_EQ(explainRefusal(path("a")), "Too many levels of symbolic links");
}

TEST_F(OutputFileTest, KeepsTheModeOfAFile) {
  put("a", "before");
  ::chmod(path("a").c_str(), 0640);
  EXPECT_EQ(open(path("a")).commit(), std::nullopt);
  EXPECT_EQ(fs::status(root / "a").permissions(), fs::perms(0640));
}

TEST_F(OutputFileTest, MakesExecutables) {
  put("a", "before");
  EXPECT_EQ(open(path("a"), OutputFile::Mode::Executable).commit(), std::nullopt);
  EXPECT_NE(fs::status(root / "a").permissions() & fs::perms::owner_exec, fs::perms::none);
}

TEST_F(OutputFileTest, WritesDevicesAndPipesWhereTheyAre) {
  OutputFile null = open("/dev/null");
  EXPECT_TRUE(null.isDirect());
  EXPECT_EQ(null.commit(), std::nullopt);
  EXPECT_TRUE(fs::is_character_file("/dev/null"));

  OutputFile full = open("/dev/full");
  EXPECT_EQ(full.write("x", 1), "No space left on device");

  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  int reader = ::open(path("pipe").c_str(), O_RDONLY | O_NONBLOCK);
  OutputFile pipe = open(path("pipe"));
  write(pipe, "text");
  EXPECT_EQ(pipe.commit(), std::nullopt);
  char text[4];
  EXPECT_EQ(::read(reader, text, 4), 4);
  ::close(reader);
  EXPECT_TRUE(fs::is_fifo(root / "pipe"));
}

// As /dev/stdout is one where a shell has redirected it: what is there already stays.
TEST_F(OutputFileTest, AppendsToOpenFiles) {
  put("a", "first ");
  int descriptor = ::open(path("a").c_str(), O_WRONLY | O_APPEND);
  OutputFile file = open("/proc/self/fd/" + std::to_string(descriptor));
  EXPECT_TRUE(file.isDirect());
  write(file, "second");
  EXPECT_EQ(file.commit(), std::nullopt);
  ::close(descriptor);
  EXPECT_EQ(get("a"), "first second");
}

TEST_F(OutputFileTest, SaysWhatIsWrongWithAPath) {
  EXPECT_EQ(explainRefusal(root.string()), "is a directory");
  EXPECT_EQ(explainRefusal(path("new/")), "is a directory");
  EXPECT_EQ(explainRefusal(path("no/such/folder")), "No such file or directory");
  EXPECT_EQ(explainRefusal(""), "the path is empty");
}

} // namespace
