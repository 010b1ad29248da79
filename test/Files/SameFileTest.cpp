#include "fsdp/Files/SameFile.h"
#include "Folder.h"

using namespace fsdp;
namespace fs = std::filesystem;

namespace {

using SameFileTest = Folder;

TEST_F(SameFileTest, SeesThroughSpellingsAndLinks) {
  put("a", "");
  put("b", "");
  fs::create_symlink("a", root / "symbolic");
  fs::create_hard_link(root / "a", root / "hard");
  EXPECT_TRUE(nameOneFile(path("a"), path("./a")));
  EXPECT_TRUE(nameOneFile(path("a"), path("symbolic")));
  EXPECT_TRUE(nameOneFile(path("a"), path("hard")));
  EXPECT_FALSE(nameOneFile(path("a"), path("b")));
}

TEST_F(SameFileTest, ComparesFilesThatDoNotExistYet) {
  fs::create_directory_symlink(".", root / "here");
  EXPECT_TRUE(nameOneFile(path("new"), path("here/new")));
  EXPECT_FALSE(nameOneFile(path("new"), path("other")));
}

TEST_F(SameFileTest, LeavesDevicesAlone) {
  EXPECT_FALSE(nameOneFile("/dev/null", "/dev/null"));
  EXPECT_FALSE(nameOneFile("", ""));
  EXPECT_TRUE(nameOneFile("-", "-"));
}

TEST_F(SameFileTest, NamesBothFlags) {
  put("m", "");
  EXPECT_EQ(findClash({{"MODEL", path("m")}}, {{"-o", path("m")}}),
            "-o '" + path("m") + "' is the file that MODEL reads, and would destroy it");
  EXPECT_EQ(findClash({}, {{"--log", path("x")}, {"--trace", path("x")}}),
            "--log and --trace both write '" + path("x") + "'");
  EXPECT_EQ(findClash({}, {{"--json", "-"}, {"--csv", "-"}}),
            "--json and --csv both write standard output");
  EXPECT_EQ(findClash({{"INPUT", "-"}}, {{"-o", "-"}}), std::nullopt);
}

} // namespace
