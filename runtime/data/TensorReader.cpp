//===- TensorReader.cpp - Samples of a safetensors file -------------------===//

#include "checkpoint/SafetensorsReader.h"
#include "data/SampleFile.h"

#include <algorithm>

using namespace fsdp::rt;

namespace {

class TensorFile final : public SampleFile {
public:
  TensorFile(SafetensorsFile file, const std::vector<const StoredTensor *> &tensors,
             int64_t samples)
      : SampleFile(file.path()), file(std::move(file)), numSamples(samples) {
    for (const StoredTensor *tensor : tensors)
      columns.push_back({tensor->bytes, tensor->bytes.size() / static_cast<size_t>(samples)});
  }

  int64_t samples() const override { return numSamples; }
  int64_t tokensPerSample() const override { return 0; }
  size_t sizeBytes() const override { return file.sizeBytes(); }

  Status read(int64_t sample, int64_t row, std::span<const std::span<std::byte>> inputs) override {
    for (size_t input = 0; input < columns.size(); ++input) {
      const size_t sampleBytes = columns[input].sampleBytes;
      if (Status status = file.read(columns[input].sample(sample),
                                    inputs[input].data() + static_cast<size_t>(row) * sampleBytes);
          !status.ok())
        return status;
    }
    return {};
  }

  void willNeed(int64_t sample) const override {
    for (const Column &column : columns)
      fsdp::rt::willNeed(column.sample(sample));
  }
  void willNeedAll() const override {
    for (const Column &column : columns)
      fsdp::rt::willNeed(column.bytes);
  }

private:
  struct Column {
    std::span<const std::byte> bytes;
    size_t sampleBytes;

    std::span<const std::byte> sample(int64_t number) const {
      return bytes.subspan(static_cast<size_t>(number) * sampleBytes, sampleBytes);
    }
  };

  SafetensorsFile file;
  std::vector<Column> columns; // by input
  int64_t numSamples;
};

} // namespace

Result<std::unique_ptr<SampleFile>> fsdp::rt::openTensors(const std::string &path,
                                                          const std::vector<InputShape> &inputs) {
  Result<SafetensorsFile> file = SafetensorsFile::open(path);
  if (!file.ok())
    return file.status();
  std::vector<const StoredTensor *> tensors;
  for (const InputShape &input : inputs) {
    const StoredTensor *tensor = file->find(input.name);
    std::string expected = describeStored(safetensorsName(input.dtype), input.sizes);
    if (!tensor)
      return Status::error("'" + path + "' has no tensor '" + input.name +
                           "', an input of this binary (" + expected + " per rank and step)");
    if (tensor->dtype != input.dtype || tensor->shape.empty() ||
        !std::equal(tensor->shape.begin() + 1, tensor->shape.end(), input.sizes.begin() + 1,
                    input.sizes.end()))
      return Status::error("'" + path + "': '" + input.name + "' is " +
                           describeStored(tensor->dtypeName, tensor->shape) +
                           ", but this binary reads " + expected +
                           " per rank and step; all but the first dimension must agree");
    if (tensor->shape[0] != (tensors.empty() ? tensor : tensors[0])->shape[0])
      return Status::error("'" + path + "' has " + std::to_string(tensors[0]->shape[0]) +
                           " samples of '" + inputs[0].name + "', but " +
                           std::to_string(tensor->shape[0]) + " of '" + input.name + "'");
    tensors.push_back(tensor);
  }
  if (file->tensors().size() != inputs.size())
    for (const auto &[name, tensor] : file->tensors())
      if (std::ranges::find(inputs, name, &InputShape::name) == inputs.end())
        return Status::error("'" + path + "' holds '" + name +
                             "', which is no input of this binary");
  int64_t samples = tensors[0]->shape[0];
  if (samples == 0)
    return Status::error("'" + path + "' has 0 samples");
  return std::unique_ptr<SampleFile>(
      std::make_unique<TensorFile>(std::move(*file), tensors, samples));
}
