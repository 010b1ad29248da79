//===- ElementTypes.cpp - Element types in IR and in plans ----------------===//

#include "fsdp/IR/ElementTypes.h"

#include "fsdp/Plan/DTypes.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace fsdp;

Type fsdp::getElementType(uint32_t dtype, MLIRContext *context) {
  Builder builder(context);
  switch (dtype) {
  case FSDP_F32:
    return builder.getF32Type();
  case FSDP_BF16:
    return builder.getBF16Type();
  case FSDP_F16:
    return builder.getF16Type();
  case FSDP_F64:
    return builder.getF64Type();
  case FSDP_I64:
    return builder.getIntegerType(64);
  case FSDP_BOOL:
    return builder.getI1Type();
  case FSDP_I32:
    return builder.getIntegerType(32);
  case FSDP_I16:
    return builder.getIntegerType(16);
  case FSDP_I8:
    return builder.getIntegerType(8);
  case FSDP_U8:
    return builder.getIntegerType(8, /*isSigned=*/false);
  case FSDP_F8E4M3:
    return Float8E4M3FNType::get(context);
  case FSDP_F8E5M2:
    return Float8E5M2Type::get(context);
  case FSDP_C64:
    return ComplexType::get(builder.getF32Type());
  case FSDP_C128:
    return ComplexType::get(builder.getF64Type());
  case FSDP_U64:
    return builder.getIntegerType(64, /*isSigned=*/false);
  default:
    return {};
  }
}

std::optional<fsdp_dtype> fsdp::getPlanDType(Type element) {
  for (const plan::DTypeFacts &facts : plan::kDTypes)
    if (getElementType(facts.dtype, element.getContext()) == element)
      return facts.dtype;
  return std::nullopt;
}
