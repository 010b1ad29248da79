//===- ManifestTest.cpp - checkpoint.json and what is refused in it -------===//

#include "GoodManifest.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <set>

using namespace fsdp::rt;
using namespace fsdp::test;

TEST(Manifest, ReadsBackWhatItWrites) {
  Result<Manifest> read = parseManifest(formatManifest(goodManifest()));
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(formatManifest(*read), formatManifest(goodManifest()));
  EXPECT_EQ(read->seed, UINT64_MAX);
  EXPECT_EQ(read->minimumLearningRate, 1.0 / 3);
  EXPECT_EQ(read->lossScale, 8192);
  EXPECT_EQ(read->growthTracker, 5);
  EXPECT_EQ(read->guardLosses, goodManifest().guardLosses);
  EXPECT_EQ(read->files[0].checksum, 0xffffffff);
}

// The message names the key that is missing or of another type.
TEST(Manifest, NamesTheKeyThatIsWrong) {
  auto good = nlohmann::ordered_json::parse(formatManifest(goodManifest()));
  // Checkpoints of older versions, or of runs without the feature, do not have these keys.
  const std::set<std::string> optional{"group_lr",   "skipped_steps", "guard",
                                       "eval_split", "loss_scale",    "crc32c"};
  for (const auto &[key, value] : good.items()) {
    auto without = good, other = good;
    without.erase(key);
    other[key] = nlohmann::json::object();
    for (const auto &json : {without, other}) {
      if (optional.contains(key) && !json.contains(key)) {
        auto unsummed = json; // whose checksum is that of all keys
        unsummed.erase("crc32c");
        EXPECT_TRUE(parseManifest(unsummed.dump()).ok()) << key;
        continue;
      }
      Result<Manifest> read = parseManifest(json.dump());
      ASSERT_FALSE(read.ok()) << key;
      EXPECT_NE(read.status().message().find("'" + key + "'"), std::string::npos)
          << read.status().message();
    }
  }
  auto damaged = good;
  damaged["lr"] = 3.0;
  EXPECT_NE(parseManifest(damaged.dump()).status().message().find("is damaged"), std::string::npos);
  auto refused = [&](const char *pointer, const nlohmann::ordered_json &value) {
    auto json = good;
    json[nlohmann::ordered_json::json_pointer(pointer)] = value;
    return parseManifest(json.dump()).status().message();
  };
  EXPECT_EQ(refused("/step", -1), "'step' is missing or not a whole number");
  EXPECT_EQ(refused("/ranks", 1ull << 40), "'ranks' is missing or not a number that fits its type");
  EXPECT_EQ(refused("/version", 2), "it is 'fsdpc checkpoint' of version 2, expected "
                                    "'fsdpc checkpoint' of version 1");
  EXPECT_NE(refused("/files/0/name", "../x.safetensors").find("'../x.safetensors'"),
            std::string::npos);
  EXPECT_EQ(refused("/files/0/name", "b.safetensors"), "it lists 'b.safetensors' twice");
  for (const char *text : {"", "{", "[]", "3", "null"})
    EXPECT_EQ(parseManifest(text).status().message(), "it is not a JSON object");
}
