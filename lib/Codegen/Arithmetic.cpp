//===- Arithmetic.cpp - Expressions of scalars in MLIR --------------------===//

#include "Arithmetic.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

#include <cmath>

using namespace mlir;
using namespace fsdp::codegen;

Value Arithmetic::polynomial(Value x, ArrayRef<double> highestFirst) const {
  Value result = number(highestFirst.front());
  for (double coefficient : highestFirst.drop_front())
    result = fma(result, x, number(coefficient));
  return result;
}

Value Arithmetic::instruction(StringRef intrinsic, Value x) const {
  return LLVM::CallIntrinsicOp::create(builder, loc, x.getType(), builder.getStringAttr(intrinsic),
                                       ValueRange{x})
      .getResult(0);
}

Value Arithmetic::divByLarge(Value a, Value b) const {
  if (processor == Processor::Cpu)
    return div(a, b);
  return mul(a, instruction("llvm.nvvm.rcp.approx.ftz.f", b));
}

Value Arithmetic::rsqrt(Value x) const {
  if (processor == Processor::Cpu)
    return div(number(1), sqrt(x));
  return instruction("llvm.nvvm.rsqrt.approx.f", x);
}

/// 2^n 2^f with n + f = x / ln 2. 2^f is an instruction, with a relative error of 2^-22. Where n is
/// out of range, f takes the rest: 2^f is then 0 or infinite, or the product is denormal and
/// rounded.
Value Arithmetic::expOnGpu(Value x) const {
  Value bounded = make<arith::MaxNumFOp>(make<arith::MinNumFOp>(x, number(88)), number(-87));
  // Rounds to an integer, whose lowest bits then hold the exponent of 2^n.
  Value shift = number(12582912.0 + 127);
  Value shifted = fma(bounded, number(1.4426950408889634), shift);
  Value n = sub(shifted, shift);
  Value f = fma(x, number(1.4426950216293335), neg(n));
  f = fma(x, number(1.925963033500e-8), f);
  Value bits = make<arith::BitcastOp>(IntegerType::get(x.getContext(), 32), shifted);
  Value power = make<arith::BitcastOp>(x.getType(), make<arith::ShLIOp>(bits, integer(23)));
  return mul(instruction("llvm.nvvm.ex2.approx.ftz.f32", f), power);
}

/// x = n ln 2 + r with ln 2 in two parts, a polynomial in r, and 2^n as a product of two normal
/// numbers. Source of the coefficients: Shibata and Petrogalli, SLEEF (expf_u10).
Value Arithmetic::exp(Value x) const {
  if (processor == Processor::Gpu)
    return expOnGpu(x);
  using Predicate = arith::CmpFPredicate;
  // Outside of these bounds the result is 0 or infinite for any n; a NaN stays in r.
  Value bounded = make<arith::MaxNumFOp>(make<arith::MinNumFOp>(x, number(110)), number(-110));
  // Rounds to the nearest integer: fractional bits leave the mantissa.
  Value shift = number(12582912.0);
  Value n = sub(add(mul(bounded, number(1.4426950408889634)), shift), shift);
  Value r = fma(n, number(-0.693145751953125), x);
  r = fma(n, number(-1.428606765330187045e-06), r);
  Value p = polynomial(r, {0.000198527617612853646278381, 0.00139304355252534151077271,
                           0.00833336077630519866943359, 0.0416664853692054748535156,
                           0.166666671633720397949219, 0.5});
  p = add(number(1), fma(mul(r, r), p, r));
  Value exponent = make<arith::FPToSIOp>(IntegerType::get(x.getContext(), 32), n);
  Value half = make<arith::ShRSIOp>(exponent, integer(1));
  auto power = [&](Value k) {
    Value bits = make<arith::ShLIOp>(make<arith::AddIOp>(k, integer(127)), integer(23));
    return make<arith::BitcastOp>(x.getType(), bits);
  };
  Value y = mul(mul(p, power(half)), power(make<arith::SubIOp>(exponent, half)));
  y = select(compare(Predicate::OLT, x, number(-104)), number(0), y);
  return select(compare(Predicate::OGT, x, number(100)), number(INFINITY), y);
}

/// x = 2^n (1 + f) with 1 + f between the roots of 1/2 and 2, and ln 2 in two parts. Source of the
/// coefficients: Moshier, Cephes (logf).
Value Arithmetic::log(Value x) const {
  Type i32 = IntegerType::get(x.getContext(), 32);
  Value bits = make<arith::BitcastOp>(i32, x);
  // The offset of the bits from those of the root of 1/2, so that the exponent is rounded.
  Value above = make<arith::SubIOp>(bits, integer(0x3f3504f3));
  Value exponent = make<arith::ShRSIOp>(above, integer(23));
  Value mantissa =
      make<arith::AddIOp>(make<arith::AndIOp>(above, integer(0x7fffff)), integer(0x3f3504f3));
  Value f = sub(make<arith::BitcastOp>(x.getType(), mantissa), number(1));
  Value n = make<arith::SIToFPOp>(x.getType(), exponent);
  Value square = mul(f, f);
  Value p = polynomial(f, {7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1,
                           1.4249322787e-1, -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1,
                           3.3333331174e-1});
  p = fma(n, number(-2.12194440e-4), mul(mul(f, square), p));
  p = add(f, fma(square, number(-0.5), p));
  Value y = fma(n, number(0.693359375), p);
  return select(compare(arith::CmpFPredicate::UNO, x, x), x, y);
}

Value Arithmetic::tanh(Value x) const {
  // Near 0 the difference below would cancel: use the Taylor series to x^11.
  Value square = mul(x, x);
  Value series =
      polynomial(square, {-1382.0 / 155925, 62.0 / 2835, -17.0 / 315, 2.0 / 15, -1.0 / 3, 1.0});
  Value power = exp(mul(number(2), abs(x)));
  Value far = sub(number(1), divByLarge(number(2), add(power, number(1))));
  far = make<math::CopySignOp>(far, x);
  return select(compare(arith::CmpFPredicate::OLT, square, number(0.0625)), mul(x, series), far);
}

/// Source: Abramowitz and Stegun, formula 7.1.26.
Value Arithmetic::erf(Value x) const {
  Value size = abs(x);
  Value t = divByLarge(number(1), fma(size, number(0.3275911), number(1)));
  Value p =
      mul(t, polynomial(t, {1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592}));
  Value y = sub(number(1), mul(p, exp(neg(mul(size, size)))));
  return make<math::CopySignOp>(y, x);
}
