//===- VisitByClass.h - Operations of a step by their classes ---*- C++ -*-===//

#ifndef FSDP_IR_VISITBYCLASS_H
#define FSDP_IR_VISITBYCLASS_H

#include "fsdp/IR/Fsdp.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace fsdp {

namespace detail {
template <typename OpT, typename Visitor> bool visitAs(mlir::Operation *op, Visitor &visit) {
  if constexpr (std::is_invocable_v<Visitor, OpT>) {
    if (auto typed = llvm::dyn_cast<OpT>(op)) {
      visit(typed);
      return true;
    }
  }
  return false;
}

template <typename Visitor, typename... OpTs>
bool visitAsOneOf(mlir::Operation *op, Visitor &visit) {
  return (visitAs<OpTs>(op, visit) || ...);
}
} // namespace detail

/// Calls `visit` with the operation cast to its class: one of this dialect, an aten.call, an
/// aten.constant or a return. Returns false if `visit` does not accept the class. A visitor with
/// functions for some classes is
///
///     [&](auto op) requires requires { visit(op); } { visit(op); }
template <typename Visitor> bool visitByClass(mlir::Operation *op, Visitor visit) {
  return detail::visitAsOneOf<Visitor, aten::CallOp, aten::ConstantOp, mlir::func::ReturnOp,
#define GET_OP_LIST
#include "fsdp/IR/FsdpOps.cpp.inc"
                              >(op, visit);
}

} // namespace fsdp

#endif // FSDP_IR_VISITBYCLASS_H
