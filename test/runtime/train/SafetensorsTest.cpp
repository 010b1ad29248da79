#include "Files.h"
#include "checkpoint/SafetensorsReader.h"
#include "checkpoint/SafetensorsWriter.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <random>
#include <sys/stat.h>
#include <unistd.h>

using namespace fsdp::rt;
using namespace fsdp::test;

namespace {

std::string errorOf(const std::string &bytes) {
  return parseSafetensors(std::as_bytes(std::span(bytes))).status().message();
}

const char *kHeader = R"({"__metadata__":{"format":"pt"},)"
                      R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                      R"("b":{"dtype":"BF16","shape":[],"data_offsets":[8,10]}})";

} // namespace

TEST(SafetensorsReader, ReadsTensors) {
  std::string bytes = safetensorsBytes(kHeader, rawBytes<float>({1, 2}) + "xy");
  auto tensors = parseSafetensors(std::as_bytes(std::span(bytes)));
  ASSERT_TRUE(tensors.ok()) << tensors.status().message();
  ASSERT_EQ(tensors->size(), 2u);
  const StoredTensor &a = tensors->at("a");
  EXPECT_EQ(a.dtype, FSDP_F32);
  EXPECT_EQ(a.shape, (std::vector<int64_t>{2}));
  float second;
  std::memcpy(&second, a.bytes.data() + 4, 4);
  EXPECT_EQ(second, 2);
  EXPECT_EQ(tensors->at("b").bytes.size(), 2u);
  EXPECT_EQ(describeStored("F32", a.shape), "F32[2]");
}

TEST(SafetensorsReader, RefusesMalformedFiles) {
  auto entry = [](std::string fields) { return fields.insert(0, R"({"a":{)") + "}}"; };
  struct Case {
    std::string header, data, error;
  };
  const Case cases[] = {
      {"[]", "", "not a JSON object"},
      {"{", "", "not a JSON object"},
      {"{\"\xff\": 1}", "", "not a JSON object"},
      {R"({"a":1})", "", "lacks dtype"},
      {entry(R"("dtype":"F32","shape":[1])"), "", "lacks dtype, shape or data_offsets"},
      {entry(R"("dtype":"F31","shape":[1],"data_offsets":[0,4])"), "1234", "unknown dtype 'F31'"},
      {entry(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])"), "1234", "list of sizes"},
      {entry(R"("dtype":"F32","shape":[1.0],"data_offsets":[0,4])"), "1234", "list of sizes"},
      {entry(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0])"), "",
       "fit 64 bits"},
      {entry(R"("dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,0])"), "",
       "fit 64 bits"},
      {entry(R"("dtype":"F32","shape":[1],"data_offsets":[4,0])"), "1234", "ascending"},
      {entry(R"("dtype":"F32","shape":[1],"data_offsets":[0,4,8])"), "1234", "malformed"},
      {entry(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"), "1234",
       "F32[2] takes 8 bytes, but its data_offsets span 4"},
      {entry(R"("dtype":"F32","shape":[1],"data_offsets":[4,8])"), "12345678", "there is a hole"},
      {entry(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])"), "123",
       "take 4 bytes, but the file holds 3: it is truncated"},
      {entry(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])"), "12345", "holds 5"},
      {entry(R"("dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4])"), "1234",
       "names 'dtype' twice"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
       R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
       "1", "names 'a' twice"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
       R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
       "123", "it overlaps another"},
      {R"({"__metadata__":{"a":1}})", "", "__metadata__"},
      {R"({"__metadata__":[]})", "", "__metadata__"},
      {R"({"a":[[[[1]]]]})", "", "nested too deeply"},
  };
  for (const Case &c : cases) {
    std::string error = errorOf(safetensorsBytes(c.header, c.data));
    EXPECT_NE(error.find(c.error), std::string::npos) << c.header << "\n" << error;
  }
  EXPECT_NE(errorOf("1234567").find("this one has 7"), std::string::npos);
  EXPECT_NE(errorOf(std::string(8, '\xff')).find("truncated or not"), std::string::npos);
}

// Whatever bytes change, reading gives an error or tensors within the file: run under a sanitizer,
// this also shows that nothing outside is touched.
TEST(SafetensorsReader, SurvivesMutations) {
  const std::string whole = safetensorsBytes(kHeader, rawBytes<float>({1, 2}) + "xy");
  for (size_t length = 0; length < whole.size(); ++length)
    EXPECT_FALSE(errorOf(whole.substr(0, length)).empty()) << length;
  std::mt19937 random(1);
  size_t refused = 0, read = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = whole;
    for (unsigned change = 0, changes = 1 + random() % 3; change < changes; ++change) {
      size_t at = random() % bytes.size();
      switch (random() % 4) {
      case 0:
        bytes[at] = static_cast<char>(random());
        break;
      case 1:
        bytes[at] = "0123456789[]{},:\"-"[random() % 18];
        break;
      case 2:
        bytes.insert(at, 1, static_cast<char>(random() % 128));
        break;
      default:
        bytes.erase(at, 1 + random() % 4);
      }
      if (bytes.empty())
        bytes.push_back('x');
    }
    auto tensors = parseSafetensors(std::as_bytes(std::span(bytes)));
    tensors.ok() ? ++read : ++refused;
    if (!tensors.ok())
      continue;
    unsigned sum = 0;
    for (const auto &[name, tensor] : *tensors)
      for (const std::byte &byte : tensor.bytes) {
        const char *address = reinterpret_cast<const char *>(&byte);
        ASSERT_TRUE(address >= bytes.data() && address < bytes.data() + bytes.size());
        sum += static_cast<unsigned>(byte);
      }
    EXPECT_LE(sum, 255u * bytes.size());
  }
  EXPECT_GT(refused, 1000u);
  EXPECT_GT(read, 100u);
}

TEST(SafetensorsReader, NamesTheFile) {
  Folder folder;
  std::string missing = folder.path("none.safetensors");
  EXPECT_NE(SafetensorsFile::open(missing).status().message().find(missing), std::string::npos);
  std::string empty = folder.write("empty.safetensors", "");
  EXPECT_NE(SafetensorsFile::open(empty).status().message().find(empty), std::string::npos);
  EXPECT_NE(SafetensorsFile::open(folder.path("")).status().message().find("not a regular file"),
            std::string::npos);
}

namespace {

const std::vector<TensorToStore> kToStore{{"w", FSDP_F32, {2, 2}}, {"n", FSDP_I64, {}}};

Result<SafetensorsWriter> startWriting(const std::string &path) {
  auto writer = SafetensorsWriter::create(path, kToStore);
  EXPECT_TRUE(writer.ok()) << writer.status().message();
  std::vector<float> w{1, 2, 3, 4};
  int64_t n = 7;
  EXPECT_TRUE(writer->write(0, 8, w.data() + 2, 8).ok());
  EXPECT_TRUE(writer->write(0, 0, w.data(), 8).ok());
  EXPECT_TRUE(writer->write(1, 0, &n, 8).ok());
  return writer;
}

} // namespace

TEST(SafetensorsWriter, WritesWhatTheReaderReads) {
  Folder folder;
  std::string path = folder.path("w.safetensors");
  ASSERT_TRUE(startWriting(path)->commit().ok());
  auto file = SafetensorsFile::open(path);
  ASSERT_TRUE(file.ok()) << file.status().message();
  ASSERT_EQ(file->tensors().size(), 2u);
  const StoredTensor *w = file->find("w");
  EXPECT_EQ(w->shape, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(std::string(reinterpret_cast<const char *>(w->bytes.data()), 16),
            rawBytes<float>({1, 2, 3, 4}));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(w->bytes.data()) % 8, 0u);
  EXPECT_EQ(folder.numFiles(), 1u);
}

TEST(SafetensorsWriter, LeavesTheOldFileUntilItCommits) {
  Folder folder;
  std::string path = folder.write("w.safetensors", "old");
  {
    auto writer = startWriting(path);
    EXPECT_EQ(readFile(path), "old");
    // File systems without unnamed files have a temporary one, which a kill would leave behind.
    int unnamed = open(folder.path("").c_str(), O_TMPFILE | O_RDWR, 0600);
    EXPECT_EQ(folder.numFiles(), unnamed >= 0 ? 1u : 2u);
    close(unnamed);
  }
  // Given up: the old file stands and nothing else is left.
  EXPECT_EQ(readFile(path), "old");
  EXPECT_EQ(folder.numFiles(), 1u);
  ASSERT_TRUE(startWriting(path)->commit().ok());
  EXPECT_NE(readFile(path), "old");
  EXPECT_EQ(folder.numFiles(), 1u);
}

TEST(SafetensorsWriter, UsesTheModeOfNewFiles) {
  Folder folder;
  std::string path = folder.path("w.safetensors");
  mode_t mask = umask(027);
  Status status = startWriting(path)->commit();
  umask(mask);
  ASSERT_TRUE(status.ok());
  struct stat information;
  ASSERT_EQ(stat(path.c_str(), &information), 0);
  EXPECT_EQ(information.st_mode & 0777, 0640u);
}

TEST(SafetensorsWriter, NamesAFolderThatDoesNotExist) {
  Folder folder;
  std::string path = folder.path("none/w.safetensors");
  auto writer = SafetensorsWriter::create(path, kToStore);
  EXPECT_NE(writer.status().message().find(path), std::string::npos);
}
