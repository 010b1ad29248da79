//===- LowerCopies.cpp - Copies to and from the layout of groups -----------===//

#include "Lowering.h"
#include "fsdp/IR/TensorLayout.h"

using namespace mlir;
using namespace fsdp;

void Lowering::addCopy(fsdp_phase phase, uint32_t source, uint32_t destination, StringRef module,
                       Location location) {
  fsdp_entry &entry = builder.addEntry(FSDP_COPY, phase);
  entry.source_value = source;
  entry.destination_value = destination;
  entry.module = builder.addString(module);
  entry.location = builder.addLocation(location);
}

void Lowering::divideInPlace(uint32_t value, double divisor, StringRef module, Location location) {
  fsdp_argument tensor{
      .kind = FSDP_ARG_VALUE, .index = value, .count = 0, .reserved = 0, .payload = {}};
  fsdp_argument number{
      .kind = FSDP_ARG_FLOAT, .index = 0, .count = 0, .reserved = 0, .payload = {.real = divisor}};
  addCall(FSDP_BACKWARD, "aten::div_", "Scalar", {tensor, number}, {-1}, module, location);
}

void Lowering::addZero(int64_t begin, int64_t end, StringRef module, fsdp_phase phase) {
  if (begin == end)
    return;
  fsdp_entry &entry = builder.addEntry(FSDP_ZERO, phase);
  entry.destination = begin;
  entry.bytes = end - begin;
  entry.module = builder.addString(module);
}

void Lowering::forEachRankPart(const GroupInfo &group, const plan::GroupLayout &layout,
                               unsigned param, RankedTensorType fullType, int64_t fullOffset,
                               int64_t base, llvm::function_ref<void(uint32_t, uint32_t)> action) {
  const plan::ParameterPlace &place = layout.parameters[param];
  if (place.chunkElements == 0)
    return;
  // A scalar counts as one row.
  ParamOp op = group.params[param];
  GroupOp groupOp = group.op;
  const int64_t dim = groupOp.getShardDim(param); // the dimension of the rows
  SmallVector<int64_t> sizes = llvm::to_vector(fullType.getShape());
  SmallVector<int64_t, 4> strides = getTensorLayout(fullType).strides;
  if (sizes.empty()) {
    sizes = {1};
    strides = {1};
  }
  int64_t rows = sizes[dim];
  int64_t rowElements = fullType.getNumElements() / rows;
  int64_t chunkRows = place.chunkElements / rowElements;
  int64_t evenRanks = rows / chunkRows, lastRows = rows % chunkRows;
  sizes[dim] = chunkRows;
  SmallVector<int64_t> rowMajor(sizes.size(), 1); // of a chunk
  for (size_t i = sizes.size() - 1; i-- > 0;)
    rowMajor[i] = rowMajor[i + 1] * sizes[i + 1];

  fsdp_dtype dtype = *getPlanDType(fullType.getElementType());
  int64_t elementBytes = getElementBytes(fullType.getElementType());
  StringRef name = op.getSymName();
  int64_t inRanks = base + place.offset * elementBytes;
  auto withRanks = [](int64_t ofRanks, ArrayRef<int64_t> dims) {
    SmallVector<int64_t> result = {ofRanks};
    llvm::append_range(result, dims);
    return result;
  };
  if (evenRanks > 0) {
    SmallVector<int64_t> partSizes = withRanks(evenRanks, sizes);
    action(builder.addStridedValue(dtype, partSizes, withRanks(chunkRows * strides[dim], strides),
                                   fullOffset, name),
           builder.addStridedValue(dtype, partSizes, withRanks(layout.shardElements, rowMajor),
                                   inRanks, name));
  }
  if (lastRows > 0) {
    sizes[dim] = lastRows; // only dimension 0 can be uneven
    action(builder.addStridedValue(dtype, sizes, strides,
                                   fullOffset + evenRanks * chunkRows * strides[dim] * elementBytes,
                                   name),
           builder.addStridedValue(dtype, sizes, rowMajor,
                                   inRanks + evenRanks * layout.shardElements * elementBytes,
                                   name));
  }
}

void Lowering::placeGradient(const GroupInfo &group, unsigned param, Value gradient, int64_t base,
                             Location location) {
  ParamOp op = group.params[param];
  auto type = cast<RankedTensorType>(gradient.getType());
  uint32_t source = valueOf.lookup(gradient);
  int64_t offset = builder.tables.values[source].offset;
  if (type.getNumElements() == 0)
    return;
  const std::string module = getModuleName(group);
  if (!group.isFlat() && group.layout.ranks > 1) {
    forEachRankPart(group, group.trained, param, type, offset, base,
                    [&](uint32_t full, uint32_t inRanks) {
                      addCopy(FSDP_BACKWARD, full, inRanks, module, location);
                    });
    return;
  }
  int64_t place = base + group.getParamBegin(param, group.gradients);
  if (offset == place && isContiguous(type))
    return;
  addCopy(FSDP_BACKWARD, source,
          builder.addValue(type.cloneWithEncoding({}), place, op.getSymName()), module, location);
}

void Lowering::zeroPadding(const GroupInfo &group, int64_t base) {
  const std::string module = getModuleName(group);
  // The pieces in each rank's part of the group, by offset; the remaining bytes are padding.
  std::vector<SmallVector<const plan::Piece *>> held(group.trained.ranks);
  for (const plan::ParameterPlace &place : group.trained.parameters)
    for (const plan::Piece &piece : place.pieces)
      held[piece.rank].push_back(&piece);
  for (auto [rank, pieces] : llvm::enumerate(held)) {
    int64_t begin = base + rank * group.gradients.shardBytes, filled = begin;
    for (const plan::Piece *piece : pieces) {
      addZero(filled, begin + piece->shardOffset * group.gradients.elementBytes, module);
      filled = begin + (piece->shardOffset + piece->count) * group.gradients.elementBytes;
    }
    addZero(filled, begin + group.gradients.shardBytes, module);
  }
}
