//===- FsdpKernels.cpp - Kernels that the compiler generates --------------===//

#include "SymbolChecks.h"
#include "fsdp/IR/Fsdp.h"
#include "fsdp/IR/TensorLayout.h"

using namespace mlir;
using namespace fsdp;

/// The body consists of aten calls in one block that ends with fsdp.yield. The calls are already
/// verified.
LogicalResult KernelOp::verifyRegions() {
  Block &body = getBody().front();
  if (body.empty() || !isa<YieldOp>(body.back()))
    return emitOpError("@") << getSymName() << " does not end with '" << YieldOp::getOperationName()
                            << "'";
  for (Type type : body.getArgumentTypes())
    if (auto tensor = dyn_cast<RankedTensorType>(type); !tensor || !tensor.hasStaticShape())
      return emitOpError("@") << getSymName() << " takes " << type
                              << ", expected tensors of static shape";
  for (Operation &op : body.without_terminator()) {
    auto call = dyn_cast<aten::CallOp>(op);
    if (!call)
      return op.emitOpError("is in the body of kernel @")
             << getSymName() << ", expected '" << aten::CallOp::getOperationName() << "' alone";
    if (call.getOffsets())
      return op.emitOpError("in the body of kernel @")
             << getSymName() << " has places in the arena";
  }
  if (getYielded().empty())
    return emitOpError("@") << getSymName() << " yields nothing";
  for (Value result : getYielded()) {
    if (isa<BlockArgument>(result))
      return emitOpError("@") << getSymName() << " yields an operand as it is";
    if (auto type = cast<RankedTensorType>(result.getType()); overlapsItself(type))
      return emitOpError("@") << getSymName() << " yields " << type
                              << ", whose strides give two elements one address";
  }
  return success();
}

/// Searches backwards from the step, where fsdp-fuse puts kernels. A symbol lookup would visit all
/// parameters and groups first, for each launch.
KernelOp LaunchOp::getDeclaration() {
  Operation *step = (*this)->getParentOp();
  for (Operation *op = step->getPrevNode(); op; op = op->getPrevNode()) {
    auto kernel = dyn_cast<KernelOp>(op);
    if (!kernel)
      break;
    if (kernel.getSymNameAttr() == getKernelAttr().getAttr())
      return kernel;
  }
  return SymbolTable::lookupNearestSymbolFrom<KernelOp>(*this, getKernelAttr());
}

LogicalResult LaunchOp::verify() {
  if (getOffsets() && getOffsets()->size() != getNumResults())
    return emitOpError("has ") << getNumResults() << " results but " << getOffsets()->size()
                               << " offsets";
  return success();
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FailureOr<KernelOp> kernel = resolve<KernelOp>(*this, getKernelAttr(), symbols, "kernel");
  if (failed(kernel))
    return failure();
  // An invalid body is an error of the kernel.
  Region &body = kernel->getBody();
  if (!body.hasOneBlock() || body.front().empty() || !isa<YieldOp>(body.front().back()))
    return success();
  auto check = [&](TypeRange got, TypeRange expected, StringRef what) -> LogicalResult {
    if (got.size() != expected.size())
      return emitOpError("has ") << got.size() << " " << what << "s for kernel " << getKernelAttr()
                                 << ", expected " << expected.size();
    for (auto [index, pair] : llvm::enumerate(llvm::zip_equal(got, expected)))
      if (std::get<0>(pair) != std::get<1>(pair))
        return emitOpError("has ")
               << what << " #" << index << " of type " << std::get<0>(pair) << " for kernel "
               << getKernelAttr() << ", expected " << std::get<1>(pair);
    return success();
  };
  if (failed(check(getOperandTypes(), body.front().getArgumentTypes(), "operand")))
    return failure();
  return check(getResultTypes(), kernel->getYielded().getTypes(), "result");
}

void LaunchOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  if (getNumResults() != 0)
    setName(getResult(0), getKernel());
}
