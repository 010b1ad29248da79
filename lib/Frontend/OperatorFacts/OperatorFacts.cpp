//===- OperatorFacts.cpp - Results of operators on a machine --------------===//

#include "fsdp/Frontend/OperatorFacts.h"

#include <ATen/core/ivalue.h>
#include <c10/core/ScalarType.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <optional>

using namespace fsdp;
using Json = nlohmann::ordered_json;

/// torch's name: float32.
static std::string nameOf(at::ScalarType dtype) { return c10::getDtypeNames(dtype).first; }

static std::string describe(const at::Tensor &tensor) {
  if (!tensor.defined())
    return "None";
  std::string sizes, strides;
  for (int64_t i = 0; i < tensor.dim(); ++i) {
    const char *comma = i ? "," : "";
    sizes += comma + std::to_string(tensor.size(i));
    strides += comma + (tensor.size(i) == 1 ? "*" : std::to_string(tensor.stride(i)));
  }
  return nameOf(tensor.scalar_type()) + "[" + sizes + "]{" + strides + "}";
}

static std::string describe(const c10::IValue &value) {
  if (value.isTensor())
    return describe(value.toTensor());
  if (value.isInt())
    return std::to_string(value.toInt());
  if (value.isBool())
    return value.toBool() ? "True" : "False";
  if (value.isDouble()) {
    char text[32];
    std::snprintf(text, sizeof text, "%.17g", value.toDouble());
    return text;
  }
  if (value.isString())
    return "'" + value.toStringRef() + "'";
  if (value.isDevice())
    return "device";
  if (value.isList()) {
    std::string text;
    for (const c10::IValue &item : value.toListRef())
      text += (text.empty() ? "" : ", ") + describe(item);
    return "[" + text + "]";
  }
  return value.isNone() ? "None" : value.tagKind();
}

std::string fsdp::describeCall(const c10::OperatorHandle &op,
                               std::span<const c10::IValue> arguments) {
  const c10::OperatorName &name = op.operator_name();
  std::string text;
  for (const c10::IValue &argument : arguments)
    text += (text.empty() ? "" : ", ") + describe(argument);
  return name.name + "." + (name.overload_name.empty() ? "default" : name.overload_name) + "(" +
         text + ")";
}

std::string fsdp::toJsonLine(const OperatorFact &fact) {
  return Json({{"kind", "result"},
               {"call", fact.call},
               {"result", fact.result},
               {"dtype", nameOf(fact.dtype)},
               {"sizes", fact.sizes},
               {"strides", fact.strides}})
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// True if the numbers of elements and of bytes are below 2^63.
static bool isAddressable(const Json &sizes, const Json &strides) {
  constexpr int64_t kMostBytes = 16; // per element
  int64_t span = 0, elements = kMostBytes;
  for (size_t i = 0; i < sizes.size(); ++i) {
    int64_t size = sizes[i], bytes = 0;
    if (__builtin_mul_overflow(elements, size, &elements) ||
        __builtin_mul_overflow(size, strides[i].get<int64_t>(), &bytes) ||
        __builtin_mul_overflow(bytes, kMostBytes, &bytes) ||
        __builtin_add_overflow(span, bytes, &span))
      return false;
  }
  return true;
}

/// The fact of a line of kind "result". Sets `problem` if the line is invalid.
static std::optional<OperatorFact> parseFact(const Json &line, std::string &problem) {
  auto isLengths = [](const Json &list) {
    return list.is_array() && std::all_of(list.begin(), list.end(), [](const Json &length) {
             return length.is_number_integer() && length >= 0;
           });
  };
  for (const char *key : {"call", "result", "dtype", "sizes", "strides"})
    if (!line.contains(key)) {
      problem = std::string("missing '") + key + "'";
      return std::nullopt;
    }
  if (!line["call"].is_string() || !line["dtype"].is_string())
    problem = "'call' and 'dtype' are strings";
  else if (!line["result"].is_number_unsigned())
    problem = "'result' is " + line["result"].dump() + ", expected a number from 0";
  else if (!isLengths(line["sizes"]) || !isLengths(line["strides"]) ||
           line["sizes"].size() != line["strides"].size())
    problem = "'sizes' is " + line["sizes"].dump() + " and 'strides' is " + line["strides"].dump() +
              ", expected lists of equal length of numbers from 0";
  else if (!isAddressable(line["sizes"], line["strides"]))
    problem = "no memory holds 'sizes' " + line["sizes"].dump() + " with 'strides' " +
              line["strides"].dump();
  const auto &dtypes = c10::getStringToDtypeMap();
  if (problem.empty() && !dtypes.count(line["dtype"].get<std::string>()))
    problem = "'dtype' is " + line["dtype"].dump() + ", expected one of torch, as \"float32\"";
  if (!problem.empty())
    return std::nullopt;
  return OperatorFact{line["call"], line["result"], dtypes.at(line["dtype"].get<std::string>()),
                      line["sizes"], line["strides"]};
}

std::string OperatorFacts::load(const std::string &path) {
  std::ifstream file(path);
  if (!file)
    return "cannot be read";
  std::string text, problem;
  for (unsigned number = 1; std::getline(file, text); ++number) {
    if (text.empty())
      continue;
    Json line = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    std::optional<OperatorFact> fact;
    if (!line.is_object() || !line.contains("kind") || !line["kind"].is_string())
      problem = "no JSON object with a 'kind', as --operator-report writes";
    else if (line["kind"] != "result")
      continue;
    else
      fact = parseFact(line, problem);
    if (!fact)
      return "line " + std::to_string(number) + ": " + problem;
    byCall[fact->call].insert_or_assign(fact->result, *fact);
  }
  return "";
}

const std::map<unsigned, OperatorFact> *OperatorFacts::lookup(const std::string &call) const {
  auto found = byCall.find(call);
  return found == byCall.end() ? nullptr : &found->second;
}
