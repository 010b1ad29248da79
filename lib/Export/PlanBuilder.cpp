//===- PlanBuilder.cpp - Strings, lists and values of a plan --------------===//

#include "PlanBuilder.h"

#include "fsdp/Files/SourcePath.h"
#include "fsdp/IR/TensorLayout.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "llvm/ADT/TypeSwitch.h"

#include <map>
#include <set>

using namespace mlir;
using namespace fsdp;

/// The elements of a constant in the runtime's layout: row-major, one byte per bool.
static FailureOr<std::vector<unsigned char>> getConstantBytes(ElementsAttr value) {
  auto type = cast<RankedTensorType>(value.getType());
  int64_t elementBytes = getElementBytes(type.getElementType());
  std::vector<unsigned char> bytes;
  bytes.reserve(type.getNumElements() * elementBytes);
  // A complex element consists of two numbers.
  const int64_t numberBytes =
      isa<ComplexType>(type.getElementType()) ? elementBytes / 2 : elementBytes;
  auto append = [&](const APInt &bits) {
    uint64_t word = bits.getZExtValue();
    for (int64_t i = 0; i < numberBytes; ++i)
      bytes.push_back(static_cast<unsigned char>(word >> (8 * i)));
  };
  if (auto resource = dyn_cast<DenseResourceElementsAttr>(value)) {
    AsmResourceBlob *blob = resource.getRawHandle().getBlob();
    if (!blob ||
        blob->getData().size() != static_cast<size_t>(type.getNumElements() * elementBytes))
      return failure();
    return std::vector<unsigned char>(blob->getData().begin(), blob->getData().end());
  }
  auto dense = dyn_cast<DenseElementsAttr>(value);
  if (!dense)
    return failure();
  if (isa<FloatType>(type.getElementType()))
    for (const APFloat &element : dense.getValues<APFloat>())
      append(element.bitcastToAPInt());
  else if (isa<ComplexType>(type.getElementType()))
    for (const std::complex<APFloat> &element : dense.getValues<std::complex<APFloat>>()) {
      append(element.real().bitcastToAPInt());
      append(element.imag().bitcastToAPInt());
    }
  else
    for (const APInt &element : dense.getValues<APInt>())
      append(element);
  return bytes;
}

uint32_t PlanBuilder::addString(StringRef text) {
  if (text.empty())
    return 0;
  auto [entry, isNew] = stringAt.try_emplace(text, static_cast<uint32_t>(tables.strings.size()));
  if (isNew) {
    tables.strings.append(text.data(), text.size());
    tables.strings.push_back('\0');
  }
  return entry->second;
}

uint32_t PlanBuilder::addIntegers(ArrayRef<int64_t> numbers) {
  uint32_t first = tables.integers.size();
  tables.integers.insert(tables.integers.end(), numbers.begin(), numbers.end());
  return first;
}

/// Collects the source lines of a location; a kernel that replaces several calls has several.
static void collectLines(Location location, std::map<std::string, std::set<unsigned>> &lines) {
  llvm::TypeSwitch<Location>(location)
      .Case([&](FileLineColLoc place) {
        lines[shortenSourcePath(place.getFilename().str())].insert(place.getLine());
      })
      .Case([&](NameLoc name) { collectLines(name.getChildLoc(), lines); })
      .Case([&](CallSiteLoc call) { collectLines(call.getCallee(), lines); })
      .Case([&](FusedLoc fused) {
        for (Location part : fused.getLocations())
          collectLines(part, lines);
      });
}

uint32_t PlanBuilder::addLocation(Location location) {
  auto [entry, isNew] = locationAt.try_emplace(location, 0);
  if (!isNew)
    return entry->second;
  std::map<std::string, std::set<unsigned>> lines;
  collectLines(location, lines);
  std::string text; // "model.py:12", "model.py:12,14, norm.py:7"
  llvm::raw_string_ostream os(text);
  llvm::interleaveComma(lines, os, [&](const auto &file) {
    os << file.first << ':';
    llvm::interleave(file.second, os, ",");
  });
  if (!text.empty())
    entry->second = addString(text);
  return entry->second;
}

uint32_t PlanBuilder::addValue(RankedTensorType type, int64_t base, StringRef name) {
  TensorLayout layout = getTensorLayout(type);
  auto [shape, isNew] = shapeAt.try_emplace(type, 0);
  if (isNew) {
    shape->second = addIntegers(type.getShape());
    addIntegers(layout.strides);
  }
  fsdp_value &value = tables.values.emplace_back();
  value.offset = base + layout.offset * getElementBytes(type.getElementType());
  value.dtype = *getPlanDType(type.getElementType());
  value.num_dims = type.getRank();
  value.first_size = shape->second;
  value.name = addString(name);
  return tables.values.size() - 1;
}

uint32_t PlanBuilder::addStridedValue(fsdp_dtype dtype, ArrayRef<int64_t> sizes,
                                      ArrayRef<int64_t> strides, int64_t offset, StringRef name) {
  fsdp_value &value = tables.values.emplace_back();
  value.offset = offset;
  value.dtype = dtype;
  value.num_dims = sizes.size();
  value.first_size = addIntegers(sizes);
  addIntegers(strides);
  value.name = addString(name);
  return tables.values.size() - 1;
}

fsdp_entry &PlanBuilder::addEntry(fsdp_entry_kind kind, fsdp_phase phase) {
  fsdp_entry &entry = tables.entries.emplace_back();
  entry.kind = kind;
  entry.phase = phase;
  return entry;
}

bool PlanBuilder::addConstant(uint32_t value, ElementsAttr literal) {
  FailureOr<std::vector<unsigned char>> bytes = getConstantBytes(literal);
  if (failed(bytes))
    return false;
  fsdp_constant &constant = tables.constants.emplace_back();
  constant.value = value;
  constant.first_byte = tables.data.size();
  constant.bytes = bytes->size();
  tables.data.insert(tables.data.end(), bytes->begin(), bytes->end());
  return true;
}
