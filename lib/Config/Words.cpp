//===- Words.cpp - Words of the YAML file and of options ------------------===//

#include "fsdp/Config/ShardingConfig.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace fsdp;

/// The value of a word, or an error that lists the valid words.
template <typename T>
static llvm::Expected<T> takeWord(std::optional<T> value, llvm::StringRef what,
                                  llvm::StringRef text, llvm::StringRef expected) {
  if (value)
    return *value;
  return llvm::createStringError(what + " is '" + text + "', expected " + expected);
}

llvm::Expected<MeshSpec> fsdp::parseMesh(llvm::StringRef text) {
  MeshSpec mesh;
  mesh.axes.clear();
  llvm::SmallVector<llvm::StringRef, 2> parts;
  text.split(parts, ',');
  for (llvm::StringRef part : parts) {
    auto [name, number] = part.split('=');
    int64_t size = 0;
    if (name.empty() || number.getAsInteger(10, size) || size < 1)
      return llvm::createStringError("mesh is '" + text +
                                     "', expected AXIS=RANKS with at least one rank, as in dp=4 or "
                                     "replicate=2,shard=4");
    mesh.axes.push_back({name.str(), size});
  }
  if (std::optional<std::string> wrong = checkMesh(mesh))
    return llvm::createStringError("mesh is '" + text + "': " + *wrong);
  return mesh;
}

std::string fsdp::describe(const MeshSpec &mesh) {
  std::string text;
  for (const MeshSpec::Axis &axis : mesh.axes)
    text += (text.empty() ? "" : ",") + axis.name + "=" + std::to_string(axis.size);
  return text;
}

std::optional<std::string> fsdp::checkMesh(const MeshSpec &mesh) {
  if (mesh.axes.empty() || mesh.axes.size() > 2)
    return ("it has " + llvm::Twine(mesh.axes.size()) +
            " axes, expected one, as in dp=4, or two, as in replicate=2,shard=4")
        .str();
  for (const MeshSpec::Axis &axis : mesh.axes)
    if (std::optional<std::string> wrong = checkAxisSize(axis.size))
      return "axis '" + axis.name + "' " + *wrong;
  if (std::optional<std::string> wrong =
          checkRanks(llvm::map_to_vector(mesh.axes, [](const auto &axis) { return axis.size; })))
    return "it " + *wrong;
  if (mesh.axes.size() > 1 && mesh.axes.front().name == mesh.axes.back().name)
    return "it has two axes '" + mesh.axes.front().name + "'";
  return std::nullopt;
}

llvm::Expected<GradientSync> fsdp::parseGradientSync(llvm::StringRef text) {
  return takeWord(symbolizeGradientSync(text), "gradient_sync", text,
                  "each, reduce_scatter or last");
}

llvm::Expected<LossReduction> fsdp::parseLossReduction(llvm::StringRef text) {
  return takeWord(symbolizeLossReduction(text), "the loss of microbatches", text, "mean or sum");
}

llvm::Expected<MicrobatchOrder> fsdp::parseMicrobatchOrder(llvm::StringRef text) {
  return takeWord(llvm::StringSwitch<std::optional<MicrobatchOrder>>(text)
                      .Case("sequential", MicrobatchOrder::Sequential)
                      .Case("1f1b", MicrobatchOrder::OneForwardOneBackward)
                      .Default(std::nullopt),
                  "the order of microbatches", text, "sequential or 1f1b");
}

static llvm::Expected<bool> parseTruth(llvm::StringRef what, llvm::StringRef text) {
  std::optional<bool> value;
  if (text == "true" || text == "false")
    value = text == "true";
  return takeWord(value, what, text, "true or false");
}

llvm::Expected<bool> fsdp::parseReshardAfterBackward(llvm::StringRef text) {
  return parseTruth("reshard_after_backward", text);
}

llvm::Expected<bool> fsdp::parseSplitRoot(llvm::StringRef text) {
  return parseTruth("split_root", text);
}

llvm::Expected<SplitBlocks> fsdp::parseSplitBlocks(llvm::StringRef text) {
  std::optional<SplitBlocks> value;
  if (text == "true")
    value = kSplitBlocks;
  else if (text == "false")
    value = SplitBlocks();
  else if (int64_t number = 0; !text.getAsInteger(10, number) && number > 0)
    value = SplitBlocks{number};
  return takeWord(value, "split_blocks", text,
                  "true, false or the least number of parameters of a part");
}

llvm::Expected<ParameterHome> fsdp::parseOffloadPolicy(llvm::StringRef text) {
  std::optional<ParameterHome> value;
  if (text == "none" || text == "cpu")
    value = text == "cpu" ? ParameterHome::Cpu : ParameterHome::Device;
  return takeWord(value, "offload_policy", text, "none or cpu");
}

llvm::Expected<AllGatherExtension> fsdp::parseAllGatherExtension(llvm::StringRef text) {
  return takeWord(
      llvm::StringSwitch<std::optional<AllGatherExtension>>(text)
          .Case("none", AllGatherExtension())
          .Case("int8", AllGatherExtension{"int8", 1, 4})
          .Default(std::nullopt),
      "all_gather_extension", text,
      "none, int8, or of a library {name: NAME, bytes_per_element: N, bytes_per_part: N}");
}

llvm::Expected<ReshardChoice> fsdp::parseReshard(llvm::StringRef text) {
  if (int64_t ranks; !text.getAsInteger(10, ranks))
    return ReshardChoice{Reshard::Always, ranks};
  auto word = [](Reshard when) { return std::optional(ReshardChoice{when}); };
  return takeWord(llvm::StringSwitch<std::optional<ReshardChoice>>(text)
                      .Cases({"true", "True"}, word(Reshard::Always))
                      .Cases({"false", "False"}, word(Reshard::Never))
                      .Cases({"none", "None", "null"}, word(Reshard::None))
                      .Case("auto", word(Reshard::Auto))
                      .Default(std::nullopt),
                  "reshard_after_forward", text, "true, false, none, auto or a number of ranks");
}

llvm::Expected<Layout> fsdp::parseLayout(llvm::StringRef text) {
  return takeWord(llvm::StringSwitch<std::optional<Layout>>(text)
                      .Case("flat", Layout::Flat)
                      .Cases({"per-param", "per_param"}, Layout::PerParam)
                      .Default(std::nullopt),
                  "layout", text, "flat or per-param");
}

llvm::Expected<ShardDim> fsdp::parseShardDim(llvm::StringRef text) {
  if (int64_t dim; !text.getAsInteger(10, dim))
    return ShardDim{dim};
  return takeWord(text == "largest" ? std::optional(ShardDim()) : std::nullopt, "shard_placement",
                  text, "a dimension, from 0 or, from the last one, from -1 on, or largest");
}

llvm::Expected<Prefetch> fsdp::parsePrefetch(llvm::StringRef text) {
  return takeWord(symbolizePrefetch(text), "prefetch", text, "fsdp2 or none");
}

llvm::Expected<RecomputePolicy> fsdp::parseRecompute(llvm::StringRef text) {
  return takeWord(symbolizeRecomputePolicy(text), "recompute", text,
                  "full, selected, cheap, none or auto");
}

llvm::Expected<PolicyDtype> fsdp::parsePolicyDtype(llvm::StringRef text) {
  return takeWord(llvm::StringSwitch<std::optional<PolicyDtype>>(text)
                      .Cases({"float32", "torch.float32"}, PolicyDtype::Float32)
                      .Cases({"bfloat16", "torch.bfloat16"}, PolicyDtype::BFloat16)
                      .Cases({"float16", "torch.float16"}, PolicyDtype::Float16)
                      .Default(std::nullopt),
                  "the dtype", text, "float32, bfloat16 or float16");
}

llvm::Expected<GatherDtype> fsdp::parseGatherDtype(llvm::StringRef text) {
  return takeWord(llvm::StringSwitch<std::optional<GatherDtype>>(text)
                      .Case("param_dtype", GatherDtype::Param)
                      .Cases({"float8_e4m3fn", "torch.float8_e4m3fn"}, GatherDtype::Float8E4M3)
                      .Cases({"float8_e5m2", "torch.float8_e5m2"}, GatherDtype::Float8E5M2)
                      .Default(std::nullopt),
                  "gather_dtype", text, "param_dtype, float8_e4m3fn or float8_e5m2");
}

llvm::StringRef fsdp::getName(GatherDtype dtype) {
  switch (dtype) {
  case GatherDtype::Param:
    return "param_dtype";
  case GatherDtype::Float8E4M3:
    return "float8_e4m3fn";
  case GatherDtype::Float8E5M2:
    return "float8_e5m2";
  }
  llvm_unreachable("all dtypes are listed");
}

llvm::StringRef fsdp::getName(PolicyDtype dtype) {
  switch (dtype) {
  case PolicyDtype::Float32:
    return "float32";
  case PolicyDtype::BFloat16:
    return "bfloat16";
  case PolicyDtype::Float16:
    return "float16";
  }
  llvm_unreachable("all dtypes are listed");
}

llvm::Expected<int64_t> fsdp::parseSizeBytes(llvm::StringRef text, llvm::StringRef what) {
  llvm::StringRef digits = text.take_while([](char c) { return llvm::isDigit(c) || c == '.'; });
  double unit = llvm::StringSwitch<double>(text.drop_front(digits.size()).trim())
                    .Cases({"", "B"}, 1)
                    .Case("KiB", 0x1p10)
                    .Case("MiB", 0x1p20)
                    .Case("GiB", 0x1p30)
                    .Case("TiB", 0x1p40)
                    .Case("KB", 1e3)
                    .Case("MB", 1e6)
                    .Case("GB", 1e9)
                    .Case("TB", 1e12)
                    .Default(0);
  double number = 0;
  if (digits.getAsDouble(number) || unit == 0 || number * unit >= 0x1p62)
    return llvm::createStringError(what + " is '" + text +
                                   "', expected a size as in 80000000, 70GiB or 80GB");
  return static_cast<int64_t>(number * unit);
}
