//===- FsdpCollectives.td - What starts and is waited for --*- tablegen -*-===//
//
// Collectives, what clips by the norm of all gradients, and copies of optimizer state. Part of
// FsdpOps.td.
//
//===----------------------------------------------------------------------===//

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
