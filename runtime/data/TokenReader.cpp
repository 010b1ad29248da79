//===- TokenReader.cpp - Batches from a file of raw tokens ----------------===//

#include "DType.h"
#include "checkpoint/SafetensorsReader.h"
#include "data/Readers.h"
#include "data/SampleOrder.h"

#include <cstring>
#include <limits>

using namespace fsdp::rt;

/// Converts `count` tokens; the index of the first that Target cannot hold, or -1.
template <typename Source, typename Target>
static int64_t convertTokens(const std::byte *source, std::byte *target, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    Source token;
    std::memcpy(&token, source + static_cast<size_t>(i) * sizeof(Source), sizeof(Source));
    if constexpr (sizeof(Source) > sizeof(Target))
      if (token < std::numeric_limits<Target>::min() || token > std::numeric_limits<Target>::max())
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
  case TokenType::I32:
    return convertTokens<int32_t, Target>;
  case TokenType::I64:
    return convertTokens<int64_t, Target>;
  }
  return nullptr;
}

static int64_t tokenBytes(TokenType type) {
  switch (type) {
  case TokenType::U8:
    return 1;
  case TokenType::U16:
    return 2;
  case TokenType::I32:
    return 4;
  case TokenType::I64:
    return 8;
  }
  return 0;
}

namespace {

class TokenReader final : public BatchReader {
public:
  TokenReader(MappedFile file, int64_t samples, const DataOptions &options,
              const std::vector<InputShape> &inputs)
      : file(std::move(file)), path(options.path), width(tokenBytes(*options.tokenType)),
        numSamples(samples), batch(inputs[0].sizes[0]), window(inputs[0].sizes[1]),
        order(samples, batch, options.rank, options.worldSize, options.shuffleSeed,
              options.origin) {
    for (const InputShape &input : inputs)
      columns.push_back({input.dtype == FSDP_I64 ? converterTo<int64_t>(*options.tokenType)
                                                 : converterTo<int32_t>(*options.tokenType),
                         window * static_cast<int64_t>(elementBytes(input.dtype))});
    tokens.resize(static_cast<size_t>((window + static_cast<int64_t>(inputs.size()) - 1) * width));
    readAhead = this->file.bytes().size() > kReadWholeBytes;
    if (!readAhead)
      willNeed(this->file.bytes());
  }

  int64_t samples() const override { return numSamples; }
  int64_t tokensPerSample() const override { return window; }
  int64_t sample(int64_t step, int64_t index) override { return order.sample(step, index); }

  Status fill(int64_t step, std::span<const std::span<std::byte>> inputs) override {
    for (int64_t i = 0; i < batch; ++i) {
      int64_t begin = order.sample(step, i) * window;
      if (Status status =
              file.read(file.bytes().subspan(static_cast<size_t>(begin * width), tokens.size()),
                        tokens.data());
          !status.ok())
        return status;
      for (size_t input = 0; input < columns.size(); ++input) {
        // The second input is the first one's next tokens.
        auto first = static_cast<int64_t>(input);
        const auto &[convert, rowBytes] = columns[input];
        int64_t bad =
            convert(tokens.data() + first * width, inputs[input].data() + i * rowBytes, window);
        if (bad >= 0)
          return Status::error("'" + path + "': token " + std::to_string(begin + first + bad) +
                               " does not fit the 32 bits of its input");
      }
    }
    if (readAhead)
      for (int64_t i = 0; i < batch; ++i)
        willNeed(
            file.bytes().subspan(static_cast<size_t>(order.sample(step + 1, i) * window * width),
                                 static_cast<size_t>(window * width)));
    return {};
  }

private:
  struct Column {
    Convert convert;
    int64_t rowBytes;
  };

  MappedFile file;
  std::string path;
  int64_t width; // bytes of a token in the file
  int64_t numSamples, batch, window;
  std::vector<Column> columns;   // by input
  std::vector<std::byte> tokens; // of a sample, as the file has them
  SampleOrder order;
  bool readAhead = false;
};

} // namespace

static std::string describeInputs(const std::vector<InputShape> &inputs) {
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

Result<std::unique_ptr<BatchReader>> fsdp::rt::openTokens(const DataOptions &options,
                                                          const std::vector<InputShape> &inputs) {
  if (!takesTokens(inputs))
    return Status::error("'" + options.path +
                         "' is read as raw tokens (--data-dtype), for which "
                         "this binary would need one or two i64 or i32 inputs of one shape [B,T]; "
                         "it has " +
                         describeInputs(inputs) + ": use a safetensors file");
  Result<MappedFile> file = MappedFile::open(options.path);
  if (!file.ok())
    return file.status();
  auto bytes = static_cast<int64_t>(file->bytes().size());
  int64_t width = tokenBytes(*options.tokenType);
  if (bytes % width != 0)
    return Status::error("'" + options.path + "' has " + std::to_string(bytes) +
                         " bytes, not a multiple of the " + std::to_string(width) +
                         " bytes of a token (--data-dtype)");
  // Two inputs need one token more: the last target.
  int64_t extra = static_cast<int64_t>(inputs.size()) - 1;
  int64_t samples = std::max<int64_t>(0, bytes / width - extra) / inputs[0].sizes[1];
  if (samples == 0)
    return Status::error("'" + options.path + "' has " + std::to_string(bytes / width) +
                         " tokens, but one window takes " +
                         std::to_string(inputs[0].sizes[1] + extra));
  return std::unique_ptr<BatchReader>(
      std::make_unique<TokenReader>(std::move(*file), samples, options, inputs));
}
