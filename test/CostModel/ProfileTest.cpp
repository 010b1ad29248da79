//===- ProfileTest.cpp - Profiles as JSON, and their errors ----------------===//

#include "fsdp/CostModel/Profile.h"
#include "Calls.h"

using namespace fsdp;
using namespace fsdp::cost;
using testing::HasSubstr;

static Profile makeProfile() {
  Profile profile;
  profile.device = "cpu";
  profile.description = "a CPU, 1 thread";
  profile.source = "a test";
  profile.ranks = 2;
  profile.step = {5e6, 4e6, 3e5, 5e5, 0, 2.5e5};
  ProfiledCall call;
  call.key = {"mm", "default", {{"f32", {8, 16}, {}}, {"f32", {16, 32}, {1, 16}}}, {"%", "%"}};
  call.medianNs = 1234.5;
  call.spread = 0.02;
  call.samples = 40;
  call.temporaryBytes = 4096;
  profile.calls.push_back(call);
  ProfiledKernel kernel;
  kernel.name = "fused_mul_relu";
  kernel.key = {Rounding::Fast,
                {{"f32", {8, 16}, {1, 8}}, {"f32", {16}, {}}},
                {{"f32", {8, 16}, {}}},
                {"%2 = mul.Tensor(%0, %1)", "%3 = relu.default(%2)", "yield %3"}};
  kernel.medianNs = 67.5;
  kernel.spread = 0.0625;
  kernel.samples = 20;
  profile.kernels.push_back(kernel);
  profile.updates.push_back(
      {OptimizerKind::AdamW, "f32", {{1000, 500, 0.1, 9}, {2000, 900, 0.1, 9}}});
  profile.copies = {{4096, 100, 0.1, 9}};
  return profile;
}

static std::string write(const Profile &profile) {
  std::string text;
  llvm::raw_string_ostream os(text);
  writeProfile(profile, os);
  return text;
}

TEST(Profile, ReadsWhatItWrites) {
  std::string text = write(makeProfile());
  TemporaryFile file(text);
  llvm::Expected<Profile> read = readProfile(file.path);
  ASSERT_TRUE(static_cast<bool>(read)) << llvm::toString(read.takeError());
  EXPECT_EQ(write(*read), text);
  ASSERT_EQ(read->calls.size(), 1u);
  EXPECT_EQ(read->calls[0].key.str(), "mm.default(%, %) : f32[8,16], f32[16,32]{1,16}");
  EXPECT_EQ(read->calls[0].temporaryBytes, 4096);
  ASSERT_EQ(read->kernels.size(), 1u);
  EXPECT_EQ(read->kernels[0].key.str(),
            "fast(f32[8,16]{1,8}, f32[16]) -> f32[8,16] { %2 = mul.Tensor(%0, %1); %3 = "
            "relu.default(%2); yield %3 }");
  EXPECT_EQ(read->kernels[0].medianNs, 67.5);
  EXPECT_EQ(read->updates.at(0).durations.at(1).size, 2000);
}

TEST(Profile, KeysTellLiteralsShapesStridesAndTypesApart) {
  Calls calls("%x: tensor<4x8xf32>, %t: tensor<4x8xf32, #aten.strides<[1, 4]>>, "
              "%o: tensor<4x8xf32, #aten.strides<[8, 1], offset = 32>>, %h: tensor<4x8xf16>",
              R"(
    %a = aten.call "add.Tensor"(%x, %x, 1) fwd in "m" : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %b = aten.call "add.Tensor"(%x, %x, 2) fwd in "m" : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %c = aten.call "add.Tensor"(%x, %t, 1) fwd in "m" : (tensor<4x8xf32>, tensor<4x8xf32, #aten.strides<[1, 4]>>) -> tensor<4x8xf32>
    %d = aten.call "add.Tensor"(%h, %h, 1) fwd in "m" : (tensor<4x8xf16>, tensor<4x8xf16>) -> tensor<4x8xf16>
    %e = aten.call "add.Tensor"(%x, %o, 1) bwd in "n" : (tensor<4x8xf32>, tensor<4x8xf32, #aten.strides<[8, 1], offset = 32>>) -> tensor<4x8xf32>
    %f = aten.call "cat.default"([%x, %x], 0) fwd in "m" : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    %g = aten.call "mean.dim"(%x, [0, 1], false, none) fwd in "m" : (tensor<4x8xf32>) -> tensor<f32>
    %i = aten.call "_to_copy.default"(%x, f16, none, none, none, false, none) fwd in "m" : (tensor<4x8xf32>) -> tensor<4x8xf16>
    %j = aten.call "mul.Tensor"(%x, 0.1) fwd in "m" : (tensor<4x8xf32>) -> tensor<4x8xf32>)");
  auto key = [&](size_t i) { return ProfileKey::of(calls[i]).str(); };
  EXPECT_EQ(key(0), "add.Tensor(%, %, 1) : f32[4,8], f32[4,8]");
  EXPECT_EQ(key(1), "add.Tensor(%, %, 2) : f32[4,8], f32[4,8]");
  EXPECT_EQ(key(2), "add.Tensor(%, %, 1) : f32[4,8], f32[4,8]{1,4}");
  EXPECT_EQ(key(3), "add.Tensor(%, %, 1) : f16[4,8], f16[4,8]");
  // Phase, module and offset do not matter.
  EXPECT_EQ(key(4), key(0));
  EXPECT_EQ(key(5), "cat.default([%, %], 0) : f32[4,8], f32[4,8]");
  EXPECT_EQ(key(6), "mean.dim(%, [0, 1], false, none) : f32[4,8]");
  EXPECT_EQ(key(7), "_to_copy.default(%, f16, none, none, none, false, none) : f32[4,8]");
  EXPECT_EQ(key(8), "mul.Tensor(%, 0.10000000000000001) : f32[4,8]");
}

// Of kernels their bodies tell, by the numbers of operands and results; names and offsets do not.
TEST(Profile, KeysTellKernelsApart) {
  auto keyOf = [](const std::string &rounding, const std::string &second, const std::string &body) {
    std::string types = "(tensor<4x8xf32>, " + second + ")";
    Calls calls("%x: tensor<4x8xf32>, %y: " + second,
                "%r = fsdp.launch @k(%x, %y) fwd in <\"m\"> : " + types + " -> tensor<4x8xf32>",
                "fsdp.kernel @k " + rounding + " {\n^bb0(%a: tensor<4x8xf32>, %b: " + second +
                    "):\n" + body + "\nfsdp.yield %c : tensor<4x8xf32>\n}");
    return KernelKey::of(calls.getLaunch(0).getDeclaration()).str();
  };
  const std::string plain = "tensor<4x8xf32>", strided = "tensor<4x8xf32, #aten.strides<[1, 4]>>",
                    moved = "tensor<4x8xf32, #aten.strides<[8, 1], offset = 32>>";
  auto add = [](const std::string &operands, const std::string &second, const char *alpha) {
    std::string first = operands == "%b, %a" ? second : "tensor<4x8xf32>";
    std::string other = operands == "%b, %a" ? "tensor<4x8xf32>" : second;
    return "%c = aten.call \"add.Tensor\"(" + operands + ", " + alpha + ") fwd in \"\" : (" +
           first + ", " + other + ") -> tensor<4x8xf32>";
  };
  const std::string key = keyOf("exact", plain, add("%a, %b", plain, "1"));
  EXPECT_EQ(key, "exact(f32[4,8], f32[4,8]) -> f32[4,8] { %2 = add.Tensor(%0, %1, 1); yield %2 }");
  EXPECT_EQ(keyOf("fast", plain, add("%a, %b", plain, "1")), "fast" + key.substr(5));
  EXPECT_EQ(keyOf("exact", plain, add("%b, %a", plain, "1")),
            "exact(f32[4,8], f32[4,8]) -> f32[4,8] { %2 = add.Tensor(%1, %0, 1); yield %2 }");
  EXPECT_EQ(keyOf("exact", plain, add("%a, %b", plain, "-1")),
            "exact(f32[4,8], f32[4,8]) -> f32[4,8] { %2 = add.Tensor(%0, %1, -1); yield %2 }");
  EXPECT_EQ(keyOf("exact", strided, add("%a, %b", strided, "1")),
            "exact(f32[4,8], f32[4,8]{1,4}) -> f32[4,8] { %2 = add.Tensor(%0, %1, 1); yield %2 }");
  EXPECT_EQ(keyOf("exact", moved, add("%a, %b", moved, "1")), key);
}

static std::string errorOf(const std::string &content) {
  TemporaryFile file(content);
  std::string message = messageOf(readProfile(file.path));
  EXPECT_NE(message.find("profile '" + file.path + "': "), std::string::npos) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  return message;
}

TEST(Profile, ErrorsNameTheFileAndTheField) {
  EXPECT_THAT(messageOf(readProfile("/no/such/profile.json")),
              HasSubstr("profile '/no/such/profile.json': No such file"));
  std::string good = write(makeProfile());
  EXPECT_THAT(errorOf(good.substr(0, good.size() / 2)), HasSubstr("not JSON, or cut off: "));

  auto replaced = [&](const std::string &from, const std::string &to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  EXPECT_THAT(errorOf(replaced("\"fsdp-profile\"", "\"fsdp-network\"")),
              HasSubstr("its format is 'fsdp-network', expected 'fsdp-profile'"));
  EXPECT_THAT(errorOf(replaced("\"version\": 2", "\"version\": 3")),
              HasSubstr("its version is 3, expected 1 to 2"));
  EXPECT_THAT(errorOf(replaced("\"version\": 2,", "")), HasSubstr("its version is missing"));
  EXPECT_THAT(errorOf(replaced("\"medianNs\": 1234.5", "\"medianNs\": \"fast\"")),
              HasSubstr("calls[0].medianNs"));
  EXPECT_THAT(errorOf(replaced("\"medianNs\": 1234.5", "\"medianNs\": -1")),
              HasSubstr("calls[0].medianNs"));
  EXPECT_THAT(
      errorOf(replaced("\"temporaryBytes\": 4096", "\"temporaryBytes\": 9000000000000000000")),
      HasSubstr("calls[0].temporaryBytes"));
  EXPECT_THAT(errorOf(replaced("\"temporaryBytes\": 4096", "\"bytes\": 4096")),
              HasSubstr("calls[0].temporaryBytes"));
  EXPECT_THAT(errorOf(replaced("\"kernels\"", "\"launches\"")), HasSubstr("kernels"));
  EXPECT_THAT(errorOf(replaced("\"fast\"", "\"rough\"")), HasSubstr("kernels[0].rounding"));
  EXPECT_THAT(errorOf(replaced("\"medianNs\": 67.5", "\"medianNs\": -1")),
              HasSubstr("kernels[0].medianNs"));
  EXPECT_THAT(errorOf(replaced("\"medianNs\": 67.5", "\"medianNs\": 1e999")),
              HasSubstr("kernels[0].medianNs"));
  EXPECT_THAT(errorOf(replaced("\"spread\": 0.0625", "\"spread\": -1")),
              HasSubstr("kernels[0].spread"));
  EXPECT_THAT(errorOf(replaced("\"spread\": 0.0625", "\"spread\": 1e999")),
              HasSubstr("kernels[0].spread"));
  EXPECT_THAT(errorOf(replaced("\"body\"", "\"calls\"")), HasSubstr("kernels[0].body"));
  EXPECT_THAT(errorOf(replaced("\"adamw\"", "\"lion\"")), HasSubstr("updates[0]"));
  EXPECT_THAT(errorOf(replaced("\"elements\": 2000", "\"elements\": 1000")),
              HasSubstr("updates[0].durations[1].elements"));
}

// A file that was measured before there were kernels.
TEST(Profile, ReadsVersionOne) {
  Profile profile = makeProfile();
  profile.kernels.clear();
  std::string text = write(profile);
  for (auto [from, to] : {std::pair("\"version\": 2", "\"version\": 1"),
                          {"\"kernels\": [],", ""},
                          {"\"kernelsNs\": 300000,", ""}}) {
    ASSERT_NE(text.find(from), std::string::npos) << from;
    text.replace(text.find(from), std::string(from).size(), to);
  }
  TemporaryFile file(text);
  llvm::Expected<Profile> read = readProfile(file.path);
  ASSERT_TRUE(static_cast<bool>(read)) << llvm::toString(read.takeError());
  EXPECT_EQ(read->calls.size(), 1u);
  EXPECT_TRUE(read->kernels.empty());
}
