//===- OperatorRules.cpp - The arithmetic of each operator ----------------===//

#include "OperatorRules.h"

#include "llvm/ADT/StringMap.h"

#include <cmath>

using namespace mlir;
using namespace fsdp;
using namespace fsdp::codegen;
using Predicate = arith::CmpFPredicate;

static bool hasScale(const Arguments &arguments) { return arguments.number(2).has_value(); }
static bool hasNoScale(const Arguments &arguments) { return arguments.isNumber(2, 1); }
static bool hasSignAsScale(const Arguments &arguments) {
  return arguments.isNumber(2, 1) || arguments.isNumber(2, -1);
}

template <Predicate P> static Value compareTo(const Site &s) { return s.m.compare(P, s[0], s[1]); }

/// a + number * b.
template <int Sign> static Value addScaled(const Site &s) {
  double scale = s.number(2) * Sign;
  if (scale == 1)
    return s.m.add(s[0], s[1]);
  if (scale == -1)
    return s.m.sub(s[0], s[1]);
  return s.m.fma(s[1], s.m.number(scale), s[0]);
}

static Value writePower(const Site &s) {
  switch (static_cast<int>(s.number(1))) {
  case 1:
    return s[0];
  case 2:
    return s.m.mul(s[0], s[0]);
  default:
    return s.m.mul(s.m.mul(s[0], s[0]), s[0]);
  }
}

static bool isSmallPower(const Arguments &arguments) {
  return arguments.isNumber(1, 1) || arguments.isNumber(1, 2) || arguments.isNumber(1, 3);
}

/// The cumulative standard normal distribution.
static Value normalUpTo(const Arithmetic &m, Value x) {
  return m.mul(m.number(0.5), m.add(m.number(1), m.erf(m.mul(x, m.number(M_SQRT1_2)))));
}

/// tanh of GELU's approximation, and the derivative of its argument.
static std::pair<Value, Value> approximateGelu(const Arithmetic &m, Value x) {
  constexpr double kScale = M_SQRT2 * M_2_SQRTPI * 0.5, kCube = 0.044715;
  Value square = m.mul(x, x);
  Value inner = m.mul(m.number(kScale), m.fma(m.mul(m.number(kCube), square), x, x));
  Value slope = m.mul(m.number(kScale), m.fma(m.number(3 * kCube), square, m.number(1)));
  return {m.tanh(inner), slope};
}

static Value writeGelu(const Site &s) {
  if (s.arguments.text(1) != "tanh")
    return s.m.mul(s[0], normalUpTo(s.m, s[0]));
  Value tanh = approximateGelu(s.m, s[0]).first;
  return s.m.mul(s.m.mul(s.m.number(0.5), s[0]), s.m.add(s.m.number(1), tanh));
}

static Value writeGeluBackward(const Site &s) {
  const Arithmetic &m = s.m;
  Value gradient = s[0], x = s[1];
  if (s.arguments.text(2) != "tanh") {
    Value density =
        m.mul(m.number(M_2_SQRTPI * M_SQRT1_2 * 0.5), m.exp(m.mul(m.mul(x, x), m.number(-0.5))));
    return m.mul(gradient, m.fma(x, density, normalUpTo(m, x)));
  }
  auto [tanh, slope] = approximateGelu(m, x);
  Value left = m.mul(m.number(0.5), m.add(m.number(1), tanh));
  Value right = m.mul(m.mul(m.mul(m.number(0.5), x), m.sub(m.number(1), m.mul(tanh, tanh))), slope);
  return m.mul(gradient, m.add(left, right));
}

static Value writeSiluBackward(const Site &s) {
  const Arithmetic &m = s.m;
  Value sigmoid = m.sigmoid(s[1]);
  Value slope = m.fma(s[1], m.sub(m.number(1), sigmoid), m.number(1));
  return m.mul(m.mul(s[0], sigmoid), slope);
}

//===----------------------------------------------------------------------===//
// Operators
//===----------------------------------------------------------------------===//

/// torch computes a function by one library for whole vectors and by another one for the rest of a
/// thread's range. On x86-64 both round to the same bf16 and f16: their errors are far below the
/// distance of two such values, and none of the 65,536 results is that close to the middle between
/// two. ShortFunctions of unit.CodegenTests compares a kernel's result for every input. In f32 the
/// two libraries differ in the last bits.
#if defined(__x86_64__)
static constexpr Rule::Test isExactFunction = Rule::always;
#else
static constexpr Rule::Test isExactFunction = Rule::never;
#endif

static const llvm::StringMap<Rule> &getRules() {
  auto one = [](Value (*write)(const Site &)) {
    return Rule{.tensors = 1, .write = write, .isExactShort = Rule::never};
  };
  auto inexact = [](unsigned tensors, Value (*write)(const Site &)) {
    return Rule{
        .tensors = tensors, .write = write, .isExact = Rule::never, .isExactShort = Rule::never};
  };
  auto function = [](Value (*write)(const Site &)) {
    return Rule{
        .tensors = 1, .write = write, .isExact = Rule::never, .isExactShort = isExactFunction};
  };
  // Of a gradient and a value; exact only in bf16.
  auto backward = [](Value (*write)(const Site &)) {
    return Rule{.tensors = 2,
                .write = write,
                .isExact = Rule::never,
                .isExactShort = isExactFunction,
                .isExactF16 = false};
  };
  auto comparison = [](Value (*write)(const Site &)) {
    return Rule{.tensors = 2, .write = write, .isComparison = true};
  };
  // torch rounds any other scale once or twice, depending on the instruction set.
  auto sum = [](Value (*write)(const Site &)) {
    return Rule{.tensors = 2,
                .write = write,
                .isExact = hasSignAsScale,
                .isExactShort = hasNoScale,
                .accepts = hasScale};
  };
  Rule add = sum(addScaled<1>), subtract = sum(addScaled<-1>);
  Rule multiply{.tensors = 2,
                .write = [](const Site &s) { return s.m.mul(s[0], s[1]); },
                .roundsNumbers = false};
  Rule divide{.tensors = 2,
              .write = [](const Site &s) { return s.m.div(s[0], s[1]); },
              .roundsNumbers = false};
  static const llvm::StringMap<Rule> rules = {
      {"add.Tensor", add},
      {"add.Scalar", add},
      {"sub.Tensor", subtract},
      {"sub.Scalar", subtract},
      {"rsub.Scalar",
       {.tensors = 2,
        .write = [](const Site &s) { return s.m.sub(s[1], s[0]); },
        .accepts = hasNoScale}},
      {"mul.Tensor", multiply},
      {"mul.Scalar", multiply},
      {"div.Tensor", divide},
      {"div.Scalar", divide},
      {"neg.default", {.tensors = 1, .write = [](const Site &s) { return s.m.neg(s[0]); }}},
      {"abs.default", {.tensors = 1, .write = [](const Site &s) { return s.m.abs(s[0]); }}},
      {"relu.default",
       {.tensors = 1,
        .write =
            [](const Site &s) {
              Value zero = s.m.number(0);
              return s.m.select(s.m.compare(Predicate::OLT, s[0], zero), zero, s[0]);
            }}},
      {"threshold_backward.default",
       {.tensors = 2,
        .write =
            [](const Site &s) {
              Value isBelow = s.m.compare(Predicate::OLE, s[1], s.m.number(s.number(2)));
              return s.m.select(isBelow, s.m.number(0), s[0]);
            },
        .accepts = [](const Arguments &arguments) { return arguments.isNumber(2, 0); }}},
      {"where.self",
       {.tensors = 3, .write = [](const Site &s) { return s.m.select(s[0], s[1], s[2]); }}},
      {"masked_fill.Scalar",
       {.tensors = 3, .write = [](const Site &s) { return s.m.select(s[1], s[2], s[0]); }}},
      {"native_dropout_backward.default",
       {.tensors = 2,
        .write =
            [](const Site &s) { return s.m.mul(s.m.mul(s[0], s[1]), s.m.number(s.number(2))); },
        .isExactShort = Rule::never,
        .accepts = hasScale}},
      {"clone.default", {.tensors = 1, .write = [](const Site &s) { return s[0]; }}},
      {"_to_copy.default", {.tensors = 1, .write = [](const Site &s) { return s[0]; }}},
      // Not exact in f32: for contiguous operands torch calls a library that rounds differently.
      {"sqrt.default", function([](const Site &s) { return s.m.sqrt(s[0]); })},
      {"rsqrt.default", one([](const Site &s) { return s.m.rsqrt(s[0]); })},
      {"reciprocal.default", one([](const Site &s) { return s.m.div(s.m.number(1), s[0]); })},
      {"pow.Tensor_Scalar",
       {.tensors = 1, .write = writePower, .isExactShort = Rule::never, .accepts = isSmallPower}},
      {"eq.Tensor", comparison(compareTo<Predicate::OEQ>)},
      {"eq.Scalar", comparison(compareTo<Predicate::OEQ>)},
      {"ne.Tensor", comparison(compareTo<Predicate::UNE>)},
      {"ne.Scalar", comparison(compareTo<Predicate::UNE>)},
      {"lt.Tensor", comparison(compareTo<Predicate::OLT>)},
      {"lt.Scalar", comparison(compareTo<Predicate::OLT>)},
      {"le.Tensor", comparison(compareTo<Predicate::OLE>)},
      {"le.Scalar", comparison(compareTo<Predicate::OLE>)},
      {"gt.Tensor", comparison(compareTo<Predicate::OGT>)},
      {"gt.Scalar", comparison(compareTo<Predicate::OGT>)},
      {"ge.Tensor", comparison(compareTo<Predicate::OGE>)},
      {"ge.Scalar", comparison(compareTo<Predicate::OGE>)},
      {"exp.default", function([](const Site &s) { return s.m.exp(s[0]); })},
      {"sigmoid.default", function([](const Site &s) { return s.m.sigmoid(s[0]); })},
      {"sigmoid_backward.default", backward([](const Site &s) {
         Value slope = s.m.sub(s.m.number(1), s[1]);
         return s.m.mul(s.m.mul(s[0], slope), s[1]);
       })},
      {"tanh.default", function([](const Site &s) { return s.m.tanh(s[0]); })},
      {"tanh_backward.default", backward([](const Site &s) {
         return s.m.mul(s[0], s.m.sub(s.m.number(1), s.m.mul(s[1], s[1])));
       })},
      {"silu.default", function([](const Site &s) {
         return s.m.divByLarge(s[0], s.m.add(s.m.number(1), s.m.exp(s.m.neg(s[0]))));
       })},
      {"silu_backward.default", backward(writeSiluBackward)},
      {"gelu.default", inexact(1, writeGelu)},
      {"gelu_backward.default", inexact(2, writeGeluBackward)},
  };
  return rules;
}

const Rule *fsdp::codegen::findRule(aten::CallOp call) {
  auto found = getRules().find(call.getCallee());
  return found == getRules().end() ? nullptr : &found->second;
}
