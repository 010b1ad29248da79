//===- FsdpOps.td - Sharded parameters and collectives -----*- tablegen -*-===//

#ifndef FSDP_IR_FSDPOPS
#define FSDP_IR_FSDPOPS

include "fsdp/IR/AtenBase.td"
include "fsdp/IR/StepOp.td"
include "fsdp/IR/FsdpBase.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Fsdp_Communicator : Resource<"::fsdp::CommunicatorResource">;
def Fsdp_Storage : Resource<"::fsdp::ParameterStorageResource">;

class Fsdp_Op<string mnemonic, list<Trait> traits = []> : Op<Fsdp_Dialect, mnemonic, traits>;

defvar Fsdp_SymbolUser = DeclareOpInterfaceMethods<SymbolUserOpInterface>;
defvar Fsdp_NamesResults = DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>;

/// An operation of a step, with its own implementations of these interface methods.
class Fsdp_InStepBy<list<string> methods>
    : DeclareOpInterfaceMethods<Fsdp_StepOpInterface, methods>;

include "fsdp/IR/FsdpDeclarations.td"

//===----------------------------------------------------------------------===//
// Inputs, reads, writes, gradients and updates
//===----------------------------------------------------------------------===//

def Fsdp_InputType : AnyTypeOf<[AnyStaticShapeTensor, I64, F64], "tensor, i64 or f64">;

def Fsdp_InputOp : Fsdp_Op<"input", [
    Pure, Fsdp_NamesResults, Fsdp_InStepBy<["isOfGroups", "getMadeCategory"]>]> {
  let summary = "A value that changes from step to step: a tensor of the batch, step or lr";
  let description = [{
    Tensors are the model's inputs, in the order of the forward's arguments, once for each
    microbatch. The two scalars are the number of the update, from 1 (`"step"`, i64), and its
    learning rate (`"lr"`, f64).

    ```mlir
    %tokens = fsdp.input "tokens" : tensor<4x128xi64>
    %tokens_0 = fsdp.input "tokens" microbatch 1 : tensor<4x128xi64>
    %lr = fsdp.input "lr" : f64
    ```
  }];
  let arguments = (ins StrAttr:$name, DefaultValuedProp<I64Prop, "0">:$microbatch,
                       OptionalAttr<I64Attr>:$offset);
  let results = (outs Fsdp_InputType:$result);
  let assemblyFormat = [{
    $name (`microbatch` $microbatch^)? (`at` custom<PlainInteger>($offset)^)? attr-dict `:` type($result)
  }];
}

def Fsdp_LossScaleOp : Fsdp_Op<"loss_scale", [
    Pure, Fsdp_NamesResults, Fsdp_InStepBy<["isOfGroups", "getMadeCategory"]>]> {
  let summary = "The factor of the loss from which this step's backward begins";
  let description = [{
    In a step whose optimizer has a `loss_scale`. The runtime writes the scale before each step. The
    captured backward begins with it instead of 1, so that all gradients are multiplied by it. In a
    sharded step `fsdp.clip_factor` and the updates take it, too, to divide gradients by it.

    ```mlir
    %loss_scale = fsdp.loss_scale : tensor<f32>
    ```
  }];
  let arguments = (ins OptionalAttr<I64Attr>:$offset);
  let results = (outs Fsdp_F32Number:$result);
  let assemblyFormat = "(`at` custom<PlainInteger>($offset)^)? attr-dict `:` type($result)";
}

def Fsdp_ReadOp : Fsdp_Op<"read", [
    MemoryEffects<[MemRead<Fsdp_Storage>]>, Fsdp_SymbolUser, Fsdp_NamesResults,
    Fsdp_InStepBy<["isOfGroups"]>]> {
  let summary = "The full value of a parameter or a buffer";
  let description = [{
    If parameters are sharded over more than one rank, only buffers are read; parameters come from
    `fsdp.all_gather.wait`.
  }];
  let arguments = (ins FlatSymbolRefAttr:$source);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "$source attr-dict `:` type($result)";
}

def Fsdp_WriteOp : Fsdp_Op<"write", [
    MemoryEffects<[MemWrite<Fsdp_Storage>]>, Fsdp_SymbolUser,
    Fsdp_InStepBy<["getTitle", "isOfGroups", "getMoved", "getOverwritten"]>]> {
  let summary = "The new value of a buffer, which the next step reads";
  let arguments = (ins FlatSymbolRefAttr:$buffer, AnyStaticShapeTensor:$value);
  let assemblyFormat = "$buffer `,` $value attr-dict `:` type($value)";
}

def Fsdp_GradOp : Fsdp_Op<"grad", [MemoryEffects<[MemWrite<Fsdp_Storage>]>, Fsdp_SymbolUser]> {
  let summary = "The full, unreduced gradient of a parameter, in a captured step";
  let description = [{
    A step of several microbatches has one for each of them. The parameter's gradient is their sum,
    in their order.
  }];
  let arguments = (ins FlatSymbolRefAttr:$param, AnyStaticShapeTensor:$value,
                       DefaultValuedProp<I64Prop, "0">:$microbatch);
  let assemblyFormat = [{
    $param `,` $value (`microbatch` $microbatch^)? attr-dict `:` type($value)
  }];
}

def Fsdp_UpdateOp : Fsdp_Op<"update", [
    AttrSizedOperandSegments, MemoryEffects<[MemRead<Fsdp_Storage>, MemWrite<Fsdp_Storage>]>,
    Fsdp_SymbolUser, Fsdp_InStepBy<["isOfGroups", "getOverwritten"]>]> {
  let summary = "Update a parameter, or this rank's shard of a group, with its gradient";
  let description = [{
    In a captured step the target is a parameter, with the gradient of its `fsdp.grad`. In a sharded
    step it is a group, and `gradient` is that of this rank's shard, averaged over all ranks. It
    is multiplied by 1 / `scale`, rounded to fp32, and then by `clip`, each if present. With `scale`,
    a `clip` of NaN leaves the update out. `state` is the optimizer state that was fetched from the
    host.

    ```mlir
    fsdp.update @layers.0 with %d step %step lr %lr : !fsdp.shard<@layers.0, f32>
    fsdp.update @layers.1 with %f step %step lr %lr clip %clip : !fsdp.shard<@layers.1, f32>
    fsdp.update @layers.2 with %g step %step lr %lr clip %clip scale %loss_scale : !fsdp.shard<@layers.2, f32>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$target, Optional<Fsdp_ShardType>:$gradient, I64:$step,
                       F64:$lr, Optional<F32>:$clip, Optional<Fsdp_F32Number>:$scale,
                       Optional<Fsdp_StateType>:$state);
  let assemblyFormat = [{
    $target (`with` $gradient^)? `step` $step `lr` $lr (`clip` $clip^)? (`scale` $scale^)?
    (`state` $state^)? attr-dict
    (`:` qualified(type($gradient))^)? (`,` qualified(type($state))^)?
  }];
  let hasVerifier = 1;
}

include "fsdp/IR/FsdpShards.td"
include "fsdp/IR/FsdpCollectives.td"
include "fsdp/IR/FsdpHostCopies.td"
include "fsdp/IR/FsdpKernels.td"

#endif // FSDP_IR_FSDPOPS
