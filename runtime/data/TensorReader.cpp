//===- TensorReader.cpp - Batches from a safetensors file -----------------===//

#include "checkpoint/SafetensorsReader.h"
#include "data/Readers.h"
#include "data/SampleOrder.h"

#include <algorithm>

using namespace fsdp::rt;

namespace {

class TensorReader final : public BatchReader {
public:
  TensorReader(SafetensorsFile file, std::vector<const StoredTensor *> tensors, int64_t samples,
               int64_t batch, const DataOptions &options)
      : file(std::move(file)), numSamples(samples), batch(batch),
        order(samples, batch, options.rank, options.worldSize, options.shuffleSeed,
              options.origin) {
    size_t total = 0;
    for (const StoredTensor *tensor : tensors) {
      columns.push_back({tensor->bytes, tensor->bytes.size() / static_cast<size_t>(samples)});
      total += tensor->bytes.size();
    }
    readAhead = total > kReadWholeBytes;
    if (!readAhead)
      for (const Column &column : columns)
        willNeed(column.bytes);
  }

  int64_t samples() const override { return numSamples; }
  int64_t tokensPerSample() const override { return 0; }
  int64_t sample(int64_t step, int64_t index) override { return order.sample(step, index); }

  Status fill(int64_t step, std::span<const std::span<std::byte>> inputs) override {
    for (int64_t i = 0; i < batch; ++i) {
      auto sample = static_cast<size_t>(order.sample(step, i));
      for (size_t input = 0; input < columns.size(); ++input) {
        const auto &[bytes, sampleBytes] = columns[input];
        if (Status status = file.read(bytes.subspan(sample * sampleBytes, sampleBytes),
                                      inputs[input].data() + static_cast<size_t>(i) * sampleBytes);
            !status.ok())
          return status;
      }
    }
    if (readAhead)
      for (int64_t i = 0; i < batch; ++i) {
        auto sample = static_cast<size_t>(order.sample(step + 1, i));
        for (const auto &[bytes, sampleBytes] : columns)
          willNeed(bytes.subspan(sample * sampleBytes, sampleBytes));
      }
    return {};
  }

private:
  struct Column {
    std::span<const std::byte> bytes;
    size_t sampleBytes;
  };

  SafetensorsFile file;
  std::vector<Column> columns; // by input
  int64_t numSamples, batch;
  SampleOrder order;
  bool readAhead = false;
};

} // namespace

Result<std::unique_ptr<BatchReader>> fsdp::rt::openTensors(const DataOptions &options,
                                                           const std::vector<InputShape> &inputs) {
  Result<SafetensorsFile> file = SafetensorsFile::open(options.path);
  if (!file.ok())
    return file.status();
  std::vector<const StoredTensor *> tensors;
  for (const InputShape &input : inputs) {
    const StoredTensor *tensor = file->find(input.name);
    std::string expected = describeStored(safetensorsName(input.dtype), input.sizes);
    if (!tensor)
      return Status::error("'" + options.path + "' has no tensor '" + input.name +
                           "', an input of this binary (" + expected + " per rank and step)");
    if (tensor->dtype != input.dtype || tensor->shape.empty() ||
        !std::equal(tensor->shape.begin() + 1, tensor->shape.end(), input.sizes.begin() + 1,
                    input.sizes.end()))
      return Status::error("'" + options.path + "': '" + input.name + "' is " +
                           describeStored(tensor->dtypeName, tensor->shape) +
                           ", but this binary reads " + expected +
                           " per rank and step; all but the first dimension must agree");
    if (tensor->shape[0] != (tensors.empty() ? tensor : tensors[0])->shape[0])
      return Status::error("'" + options.path + "' has " + std::to_string(tensors[0]->shape[0]) +
                           " samples of '" + inputs[0].name + "', but " +
                           std::to_string(tensor->shape[0]) + " of '" + input.name + "'");
    tensors.push_back(tensor);
  }
  if (file->tensors().size() != inputs.size())
    for (const auto &[name, tensor] : file->tensors())
      if (std::ranges::find(inputs, name, &InputShape::name) == inputs.end())
        return Status::error("'" + options.path + "' holds '" + name +
                             "', which is no input of this binary");
  int64_t samples = tensors[0]->shape[0];
  if (samples == 0)
    return Status::error("'" + options.path + "' has 0 samples");
  return std::unique_ptr<BatchReader>(std::make_unique<TensorReader>(
      std::move(*file), std::move(tensors), samples, inputs[0].sizes[0], options));
}
