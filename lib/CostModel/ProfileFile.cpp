//===- ProfileFile.cpp - Profiles as JSON ----------------------------------===//

#include "JsonFile.h"
#include "fsdp/CostModel/Profile.h"

using namespace fsdp;
using namespace fsdp::cost;

static constexpr llvm::StringLiteral kFormat = "fsdp-profile";
/// Version 1 has no kernels.
static constexpr int64_t kVersion = 2, kOldest = 1;

namespace fsdp::cost {
static bool fromJSON(const llvm::json::Value &value, ProfiledTensor &tensor,
                     llvm::json::Path path) {
  llvm::json::ObjectMapper object(value, path);
  if (!object || !object.map("dtype", tensor.dtype) || !object.map("shape", tensor.shape) ||
      !object.mapOptional("strides", tensor.strides))
    return false;
  if (tensor.strides.empty() || tensor.strides.size() == tensor.shape.size())
    return true;
  path.field("strides").report("expected one stride per dimension");
  return false;
}

/// Reports sizes beyond any device's memory, so that sums of sizes do not overflow.
static bool checkMemory(int64_t bytes, llvm::json::Path path) {
  constexpr int64_t kMostBytes = int64_t(1) << 50;
  if (bytes > kMostBytes) {
    path.report("expected at most 1 PiB");
    return false;
  }
  return checkAtLeast(bytes, 0, path);
}

static bool fromJSON(const llvm::json::Value &value, ProfiledCall &call, llvm::json::Path path) {
  llvm::json::ObjectMapper object(value, path);
  return object && object.map("op", call.key.op) && object.map("overload", call.key.overload) &&
         object.map("operands", call.key.operands) && object.map("arguments", call.key.arguments) &&
         object.map("medianNs", call.medianNs) && object.map("spread", call.spread) &&
         object.map("samples", call.samples) && object.map("temporaryBytes", call.temporaryBytes) &&
         checkAtLeast(call.medianNs, 0, path.field("medianNs")) &&
         checkSpread(call.spread, path.field("spread")) &&
         checkMemory(call.temporaryBytes, path.field("temporaryBytes"));
}

static bool fromJSON(const llvm::json::Value &value, ProfiledKernel &kernel,
                     llvm::json::Path path) {
  llvm::json::ObjectMapper object(value, path);
  std::string rounding;
  if (!object || !object.map("name", kernel.name) || !object.map("rounding", rounding) ||
      !object.map("operands", kernel.key.operands) || !object.map("results", kernel.key.results) ||
      !object.map("body", kernel.key.body) || !object.map("medianNs", kernel.medianNs) ||
      !object.map("spread", kernel.spread) || !object.map("samples", kernel.samples) ||
      !checkAtLeast(kernel.medianNs, 0, path.field("medianNs")) ||
      !checkSpread(kernel.spread, path.field("spread")))
    return false;
  std::optional<Rounding> known = symbolizeRounding(rounding);
  if (known)
    kernel.key.rounding = *known;
  else
    path.field("rounding").report("expected 'exact' or 'fast'");
  return known.has_value();
}

/// Reads durations by `sizeName`; sizes are positive and increase.
static bool mapCurve(const llvm::json::Value &value, llvm::StringLiteral field,
                     llvm::StringLiteral sizeName, std::vector<SizedDuration> &curve,
                     llvm::json::Path path) {
  const llvm::json::Array *list = value.getAsObject()->getArray(field);
  if (!list) {
    path.field(field).report("expected an array");
    return false;
  }
  // A path points to its parent, which must outlive it.
  llvm::json::Path listPath = path.field(field);
  for (auto [i, element] : llvm::enumerate(*list)) {
    llvm::json::Path at = listPath.index(i);
    SizedDuration &duration = curve.emplace_back();
    llvm::json::ObjectMapper object(element, at);
    if (!object || !object.map(sizeName, duration.size) ||
        !object.map("medianNs", duration.medianNs) || !object.map("spread", duration.spread) ||
        !object.map("samples", duration.samples) ||
        !checkAtLeast(duration.medianNs, 0, at.field("medianNs")) ||
        !checkSpread(duration.spread, at.field("spread")))
      return false;
    if (duration.size <= (i == 0 ? 0 : curve[i - 1].size)) {
      at.field(sizeName).report("sizes must be positive and increase");
      return false;
    }
  }
  return true;
}

static bool fromJSON(const llvm::json::Value &value, ProfiledUpdate &update,
                     llvm::json::Path path) {
  llvm::json::ObjectMapper object(value, path);
  std::string optimizer;
  if (!object || !object.map("optimizer", optimizer) || !object.map("dtype", update.dtype) ||
      !mapCurve(value, "durations", "elements", update.durations, path))
    return false;
  std::optional<OptimizerKind> kind = symbolizeOptimizerKind(optimizer);
  if (!kind || update.durations.empty()) {
    path.report("expected a known optimizer and at least one duration");
    return false;
  }
  update.optimizer = *kind;
  return true;
}

static bool fromJSON(const llvm::json::Value &value, ProfiledStep &step, llvm::json::Path path) {
  llvm::json::ObjectMapper object(value, path);
  return object && object.map("durationNs", step.durationNs) &&
         object.map("callsNs", step.callsNs) && object.mapOptional("kernelsNs", step.kernelsNs) &&
         object.map("updatesNs", step.updatesNs) && object.map("copiesNs", step.copiesNs) &&
         object.map("collectivesNs", step.collectivesNs) &&
         object.mapOptional("scratchBytes", step.scratchBytes);
}

static bool fromJSON(const llvm::json::Value &value, Profile &profile, llvm::json::Path path) {
  llvm::json::ObjectMapper object(value, path);
  const bool knowsKernels = value.getAsObject()->getInteger("version") != kOldest;
  return object && object.map("device", profile.device) &&
         object.map("description", profile.description) && object.map("source", profile.source) &&
         object.map("ranks", profile.ranks) && object.map("step", profile.step) &&
         object.map("calls", profile.calls) &&
         (!knowsKernels || object.map("kernels", profile.kernels)) &&
         object.map("updates", profile.updates) &&
         mapCurve(value, "copies", "bytes", profile.copies, path);
}
} // namespace fsdp::cost

llvm::Expected<Profile> fsdp::cost::readProfile(const std::string &file) {
  return readJsonFile<Profile>("profile", file, kFormat, kVersion, kOldest);
}

static void writeCurve(llvm::json::OStream &json, llvm::StringLiteral field,
                       llvm::StringLiteral sizeName, llvm::ArrayRef<SizedDuration> curve) {
  json.attributeArray(field, [&] {
    for (const SizedDuration &duration : curve)
      json.object([&] {
        json.attribute(sizeName, duration.size);
        json.attribute("medianNs", duration.medianNs);
        json.attribute("spread", duration.spread);
        json.attribute("samples", duration.samples);
      });
  });
}

static void writeTensors(llvm::json::OStream &json, llvm::StringLiteral field,
                         llvm::ArrayRef<ProfiledTensor> tensors) {
  json.attributeArray(field, [&] {
    for (const ProfiledTensor &tensor : tensors)
      json.object([&] {
        json.attribute("dtype", tensor.dtype);
        json.attribute("shape", llvm::json::Array(tensor.shape));
        if (!tensor.strides.empty())
          json.attribute("strides", llvm::json::Array(tensor.strides));
      });
  });
}

static void writeCall(llvm::json::OStream &json, const ProfiledCall &call) {
  json.object([&] {
    json.attribute("op", call.key.op);
    json.attribute("overload", call.key.overload);
    writeTensors(json, "operands", call.key.operands);
    json.attribute("arguments", llvm::json::Array(call.key.arguments));
    json.attribute("medianNs", call.medianNs);
    json.attribute("spread", call.spread);
    json.attribute("samples", call.samples);
    json.attribute("temporaryBytes", call.temporaryBytes);
  });
}

static void writeKernel(llvm::json::OStream &json, const ProfiledKernel &kernel) {
  json.object([&] {
    json.attribute("name", kernel.name);
    json.attribute("rounding", stringifyRounding(kernel.key.rounding));
    writeTensors(json, "operands", kernel.key.operands);
    writeTensors(json, "results", kernel.key.results);
    json.attribute("body", llvm::json::Array(kernel.key.body));
    json.attribute("medianNs", kernel.medianNs);
    json.attribute("spread", kernel.spread);
    json.attribute("samples", kernel.samples);
  });
}

void fsdp::cost::writeProfile(const Profile &profile, llvm::raw_ostream &os) {
  llvm::json::OStream json(os, 1);
  json.object([&] {
    json.attribute("format", kFormat);
    json.attribute("version", kVersion);
    json.attribute("device", profile.device);
    json.attribute("description", profile.description);
    json.attribute("source", profile.source);
    json.attribute("ranks", profile.ranks);
    json.attributeObject("step", [&] {
      json.attribute("durationNs", profile.step.durationNs);
      json.attribute("callsNs", profile.step.callsNs);
      json.attribute("kernelsNs", profile.step.kernelsNs);
      json.attribute("updatesNs", profile.step.updatesNs);
      json.attribute("copiesNs", profile.step.copiesNs);
      json.attribute("collectivesNs", profile.step.collectivesNs);
      json.attribute("scratchBytes", profile.step.scratchBytes);
    });
    json.attributeArray("calls", [&] {
      for (const ProfiledCall &call : profile.calls)
        writeCall(json, call);
    });
    json.attributeArray("kernels", [&] {
      for (const ProfiledKernel &kernel : profile.kernels)
        writeKernel(json, kernel);
    });
    json.attributeArray("updates", [&] {
      for (const ProfiledUpdate &update : profile.updates)
        json.object([&] {
          json.attribute("optimizer", stringifyOptimizerKind(update.optimizer));
          json.attribute("dtype", update.dtype);
          writeCurve(json, "durations", "elements", update.durations);
        });
    });
    writeCurve(json, "copies", "bytes", profile.copies);
  });
  os << '\n';
}
