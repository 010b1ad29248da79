//===- Provenance.cpp - Digests of a step's computation -------------------===//

#include "fsdp/Analysis/Provenance.h"

#include "fsdp/Analysis/GradientRounding.h"
#include "fsdp/Analysis/SplitCalls.h"
#include "fsdp/Analysis/WideProducts.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/xxhash.h"

#include <array>
#include <map>

using namespace mlir;
using namespace fsdp;

namespace {

/// 128 bits: equal digests are taken for equal values.
using Digest = std::array<uint64_t, 2>;

Digest hashBytes(ArrayRef<uint8_t> bytes) {
  llvm::XXH128_hash_t hash = llvm::xxh3_128bits(bytes);
  return {hash.low64, hash.high64};
}

/// The inputs of a digest, in order.
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

/// An equivalent of a value's cast to fp32: of a product, the product stored in fp32; of a view,
/// the same view of the widened value. Views that undo each other are left out.
struct Widened {
  aten::CallOp call; // the product or view
  Digest digest;
};

class Tracer {
public:
  explicit Tracer(Step &step)
      : step(step), hasWideProducts(getTarget(step.module) == Target::Cuda) {}
  Digest run();

private:
  void visit(Operation &op);
  void visit(aten::CallOp call);
  void visit(LaunchOp launch);
  void visit(ReadOp read);
  void noteWidened(aten::CallOp call);
  void noteGradient(ParamOp param, Value value);
  void noteGradients(FlatSymbolRefAttr group, ValueRange gradients);
  Digest ofParam(StringRef name, Value value);
  /// There are few types and attributes: each is printed once.
  Digest ofType(Type type);
  Digest ofAttribute(Attribute attribute);
  Digest ofValue(Value value) const { return digests.lookup(value); }
  SmallVector<Digest> ofPart(const SplitCall::Part &part, aten::CallOp call,
                             ArrayRef<Digest> known);
  /// Digests of the results of a call with these operands.
  SmallVector<Digest> ofCall(StringAttr callee, ArrayAttr arguments, std::optional<uint64_t> rng,
                             ArrayRef<Digest> operands, TypeRange results);

  Step &step;
  const bool hasWideProducts; // torch's operators for CPUs are none
  DenseMap<Value, Digest> digests;
  DenseMap<Value, SmallVector<Widened, 2>> widened; // of products and their views; the value last
  DenseMap<Type, Digest> types;
  DenseMap<Attribute, Digest> attributes;
  /// By name, so that the order of the step does not matter.
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

/// The dtype of the gather does not matter: parameter and dtype determine the value, and for an
/// 8-bit float the group's cast.
Digest Tracer::ofParam(StringRef name, Value value) {
  Ingredients ingredients("parameter");
  ingredients.add(name).add(ofType(value.getType()));
  auto member = step.memberByParam.find(StringAttr::get(value.getContext(), name));
  if (member != step.memberByParam.end())
    if (GroupOp group = step.groups[member->second.group]; group.isGatheredAsFloat8())
      ingredients.add(ofAttribute(group.getFloat8CastAttr()));
  return ingredients.get();
}

void Tracer::visit(ReadOp read) {
  StringRef name = read.getSource();
  if (step.paramByName.contains(read.getSourceAttr().getAttr()))
    digests[read.getResult()] = ofParam(name, read.getResult());
  else
    digests[read.getResult()] =
        Ingredients("buffer").add(name).add(ofType(read.getResult().getType())).get();
}

SmallVector<Digest> Tracer::ofCall(StringAttr callee, ArrayAttr arguments,
                                   std::optional<uint64_t> rng, ArrayRef<Digest> operands,
                                   TypeRange results) {
  Ingredients ingredients("call");
  ingredients.add(ofAttribute(callee)).add(ofAttribute(arguments));
  if (rng)
    ingredients.add(*rng);
  for (const Digest &operand : operands)
    ingredients.add(operand);
  const Digest whole = ingredients.get();
  SmallVector<Digest> made;
  for (auto [i, type] : llvm::enumerate(results))
    made.push_back(Ingredients("result").add(whole).add(i).add(ofType(type)).get());
  return made;
}

/// The digests of one part of a split call: those of an equal call in the step.
SmallVector<Digest> Tracer::ofPart(const SplitCall::Part &part, aten::CallOp call,
                                   ArrayRef<Digest> known) {
  Builder builder(call.getContext());
  if (part.operands.front() < call.getNumOperands())
    if (auto product = widened.find(call.getOperand(part.operands.front()));
        product != widened.end() && part.callee == "_to_copy.default" &&
        part.results.front() == widen(call.getOperand(part.operands.front()).getType()))
      return {product->second.back().digest};
  auto operands = llvm::map_to_vector(part.operands, [&](unsigned i) { return known[i]; });
  return ofCall(builder.getStringAttr(part.callee), builder.getArrayAttr(part.arguments),
                /*rng=*/std::nullopt, operands, part.results);
}

/// Module and phase are the call's origin and do not affect its result. A call that can be split
/// has the digest of its parts.
void Tracer::visit(aten::CallOp call) {
  auto known =
      llvm::map_to_vector(call.getOperands(), [&](Value operand) { return ofValue(operand); });
  noteWidened(call);
  SmallVector<Digest> results;
  if (auto product = widened.find(call.getNumOperands() > 0 ? call.getOperand(0) : Value());
      product != widened.end() && isCastToFloat(call)) {
    results.push_back(product->second.back().digest);
  } else if (std::optional<SplitCall> split = splitCall(call)) {
    for (const SplitCall::Part &part : split->parts)
      llvm::append_range(known, ofPart(part, call, known));
    for (unsigned i : split->results)
      results.push_back(known[i]);
  } else {
    results = ofCall(call.getCalleeAttr(), call.getArgsAttr(), call.getRng(), known,
                     call.getResultTypes());
  }
  for (auto [result, digest] : llvm::zip_equal(call.getResults(), results))
    digests[result] = digest;
}

void Tracer::noteWidened(aten::CallOp call) {
  if (!hasWideProducts)
    return;
  SmallVector<Widened, 2> found;
  auto digest = [&](StringAttr callee, ArrayAttr arguments, ArrayRef<Digest> operands) {
    Type type = widen(call.getResult(0).getType());
    return ofCall(callee, arguments, call.getRng(), operands, type).front();
  };
  if (isNarrowProduct(call)) {
    auto operands =
        llvm::map_to_vector(call.getOperands(), [&](Value operand) { return ofValue(operand); });
    found.push_back({call, digest(getWideCallee(call), getWideArguments(call), operands)});
  } else if (isWholeView(call)) {
    found = widened.lookup(call.getOperand(0));
    if (found.size() > 1 && areInverse(found.back().call, call))
      found.pop_back();
    else if (!found.empty())
      found.push_back(
          {call, digest(call.getCalleeAttr(), call.getArgsAttr(), found.back().digest)});
  }
  // The values of a kernel's body differ at each launch.
  for (Value result : call.getResults())
    widened.erase(result);
  if (!found.empty())
    widened[call.getResult(0)] = std::move(found);
}

/// A launch computes the calls of its kernel's body.
void Tracer::visit(LaunchOp launch) {
  KernelOp kernel = launch.getDeclaration();
  Block &body = kernel.getBody().front();
  for (auto [argument, operand] : llvm::zip_equal(body.getArguments(), launch.getOperands())) {
    digests[argument] = ofValue(operand);
    widened[argument] = widened.lookup(operand);
    if (widened[argument].empty())
      widened.erase(argument);
  }
  for (auto call : body.getOps<aten::CallOp>())
    visit(call);
  for (auto [result, yielded] : llvm::zip_equal(launch.getResults(), kernel.getYielded()))
    digests[result] = ofValue(yielded);
}

/// Adds a gradient, or the gradients that it is a sum of, to those of a parameter. Where they are
/// rounded to reduce_dtype is left out: the order of additions determines it.
void Tracer::noteGradient(ParamOp param, Value value) {
  auto member = step.memberByParam.find(param.getSymNameAttr());
  GroupOp group =
      member == step.memberByParam.end() ? GroupOp() : step.groups[member->second.group];
  SmallVector<Value> added; // in reverse order
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
      .Case(
          [&](LossScaleOp scale) { digests[scale.getResult()] = Ingredients("loss scale").get(); })
      .Case([&](AllGatherWaitOp wait) {
        GroupOp group =
            step.groups[step.groupByName.lookup(wait.getStart().getGroupAttr().getAttr())];
        for (auto [result, name] :
             llvm::zip(wait.getResults(), group.getParams().getAsRange<FlatSymbolRefAttr>()))
          digests[result] = ofParam(name.getValue(), result);
      })
      .Case([&](AmaxOp amax) {
        digests[amax.getResult()] = Ingredients("amax").add(amax.getParam()).get();
      })
      .Case([&](FetchWaitOp wait) {
        Value stored = skipHostCopies(wait.getResult());
        digests[wait.getResult()] = ofValue(stored);
        if (auto product = widened.find(stored); product != widened.end())
          widened[wait.getResult()] = SmallVector<Widened, 2>(product->second);
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
