//===- BufferUse.td - What operations do with bytes ---------*- tablegen -*-===//

#ifndef FSDP_IR_BUFFERUSE
#define FSDP_IR_BUFFERUSE

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
  I32EnumCase<"Gradient", 6, "gradient">,           // full gradients, where a collective reads them
  I32EnumCase<"ReducedShard", 7, "reduced shard">,  // gradients of this rank's shard
  I32EnumCase<"Activation", 8, "activation">,       // every other result
  I32EnumCase<"Chunk", 9, "chunk">,                 // of gathered parameters, kept for the backward
  I32EnumCase<"EncodedShard", 10, "encoded shard">  // what an extension makes of a shard
]> {
  let cppNamespace = "::fsdp";
}

def Fsdp_BufferUseOpInterface : OpInterface<"BufferUseOpInterface"> {
  let cppNamespace = "::fsdp";
  let description = [{
    An operation of a step, by the bytes that it reads and writes. Storage, live ranges, the memory
    planner and the verifiers ask this interface, never a concrete operation.

    An operation touches the bytes of all its operands and results. The bytes of a start's operands
    and handle are in use until the wait for the handle.
  }];
  let methods = [
    InterfaceMethod<[{
      What the bytes are for that the operation makes for one of its results, a handle's included;
      none if it makes none: the result aliases an operand, is kept between steps, or is no tensor.
    }], "std::optional<::fsdp::BufferCategory>", "getMadeCategory",
      (ins "::mlir::OpResult":$result), "", "return std::nullopt;">,
    InterfaceMethod<[{
      The operand in whose bytes a result lies: of views, of what happens in place, of waits. Null
      if there is none.
    }], "::mlir::Value", "getAlias", (ins "::mlir::OpResult":$result), "", "return {};">,
    InterfaceMethod<[{
      The gradients, one for each parameter of a group, that the operation reads one after another
      in one buffer of its own. What is not computed there is copied there.
    }], "::mlir::OperandRange", "getPacked", (ins), "",
      "return $_op->getOperands().take_front(0);">,
    InterfaceMethod<[{
      The group, parameter or buffer whose kept bytes the operation overwrites; null if there is
      none.
    }], "::mlir::FlatSymbolRefAttr", "getOverwritten", (ins), "", "return {};">
  ];
}

def Fsdp_UsesBuffers : DeclareOpInterfaceMethods<Fsdp_BufferUseOpInterface>;

#endif // FSDP_IR_BUFFERUSE
