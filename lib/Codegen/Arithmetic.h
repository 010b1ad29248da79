//===- Arithmetic.h - Expressions of scalars in MLIR -------------*- C++ -*-===//

#ifndef FSDP_LIB_CODEGEN_ARITHMETIC_H
#define FSDP_LIB_CODEGEN_ARITHMETIC_H

#include "fsdp/Codegen/ScalarCode.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Builders.h"

namespace fsdp::codegen {

/// Writes operations on f32 scalars and bools at a builder's insertion point. LLVM may neither fuse
/// nor reorder them.
class Arithmetic {
public:
  using Value = mlir::Value;
  Arithmetic(mlir::OpBuilder &builder, mlir::Location loc, Processor processor)
      : builder(builder), loc(loc), processor(processor) {}

  Value number(double value) const {
    return make<mlir::arith::ConstantFloatOp>(builder.getF32Type(),
                                              llvm::APFloat(static_cast<float>(value)));
  }
  Value integer(int32_t value) const { return make<mlir::arith::ConstantIntOp>(value, 32); }
  Value add(Value a, Value b) const { return make<mlir::arith::AddFOp>(a, b); }
  Value sub(Value a, Value b) const { return make<mlir::arith::SubFOp>(a, b); }
  Value mul(Value a, Value b) const { return make<mlir::arith::MulFOp>(a, b); }
  Value div(Value a, Value b) const { return make<mlir::arith::DivFOp>(a, b); }
  Value neg(Value a) const { return make<mlir::arith::NegFOp>(a); }
  Value abs(Value a) const { return make<mlir::math::AbsFOp>(a); }
  Value sqrt(Value a) const { return make<mlir::math::SqrtOp>(a); }
  Value fma(Value a, Value b, Value c) const { return make<mlir::math::FmaOp>(a, b, c); }
  Value select(Value condition, Value a, Value b) const {
    return make<mlir::arith::SelectOp>(condition, a, b);
  }
  Value compare(mlir::arith::CmpFPredicate predicate, Value a, Value b) const {
    return make<mlir::arith::CmpFOp>(predicate, a, b);
  }
  /// exp(x), within 1 ulp; on GPUs with a relative error of 2^-21. 0 below -104.
  Value exp(Value x) const;
  /// log(x) of a normal number or a NaN, within 1 ulp.
  Value log(Value x) const;
  /// a / b for b of at least 1 (or NaN); on GPUs within 2 ulp, and 0 for b above 2^126.
  Value divByLarge(Value a, Value b) const;
  /// 1 / sqrt(x); on GPUs within 2 ulp.
  Value rsqrt(Value x) const;
  Value sigmoid(Value x) const { return divByLarge(number(1), add(number(1), exp(neg(x)))); }
  /// Within 4 ulp.
  Value tanh(Value x) const;
  /// Within 2e-7.
  Value erf(Value x) const;

  template <typename Op, typename... Args> Value make(Args &&...args) const {
    return Op::create(builder, loc, std::forward<Args>(args)...).getResult();
  }

private:
  Value polynomial(Value x, llvm::ArrayRef<double> highestFirst) const;
  Value expOnGpu(Value x) const;
  /// An instruction of NVIDIA's GPUs from f32 to f32.
  Value instruction(llvm::StringRef intrinsic, Value x) const;

  mlir::OpBuilder &builder;
  mlir::Location loc;
  Processor processor;
};

} // namespace fsdp::codegen

#endif // FSDP_LIB_CODEGEN_ARITHMETIC_H
