//===- Extensions.cpp - Encoding and decoding of shards --------------------===//
//
// The extension `int8`, written from its definition and independent of the runtime's operators.
//
//===----------------------------------------------------------------------===//

#include "RanksInterpreter.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

using namespace mlir;
using namespace fsdp;
using namespace fsdp::interpreter;

static AllGatherExtensionAttr getExtension(const GroupInfo &group) {
  GroupOp op = group.op; // accessors of operations are not const
  AllGatherExtensionAttr extension = op.getAllGatherExtensionAttr();
  if (extension.getName() != "int8")
    throw std::runtime_error("group @" + op.getSymName().str() + " has all_gather_extension " +
                             extension.getName().str() + ", the interpreter knows int8 only");
  return extension;
}

/// Writes one byte per element, then the scale.
static void encodePart(const float *part, int64_t elements, char *bytes) {
  float largest = 0;
  for (int64_t i = 0; i < elements; ++i)
    largest = std::isnan(part[i]) ? part[i] : std::max(largest, std::fabs(part[i]));
  const float scale = std::max(largest / 127, std::numeric_limits<float>::min());
  for (int64_t i = 0; i < elements; ++i)
    bytes[i] = static_cast<char>(static_cast<int8_t>(std::nearbyint(part[i] / scale)));
  std::memcpy(bytes + elements, &scale, sizeof(scale));
}

static void decodePart(const char *bytes, int64_t elements, float *part) {
  float scale;
  std::memcpy(&scale, bytes + elements, sizeof(scale));
  for (int64_t i = 0; i < elements; ++i)
    part[i] = static_cast<float>(static_cast<int8_t>(bytes[i])) * scale;
}

void RanksInterpreter::visit(EncodeOp encode) {
  const GroupInfo &group = groups.lookup(encode.getSource().getType());
  if (encode.getAmax())
    return castToFloat8(encode, group);
  (void)getExtension(group);
  for (auto [index, rank] : llvm::enumerate(ranks)) {
    at::Tensor shard = get(index, encode.getSource(), encode);
    at::Tensor place = rank.memory.placeFlat(group.gathered.shardBytes, group.gathered.elementType,
                                             encode.getOffset());
    for (auto [param, begin] : llvm::enumerate(group.encodedBegins)) {
      const plan::ParameterPlace &within = group.layout.parameters[param];
      encodePart(shard.const_data_ptr<float>() + within.offset, within.chunkElements,
                 static_cast<char *>(place.mutable_data_ptr()) + begin);
    }
    rank.values[encode.getResult()] = place;
  }
}

at::Tensor fsdp::interpreter::decodeShard(const GroupInfo &group, const at::Tensor &bytes) {
  (void)getExtension(group);
  at::Tensor shard = at::zeros({group.layout.shardElements}, at::kFloat);
  for (auto [param, begin] : llvm::enumerate(group.encodedBegins)) {
    const plan::ParameterPlace &within = group.layout.parameters[param];
    decodePart(static_cast<const char *>(bytes.const_data_ptr()) + begin, within.chunkElements,
               shard.mutable_data_ptr<float>() + within.offset);
  }
  return shard;
}

void RanksInterpreter::visit(AllReduceHookOp hook) {
  throw std::runtime_error("group @" + hook.getSource().getType().getGroup().getValue().str() +
                           " has an all_reduce_hook; the interpreter knows none");
}
