#include "data/BatchReader.h"
#include "Files.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <sys/stat.h>

using namespace fsdp::rt;
using namespace fsdp::test;

namespace {

template <typename T> std::span<std::byte> bytesOf(std::vector<T> &values) {
  return std::as_writable_bytes(std::span(values));
}

const std::vector<InputShape> kTokenInputs{{"tokens", FSDP_I64, {2, 3}},
                                           {"targets", FSDP_I64, {2, 3}}};

/// Opens raw tokens 0, 1, ..., `count` - 1 of type T.
template <typename T>
Result<std::unique_ptr<BatchReader>> openCounting(const Folder &folder, TokenType type, int count,
                                                  const std::vector<InputShape> &inputs,
                                                  unsigned rank = 0, unsigned ranks = 1) {
  std::vector<T> tokens;
  for (int i = 0; i < count; ++i)
    tokens.push_back(static_cast<T>(i));
  return openData({{folder.write("tokens.bin", rawBytes(tokens))}, type, {}, rank, ranks}, inputs);
}

std::string message(const Result<std::unique_ptr<BatchReader>> &reader) {
  return reader.status().message();
}

} // namespace

template <typename T> static void expectWindows(TokenType type) {
  Folder folder;
  auto reader = openCounting<T>(folder, type, 20, kTokenInputs);
  ASSERT_TRUE(reader.ok()) << message(reader);
  EXPECT_EQ((*reader)->samples(), 6); // 19 / 3: the last token is only a target
  EXPECT_EQ((*reader)->tokensPerSample(), 3);
  std::vector<int64_t> tokens(6), targets(6);
  std::vector<std::span<std::byte>> inputs{bytesOf(tokens), bytesOf(targets)};
  ASSERT_TRUE((*reader)->fill(1, inputs).ok());
  EXPECT_EQ(tokens, (std::vector<int64_t>{6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(targets, (std::vector<int64_t>{7, 8, 9, 10, 11, 12}));
}

TEST(TokenReader, CutsWindowsOfEveryType) {
  expectWindows<uint8_t>(TokenType::U8);
  expectWindows<uint16_t>(TokenType::U16);
  expectWindows<uint32_t>(TokenType::U32);
  expectWindows<int32_t>(TokenType::I32);
  expectWindows<int64_t>(TokenType::I64);
}

TEST(TokenReader, WrapsAtTheEndOfTheFile) {
  Folder folder;
  auto reader = openCounting<uint8_t>(folder, TokenType::U8, 10, kTokenInputs); // 3 samples
  std::vector<int64_t> tokens(6), targets(6);
  std::vector<std::span<std::byte>> inputs{bytesOf(tokens), bytesOf(targets)};
  ASSERT_TRUE((*reader)->fill(1, inputs).ok());
  EXPECT_EQ(tokens, (std::vector<int64_t>{6, 7, 8, 0, 1, 2}));
}

TEST(TokenReader, SingleInputNeedsNoTarget) {
  Folder folder;
  auto reader =
      openCounting<uint8_t>(folder, TokenType::U8, 6, {{"tokens", FSDP_I32, {2, 3}}}, 0, 1);
  ASSERT_TRUE(reader.ok()) << message(reader);
  std::vector<int32_t> tokens(6);
  std::vector<std::span<std::byte>> inputs{bytesOf(tokens)};
  ASSERT_TRUE((*reader)->fill(0, inputs).ok());
  EXPECT_EQ(tokens, (std::vector<int32_t>{0, 1, 2, 3, 4, 5}));
}

TEST(TokenReader, NamesATokenThatDoesNotFit) {
  Folder folder;
  std::vector<int64_t> file{1, 2, int64_t{1} << 40};
  auto reader = openData({{folder.write("t.bin", rawBytes(file))}, TokenType::I64, {}, 0, 1},
                         {{"tokens", FSDP_I32, {1, 3}}});
  std::vector<int32_t> tokens(3);
  std::vector<std::span<std::byte>> inputs{bytesOf(tokens)};
  Status status = (*reader)->fill(0, inputs);
  EXPECT_NE(status.message().find("token 2 does not fit"), std::string::npos) << status.message();
}

TEST(TokenReader, RefusesTooFewSamplesWithBothNumbers) {
  Folder folder;
  auto reader = openCounting<uint8_t>(folder, TokenType::U8, 10, kTokenInputs, 0, 2);
  EXPECT_NE(message(reader).find("has 3 samples"), std::string::npos) << message(reader);
  EXPECT_NE(message(reader).find("needs 4"), std::string::npos) << message(reader);
}

TEST(TokenReader, RefusesPartialTokensAndShortFiles) {
  Folder folder;
  auto odd = openData({{folder.write("odd.bin", "abc")}, TokenType::U16, {}, 0, 1}, kTokenInputs);
  EXPECT_NE(message(odd).find("3 bytes, not a multiple of the 2"), std::string::npos);
  auto empty = openData({{folder.write("empty.bin", "")}, TokenType::U8, {}, 0, 1}, kTokenInputs);
  EXPECT_NE(message(empty).find("has 0 tokens, but one window takes 4"), std::string::npos)
      << message(empty);
}

// A file that becomes shorter under the reader is an error with both lengths.
TEST(TokenReader, SaysThatTheFileWasShortened) {
  Folder folder;
  auto reader = openCounting<uint8_t>(folder, TokenType::U8, 20, kTokenInputs);
  ASSERT_TRUE(reader.ok()) << message(reader);
  std::vector<int64_t> tokens(6), targets(6);
  std::vector<std::span<std::byte>> inputs{bytesOf(tokens), bytesOf(targets)};
  std::filesystem::resize_file(folder.path("tokens.bin"), 8);
  EXPECT_TRUE((*reader)->fill(0, inputs).ok());
  EXPECT_EQ((*reader)->fill(1, inputs).message(),
            "'" + folder.path("tokens.bin") +
                "' was shortened while it was read: it had 20 bytes when it was opened, now it "
                "has 8");
}

// Nobody may ever write to a FIFO.
TEST(TokenReader, RefusesAFifo) {
  Folder folder;
  ASSERT_EQ(mkfifo(folder.path("fifo").c_str(), 0600), 0);
  auto reader = openData({{folder.path("fifo")}, TokenType::U8, {}, 0, 1}, kTokenInputs);
  EXPECT_EQ(message(reader), "cannot read '" + folder.path("fifo") + "': not a regular file");
}

TEST(TokenReader, RefusesInputsThatAreNotTokens) {
  Folder folder;
  std::string file = folder.write("t.bin", "0123456789");
  for (const std::vector<InputShape> &inputs :
       {std::vector<InputShape>{{"x", FSDP_F32, {2, 3}}},
        std::vector<InputShape>{{"x", FSDP_I64, {2}}},
        std::vector<InputShape>{{"x", FSDP_I64, {2, 3}}, {"y", FSDP_I64, {2, 4}}},
        std::vector<InputShape>{
            {"x", FSDP_I64, {2, 3}}, {"y", FSDP_I64, {2, 3}}, {"z", FSDP_I64, {2, 3}}}}) {
    auto reader = openData({{file}, TokenType::U8, {}, 0, 1}, inputs);
    EXPECT_NE(message(reader).find("use a safetensors file"), std::string::npos) << message(reader);
  }
}

namespace {

/// A token file of llm.c: its header, then `tokens`.
template <typename T>
std::string headedFile(int32_t magic, int32_t version, int32_t count,
                       const std::vector<T> &tokens) {
  std::vector<int32_t> header(256);
  header[0] = magic, header[1] = version, header[2] = count;
  return rawBytes(header) + rawBytes(tokens);
}

template <typename T> void expectHeaded(int32_t magic, int32_t version, TokenType type) {
  Folder folder;
  std::vector<T> file{7, 8, 9, 10, 11, 12, 13};
  std::string path = folder.write("t.bin", headedFile<T>(magic, version, 7, file));
  for (std::optional<TokenType> wanted : {std::optional<TokenType>(), std::optional(type)}) {
    auto reader = openData({{path}, wanted, {}, 0, 1}, kTokenInputs);
    ASSERT_TRUE(reader.ok()) << message(reader);
    EXPECT_EQ((*reader)->samples(), 2);
    std::vector<int64_t> tokens(6), targets(6);
    std::vector<std::span<std::byte>> inputs{bytesOf(tokens), bytesOf(targets)};
    ASSERT_TRUE((*reader)->fill(0, inputs).ok());
    EXPECT_EQ(tokens, (std::vector<int64_t>{7, 8, 9, 10, 11, 12}));
    EXPECT_EQ(targets, (std::vector<int64_t>{8, 9, 10, 11, 12, 13}));
  }
  auto refused = [&](const std::string &bytes, std::optional<TokenType> wanted,
                     const std::vector<std::string> &words) {
    auto reader = openData({{folder.write("bad.bin", bytes)}, wanted, {}, 0, 1}, kTokenInputs);
    for (const std::string &word : words)
      EXPECT_NE(message(reader).find(word), std::string::npos) << message(reader);
  };
  refused(headedFile<T>(magic, version, 7, file), TokenType::U8,
          {"header says tokens of type u", "--data-dtype is u8"});
  refused(headedFile<T>(magic, 3, 7, file), {}, {"of version 3", "expected"});
  refused(headedFile<T>(magic, version, 8, file), {}, {" bytes", "header says 8 tokens"});
  refused(headedFile<T>(magic, version, -1, file), {}, {"header says -1 tokens"});
  refused(headedFile<T>(magic, version, 7, file).substr(0, 100), {}, {"has 100 bytes"});
  refused(rawBytes(file), {}, {"no header of llm.c's token files", "--data-dtype"});
}

} // namespace

TEST(TokenReader, KnowsTheHeadersOfLlmC) {
  expectHeaded<uint16_t>(20240520, 1, TokenType::U16);
  expectHeaded<uint32_t>(20240801, 7, TokenType::U32);
}

// Samples are numbered over all files; none goes from one to the next, and each is said to be of
// its file.
TEST(TokenReader, ReadsSeveralFilesOneAfterAnother) {
  Folder folder;
  std::vector<uint8_t> first{0, 1, 2, 3, 4}, second{10, 11, 12, 13, 14, 15, 16};
  folder.write("a-1.bin", rawBytes(first));
  folder.write("a-2.bin", rawBytes(second));
  folder.write("b[1].bin", rawBytes(first));
  auto found = findDataFiles({folder.path("a-*.bin"), folder.path("b[1].bin")}, "--data");
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(*found, (std::vector<std::string>{folder.path("a-1.bin"), folder.path("a-2.bin"),
                                              folder.path("b[1].bin")}));
  EXPECT_EQ(findDataFiles({folder.path("c*")}, "--data").status().message(),
            "--data '" + folder.path("c*") + "' matches no file");
  auto reader = openData({*found, TokenType::U8, {}, 0, 1}, kTokenInputs);
  ASSERT_TRUE(reader.ok()) << message(reader);
  EXPECT_EQ((*reader)->samples(), 1 + 2 + 1);
  EXPECT_EQ((*reader)->description(), "3 files");
  std::vector<int64_t> tokens(6), targets(6);
  std::vector<std::span<std::byte>> inputs{bytesOf(tokens), bytesOf(targets)};
  ASSERT_TRUE((*reader)->fill(0, inputs).ok());
  EXPECT_EQ(tokens, (std::vector<int64_t>{0, 1, 2, 10, 11, 12}));
  ASSERT_TRUE((*reader)->fill(1, inputs).ok());
  EXPECT_EQ(tokens, (std::vector<int64_t>{13, 14, 15, 0, 1, 2}));
  BatchReader::Place place = (*reader)->place(1, 0);
  EXPECT_EQ(place.file->path(), folder.path("a-2.bin"));
  EXPECT_EQ(place.sample, 1);
}

TEST(TokenReader, OverfitsToTheFirstStep) {
  Folder folder;
  std::vector<uint8_t> file(40);
  for (uint8_t i = 0; i < 40; ++i)
    file[i] = i;
  DataOptions options{{folder.write("t.bin", rawBytes(file))}, TokenType::U8, {}, 1, 2};
  options.microbatches = 2;
  options.origin = 5;
  options.overfit = true;
  auto reader = openData(options, kTokenInputs);
  ASSERT_TRUE(reader.ok()) << message(reader);
  std::vector<int64_t> tokens(6), targets(6);
  std::vector<std::span<std::byte>> inputs{bytesOf(tokens), bytesOf(targets)};
  for (int64_t microbatch : {0, 1, 2, 3, 100}) {
    ASSERT_TRUE((*reader)->fill(microbatch, inputs).ok());
    EXPECT_EQ(tokens[0], microbatch % 2 == 0 ? 6 : 18);
  }
}

namespace {

const std::vector<InputShape> kTensorInputs{{"x", FSDP_F32, {2, 2}}, {"y", FSDP_I64, {2}}};

std::string tensorFile(const std::string &x = R"("F32","shape":[4,2])",
                       const std::string &y = R"("I64","shape":[4])") {
  std::string header = R"({"x":{"dtype":)" + x + R"(,"data_offsets":[0,32]},"y":{"dtype":)" + y +
                       R"(,"data_offsets":[32,64]}})";
  return safetensorsBytes(header, rawBytes<float>({0, 1, 2, 3, 4, 5, 6, 7}) +
                                      rawBytes<int64_t>({10, 11, 12, 13}));
}

Result<std::unique_ptr<BatchReader>> openTensorFile(const Folder &folder, const std::string &bytes,
                                                    const std::vector<InputShape> &inputs) {
  return openData({{folder.write("data.safetensors", bytes)}, {}, {}, 0, 1}, inputs);
}

} // namespace

// haveEqualSamples ignores names and the batch size.
TEST(InputShape, EqualSamples) {
  const std::vector<InputShape> inputs{{"x", FSDP_F32, {2, 3}}, {"y", FSDP_I64, {2}}};
  EXPECT_TRUE(haveEqualSamples(inputs, {{"a", FSDP_F32, {5, 3}}, {"b", FSDP_I64, {5}}}));
  EXPECT_FALSE(haveEqualSamples(inputs, {{"x", FSDP_F32, {2, 4}}, {"y", FSDP_I64, {2}}}));
  EXPECT_FALSE(haveEqualSamples(inputs, {{"x", FSDP_F32, {2, 3}}, {"y", FSDP_F32, {2}}}));
  EXPECT_FALSE(haveEqualSamples(inputs, {{"x", FSDP_F32, {2, 3}}}));
}

TEST(TensorReader, ReadsSamplesInOrder) {
  Folder folder;
  auto reader = openTensorFile(folder, tensorFile(), kTensorInputs);
  ASSERT_TRUE(reader.ok()) << message(reader);
  EXPECT_EQ((*reader)->samples(), 4);
  EXPECT_EQ((*reader)->tokensPerSample(), 0);
  std::vector<float> x(4);
  std::vector<int64_t> y(2);
  std::vector<std::span<std::byte>> inputs{bytesOf(x), bytesOf(y)};
  ASSERT_TRUE((*reader)->fill(1, inputs).ok());
  EXPECT_EQ(x, (std::vector<float>{4, 5, 6, 7}));
  EXPECT_EQ(y, (std::vector<int64_t>{12, 13}));
  ASSERT_TRUE((*reader)->fill(2, inputs).ok());
  EXPECT_EQ(y, (std::vector<int64_t>{10, 11}));
}

TEST(TensorReader, RefusesWhatDoesNotMatchWithBothValues) {
  Folder folder;
  auto refused = [&](const std::string &bytes, const std::vector<InputShape> &inputs,
                     const std::vector<std::string> &words) {
    auto reader = openTensorFile(folder, bytes, inputs);
    for (const std::string &word : words)
      EXPECT_NE(message(reader).find(word), std::string::npos) << message(reader);
  };
  refused(tensorFile(R"("I32","shape":[4,2])"), kTensorInputs, {"'x'", "I32[4,2]", "F32[2,2]"});
  refused(tensorFile(R"("F32","shape":[2,4])"), kTensorInputs, {"'x'", "F32[2,4]", "F32[2,2]"});
  refused(tensorFile(R"("F32","shape":[8])"), kTensorInputs, {"'x'", "F32[8]", "F32[2,2]"});
  refused(tensorFile(R"("F32","shape":[4,2])", R"("I64","shape":[2,2])"),
          {kTensorInputs[0], {"y", FSDP_I64, {2, 2}}}, {"4 samples of 'x'", "2 of 'y'"});
  refused(tensorFile(), {{"z", FSDP_F32, {2, 2}}}, {"no tensor 'z'"});
  refused(tensorFile(), {kTensorInputs[0]}, {"holds 'y'"});
  refused(tensorFile(), {{"x", FSDP_F32, {5, 2}}, {"y", FSDP_I64, {5}}},
          {"has 4 samples", "needs 5"});
}

TEST(TensorReader, SaysThatTheFileWasShortened) {
  Folder folder;
  auto reader = openTensorFile(folder, tensorFile(), kTensorInputs);
  ASSERT_TRUE(reader.ok()) << message(reader);
  std::vector<float> x(4);
  std::vector<int64_t> y(2);
  std::vector<std::span<std::byte>> inputs{bytesOf(x), bytesOf(y)};
  std::filesystem::resize_file(folder.path("data.safetensors"), 100);
  std::string text = (*reader)->fill(1, inputs).message();
  EXPECT_NE(text.find("data.safetensors' was shortened while it was read"), std::string::npos)
      << text;
}
