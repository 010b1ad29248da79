//===- ExportedProgram.cpp - Models saved by torch.export -----------------===//
//
// A .pt2 file is an archive: a program in JSON by torch's own schema, the tensors of the model's
// state_dict, and constants: literals of the code and buffers that are not persistent.
//
//===----------------------------------------------------------------------===//

#include "ExportedGraph.h"
#include "Model.h"
#include "OptimizerChoice.h"

#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <caffe2/serialize/inline_container.h>
#include <nlohmann/json.hpp>
#include <torch/csrc/export/pt2_archive_constants.h>

#include <set>
#include <tuple>

using namespace fsdp::frontend;
using c10::IValue;
using nlohmann::json;
namespace archive = torch::_export::archive_spec;

/// The major schema version of torch's header.
static constexpr int64_t schemaVersion = 8;
/// The record of tools/python/fsdpc with facts that torch.export does not keep.
static const char *const addedFacts = "extra/fsdpc.json";

template <typename Convert>
static auto parse(caffe2::serialize::PyTorchStreamReader &reader, const std::string &record,
                  Convert &&convert) {
  auto [data, size] = reader.getRecord(record);
  auto *text = static_cast<const char *>(data.get());
  return convert(json::parse(text, text + size));
}

/// Checks that each entry of the mappings called `table` has these members. torch's reader leaves
/// missing members uninitialized.
static void checkMembers(const json &whole, std::string_view table,
                         std::initializer_list<const char *> members) {
  std::vector<const json *> left = {&whole}; // no recursion: a corrupt text may be deeply nested
  while (!left.empty()) {
    const json &text = *left.back();
    left.pop_back();
    for (const auto &[key, value] : text.items()) {
      if (!text.is_object() || key != table) {
        if (value.is_structured())
          left.push_back(&value);
        continue;
      }
      for (const auto &[name, entry] : value.items())
        for (const char *member : members)
          if (!entry.is_object() || !entry.contains(member))
            throw CaptureError("'" + name + "' of " + key + " lacks '" + member + "'");
    }
  }
}

namespace {

class ExportedModel {
public:
  ExportedModel(const CaptureOptions &options, bool needsValues, Model &model)
      : options(options), needsValues(needsValues), model(model), reader(options.model),
        interpreter(model.recorder, options.target) {
    if (options.method != "forward")
      throw CaptureError("a .pt2 file has no method '" + options.method + "', only 'forward'");
    std::string folder(archive::MODELS_DIR);
    program = parse(reader, folder + "model.json", [](const json &text) {
      checkVersion(text);
      checkMembers(text, "tensor_values", {"dtype", "requires_grad", "layout"});
      return text.get<schema::ExportedProgram>();
    });
    auto readConfig = [](const json &text) {
      checkMembers(text, "config", {"is_param", "use_pickle"});
      return text.get<schema::PayloadConfig>();
    };
    weights =
        parse(reader, std::string(archive::WEIGHTS_DIR) + "model_weights_config.json", readConfig);
    constants = parse(reader, std::string(archive::CONSTANTS_DIR) + "model_constants_config.json",
                      readConfig);
    if (reader.hasRecord(addedFacts))
      parse(reader, addedFacts, [&](const json &text) {
        aliases = text.value("aliases", std::map<std::string, std::string>());
        inputNames = text.value("inputs", std::map<std::string, std::string>());
        if (auto optimizer = text.find("optimizer"); optimizer != text.end())
          model.optimizer = parseOptimizer(*optimizer);
        if (auto scaling = text.find("loss_scale"); scaling != text.end())
          model.lossScaling = parseLossScaling(*scaling);
        if (auto ranks = text.find("ranks"); ranks != text.end())
          model.ranks = ranks->get<int64_t>();
        for (const json &policy : text.value("mixed_precision", json::array())) {
          auto dtype = [&](const char *name) {
            auto found = policy.find(name);
            return found == policy.end() ? std::nullopt
                                         : std::optional(parseDtype(found->get<std::string>()));
          };
          model.policies.push_back({policy.at("modules").get<std::vector<std::string>>(),
                                    dtype("param_dtype"), dtype("reduce_dtype")});
        }
      });
    addInputs();
    checkOutputs();
  }

  at::Tensor run() {
    // An evaluation, too, needs autograd for the derivatives in its forward.
    at::AutoGradMode mode(at::GradMode::is_enabled() || hasDerivatives(graph()));
    at::Tensor loss = interpreter.run(graph(), std::move(values)).at(0).toTensor();
    return interpreter.addChecks(loss);
  }
  int getPlace() const { return interpreter.getPlace(); }

private:
  static void checkVersion(const json &text) {
    int64_t major = text.at("schema_version").at("major").get<int64_t>();
    if (major != schemaVersion)
      throw CaptureError("the file has version " + std::to_string(major) +
                         " of torch.export's schema, expected " + std::to_string(schemaVersion) +
                         "; export it with torch 2.11");
  }

  const schema::Graph &graph() const { return program.get_graph_module().get_graph(); }

  void addInputs();
  std::string getInputName(const std::string &value) const;
  void addUserInput(const std::string &value);
  void addParameter(const std::string &name, const std::string &argument);
  void addBuffer(const std::string &name, const std::string &argument, bool isPersistent);
  void addConstant(const std::string &name, const std::string &argument);
  void checkOutputs();

  /// Marks buffers whose record has several views in the file. Refuses such parameters.
  void noteSharedMemory();

  /// The first name of the tensor that has this name.
  const std::string &getFirstName(const std::string &name) const;
  /// A tensor of the file. Names with a common record get the same tensor if they have the same
  /// view of it.
  at::Tensor getTensor(const std::string &name, bool withValues);
  at::Tensor readTensor(const schema::PayloadMeta &entry, const std::string &record,
                        bool withValues);

  const CaptureOptions &options;
  bool needsValues;
  Model &model;
  caffe2::serialize::PyTorchStreamReader reader;
  schema::ExportedProgram program;
  schema::PayloadConfig weights, constants;
  std::map<std::string, std::string> aliases;
  std::map<std::string, std::string> inputNames; // by value, if torch.export has renamed them
  ExportedGraph interpreter;
  ExportedGraph::Values values;
  /// Offset, sizes and strides in a record.
  using View = std::tuple<int64_t, std::vector<int64_t>, std::vector<int64_t>>;
  std::map<std::string, std::map<View, at::Tensor>> viewsOfRecord;
  std::map<std::string, std::string> recordOfTensor;
  size_t numInputs = 0;
};

} // namespace

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

static bool isOnMeta(const schema::PayloadMeta &entry) {
  return entry.get_tensor_meta()->get_device().get_type() == "meta";
}

at::Tensor ExportedModel::readTensor(const schema::PayloadMeta &entry, const std::string &record,
                                     bool withValues) {
  const schema::TensorMeta &meta = *entry.get_tensor_meta();
  at::ScalarType dtype = convertDtype(meta.get_dtype());
  std::vector<int64_t> sizes = convertSizes(meta.get_sizes());
  std::vector<int64_t> strides = convertSizes(meta.get_strides());
  if (isOnMeta(entry) || !withValues)
    return at::empty_strided(sizes, strides, at::TensorOptions(dtype).device(at::kMeta));
  auto [data, size] = reader.getRecord(record);
  int64_t offset = convertSize(meta.get_storage_offset());
  int64_t last = offset;
  for (size_t i = 0; i < sizes.size(); ++i)
    last += (sizes[i] - 1) * strides[i];
  auto elementBytes = static_cast<int64_t>(c10::elementSize(dtype));
  if (c10::multiply_integers(sizes) > 0 && (last + 1) * elementBytes > static_cast<int64_t>(size))
    throw CaptureError("record '" + entry.get_path_name() + "' has " + std::to_string(size) +
                       " bytes, expected at least " + std::to_string((last + 1) * elementBytes));
  auto owner = std::make_shared<at::DataPtr>(std::move(data));
  return at::from_blob(
      static_cast<char *>(owner->get()) + offset * elementBytes, sizes, strides, [owner](void *) {},
      at::TensorOptions(dtype));
}

const std::string &ExportedModel::getFirstName(const std::string &name) const {
  auto alias = aliases.find(name);
  return alias == aliases.end() ? name : alias->second;
}

at::Tensor ExportedModel::getTensor(const std::string &name, bool withValues) {
  const std::string &firstName = getFirstName(name);
  // Non-persistent buffers are stored among the constants, also if the state_dict has them under
  // another name.
  auto find = [](const schema::PayloadConfig &among,
                 const std::string &key) -> const schema::PayloadMeta * {
    auto found = among.get_config().find(key);
    return found == among.get_config().end() ? nullptr : &found->second;
  };
  const schema::PayloadMeta *entry = find(weights, name);
  if (!entry)
    entry = find(weights, firstName);
  std::string folder(archive::WEIGHTS_DIR);
  if (!entry) {
    entry = find(constants, name);
    folder = archive::CONSTANTS_DIR;
  }
  if (!entry || !entry->get_tensor_meta())
    throw CaptureError("the file holds no tensor '" + name + "'");
  if (entry->get_use_pickle())
    throw CaptureError("'" + name + "' is pickled, which only Python reads");
  // A tensor of several names is stored once. A meta tensor is not stored.
  std::string record = folder + (isOnMeta(*entry) ? firstName : entry->get_path_name());
  recordOfTensor[name] = record;
  const schema::TensorMeta &meta = *entry->get_tensor_meta();
  View view(convertSize(meta.get_storage_offset()), convertSizes(meta.get_sizes()),
            convertSizes(meta.get_strides()));
  auto [tensor, isNew] = viewsOfRecord[record].try_emplace(view);
  if (isNew)
    tensor->second = readTensor(*entry, record, withValues);
  if (entry->get_tensor_meta()->get_requires_grad())
    tensor->second.requires_grad_(true);
  return tensor->second;
}

//===----------------------------------------------------------------------===//
// Inputs
//===----------------------------------------------------------------------===//

void ExportedModel::addParameter(const std::string &name, const std::string &argument) {
  at::Tensor tensor = getTensor(name, needsValues);
  model.hasWeights |= weights.get_config().count(name) && !isOnMeta(weights.get_config().at(name));
  values[argument] = model.addTensor(name, tensor, TensorRole::Parameter);
}

void ExportedModel::addBuffer(const std::string &name, const std::string &argument,
                              bool isPersistent) {
  at::Tensor tensor = getTensor(name, needsValues || !isPersistent);
  if (isPersistent && weights.get_config().count(name))
    model.hasWeights |= !isOnMeta(weights.get_config().at(name));
  const bool isInStateDict = weights.get_config().count(getFirstName(name)) != 0;
  bool isTransient = !isPersistent && (isInStateDict || !tensor.is_meta());
  if (!isPersistent && !isTransient)
    model.notes.push_back("buffer '" + name +
                          "' is not persistent, but the file has no values for it (it was saved on "
                          "meta): files of weights are to have it, and results do");
  values[argument] =
      model.addTensor(name, tensor, isTransient ? TensorRole::TransientBuffer : TensorRole::Buffer);
}

void ExportedModel::addConstant(const std::string &name, const std::string &argument) {
  at::Tensor tensor = getTensor(name, /*withValues=*/true);
  if (tensor.is_meta())
    throw CaptureError("constant '" + name + "' has no values");
  values[argument] = model.addConstant(name, tensor);
}

std::string ExportedModel::getInputName(const std::string &value) const {
  auto found = inputNames.find(value);
  return found == inputNames.end() ? value : found->second;
}

void ExportedModel::addUserInput(const std::string &value) {
  const schema::TensorMeta &meta = graph().get_tensor_values().at(value);
  const std::string name = getInputName(value);
  at::ScalarType dtype = convertDtype(meta.get_dtype());
  std::vector<int64_t> sizes = convertSizes(meta.get_sizes());
  if (!isRealInFiles(dtype))
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
  values[value] = model.addInput(spec);
  ++numInputs;
}

void ExportedModel::addInputs() {
  using Tag = schema::InputSpec::Tag;
  std::set<std::string> names;
  for (const schema::InputSpec &spec :
       program.get_graph_module().get_signature().get_input_specs()) {
    switch (spec.tag()) {
    case Tag::PARAMETER:
      addParameter(spec.get_parameter().get_parameter_name(),
                   spec.get_parameter().get_arg().get_name());
      break;
    case Tag::BUFFER:
      addBuffer(spec.get_buffer().get_buffer_name(), spec.get_buffer().get_arg().get_name(),
                spec.get_buffer().get_persistent());
      break;
    case Tag::TENSOR_CONSTANT:
      addConstant(spec.get_tensor_constant().get_tensor_constant_name(),
                  spec.get_tensor_constant().get_arg().get_name());
      break;
    case Tag::USER_INPUT: {
      const schema::Argument &argument = spec.get_user_input().get_arg();
      // Numbers and None are constants of the program.
      if (argument.tag() != schema::Argument::Tag::AS_TENSOR)
        break;
      names.insert(getInputName(argument.get_as_tensor().get_name()));
      addUserInput(argument.get_as_tensor().get_name());
      break;
    }
    case Tag::CONSTANT_INPUT:
      break;
    default:
      throw CaptureError("an input of kind '" + std::string(schema::printEnum(spec.tag())) +
                         "' that is no tensor is not supported");
    }
  }
  noteSharedMemory();
  for (const InputSpec &input : options.inputs)
    if (!names.count(input.name))
      throw CaptureError("input '" + input.name + "' is no input of the file, which has " +
                         std::to_string(numInputs));
}

void ExportedModel::noteSharedMemory() {
  for (ModelTensor &tensor : model.tensors) {
    tensor.sharesMemory = viewsOfRecord[recordOfTensor[tensor.name]].size() > 1;
    if (tensor.isParameter && tensor.sharesMemory)
      throw CaptureError("parameter '" + tensor.name +
                         "' shares a part of its memory with another tensor");
  }
}

void ExportedModel::checkOutputs() {
  const std::vector<schema::Argument> &outputs = graph().get_outputs();
  if (outputs.size() != 1 || outputs[0].tag() != schema::Argument::Tag::AS_TENSOR)
    throw CaptureError("the program returns " + std::to_string(outputs.size()) +
                       " values, expected one tensor: the loss (mutated buffers must be mutated in "
                       "place, as torch.export.export leaves them)");
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
