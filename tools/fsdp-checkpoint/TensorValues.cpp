//===- TensorValues.cpp - Whole tensors of a checkpoint -------------------===//

#include "TensorValues.h"
#include "DType.h"

#include <algorithm>
#include <cstring>

using namespace fsdp::rt;

static constexpr int64_t kPieceBytes = int64_t{4} << 20;

int64_t fsdp::rt::elementsOf(const CheckpointReader::Listed &tensor) {
  int64_t elements = 1;
  for (int64_t size : tensor.shape)
    elements *= size;
  return elements;
}

int64_t fsdp::rt::elementSizeOf(const CheckpointReader::Listed &tensor) {
  return tensor.dtype ? static_cast<int64_t>(elementBytes(*tensor.dtype)) : 0;
}

/// Fills `to` with the tensor's elements from `first` on.
static Status readElements(const CheckpointReader &reader, const CheckpointReader::Listed &tensor,
                           int64_t first, std::span<std::byte> to) {
  auto copies =
      reader.copiesOf(tensor, first, static_cast<int64_t>(to.size()) / elementSizeOf(tensor));
  if (!copies.ok())
    return copies.status();
  for (const CheckpointReader::Copy &copy : *copies)
    if (Status status = OpenFile(reader.filePath(copy.file))
                            .read(copy.position, to.subspan(static_cast<size_t>(copy.offset),
                                                            static_cast<size_t>(copy.bytes)));
        !status.ok())
      return status;
  return {};
}

Status
fsdp::rt::readTensor(const CheckpointReader &reader, const CheckpointReader::Listed &tensor,
                     const std::function<Status(int64_t first, std::span<const std::byte>)> &use) {
  const int64_t elements = elementsOf(tensor), size = elementSizeOf(tensor);
  if (size == 0)
    return reader.copiesOf(tensor, 0, elements).status();
  std::vector<std::byte> piece;
  for (int64_t first = 0; first < elements;) {
    const int64_t count = std::min(elements - first, kPieceBytes / size);
    piece.resize(static_cast<size_t>(count * size));
    if (Status status = readElements(reader, tensor, first, piece); !status.ok())
      return status;
    if (Status status = use(first, piece); !status.ok())
      return status;
    first += count;
  }
  return {};
}

Status fsdp::rt::verifyCheckpoint(const CheckpointReader &reader) {
  std::vector<std::byte> staging(static_cast<size_t>(kPieceBytes));
  CheckpointVerifier verifier(reader, 0, 1, staging);
  for (bool done = false; !done;) {
    Result<bool> verified = verifier.read(kPieceBytes);
    if (!verified.ok())
      return verified.status();
    done = *verified;
  }
  for (const CheckpointReader::Listed &tensor : reader.list())
    if (auto copies = reader.copiesOf(tensor, 0, elementsOf(tensor)); !copies.ok())
      return copies.status();
  return {};
}

Result<std::string> fsdp::rt::differenceOf(const CheckpointReader &first,
                                           const CheckpointReader &second,
                                           const CheckpointReader::Listed &tensor) {
  const auto size = static_cast<size_t>(elementSizeOf(tensor));
  int64_t differing = 0, firstDiffering = 0;
  std::vector<std::byte> other;
  Status status = readTensor(first, tensor, [&](int64_t from, std::span<const std::byte> bytes) {
    other.resize(bytes.size());
    Status read = readElements(second, tensor, from, other);
    for (size_t i = 0; read.ok() && i < bytes.size(); i += size)
      if (std::memcmp(bytes.data() + i, other.data() + i, size) != 0 && differing++ == 0)
        firstDiffering = from + static_cast<int64_t>(i / size);
    return read;
  });
  if (!status.ok())
    return status;
  if (differing == 0)
    return std::string();
  return std::to_string(differing) + " of " + std::to_string(elementsOf(tensor)) +
         " elements differ, the first is " + std::to_string(firstDiffering);
}

bool fsdp::rt::isOfModel(const std::string &name) {
  constexpr const char *kOthers[] = {"optim.state.", "optimizer.state.", "state.", "fsdpc.rank"};
  return name != "step" && std::ranges::none_of(kOthers, [&](const char *prefix) {
           return name.starts_with(prefix);
         });
}

Status fsdp::rt::consolidate(const CheckpointReader &reader, const std::string &path,
                             const std::function<std::string(const std::string &)> &rename) {
  std::vector<CheckpointReader::Listed> model;
  std::vector<TensorToStore> stored;
  for (CheckpointReader::Listed &tensor : reader.list())
    if (isOfModel(tensor.name)) {
      // Checked before anything is written.
      if (auto copies = reader.copiesOf(tensor, 0, elementsOf(tensor)); !copies.ok())
        return copies.status();
      stored.push_back({rename(tensor.name), *tensor.dtype, tensor.shape});
      model.push_back(std::move(tensor));
    }
  Result<SafetensorsWriter> writer = SafetensorsWriter::create(path, stored);
  if (!writer.ok())
    return writer.status();
  for (size_t i = 0; i < model.size(); ++i) {
    const int64_t size = elementSizeOf(model[i]);
    if (Status status = readTensor(reader, model[i],
                                   [&](int64_t first, std::span<const std::byte> bytes) {
                                     return writer->write(i, first * size, bytes.data(),
                                                          bytes.size());
                                   });
        !status.ok())
      return status;
  }
  return writer->commit();
}
