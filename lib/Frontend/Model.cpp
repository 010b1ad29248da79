//===- Model.cpp - A loaded model, ready to be run under the recorder -----===//

#include "Model.h"

#include "fsdp/Plan/DTypes.h"

#include <ATen/ops/empty.h>

#include <sstream>

using namespace fsdp;
using namespace fsdp::frontend;

static_assert(static_cast<int>(at::kBFloat16) == FSDP_BF16 &&
              static_cast<int>(at::kFloat8_e4m3fn) == FSDP_F8E4M3 &&
              static_cast<int>(at::kUInt64) == FSDP_U64);

static const plan::DTypeFacts *findFacts(at::ScalarType dtype) {
  return plan::findDType(static_cast<uint32_t>(dtype));
}

bool fsdp::frontend::isRealInFiles(at::ScalarType dtype) {
  const plan::DTypeFacts *facts = findFacts(dtype);
  return facts && facts->inFiles && !at::isComplexType(dtype);
}

at::ScalarType fsdp::frontend::parseDtype(const std::string &name) {
  for (const plan::DTypeFacts &facts : plan::kDTypes) {
    const auto dtype = static_cast<at::ScalarType>(facts.dtype);
    if (name == facts.name && isRealInFiles(dtype))
      return dtype;
  }
  throw CaptureError("unknown dtype '" + name + "'");
}

const char *fsdp::frontend::getDtypeName(at::ScalarType dtype) {
  const plan::DTypeFacts *facts = findFacts(dtype);
  return facts ? facts->name : "?";
}

std::string fsdp::frontend::describe(at::ScalarType dtype, at::IntArrayRef sizes) {
  std::ostringstream text;
  text << getDtypeName(dtype) << '[';
  for (size_t i = 0; i < sizes.size(); ++i)
    text << (i ? "," : "") << sizes[i];
  text << ']';
  return text.str();
}

at::Tensor Model::addTensor(const std::string &tensorName, const at::Tensor &tensor,
                            TensorRole role) {
  bool isParameter = role == TensorRole::Parameter;
  bool isTransient = role == TensorRole::TransientBuffer;
  std::string what = (isParameter ? "parameter '" : "buffer '") + tensorName + "'";
  if (tensor.layout() != at::kStrided)
    throw CaptureError(what + " is not a dense tensor");
  const at::ScalarType dtype = tensor.scalar_type();
  if (!isRealInFiles(dtype) && (isParameter || dtype != at::kComplexFloat))
    throw CaptureError(what + " has unsupported dtype " + toString(dtype));
  if (isParameter && tensor.requires_grad() && c10::elementSize(dtype) < 2)
    throw CaptureError(what + " is trained in " + toString(dtype) +
                       ", which no optimizer does: freeze it");
  if (!isParameter && tensor.requires_grad())
    throw CaptureError(what + " requires a gradient but is no nn.Parameter");
  if (isParameter && !tensor.is_contiguous())
    throw CaptureError(what + " is not contiguous, which sharding needs");

  const void *storage = tensor.storage().unsafeGetStorageImpl();
  auto [same, isNew] = tensorOfIdentity.try_emplace(identify(tensor), tensors.size());
  if (!isNew) {
    ModelTensor &first = tensors[same->second];
    if (first.isParameter != isParameter)
      throw CaptureError(what + " shares its memory with '" + first.name +
                         "', of which only one is a parameter");
    if (isParameter && first.isFrozen == tensor.requires_grad())
      throw CaptureError(what + " shares its memory with '" + first.name +
                         "', of which only one requires a gradient");
    addName(first, tensorName, isTransient);
    return first.wrapper;
  }
  auto [other, isAlone] = tensorOfStorage.try_emplace(storage, tensors.size());
  if (!isAlone && tensor.numel() != 0)
    throw CaptureError(what + " shares a part of its memory with '" + tensors[other->second].name +
                       "'");
  ModelTensor entry{.name = tensorName,
                    .aliases = {},
                    .isParameter = isParameter,
                    .isFrozen = isParameter && !tensor.requires_grad(),
                    .isTransient = isTransient,
                    .data = tensor.detach(),
                    .wrapper = {},
                    .value = static_cast<int>(recorder.graph.values.size())};
  entry.wrapper = recorder.wrap(tensor, isParameter ? ValueKind::Parameter : ValueKind::Buffer,
                                tensorName, tensor.requires_grad());
  tensors.push_back(std::move(entry));
  return tensors.back().wrapper;
}

void Model::addName(ModelTensor &tensor, const std::string &tensorName, bool isTransient) {
  if (isTransient)
    return; // no file has this name
  if (!tensor.isTransient) {
    tensor.aliases.push_back(tensorName);
    return;
  }
  tensor.isTransient = false;
  tensor.name = recorder.graph.values[tensor.value].name = tensorName;
}

at::Tensor Model::addConstant(const std::string &constantName, const at::Tensor &data) {
  at::Tensor wrapper = recorder.wrapConstant(data, constantName);
  int value = recorder.getValue(wrapper, "constant '" + constantName + "'");
  constants.push_back({constantName, wrapper, value});
  return wrapper;
}

Model::Identity Model::identify(const at::Tensor &tensor) {
  return {tensor.storage().unsafeGetStorageImpl(), tensor.storage_offset(), tensor.sizes().vec(),
          tensor.strides().vec()};
}

at::Tensor Model::findTensor(const at::Tensor &tensor) const {
  auto found = tensorOfIdentity.find(identify(tensor));
  return found == tensorOfIdentity.end() ? at::Tensor() : tensors[found->second].wrapper;
}

at::Tensor Model::addInput(const InputSpec &spec) {
  inputs.push_back(static_cast<int>(recorder.graph.values.size()));
  at::Tensor shape =
      at::empty(spec.sizes, at::TensorOptions(parseDtype(spec.dtype)).device(at::kMeta));
  return recorder.wrap(shape, ValueKind::Input, spec.name, /*requiresGrad=*/false);
}

at::Tensor Model::addLossScale(int &value) {
  value = static_cast<int>(recorder.graph.values.size());
  at::Tensor shape = at::empty({}, at::TensorOptions(at::kFloat).device(at::kMeta));
  return recorder.wrap(shape, ValueKind::Input, "loss_scale", /*requiresGrad=*/false);
}

at::Tensor Model::castForForward(const at::Tensor &tensor) {
  if (!paramDtype || !tensor.is_floating_point() || tensor.scalar_type() == *paramDtype)
    return tensor;
  at::Tensor &cast = castOf[tensor.unsafeGetTensorImpl()];
  if (!cast.defined())
    cast = tensor.to(*paramDtype);
  return cast;
}

void Model::checkValues() const {
  const ModelTensor *with = nullptr, *without = nullptr;
  for (const ModelTensor &tensor : tensors)
    if (!tensor.isTransient)
      (tensor.data.is_meta() ? without : with) = &tensor;
  if (with && without)
    throw CaptureError("'" + without->name + "' has no values (it was saved on meta) but '" +
                       with->name + "' has");
}
