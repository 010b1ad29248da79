//===- Provenance.cpp - That a step computes what was captured ------------===//

#include "fsdp/Analysis/Provenance.h"

#include "fsdp/Analysis/GradientRounding.h"
#include "fsdp/Analysis/PickedLoss.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/xxhash.h"

#include <array>
#include <map>

using namespace mlir;
using namespace fsdp;

namespace {

/// 128 bits: two values of equal digest are taken as equal.
using Digest = std::array<uint64_t, 2>;

Digest hashBytes(ArrayRef<uint8_t> bytes) {
  llvm::XXH128_hash_t hash = llvm::xxh3_128bits(bytes);
  return {hash.low64, hash.high64};
}

/// What a digest is made of, in order.
class Ingredients {
public:
  explicit Ingredients(StringRef kind) { add(kind); }
  Ingredients &add(StringRef text) {
    add(static_cast<uint64_t>(text.size()));
    bytes.append(text.bytes_begin(), text.bytes_end());
    return *this;
  }
  Ingredients &add(uint64_t number) {
    auto *first = reinterpret_cast<const uint8_t *>(&number);
    bytes.append(first, first + sizeof(number));
    return *this;
  }
  Ingredients &add(const Digest &digest) { return add(digest[0]).add(digest[1]); }
  Digest get() const { return hashBytes(bytes); }

private:
  SmallVector<uint8_t, 256> bytes;
};

class Tracer {
public:
  explicit Tracer(Step &step) : step(step) {}
  Digest run();

private:
  void visit(Operation &op);
  void visit(aten::CallOp call);
  void visit(LaunchOp launch);
  void visit(ReadOp read);
  void noteGradient(ParamOp param, Value value);
  void noteGradients(FlatSymbolRefAttr group, ValueRange gradients);
  Digest ofParam(StringRef name, Value value);
  /// Types and attributes are few: each is printed once.
  Digest ofType(Type type);
  Digest ofAttribute(Attribute attribute);
  Digest ofValue(Value value) const { return digests.lookup(value); }
  /// Of a loss of picked numbers (PickedLoss.h) those that it was captured with.
  SmallVector<Digest> ofOperands(aten::CallOp call);
  void notePickPart(aten::CallOp call);

  Step &step;
  DenseMap<Value, Digest> digests;
  DenseMap<Type, Digest> types;
  DenseMap<Attribute, Digest> attributes;
  std::map<std::pair<PickPart, Digest>, Digest> targetsOf; // of what may belong to such a loss
  std::map<Digest, Digest> pickedFrom;                     // the rows
  /// By name, so that their order does not matter.
  std::map<std::string, Digest> gradients, buffers;
  SmallVector<Digest> results;
};

} // namespace

Digest Tracer::ofType(Type type) {
  auto [known, isNew] = types.try_emplace(type);
  if (isNew) {
    std::string text;
    llvm::raw_string_ostream(text) << type;
    known->second = Ingredients("type").add(text).get();
  }
  return known->second;
}

Digest Tracer::ofAttribute(Attribute attribute) {
  auto [known, isNew] = attributes.try_emplace(attribute);
  if (isNew) {
    Ingredients ingredients("attribute");
    auto resource = dyn_cast<DenseResourceElementsAttr>(attribute);
    AsmResourceBlob *blob = resource ? resource.getRawHandle().getBlob() : nullptr;
    if (blob) {
      ArrayRef<char> data = blob->getData();
      ingredients.add(StringRef(data.data(), data.size()));
    } else {
      std::string text;
      llvm::raw_string_ostream(text) << attribute;
      ingredients.add(text);
    }
    known->second = ingredients.get();
  }
  return known->second;
}

/// In whatever dtype it is gathered: that follows from the parameter and the dtype.
Digest Tracer::ofParam(StringRef name, Value value) {
  return Ingredients("parameter").add(name).add(ofType(value.getType())).get();
}

void Tracer::visit(ReadOp read) {
  StringRef name = read.getSource();
  if (step.paramByName.contains(read.getSourceAttr().getAttr()))
    digests[read.getResult()] = ofParam(name, read.getResult());
  else
    digests[read.getResult()] =
        Ingredients("buffer").add(name).add(ofType(read.getResult().getType())).get();
}

void Tracer::notePickPart(aten::CallOp call) {
  std::optional<PickPart> part = getPickPart(call);
  if (!part)
    return;
  const Digest result = ofValue(call.getResult(0));
  auto follow = [&](PickPart from, Value operand) {
    if (auto known = targetsOf.find({from, ofValue(operand)}); known != targetsOf.end())
      targetsOf[{*part, result}] = known->second;
  };
  switch (*part) {
  case PickPart::Classes:
  case PickPart::Ignored:
    targetsOf[{*part, result}] = ofValue(call.getOperand(0));
    return;
  case PickPart::Indices:
    return follow(PickPart::Classes, call.getOperand(0));
  case PickPart::Picked:
    pickedFrom[result] = ofValue(call.getOperand(0));
    return follow(PickPart::Indices, call.getOperand(1));
  }
}

SmallVector<Digest> Tracer::ofOperands(aten::CallOp call) {
  auto operands =
      llvm::map_to_vector(call.getOperands(), [&](Value operand) { return ofValue(operand); });
  if (!isPlainLoss(call))
    return operands;
  auto picked = targetsOf.find({PickPart::Picked, operands[0]});
  auto ignored = targetsOf.find({PickPart::Ignored, operands[1]});
  if (picked != targetsOf.end() && ignored != targetsOf.end() && picked->second == ignored->second)
    return {pickedFrom[operands[0]], picked->second};
  return operands;
}

/// The module and the phase say where a call comes from, not what it computes.
void Tracer::visit(aten::CallOp call) {
  Ingredients ingredients("call");
  ingredients.add(ofAttribute(call.getCalleeAttr())).add(ofAttribute(call.getArgsAttr()));
  if (std::optional<uint64_t> rng = call.getRng())
    ingredients.add(*rng);
  for (const Digest &operand : ofOperands(call))
    ingredients.add(operand);
  Digest whole = ingredients.get();
  for (OpResult result : call.getResults())
    digests[result] = Ingredients("result")
                          .add(whole)
                          .add(result.getResultNumber())
                          .add(ofType(result.getType()))
                          .get();
  notePickPart(call);
}

/// What a generated kernel computes are the calls of its body.
void Tracer::visit(LaunchOp launch) {
  KernelOp kernel = launch.getDeclaration();
  Block &body = kernel.getBody().front();
  for (auto [argument, operand] : llvm::zip_equal(body.getArguments(), launch.getOperands()))
    digests[argument] = ofValue(operand);
  for (auto call : body.getOps<aten::CallOp>())
    visit(call);
  for (auto [result, yielded] : llvm::zip_equal(launch.getResults(), kernel.getYielded()))
    digests[result] = ofValue(yielded);
}

/// Adds a gradient to what is known of a parameter's, or the gradients that it is the sum of. Where
/// these are rounded to reduce_dtype is no part of it: that follows from which is added to which.
void Tracer::noteGradient(ParamOp param, Value value) {
  auto member = step.memberByParam.find(param.getSymNameAttr());
  GroupOp group =
      member == step.memberByParam.end() ? GroupOp() : step.groups[member->second.group];
  SmallVector<Value> added; // the last one first
  value = skipCopies(value);
  for (auto sum = value.getDefiningOp<AccumulateOp>(); sum;
       sum = value.getDefiningOp<AccumulateOp>()) {
    added.push_back(sum.getGradient());
    value = skipCopies(sum.getSum());
  }
  added.push_back(value);
  Digest &known = gradients[param.getSymName().str()];
  for (Value gradient : llvm::reverse(added)) {
    Value computed = group ? getUnrounded(group, gradient) : skipCopies(gradient);
    known = Ingredients("gradient").add(known).add(ofValue(computed)).get();
  }
}

void Tracer::noteGradients(FlatSymbolRefAttr group, ValueRange values) {
  auto found = step.groupByName.find(group.getAttr());
  if (found == step.groupByName.end())
    return;
  // A second reduction, of another microbatch, adds to the first.
  for (auto [param, value] : llvm::zip(step.getTrained(step.groups[found->second]), values))
    noteGradient(param, value);
}

void Tracer::visit(Operation &op) {
  llvm::TypeSwitch<Operation *>(&op)
      .Case<aten::CallOp, LaunchOp, ReadOp>([&](auto op) { visit(op); })
      .Case([&](aten::ConstantOp constant) {
        digests[constant.getResult()] = Ingredients("constant")
                                            .add(ofAttribute(constant.getValue()))
                                            .add(ofType(constant.getResult().getType()))
                                            .get();
      })
      .Case([&](InputOp input) {
        digests[input.getResult()] = Ingredients("input")
                                         .add(input.getName())
                                         .add(static_cast<uint64_t>(input.getMicrobatch()))
                                         .add(ofType(input.getResult().getType()))
                                         .get();
      })
      .Case([&](AllGatherWaitOp wait) {
        GroupOp group =
            step.groups[step.groupByName.lookup(wait.getStart().getGroupAttr().getAttr())];
        for (auto [result, name] :
             llvm::zip(wait.getResults(), group.getParams().getAsRange<FlatSymbolRefAttr>()))
          digests[result] = ofParam(name.getValue(), result);
      })
      .Case([&](FetchWaitOp wait) {
        digests[wait.getResult()] = ofValue(skipHostCopies(wait.getResult()));
      })
      .Case([&](GradOp grad) {
        if (ParamOp param = step.paramByName.lookup(grad.getParamAttr().getAttr()))
          noteGradient(param, grad.getValue());
      })
      .Case([&](WriteOp write) {
        Digest &known = buffers[write.getBuffer().str()];
        known = Ingredients("write").add(known).add(ofValue(write.getValue())).get();
      })
      .Case([&](mlir::func::ReturnOp ret) {
        for (Value operand : ret.getOperands())
          results.push_back(ofValue(operand));
      })
      .Default([&](Operation *op) {
        auto packs = dyn_cast<StepOpInterface>(op);
        if (packs && !packs.getPacked().empty())
          noteGradients(getGroupOf(op), packs.getPacked());
      });
}

Digest Tracer::run() {
  for (Operation &op : step.getBody())
    visit(op);
  Ingredients ingredients("step");
  for (auto &entries : {gradients, buffers}) {
    ingredients.add(static_cast<uint64_t>(entries.size()));
    for (auto &[name, digest] : entries)
      ingredients.add(name).add(digest);
  }
  for (const Digest &result : results)
    ingredients.add(result);
  return ingredients.get();
}

std::string fsdp::computeProvenance(Step &step) {
  Digest digest = Tracer(step).run();
  return llvm::utohexstr(digest[1], /*LowerCase=*/true, 16) +
         llvm::utohexstr(digest[0], /*LowerCase=*/true, 16);
}

LogicalResult fsdp::checkProvenance(Step &step) {
  auto said = step.module->getAttrOfType<StringAttr>(FsdpDialect::getProvenanceAttrName());
  if (!said)
    return success();
  std::string found = computeProvenance(step);
  if (said.getValue() == found)
    return success();
  return step.module.emitError("S9: the step computes something else than what was captured: an "
                               "operator, its operands, a gradient's parameter or what is returned "
                               "has changed ('")
         << FsdpDialect::getProvenanceAttrName() << "' is " << said << ", the step's is \"" << found
         << "\")";
}
