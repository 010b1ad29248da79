//===- StepOp.td - The interface of a step's operations ----*- tablegen -*-===//

#ifndef FSDP_IR_STEPOP
#define FSDP_IR_STEPOP

include "mlir/IR/EnumAttr.td"
include "mlir/IR/Interfaces.td"
include "mlir/IR/OpBase.td"

def Fsdp_BufferCategory : I32Enum<"BufferCategory", "what a buffer is for", [
  I32EnumCase<"Shard", 0, "shard">,                    // this rank's part of the parameters
  I32EnumCase<"OptimizerState", 1, "optimizer state">, // of the shard
  I32EnumCase<"Buffer", 2, "buffer">,                  // of the model
  I32EnumCase<"Input", 3, "input">,
  I32EnumCase<"Constant", 4, "constant">,
  I32EnumCase<"Gathered", 5, "gathered">,           // full parameters
  I32EnumCase<"Gradient", 6, "gradient">,           // full gradients, as the input of a collective
  I32EnumCase<"ReducedShard", 7, "reduced shard">,  // gradients of this rank's shard
  I32EnumCase<"Activation", 8, "activation">,       // every other result
  I32EnumCase<"Chunk", 9, "chunk">,                 // of gathered parameters, kept for the backward
  I32EnumCase<"EncodedShard", 10, "encoded shard">  // by an all_gather_extension
]> {
  let cppNamespace = "::fsdp";
}

def Fsdp_StepRole : I32Enum<"StepRole", "when an operation of a step runs, and on what", [
  I32EnumCase<"Begin", 0, "begin">,     // available when the step begins: inputs, shards
  I32EnumCase<"Free", 1, "free">,       // takes no time: views, reads, constants
  I32EnumCase<"Compute", 2, "compute">, // on the compute stream, at its position in the model
  I32EnumCase<"Reader", 3, "reader">,   // on the compute stream, after a reduction of its shard
  // Collectives, and the end of gathered parameters:
  I32EnumCase<"CollectiveStart", 4, "collective start">,
  I32EnumCase<"CollectiveWait", 5, "collective wait">,
  I32EnumCase<"Reshard", 6, "reshard">,
  // Copies between the memories of host and device:
  I32EnumCase<"FetchStart", 7, "fetch start">,
  I32EnumCase<"FetchWait", 8, "fetch wait">,
  I32EnumCase<"StoreStart", 9, "store start">,
  I32EnumCase<"StoreWait", 10, "store wait">
]> {
  let cppNamespace = "::fsdp";
}

def Fsdp_StepOpInterface : OpInterface<"StepOpInterface"> {
  let cppNamespace = "::fsdp";
  let description = [{
    An operation of a step: when it runs, its name in messages, and the bytes that it reads and
    writes. Schedulers, storage, live ranges, the memory planner, verifiers and reports ask this
    interface, never a list of concrete operations. The group that an operation serves and its arena
    offsets follow from its types and attributes (StepOp.h).

    An operation touches the bytes of all its operands and results. The bytes of a start's operands
    and handle are in use until the wait for the handle.
  }];
  let methods = [
    InterfaceMethod<"When it runs, and on what.", "::fsdp::StepRole", "getRole">,
    InterfaceMethod<[{
      Its name in messages, without the group that it serves: `update`, `norm of gradients`.
    }], "std::string", "getTitle", (ins), "",
      "return $_op->getName().stripDialect().str();">,
    InterfaceMethod<[{
      True if passes insert it for groups; a captured step then has none.
    }], "bool", "isOfGroups", (ins), "", "return true;">,
    InterfaceMethod<[{
      The value that determines its cost on the compute stream: a result counts as read and written
      once, an operand that is not written as read once.
    }], "::mlir::Value", "getMoved", (ins), "",
      "return $_op->getNumResults() > 0 ? $_op->getResult(0) : ::mlir::Value();">,
    InterfaceMethod<[{
      The category of the buffer that the operation allocates for one of its results, a handle's
      included; none if it allocates none: the result aliases an operand, is kept between steps, or
      is no tensor.
    }], "std::optional<::fsdp::BufferCategory>", "getMadeCategory",
      (ins "::mlir::OpResult":$result), "", "return std::nullopt;">,
    InterfaceMethod<[{
      The operand in whose bytes a result lies: of views, of in-place operations, of waits. Null if
      there is none.
    }], "::mlir::Value", "getAlias", (ins "::mlir::OpResult":$result), "", "return {};">,
    InterfaceMethod<[{
      The gradients, one for each parameter of a group, that the operation reads from one contiguous
      buffer of its own. A gradient that is not computed there is copied there.
    }], "::mlir::OperandRange", "getPacked", (ins), "",
      "return $_op->getOperands().take_front(0);">,
    InterfaceMethod<[{
      The group, parameter or buffer whose state between steps the operation overwrites; null if
      there is none.
    }], "::mlir::FlatSymbolRefAttr", "getOverwritten", (ins), "", "return {};">
  ];
}

def Fsdp_InStep : DeclareOpInterfaceMethods<Fsdp_StepOpInterface>;

#endif // FSDP_IR_STEPOP
