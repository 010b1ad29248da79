//===- TokenReader.cpp - Samples of a token file --------------------------===//

#include "DType.h"
#include "checkpoint/SafetensorsReader.h"
#include "data/TokenHeader.h"

#include <cstring>
#include <utility>

using namespace fsdp::rt;

/// Converts `count` tokens. Returns the index of the first token that Target cannot hold, or -1.
template <typename Source, typename Target>
static int64_t convertTokens(const std::byte *source, std::byte *target, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    Source token;
    std::memcpy(&token, source + static_cast<size_t>(i) * sizeof(Source), sizeof(Source));
    if (!std::in_range<Target>(token))
      return i;
    auto value = static_cast<Target>(token);
    std::memcpy(target + static_cast<size_t>(i) * sizeof(Target), &value, sizeof(Target));
  }
  return -1;
}

using Convert = int64_t (*)(const std::byte *, std::byte *, int64_t);

template <typename Target> static Convert converterTo(TokenType type) {
  switch (type) {
  case TokenType::U8:
    return convertTokens<uint8_t, Target>;
  case TokenType::U16:
    return convertTokens<uint16_t, Target>;
  case TokenType::U32:
    return convertTokens<uint32_t, Target>;
  case TokenType::I32:
    return convertTokens<int32_t, Target>;
  case TokenType::I64:
    return convertTokens<int64_t, Target>;
  }
  return nullptr;
}

namespace {

class TokenFile final : public SampleFile {
public:
  TokenFile(MappedFile file, const std::string &path, const TokenLayout &layout, int64_t samples,
            const std::vector<InputShape> &inputs)
      : SampleFile(path), file(std::move(file)), layout(layout), width(tokenBytes(layout.type)),
        numSamples(samples), window(inputs[0].sizes[1]) {
    for (const InputShape &input : inputs)
      columns.push_back({input.dtype == FSDP_I64 ? converterTo<int64_t>(layout.type)
                                                 : converterTo<int32_t>(layout.type),
                         window * static_cast<int64_t>(elementBytes(input.dtype))});
    tokens.resize(static_cast<size_t>((window + static_cast<int64_t>(inputs.size()) - 1) * width));
  }

  int64_t samples() const override { return numSamples; }
  int64_t tokensPerSample() const override { return window; }
  size_t sizeBytes() const override { return file.bytes().size(); }

  Status read(int64_t sample, int64_t row, std::span<const std::span<std::byte>> inputs) override {
    if (Status status = file.read(bytesOf(sample), tokens.data()); !status.ok())
      return status;
    for (size_t input = 0; input < columns.size(); ++input) {
      // The second input is the first one shifted by one token.
      auto first = static_cast<int64_t>(input);
      const auto &[convert, rowBytes] = columns[input];
      int64_t bad =
          convert(tokens.data() + first * width, inputs[input].data() + row * rowBytes, window);
      if (bad >= 0)
        return Status::error("'" + path() + "': token " +
                             std::to_string(sample * window + first + bad) +
                             " does not fit the 32 bits of its input");
    }
    return {};
  }

  void willNeed(int64_t sample) const override { fsdp::rt::willNeed(bytesOf(sample)); }
  void willNeedAll() const override { fsdp::rt::willNeed(file.bytes()); }

private:
  std::span<const std::byte> bytesOf(int64_t sample) const {
    return file.bytes().subspan(static_cast<size_t>(layout.headerBytes + sample * window * width),
                                tokens.size());
  }

  struct Column {
    Convert convert;
    int64_t rowBytes;
  };

  MappedFile file;
  TokenLayout layout;
  int64_t width; // bytes of a token in the file
  int64_t numSamples, window;
  std::vector<Column> columns;   // by input
  std::vector<std::byte> tokens; // of a sample, as in the file
};

} // namespace

std::string fsdp::rt::describeInputs(const std::vector<InputShape> &inputs) {
  std::string text;
  for (const InputShape &input : inputs) {
    text += text.empty() ? "" : ", ";
    text += input.name;
    text += ":";
    text += describeStored(dtypeName(input.dtype), input.sizes);
  }
  return text;
}

static bool takesTokens(const std::vector<InputShape> &inputs) {
  for (const InputShape &input : inputs)
    if ((input.dtype != FSDP_I64 && input.dtype != FSDP_I32) || input.sizes.size() != 2 ||
        input.sizes != inputs[0].sizes || input.sizes[1] == 0)
      return false;
  return inputs.size() <= 2;
}

Result<std::unique_ptr<SampleFile>> fsdp::rt::openTokens(const std::string &path,
                                                         std::optional<TokenType> type,
                                                         const std::vector<InputShape> &inputs) {
  if (!takesTokens(inputs))
    return Status::error("'" + path +
                         "' is read as tokens, for which this binary would need one or two i64 or "
                         "i32 inputs of one shape [B,T]; it has " +
                         describeInputs(inputs) + ": use a safetensors file");
  Result<MappedFile> file = MappedFile::open(path);
  if (!file.ok())
    return file.status();
  Result<TokenLayout> layout = tokenLayoutOf(path, file->bytes(), type);
  if (!layout.ok())
    return layout.status();
  // With two inputs a sample has one more token, the last target.
  int64_t extra = static_cast<int64_t>(inputs.size()) - 1;
  int64_t samples = std::max<int64_t>(0, layout->tokens - extra) / inputs[0].sizes[1];
  if (samples == 0)
    return Status::error("'" + path + "' has " + std::to_string(layout->tokens) +
                         " tokens, but one window takes " +
                         std::to_string(inputs[0].sizes[1] + extra));
  return std::unique_ptr<SampleFile>(
      std::make_unique<TokenFile>(std::move(*file), path, *layout, samples, inputs));
}
