//===- StoredTensors.cpp - Checks of a TorchScript file -------------------===//

#include "StoredTensors.h"

#include "Model.h"

#include <ATen/core/ivalue.h>
#include <torch/csrc/jit/serialization/unpickler.h>

#include <set>

using namespace fsdp::frontend;
namespace jit = torch::jit;
using caffe2::serialize::PyTorchStreamReader;

namespace {

/// Reads the structure of one archive of the file: modules as dictionaries of their attributes, and
/// tensors without data, whose storages have record numbers as addresses.
class ArchiveReader {
public:
  ArchiveReader(PyTorchStreamReader &reader, std::string archive)
      : reader(reader), archive(std::move(archive)),
        classes(std::make_shared<jit::CompilationUnit>()) {}

  void check() { walk(read()); }

private:
  struct Named {
    c10::IValue value;
    std::string name;
  };

  c10::IValue read();
  void walk(c10::IValue root);
  void checkTensor(const at::Tensor &tensor, const std::string &name) const;

  PyTorchStreamReader &reader;
  std::string archive;
  std::shared_ptr<jit::CompilationUnit> classes;
  std::vector<std::string> records; // a storage's data pointer is the number of its record, from 1
};

/// The types of lists and dictionaries in an archive; element types do not matter here.
c10::TypePtr parseContainerType(const std::string &text) {
  if (text.rfind("Dict[", 0) == 0)
    return c10::DictType::create(c10::StringType::get(), c10::AnyType::get());
  if (text.rfind("List[", 0) == 0)
    return c10::ListType::create(c10::AnyType::get());
  return c10::AnyType::get();
}

} // namespace

c10::IValue ArchiveReader::read() {
  auto [pickle, pickleBytes] = reader.getRecord(archive + ".pkl");
  // torch builds these from the data of other tensors, which is not read.
  llvm::StringRef text(static_cast<const char *>(pickle.get()), pickleBytes);
  for (llvm::StringRef maker : {"_rebuild_qtensor", "_rebuild_sparse"})
    if (text.contains(maker))
      throw CaptureError("'" + archive + ".pkl' of the file holds a tensor that is not dense");
  size_t position = 0;
  auto readBytes = [&, data = static_cast<const char *>(pickle.get()),
                    bytes = pickleBytes](char *target, size_t count) {
    count = std::min(count, bytes - position);
    std::copy_n(data + position, count, target);
    position += count;
    return count;
  };
  // torch calls this for classes, and for the types of lists and dictionaries that hold lists.
  auto resolve = [&](const c10::QualifiedName &name) {
    c10::TypePtr container = parseContainerType(name.qualifiedName());
    if (container->kind() != c10::TypeKind::AnyType)
      return c10::StrongTypePtr(classes, container);
    return c10::StrongTypePtr(classes, c10::ClassType::create(name, classes));
  };
  auto loadObject = [](const c10::StrongTypePtr &type, c10::IValue state) {
    auto object = c10::ivalue::Object::create(type, /*numSlots=*/1);
    object->setSlot(0, std::move(state));
    return object;
  };
  auto nameRecord = [&](const std::string &key) {
    records.push_back(archive + "/" + key);
    return at::DataPtr(reinterpret_cast<void *>(records.size()), c10::Device(at::kCPU));
  };
  jit::Unpickler unpickler(readBytes, resolve, loadObject, nameRecord, c10::Device(at::kCPU),
                           /*use_storage_device=*/false, parseContainerType);
  unpickler.set_version(reader.version());
  return unpickler.parse_ivalue();
}

void ArchiveReader::walk(c10::IValue root) {
  std::vector<Named> pending{{std::move(root), ""}};
  std::set<const void *> seen;
  auto add = [&](const c10::IValue &value, const std::string &around, const std::string &name) {
    pending.push_back({value, around.empty() ? name : around + "." + name});
  };
  while (!pending.empty()) {
    Named next = std::move(pending.back());
    pending.pop_back();
    const c10::IValue &value = next.value;
    if (value.isTensor()) {
      if (value.toTensor().defined())
        checkTensor(value.toTensor(), next.name);
      continue;
    }
    bool holds = value.isObject() || value.isGenericDict() || value.isList() || value.isTuple();
    if (!holds || !seen.insert(value.internalToPointer()).second)
      continue;
    if (value.isObject()) {
      pending.push_back({value.toObjectRef().getSlot(0), next.name});
    } else if (value.isGenericDict()) {
      for (const auto &entry : value.toGenericDict())
        add(entry.value(), next.name,
            entry.key().isString() ? entry.key().toStringRef() : std::string("?"));
    } else {
      c10::ArrayRef<c10::IValue> elements =
          value.isList() ? value.toListRef() : value.toTupleRef().elements().asArrayRef();
      for (size_t i = 0; i < elements.size(); ++i)
        add(elements[i], next.name, std::to_string(i));
    }
  }
}

/// The bytes from the storage's beginning to the tensor's end; nullopt if they overflow.
static std::optional<uint64_t> getEndBytes(const at::Tensor &tensor) {
  __int128 last = tensor.storage_offset();
  for (int64_t i = 0; i < tensor.dim(); ++i) {
    if (tensor.size(i) < 0 || tensor.stride(i) < 0 || last < 0 || last > INT64_MAX)
      return std::nullopt;
    if (tensor.size(i) == 0)
      return 0;
    last += static_cast<__int128>(tensor.size(i) - 1) * tensor.stride(i);
  }
  __int128 end = (last + 1) * static_cast<__int128>(tensor.itemsize());
  if (last < 0 || end > INT64_MAX)
    return std::nullopt;
  return static_cast<uint64_t>(end);
}

void ArchiveReader::checkTensor(const at::Tensor &tensor, const std::string &name) const {
  if (tensor.layout() != at::kStrided || !tensor.has_storage())
    throw CaptureError("'" + name + "' of the file is not a dense tensor");
  const at::Storage &storage = tensor.storage();
  auto record = reinterpret_cast<size_t>(storage.data_ptr().get());
  std::optional<uint64_t> endBytes = getEndBytes(tensor);
  if (!endBytes || *endBytes > storage.nbytes())
    throw CaptureError("tensor '" + name + "' of the file ends " +
                       (endBytes ? "at byte " + std::to_string(*endBytes) : "nowhere") +
                       ", but its storage has " + std::to_string(storage.nbytes()) + " bytes");
  if (record == 0 || record > records.size())
    return; // a tensor without elements is not stored
  uint64_t recordBytes = reader.getRecordSize(records[record - 1]);
  if (recordBytes < storage.nbytes())
    throw CaptureError("record '" + records[record - 1] + "' of tensor '" + name + "' has " +
                       std::to_string(recordBytes) + " bytes, expected " +
                       std::to_string(storage.nbytes()));
}

void fsdp::frontend::checkStoredTensors(PyTorchStreamReader &reader) {
  for (const char *archive : {"constants", "data"})
    if (reader.hasRecord(std::string(archive) + ".pkl"))
      ArchiveReader(reader, archive).check();
}

void fsdp::frontend::refuseCodeAtLoad(PyTorchStreamReader &reader) {
  for (const std::string &record : reader.getAllRecords()) {
    if (record.rfind("code/", 0) != 0 || !llvm::StringRef(record).ends_with(".py"))
      continue;
    auto [code, bytes] = reader.getRecord(record);
    if (llvm::StringRef(static_cast<const char *>(code.get()), bytes).contains("__setstate__"))
      throw CaptureError("'" + record +
                         "' defines __setstate__: code that torch would run when it loads the "
                         "file. Export the model to a .pt2, or without it");
  }
}
