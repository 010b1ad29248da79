//===- ExportedProgram.cpp - Models saved by torch.export -----------------===//
//
// A .pt2 file holds a graph of operator calls in JSON, from before autograd, with module paths and
// stack traces. It is interpreted node by node under the recorder.
//
//===----------------------------------------------------------------------===//

#include "Model.h"

#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <caffe2/serialize/inline_container.h>
#include <nlohmann/json.hpp>

#include <set>

using namespace fsdp::frontend;
using c10::IValue;
using nlohmann::json;

/// The schema of .pt2 numbers dtypes by itself: c10's number + 1, but for bfloat16.
static at::ScalarType convertSavedDtype(int number) {
  return number == 13 ? at::kBFloat16 : static_cast<at::ScalarType>(number - 1);
}

static int64_t convertSize(const json &size) {
  if (size.is_number())
    return size.get<int64_t>();
  if (!size.contains("as_int"))
    throw CaptureError("a shape of the file is dynamic; export with static shapes");
  return size["as_int"].get<int64_t>();
}

static std::vector<int64_t> convertSizes(const json &sizes) {
  std::vector<int64_t> result;
  for (const json &size : sizes)
    result.push_back(convertSize(size));
  return result;
}

static at::MemoryFormat convertMemoryFormat(int number) {
  switch (number) {
  case 1:
    return at::MemoryFormat::Contiguous;
  case 2:
    return at::MemoryFormat::ChannelsLast;
  case 3:
    return at::MemoryFormat::ChannelsLast3d;
  case 4:
    return at::MemoryFormat::Preserve;
  default:
    throw CaptureError("unknown memory format " + std::to_string(number));
  }
}

namespace {

class ExportedModel {
public:
  ExportedModel(const CaptureOptions &options, bool needsValues, Model &model)
      : options(options), needsValues(needsValues), model(model), reader(options.model) {
    if (options.method != "forward")
      throw CaptureError("a .pt2 file has no method '" + options.method + "', only 'forward'");
    program = parse("models/model.json");
    weights = parse("data/weights/model_weights_config.json").at("config");
    constants = parse("data/constants/model_constants_config.json").at("config");
    addInputs();
    checkOutputs();
  }

  at::Tensor run();
  int getPlace() const { return currentPlace; }

private:
  json parse(const std::string &record) {
    auto [data, size] = reader.getRecord(record);
    auto *text = static_cast<const char *>(data.get());
    return json::parse(text, text + size);
  }

  const json &graph() const { return program.at("graph_module").at("graph"); }
  const json &signature() const { return program.at("graph_module").at("signature"); }

  void addInputs();
  void addUserInput(const std::string &name);
  void addStored(const std::string &kind, const json &spec);
  void checkOutputs();
  at::Tensor readTensor(const json &entry, const std::string &folder, bool withValues);
  IValue convertArgument(const json &argument, const c10::TypePtr &formal) const;
  IValue convertTensors(const json &list, const c10::TypePtr &element) const;
  IValue convertNumber(const std::string &kind, const json &value, const c10::TypePtr &type) const;
  void call(const json &node);
  int addPlace(const json &metadata);

  const CaptureOptions &options;
  bool needsValues;
  Model &model;
  caffe2::serialize::PyTorchStreamReader reader;
  json program, weights, constants;
  std::unordered_map<std::string, IValue> values;
  std::unordered_map<std::string, at::Tensor> tensorOfPath; // by record
  size_t numInputs = 0;
  int currentPlace = 0;
};

} // namespace

//===----------------------------------------------------------------------===//
// Inputs
//===----------------------------------------------------------------------===//

at::Tensor ExportedModel::readTensor(const json &entry, const std::string &folder,
                                     bool withValues) {
  const json &meta = entry.at("tensor_meta");
  auto dtype = convertSavedDtype(meta.at("dtype"));
  std::vector<int64_t> sizes = convertSizes(meta.at("sizes"));
  std::vector<int64_t> strides = convertSizes(meta.at("strides"));
  bool isMeta = meta.at("device").at("type") == "meta";
  if (isMeta || !withValues)
    return at::empty_strided(sizes, strides, at::TensorOptions(dtype).device(at::kMeta));
  auto [data, size] = reader.getRecord(folder + entry.at("path_name").get<std::string>());
  int64_t offset = convertSize(meta.at("storage_offset"));
  int64_t last = offset;
  for (size_t i = 0; i < sizes.size(); ++i)
    last += (sizes[i] - 1) * strides[i];
  auto elementBytes = static_cast<int64_t>(c10::elementSize(dtype));
  if (c10::multiply_integers(sizes) > 0 && (last + 1) * elementBytes > static_cast<int64_t>(size))
    throw CaptureError("record '" + entry.at("path_name").get<std::string>() + "' has " +
                       std::to_string(size) + " bytes, expected at least " +
                       std::to_string((last + 1) * elementBytes));
  return at::from_blob(static_cast<char *>(data.get()) + offset * elementBytes, sizes, strides,
                       at::TensorOptions(dtype))
      .clone();
}

void ExportedModel::addStored(const std::string &kind, const json &spec) {
  bool isConstant = kind == "tensor_constant";
  std::string name = spec.at(kind + "_name"), argument = spec.at("arg").at("name");
  // Buffers that are not persistent are stored among the constants.
  bool amongWeights = weights.contains(name);
  const json &entry = amongWeights ? weights.at(name) : constants.at(name);
  const char *folder = amongWeights ? "data/weights/" : "data/constants/";
  // What several names share is stored once.
  bool isMeta = entry.at("tensor_meta").at("device").at("type") == "meta";
  std::string path = folder + (isMeta ? name : entry.at("path_name").get<std::string>());
  auto [stored, isNew] = tensorOfPath.try_emplace(path);
  if (isNew)
    stored->second = readTensor(entry, folder, needsValues || isConstant);
  at::Tensor tensor = stored->second;
  if (tensor.sizes() != at::IntArrayRef(convertSizes(entry.at("tensor_meta").at("sizes"))))
    throw CaptureError("'" + name + "' shares a part of its memory with another tensor");
  if (isConstant) {
    if (tensor.is_meta())
      throw CaptureError("constant '" + name + "' has no values");
    values[argument] = model.recorder.wrapConstant(tensor);
    return;
  }
  model.hasWeights |= !isMeta;
  if (entry.at("tensor_meta").at("requires_grad").get<bool>())
    tensor.requires_grad_(true);
  values[argument] = model.addTensor(name, tensor, kind == "parameter");
}

void ExportedModel::addUserInput(const std::string &name) {
  const json &meta = graph().at("tensor_values").at(name);
  at::ScalarType dtype = convertSavedDtype(meta.at("dtype"));
  std::vector<int64_t> sizes = convertSizes(meta.at("sizes"));
  if (*getDtypeName(dtype) == '?')
    throw CaptureError("input '" + name + "' has unsupported dtype " + toString(dtype));
  InputSpec spec{.name = name, .dtype = getDtypeName(dtype), .sizes = sizes};
  if (!options.inputs.empty()) {
    auto given = std::find_if(options.inputs.begin(), options.inputs.end(),
                              [&](const InputSpec &s) { return s.name == name; });
    std::string expected = describe(dtype, sizes);
    if (given == options.inputs.end())
      throw CaptureError("input '" + name + "' (" + expected + " in the file) has no --input");
    std::string got = describe(parseDtype(given->dtype), given->sizes);
    if (got != expected)
      throw CaptureError("input '" + name + "' is " + got + ", but " + expected + " in the file");
  }
  values[name] = model.addInput(spec);
  ++numInputs;
}

void ExportedModel::addInputs() {
  std::set<std::string> names;
  for (const json &spec : signature().at("input_specs")) {
    const std::string kind = spec.begin().key();
    const json &value = spec.begin().value();
    if (kind == "parameter" || kind == "buffer" || kind == "tensor_constant") {
      addStored(kind, value);
    } else if (kind == "user_input" && value.at("arg").contains("as_tensor")) {
      names.insert(value.at("arg").at("as_tensor").at("name"));
      addUserInput(value.at("arg").at("as_tensor").at("name"));
    } else {
      throw CaptureError("an input of kind '" + kind + "' that is no tensor is not supported");
    }
  }
  for (const InputSpec &input : options.inputs)
    if (!names.count(input.name))
      throw CaptureError("input '" + input.name + "' is no input of the file, which has " +
                         std::to_string(numInputs));
}

void ExportedModel::checkOutputs() {
  const json &outputs = graph().at("outputs");
  if (outputs.size() != 1 || !outputs[0].contains("as_tensor"))
    throw CaptureError("the program returns " + std::to_string(outputs.size()) +
                       " values, expected one tensor: the loss (mutated buffers must be mutated in "
                       "place, as torch.export.export leaves them)");
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

IValue ExportedModel::convertTensors(const json &list, const c10::TypePtr &element) const {
  auto get = [&](const json &entry) { return values.at(entry.at("name")).toTensor(); };
  if (element->kind() != c10::TypeKind::OptionalType) {
    c10::List<at::Tensor> tensors;
    for (const json &entry : list)
      tensors.push_back(get(entry));
    return tensors;
  }
  c10::List<std::optional<at::Tensor>> tensors;
  for (const json &entry : list) {
    if (entry.contains("as_tensor"))
      tensors.push_back(get(entry.at("as_tensor")));
    else if (entry.contains("name"))
      tensors.push_back(get(entry));
    else
      tensors.push_back(std::nullopt);
  }
  return tensors;
}

IValue ExportedModel::convertNumber(const std::string &kind, const json &value,
                                    const c10::TypePtr &type) const {
  if (type->kind() == c10::TypeKind::TensorType) {
    // A Python number in a tensor's place.
    c10::impl::ExcludeDispatchKeyGuard outside(
        c10::DispatchKeySet({c10::DispatchKey::Fake, c10::DispatchKey::Functionalize}));
    at::Tensor number = kind == "as_float" ? at::scalar_tensor(value.get<double>(), at::kDouble)
                        : kind == "as_int" ? at::scalar_tensor(value.get<int64_t>(), at::kLong)
                                           : at::scalar_tensor(value.get<bool>(), at::kBool);
    number.unsafeGetTensorImpl()->set_wrapped_number(true);
    return number;
  }
  if (kind == "as_bool")
    return value.get<bool>();
  if (kind == "as_float" || type->kind() == c10::TypeKind::FloatType)
    return value.get<double>();
  return value.get<int64_t>();
}

IValue ExportedModel::convertArgument(const json &argument, const c10::TypePtr &formal) const {
  const std::string kind = argument.begin().key();
  const json &value = argument.begin().value();
  c10::TypePtr type = formal;
  if (auto optional = type->cast<c10::OptionalType>())
    type = optional->getElementType();
  if (kind == "as_none")
    return {};
  if (kind == "as_tensor")
    return values.at(value.at("name"));
  if (kind == "as_tensors" || kind == "as_optional_tensors")
    return convertTensors(value, type->expect<c10::ListType>()->getElementType());
  if (kind == "as_int" || kind == "as_float" || kind == "as_bool")
    return convertNumber(kind, value, type);
  if (kind == "as_ints")
    return value.get<std::vector<int64_t>>();
  if (kind == "as_floats")
    return value.get<std::vector<double>>();
  if (kind == "as_bools") {
    c10::List<bool> list;
    for (bool element : value)
      list.push_back(element);
    return list;
  }
  if (kind == "as_sym_int")
    return convertSize(value);
  if (kind == "as_sym_ints")
    return convertSizes(value);
  if (kind == "as_string")
    return value.get<std::string>();
  if (kind == "as_scalar_type")
    return static_cast<int64_t>(convertSavedDtype(value));
  if (kind == "as_device")
    return c10::Device(value.at("type").get<std::string>());
  if (kind == "as_layout" && value == 7)
    return static_cast<int64_t>(at::kStrided);
  if (kind == "as_memory_format")
    return static_cast<int64_t>(convertMemoryFormat(value));
  throw CaptureError("unsupported argument of kind '" + kind + "'");
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

/// Sets the file and line of the last frame outside of torch's own modules, else of the last one.
static void findUserLine(const std::string &trace, Place &place) {
  for (size_t file = trace.find("File \""); file != std::string::npos;
       file = trace.find("File \"", file + 1)) {
    size_t begin = file + 6, end = trace.find('"', begin), line = trace.find("line ", end);
    if (end == std::string::npos || line == std::string::npos)
      return;
    std::string name = trace.substr(begin, end - begin);
    if (!place.file.empty() && name.find("/torch/") != std::string::npos)
      continue;
    place.file = name;
    place.line = static_cast<unsigned>(std::strtoul(trace.c_str() + line + 5, nullptr, 10));
    place.column = 1;
  }
}

/// `nn_module_stack` is `key,path,type;…`, outermost first; `stack_trace` a Python traceback.
int ExportedModel::addPlace(const json &metadata) {
  Place place;
  std::string modules = metadata.value("nn_module_stack", std::string());
  std::string last = modules.substr(modules.rfind(';') + 1);
  size_t first = last.find(',');
  if (first != std::string::npos)
    place.module = last.substr(first + 1, last.find(',', first + 1) - first - 1);
  // A module's second call is written `path@1`.
  place.module = place.module.substr(0, place.module.find('@'));
  findUserLine(metadata.value("stack_trace", std::string()), place);
  std::vector<Place> &places = model.recorder.graph.places;
  places.push_back(std::move(place));
  return static_cast<int>(places.size()) - 1;
}

void ExportedModel::call(const json &node) {
  const std::string target = node.at("target"), prefix = "torch.ops.";
  size_t space = prefix.size(), name = target.find('.', space), overload = target.rfind('.');
  if (target.rfind(prefix, 0) != 0 || target.find(".higher_order.") != std::string::npos ||
      name == std::string::npos || overload <= name)
    throw CaptureError("operator '" + target + "' is not supported: only calls of torch.ops are");
  // Assertions about dtypes and devices of the export, which hold here by construction.
  if (target.find("_assert") != std::string::npos)
    return;
  std::string qualified =
      target.substr(space, name - space) + "::" + target.substr(name + 1, overload - name - 1);
  std::string overloadName = target.substr(overload + 1);
  auto op = c10::Dispatcher::singleton().findSchema(
      {qualified, overloadName == "default" ? "" : overloadName});
  if (!op)
    throw CaptureError("operator '" + target + "' is unknown to this version of torch");
  currentPlace = addPlace(node.at("metadata"));
  torch::jit::Stack stack;
  for (const c10::Argument &formal : op->schema().arguments()) {
    const json *given = nullptr;
    for (const json &input : node.at("inputs"))
      if (input.at("name") == formal.name())
        given = &input.at("arg");
    if (given)
      stack.push_back(convertArgument(*given, formal.real_type()));
    else
      stack.push_back(formal.default_value().value_or(IValue()));
  }
  op->callBoxed(&stack);
  const json &outputs = node.at("outputs");
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].contains("as_tensor")) {
      values[outputs[i]["as_tensor"].at("name")] = stack.at(i);
    } else if (outputs[i].contains("as_tensors")) {
      std::vector<at::Tensor> list = stack.at(i).toTensorVector();
      for (size_t j = 0; j < list.size(); ++j)
        values[outputs[i]["as_tensors"].at(j).at("name")] = list[j];
    }
  }
}

at::Tensor ExportedModel::run() {
  for (const json &node : graph().at("nodes"))
    call(node);
  currentPlace = 0;
  return values.at(graph().at("outputs")[0].at("as_tensor").at("name")).toTensor();
}

void fsdp::frontend::loadExportedProgram(const CaptureOptions &options, bool needsValues,
                                         Model &model) {
  try {
    auto program = std::make_shared<ExportedModel>(options, needsValues, model);
    model.recorder.getPlace = [program] { return program->getPlace(); };
    model.forward = [program] { return program->run(); };
  } catch (const CaptureError &) {
    throw;
  } catch (const std::exception &exception) {
    std::string text = exception.what();
    throw CaptureError("not a readable file of torch.export.save: " +
                       text.substr(0, text.find(". ")));
  }
}
