//===- SourcePathTest.cpp - Source files as binaries name them ------------===//

#include "fsdp/Files/SourcePath.h"

#include <gtest/gtest.h>

#include <filesystem>

using fsdp::shortenSourcePath;

TEST(SourcePath, IsRelativeToTheWorkingDirectory) {
  const std::string here = std::filesystem::current_path();
  EXPECT_EQ(shortenSourcePath(here + "/model.py"), "model.py");
  EXPECT_EQ(shortenSourcePath(here + "/./layers/../models/model.py"), "models/model.py");
}

TEST(SourcePath, IsRelativeToTheFolderOfPackages) {
  const std::string package = "lib/python3.11/site-packages/transformers/models/llama.py";
  EXPECT_EQ(shortenSourcePath("/opt/venv/" + package), "transformers/models/llama.py");
  EXPECT_EQ(shortenSourcePath("/usr/lib/python3/dist-packages/torch/nn.py"), "torch/nn.py");
  // Also where the environment lies below the working directory.
  EXPECT_EQ(shortenSourcePath(std::string(std::filesystem::current_path()) + "/venv/" + package),
            "transformers/models/llama.py");
}

TEST(SourcePath, IsTheFilesNameElsewhere) {
  EXPECT_EQ(shortenSourcePath("/nowhere/project/model.py"), "model.py");
  const std::string here = std::filesystem::current_path();
  EXPECT_EQ(shortenSourcePath(here + "-too/model.py"), "model.py");
}

TEST(SourcePath, StaysWhereItIsRelative) {
  EXPECT_EQ(shortenSourcePath("torch/nn/modules/linear.py"), "torch/nn/modules/linear.py");
  EXPECT_EQ(shortenSourcePath("../model.py"), "../model.py");
  EXPECT_EQ(shortenSourcePath("<stdin>"), "<stdin>");
  EXPECT_EQ(shortenSourcePath(""), "");
}
