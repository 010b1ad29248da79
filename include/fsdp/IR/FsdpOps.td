//===- FsdpOps.td - Sharded parameters and collectives -----*- tablegen -*-===//

#ifndef FSDP_IR_FSDPOPS
#define FSDP_IR_FSDPOPS

include "fsdp/IR/AtenBase.td"
include "fsdp/IR/FsdpBase.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Fsdp_Communicator : Resource<"::fsdp::CommunicatorResource">;
def Fsdp_Storage : Resource<"::fsdp::ParameterStorageResource">;

class Fsdp_Op<string mnemonic, list<Trait> traits = []> : Op<Fsdp_Dialect, mnemonic, traits>;

defvar Fsdp_SymbolUser = DeclareOpInterfaceMethods<SymbolUserOpInterface>;
defvar Fsdp_NamesResults = DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>;

//===----------------------------------------------------------------------===//
// Declarations: what the model holds
//===----------------------------------------------------------------------===//

def Fsdp_ParamOp : Fsdp_Op<"param", [Symbol]> {
  let summary = "Declare a trainable parameter and its global type";
  let description = [{
    `aliases` are the other qualified names of a parameter that several modules share.

    ```mlir
    fsdp.param @wte.weight : tensor<64x64xf32> aliases ["head.weight"]
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       TypeAttrOf<AnyStaticShapeTensor>:$type,
                       OptionalAttr<StrArrayAttr>:$aliases);
  let assemblyFormat = "$sym_name `:` $type (`aliases` $aliases^)? attr-dict";
  let hasVerifier = 1;
}

def Fsdp_BufferOp : Fsdp_Op<"buffer", [Symbol]> {
  let summary = "Declare a buffer of the model: state that is no parameter, whole on every rank";
  let description = [{
    `offset` is the buffer's place in the arena (bytes), written by memory planning.

    ```mlir
    fsdp.buffer @bn.running_mean : tensor<8xf32>
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       TypeAttrOf<AnyStaticShapeTensor>:$type,
                       OptionalAttr<I64Attr>:$offset);
  let assemblyFormat = "$sym_name `:` $type (`at` custom<PlainInteger>($offset)^)? attr-dict";
}

def Fsdp_OptimizerOp : Fsdp_Op<"optimizer"> {
  let summary = "Declare the optimizer and its hyper-parameters, named as in torch.optim";
  let description = [{
    `lr` is the default learning rate; the one of a step is a run-time input. `momentum` belongs to
    sgd, `betas` and `eps` to adam and adamw.

    With `clip_grad_norm` updates take clipped gradients: multiplied by
    min(1, clip_grad_norm / (norm + 1e-6)), where norm is the 2-norm of the averaged gradients of all
    parameters (torch.nn.utils.clip_grad_norm_).

    ```mlir
    fsdp.optimizer adamw lr = 1.0e-3 weight_decay = 1.0e-2 betas = [0.9, 0.999] eps = 1.0e-8
    fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.9 clip_grad_norm = 1.0
    ```
  }];
  let arguments = (ins EnumProp<Fsdp_OptimizerKind>:$kind,
                       F64Attr:$lr,
                       F64Attr:$weight_decay,
                       OptionalAttr<F64Attr>:$momentum,
                       OptionalAttr<DenseF64ArrayAttr>:$betas,
                       OptionalAttr<F64Attr>:$eps,
                       OptionalAttr<F64Attr>:$clip_grad_norm);
  let assemblyFormat = [{
    $kind `lr` `=` custom<PlainFloat>($lr) `weight_decay` `=` custom<PlainFloat>($weight_decay)
    (`momentum` `=` custom<PlainFloat>($momentum)^)? (`betas` `=` $betas^)?
    (`eps` `=` custom<PlainFloat>($eps)^)?
    (`clip_grad_norm` `=` custom<PlainFloat>($clip_grad_norm)^)? attr-dict
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Declarations: how it is sharded
//===----------------------------------------------------------------------===//

def Fsdp_MeshOp : Fsdp_Op<"mesh", [Symbol]> {
  let summary = "Declare the device mesh: the names and sizes of its axes";
  let description = [{
    Ranks are numbered in row-major order: the last axis varies fastest.

    ```mlir
    fsdp.mesh @mesh <dp = 4>
    fsdp.mesh @mesh <replicate = 2, shard = 4>
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrArrayAttr:$axes, DenseI64ArrayAttr:$sizes);
  let assemblyFormat = "$sym_name custom<MeshAxes>($axes, $sizes) attr-dict";
  let hasVerifier = 1;
}

def Fsdp_GroupOp : Fsdp_Op<"group", [Symbol, Fsdp_SymbolUser]> {
  let summary = "Declare the parameters that one collective gathers together";
  let description = [{
    `modules` are the modules whose forward the group serves ("" is the root): FSDP2's one
    `fully_shard` call. The order of the groups in the module is FSDP2's order of calls; the root
    group is last. Each parameter's place within the group follows from its order in `params`.

    Parameters are sharded over one axis of the mesh. A mesh of two axes holds `replicated` copies
    of the shards along its first (FSDP2's HSDP).

    `gather_dtype` is the dtype in which the parameters are gathered, and `reduce_dtype` the one in
    which their gradients are reduced (`param_dtype` and `reduce_dtype` of FSDP2's
    MixedPrecisionPolicy), where they are not the parameters' own. What is updated, saved and loaded
    stays in the parameters' dtype. Before `fsdp-mixed-precision` they are what the user asked for.

    `offsets`, written by memory planning, are the places in the arena (bytes) of what the group
    keeps between steps: this rank's shard of the parameters, then each state of the optimizer, then,
    if the shard is gathered in another dtype, its copy in that.

    `recompute` is what the backward of the group's modules computes again (`fsdp-recompute`), where
    that differs from the rest.

    `optimizer_state host` keeps the states in the memory of the host (`fsdp-offload-optimizer`):
    they are fetched before the group's update and stored behind it. Then `offsets` has none of them,
    and `host_offsets` the places of the states in the host's arena.

    ```mlir
    fsdp.group @layers.0 [@layers.0.wq.weight, @layers.0.wo.weight] of ["layers.0"]
        over @mesh "dp" flat reshard_after_forward true
    fsdp.group @layers.1 [@layers.1.wq.weight, @layers.1.wo.weight] of ["layers.1"]
        over @mesh "shard" replicated "replicate" flat reshard_after_forward true
        gather_dtype bf16 reduce_dtype bf16
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       TypedArrayAttrBase<FlatSymbolRefAttr, "parameters">:$params,
                       StrArrayAttr:$modules,
                       FlatSymbolRefAttr:$mesh,
                       StrAttr:$axis,
                       OptionalAttr<StrAttr>:$replicate_axis,
                       EnumProp<Fsdp_Layout>:$layout,
                       EnumProp<Fsdp_Reshard>:$reshard_after_forward,
                       OptionalAttr<TypeAttrOf<AnyFloat>>:$gather_dtype,
                       OptionalAttr<TypeAttrOf<AnyFloat>>:$reduce_dtype,
                       OptionalAttr<Fsdp_RecomputePolicyAttr>:$recompute,
                       OptionalAttr<Fsdp_StatePlaceAttr>:$optimizer_state,
                       OptionalAttr<DenseI64ArrayAttr>:$offsets,
                       OptionalAttr<DenseI64ArrayAttr>:$host_offsets);
  let assemblyFormat = [{
    $sym_name $params `of` $modules `over` $mesh $axis (`replicated` $replicate_axis^)? $layout
    `reshard_after_forward` $reshard_after_forward (`gather_dtype` $gather_dtype^)?
    (`reduce_dtype` $reduce_dtype^)? (`recompute` $recompute^)?
    (`optimizer_state` $optimizer_state^)? (`at` $offsets^)? (`host` $host_offsets^)? attr-dict
  }];
  let extraClassDeclaration = [{
    /// True if the group serves the root module.
    bool isRoot();

    /// True if the optimizer's state lies in the memory of the host between steps.
    bool isStateOnHost() { return getOptimizerState() == ::fsdp::StatePlace::Host; }

    /// The name that people and FSDP2 know it by: "root", or the modules' paths.
    std::string getModuleName();
  }];
}

//===----------------------------------------------------------------------===//
// What the capture says
//===----------------------------------------------------------------------===//

def Fsdp_InputType : AnyTypeOf<[AnyStaticShapeTensor, I64, F64], "tensor, i64 or f64">;

def Fsdp_InputOp : Fsdp_Op<"input", [Pure, Fsdp_NamesResults]> {
  let summary = "A value that changes from step to step: a tensor of the batch, step or lr";
  let description = [{
    Tensors are the model's inputs, in the order of the forward's arguments. The two scalars are the
    number of the update, from 1 (`"step"`, i64), and its learning rate (`"lr"`, f64).

    ```mlir
    %tokens = fsdp.input "tokens" : tensor<4x128xi64>
    %lr = fsdp.input "lr" : f64
    ```
  }];
  let arguments = (ins StrAttr:$name, OptionalAttr<I64Attr>:$offset);
  let results = (outs Fsdp_InputType:$result);
  let assemblyFormat = [{
    $name (`at` custom<PlainInteger>($offset)^)? attr-dict `:` type($result)
  }];
}

def Fsdp_ReadOp : Fsdp_Op<"read", [
    MemoryEffects<[MemRead<Fsdp_Storage>]>, Fsdp_SymbolUser, Fsdp_NamesResults]> {
  let summary = "The full value of a parameter or a buffer";
  let description = [{
    Once parameters are sharded over more than one rank, only buffers are read; parameters come from
    `fsdp.all_gather.wait`.
  }];
  let arguments = (ins FlatSymbolRefAttr:$source);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "$source attr-dict `:` type($result)";
}

def Fsdp_WriteOp : Fsdp_Op<"write", [
    MemoryEffects<[MemWrite<Fsdp_Storage>]>, Fsdp_SymbolUser]> {
  let summary = "The new value of a buffer, which the next step reads";
  let arguments = (ins FlatSymbolRefAttr:$buffer, AnyStaticShapeTensor:$value);
  let assemblyFormat = "$buffer `,` $value attr-dict `:` type($value)";
}

def Fsdp_GradOp : Fsdp_Op<"grad", [MemoryEffects<[MemWrite<Fsdp_Storage>]>, Fsdp_SymbolUser]> {
  let summary = "The full, not yet reduced gradient of a parameter";
  let arguments = (ins FlatSymbolRefAttr:$param, AnyStaticShapeTensor:$value);
  let assemblyFormat = "$param `,` $value attr-dict `:` type($value)";
}

def Fsdp_UpdateOp : Fsdp_Op<"update", [
    MemoryEffects<[MemRead<Fsdp_Storage>, MemWrite<Fsdp_Storage>]>, Fsdp_SymbolUser]> {
  let summary = "Update a parameter, or this rank's shard of a group, with its gradient";
  let description = [{
    Captured, the target is a parameter; sharded, it is a group. `offset`, written by memory
    planning, is the place (bytes) of the gradients that it reads: this rank's shard, or on one rank
    the whole group's. Sharded, gradients are multiplied by `clip`, if it is there.

    ```mlir
    fsdp.update @layers.0 step %step lr %lr
    fsdp.update @layers.1 step %step lr %lr clip %clip
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$target, I64:$step, F64:$lr, Optional<F32>:$clip,
                       OptionalAttr<I64Attr>:$offset);
  let assemblyFormat = [{
    $target `step` $step `lr` $lr (`clip` $clip^)? (`at` custom<PlainInteger>($offset)^)? attr-dict
  }];
}

//===----------------------------------------------------------------------===//
// What the compiler inserts
//===----------------------------------------------------------------------===//
//
// The memory model of streams. Operations of the compute stream happen in program order. A start
// begins after every operation that precedes it in the program (it waits for the compute stream's
// position) and after the starts that precede it on its own stream; an all-reduce also after the
// reduce-scatter whose result it goes on with. Everything after a wait happens after the collective
// that it waits for. So a buffer may be reused from the operation on that follows the end of its
// live range in program order, where live ranges of what a collective touches reach to its wait. The
// starts of a bucket (`coalesced`) are one launch: what each of them touches is live from the first
// of them on.

class Fsdp_StartOp<string mnemonic, list<Trait> traits = []> : Fsdp_Op<mnemonic, [
    MemoryEffects<[MemRead<Fsdp_Storage>, MemWrite<Fsdp_Communicator>]>, Fsdp_SymbolUser,
    DeclareOpInterfaceMethods<Fsdp_CollectiveOpInterface>, Fsdp_NamesResults] # traits>;

def Fsdp_AllGatherStartOp : Fsdp_StartOp<"all_gather.start"> {
  let summary = "Start gathering the shards of a group (FSDP2: unshard)";
  let description = [{
    `offset`, written by memory planning, is the place of the gathered bytes in the arena, rank by
    rank. In the flat layout they are the parameters.

    `coalesced` makes a bucket: the gather is issued in one launch with the start before it, on the
    same stream, and completes with it.

    ```mlir
    %u0 = fsdp.all_gather.start @layers.0 fwd on gather
    %u1 = fsdp.all_gather.start @layers.1 fwd on gather coalesced
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$group, EnumProp<Aten_Phase>:$phase,
                       EnumProp<Fsdp_Stream>:$stream,
                       UnitAttr:$coalesced,
                       OptionalAttr<I64Attr>:$offset);
  let results = (outs Fsdp_HandleType:$handle);
  let assemblyFormat = [{
    $group $phase `on` $stream (`coalesced` $coalesced^)?
    (`at` custom<PlainInteger>($offset)^)? attr-dict
  }];
}

def Fsdp_AllGatherWaitOp : Fsdp_Op<"all_gather.wait", [
    MemoryEffects<[MemWrite<Fsdp_Communicator>]>, Fsdp_SymbolUser, Fsdp_NamesResults]> {
  let summary = "Wait for a gather; yields the group's parameters in the group's order";
  let description = [{
    `offsets`, written by memory planning in the per-param layout only, are the places of the full
    parameters (bytes), into which the gathered bytes are copied at the wait.
  }];
  let arguments = (ins Fsdp_HandleType:$handle, OptionalAttr<DenseI64ArrayAttr>:$offsets);
  let results = (outs Variadic<AnyStaticShapeTensor>:$results);
  let assemblyFormat = "$handle (`at` $offsets^)? attr-dict `:` type($results)";
  let hasVerifier = 1;
}

def Fsdp_ReleaseOp : Fsdp_Op<"release", [MemoryEffects<[MemFree<Fsdp_Storage>]>]> {
  let summary = "End the life of gathered parameters (FSDP2: reshard)";
  let description = [{
    After it nothing may read the results of the handle's wait, or a view of them.
  }];
  let arguments = (ins Fsdp_HandleType:$handle, EnumProp<Aten_Phase>:$phase);
  let assemblyFormat = "$handle $phase attr-dict";
  let hasVerifier = 1;
}

def Fsdp_ReduceScatterStartOp : Fsdp_StartOp<"reduce_scatter.start"> {
  let summary = "Start averaging a group's gradients into their shards (FSDP2: post-backward)";
  let description = [{
    Takes one gradient per parameter, in the group's order. `coalesced` is that of
    `fsdp.all_gather.start`.

    `offsets`, written by memory planning, are the place of the whole group's gradients (the
    collective's input) and of this rank's shard of the reduced ones (its output), in bytes.

    ```mlir
    %r0 = fsdp.reduce_scatter.start @layers.0(%g0, %g1) bwd on reduce : tensor<64x64xf32>, tensor<64xf32>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$group,
                       Variadic<AnyStaticShapeTensor>:$grads,
                       EnumProp<Aten_Phase>:$phase,
                       EnumProp<Fsdp_Stream>:$stream,
                       UnitAttr:$coalesced,
                       OptionalAttr<DenseI64ArrayAttr>:$offsets);
  let results = (outs Fsdp_HandleType:$handle);
  let assemblyFormat = [{
    $group `(` $grads `)` $phase `on` $stream (`coalesced` $coalesced^)? (`at` $offsets^)?
    attr-dict `:` type($grads)
  }];
}

def Fsdp_ReduceScatterWaitOp : Fsdp_Op<"reduce_scatter.wait", [
    MemoryEffects<[MemWrite<Fsdp_Communicator>, MemWrite<Fsdp_Storage>]>]> {
  let summary = "Wait until this rank's shard of a group's gradients is there";
  let description = [{
    Where groups are replicated it is the average over one replica, which the all-reduce goes on
    with: nothing reads it yet, but the memory of the gradients is free.
  }];
  let arguments = (ins Fsdp_HandleType:$handle);
  let assemblyFormat = "$handle attr-dict";
  let hasVerifier = 1;
}

def Fsdp_AllReduceStartOp : Fsdp_StartOp<"all_reduce.start"> {
  let summary = "Start averaging reduced shards over the replicas of a group";
  let description = [{
    Takes the reduction of the group in this replica and begins, on a stream of its own, when that
    has ended; the compute stream waits for neither. In place: the shard lies where the
    reduce-scatter puts it. `coalesced` is that of `fsdp.all_gather.start`.

    ```mlir
    %r = fsdp.reduce_scatter.start @layers.0(%g0, %g1) bwd on reduce : tensor<64x64xf32>, tensor<64xf32>
    %a = fsdp.all_reduce.start @layers.0 after %r bwd on replicate
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$group,
                       Fsdp_HandleType:$reduction,
                       EnumProp<Aten_Phase>:$phase,
                       EnumProp<Fsdp_Stream>:$stream,
                       UnitAttr:$coalesced);
  let results = (outs Fsdp_HandleType:$handle);
  let assemblyFormat = [{
    $group `after` $reduction $phase `on` $stream (`coalesced` $coalesced^)? attr-dict
  }];
  let hasVerifier = 1;
}

def Fsdp_AllReduceWaitOp : Fsdp_Op<"all_reduce.wait", [
    MemoryEffects<[MemWrite<Fsdp_Communicator>, MemWrite<Fsdp_Storage>]>]> {
  let summary = "Wait until this rank's shard of a group's gradients is averaged over all ranks";
  let arguments = (ins Fsdp_HandleType:$handle);
  let assemblyFormat = "$handle attr-dict";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Clipping
//===----------------------------------------------------------------------===//

def Fsdp_SquareSumType : TypeConstraint<
    CPred<"$_self == ::mlir::RankedTensorType::get({}, ::mlir::Float64Type::get($_self.getContext()))">,
    "tensor<f64>", "::mlir::RankedTensorType">;

def Fsdp_SquareSumOp : Fsdp_Op<"square_sum", [
    MemoryEffects<[MemRead<Fsdp_Storage>]>, Fsdp_NamesResults]> {
  let summary = "The sum of the squares of the gradients that the step's updates read, on this rank";
  let description = [{
    Stands behind the reductions of all groups and before all updates. `offset`, written by memory
    planning, is its place in the arena (bytes).

    ```mlir
    %squares = fsdp.square_sum : tensor<f64>
    %n = fsdp.square_sum_all_reduce.start %squares on reduce : tensor<f64>
    %total = fsdp.square_sum_all_reduce.wait %n : tensor<f64>
    %clip = fsdp.clip_factor %total : tensor<f64>
    fsdp.update @layers.0 step %step lr %lr clip %clip
    ```
  }];
  let arguments = (ins OptionalAttr<I64Attr>:$offset);
  let results = (outs Fsdp_SquareSumType:$result);
  let assemblyFormat = "(`at` custom<PlainInteger>($offset)^)? attr-dict `:` type($result)";
}

def Fsdp_SquareSumAllReduceStartOp : Fsdp_Op<"square_sum_all_reduce.start", [
    MemoryEffects<[MemRead<Fsdp_Storage>, MemWrite<Fsdp_Communicator>]>, Fsdp_NamesResults]> {
  let summary = "Start adding the ranks' square sums up over the axis of the shards, in place";
  let description = [{
    Replicas hold equal gradients: the sum is that of one of them.
  }];
  let arguments = (ins Fsdp_SquareSumType:$squares, EnumProp<Fsdp_Stream>:$stream);
  let results = (outs Fsdp_HandleType:$handle);
  let assemblyFormat = "$squares `on` $stream attr-dict `:` type($squares)";
  let hasVerifier = 1;
}

def Fsdp_SquareSumAllReduceWaitOp : Fsdp_Op<"square_sum_all_reduce.wait", [
    MemoryEffects<[MemWrite<Fsdp_Communicator>, MemWrite<Fsdp_Storage>]>, Fsdp_NamesResults]> {
  let summary = "Wait for the sum over the ranks; yields it where the rank's own was";
  let arguments = (ins Fsdp_HandleType:$handle);
  let results = (outs Fsdp_SquareSumType:$total);
  let assemblyFormat = "$handle attr-dict `:` type($total)";
  let hasVerifier = 1;
}

def Fsdp_ClipFactorOp : Fsdp_Op<"clip_factor", [Pure, Fsdp_NamesResults]> {
  let summary = "The factor that brings the gradients' norm down to the optimizer's `clip_grad_norm`";
  let description = [{
    min(1, clip_grad_norm / (norm + 1e-6)) in fp32, of norm = sqrt(total) rounded to fp32. Of an
    infinite norm it is 0, of a NaN a NaN, as in torch.
  }];
  let arguments = (ins Fsdp_SquareSumType:$total);
  let results = (outs F32:$factor);
  let assemblyFormat = "$total attr-dict `:` type($total)";
}

//===----------------------------------------------------------------------===//
// Optimizer state on the host
//===----------------------------------------------------------------------===//
//
// Copies between the memories of host and device follow the memory model of streams: fetches run in
// order on the host-to-device stream, stores on the device-to-host stream. State occupies the arena
// from its fetch's start to its store's wait.

class Fsdp_CopyStartOp<string mnemonic> : Fsdp_Op<mnemonic, [
    MemoryEffects<[MemRead<Fsdp_Storage>, MemWrite<Fsdp_Storage>]>, Fsdp_SymbolUser,
    Fsdp_NamesResults]> {
  let results = (outs Fsdp_HandleType:$handle);
}

class Fsdp_CopyWaitOp<string mnemonic> : Fsdp_Op<mnemonic, [
    MemoryEffects<[MemWrite<Fsdp_Storage>]>]> {
  let arguments = (ins Fsdp_HandleType:$handle);
  let assemblyFormat = "$handle attr-dict";
  let hasVerifier = 1;
}

def Fsdp_FetchStateStartOp : Fsdp_CopyStartOp<"fetch_state.start"> {
  let summary = "Start copying the optimizer state of a group from the host to the arena";
  let description = [{
    `offsets`, written by memory planning, are the places of the states in the arena (bytes), where
    the update reads and writes them.

    ```mlir
    %f = fsdp.fetch_state.start @layers.0
    fsdp.fetch_state.wait %f
    fsdp.update @layers.0 step %step lr %lr
    %s = fsdp.store_state.start @layers.0
    fsdp.store_state.wait %s
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$group, OptionalAttr<DenseI64ArrayAttr>:$offsets);
  let assemblyFormat = "$group (`at` $offsets^)? attr-dict";
}

def Fsdp_FetchStateWaitOp : Fsdp_CopyWaitOp<"fetch_state.wait"> {
  let summary = "Wait until the optimizer state of a group is in the arena";
}

def Fsdp_StoreStateStartOp : Fsdp_CopyStartOp<"store_state.start"> {
  let summary = "Start copying the optimizer state of a group from where it was fetched to the host";
  let arguments = (ins FlatSymbolRefAttr:$group);
  let assemblyFormat = "$group attr-dict";
}

def Fsdp_StoreStateWaitOp : Fsdp_CopyWaitOp<"store_state.wait"> {
  let summary = "Wait until the optimizer state of a group is on the host; its bytes are free";
}

#endif // FSDP_IR_FSDPOPS
