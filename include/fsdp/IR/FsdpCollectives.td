//===- FsdpCollectives.td - Collectives and norms ---------*- tablegen -*-===//
//
// Collectives, and the norm of gradients. Part of FsdpOps.td.
//
//===----------------------------------------------------------------------===//

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//
//
// The memory model of streams. Operations of the compute stream run in program order. A collective
// begins after every operation that precedes its start in the program (it waits for the compute
// stream's position) and after the collectives that were started before it on its own stream; a
// start that takes another start's handle also waits for that collective. Everything after a wait
// runs after the awaited collective. So the bytes of a buffer may be reused by the operation that
// follows its live range in program order, where the live range of a collective's buffers extends
// to its wait. The starts of a bucket (`coalesced`) are one launch: the buffers of all of them are
// live from the first start on.

class Fsdp_StartOp<string mnemonic, list<Trait> traits = []> : Fsdp_Op<mnemonic, [
    MemoryEffects<[MemRead<Fsdp_Storage>, MemWrite<Fsdp_Communicator>]>, Fsdp_SymbolUser,
    Fsdp_CollectiveOpInterface, Fsdp_NamesResults] # traits> {
  code declaration = [{
    ::llvm::StringRef getCollectiveKind();
    ::mlir::Type getPayload();
  }];
  let extraClassDeclaration = declaration;
}

/// A wait yields the result of its start, in the start's buffer.
class Fsdp_WaitOp<string mnemonic, list<Trait> traits = []> : Fsdp_Op<mnemonic, [
    MemoryEffects<[MemWrite<Fsdp_Communicator>, MemWrite<Fsdp_Storage>]>, Fsdp_NamesResults]
    # traits> {
  let hasVerifier = 1;
}

def Fsdp_AllGatherStartOp : Fsdp_StartOp<"all_gather.start", [
    Fsdp_InStepBy<["getMadeCategory"]>]> {
  let summary = "Start gathering the shards of a group (FSDP2: unshard)";
  let description = [{
    `offset`, written by memory planning, is the arena offset of the gathered bytes, rank by rank.
    In the flat layout these bytes are the parameters.

    A chunk is gathered by as many neighbours as its type says. A chunk on the host is first copied
    to its part of the gathered bytes, on the host-to-device stream.

    With `by copy_engine` the devices' copy engines move the bytes; otherwise kernels do. `by auto`
    leaves it to the schedule; only sharded steps have it.

    `coalesced` makes a bucket: the gather shares a launch with the start before it, on the same
    stream, and both complete together.

    ```mlir
    %u0 = fsdp.all_gather.start %s0 over ["dp"] fwd on gather : !fsdp.shard<@layers.0, f32>
    %u1 = fsdp.all_gather.start %s1 over ["dp"] fwd on gather coalesced : !fsdp.shard<@layers.1, f32>
    %u2 = fsdp.all_gather.start %s2 over ["dp"] fwd on gather by copy_engine
        : !fsdp.shard<@layers.2, f32>
    %u3 = fsdp.all_gather.start %s3 over ["dp"] bwd on gather
        : !fsdp.host<!fsdp.shard<@layers.3, f32, 8>>
    ```
  }];
  let arguments = (ins AnyTypeOf<[Fsdp_ShardType, Fsdp_HostType]>:$shard, StrArrayAttr:$axes,
                       EnumProp<Aten_Phase>:$phase, EnumProp<Fsdp_Stream>:$stream,
                       DefaultValuedProp<EnumProp<Fsdp_Transport>,
                                         "::fsdp::Transport::Kernels">:$transport,
                       UnitAttr:$coalesced,
                       OptionalAttr<I64Attr>:$offset);
  let results = (outs Fsdp_HandleType:$handle);
  let assemblyFormat = [{
    $shard `over` $axes $phase `on` $stream (`by` $transport^)? (`coalesced` $coalesced^)?
    (`at` custom<PlainInteger>($offset)^)? attr-dict `:` qualified(type($shard))
  }];
  let extraClassDeclaration = declaration # [{
    /// Of the shard or chunk, wherever it lies.
    ::fsdp::ShardType getShardType();
    /// True if it gathers a chunk that waits on the host.
    bool isFromHost() { return ::mlir::isa<::fsdp::HostType>(getShard().getType()); }
    ::mlir::FlatSymbolRefAttr getGroupAttr() { return getShardType().getGroup(); }
    ::llvm::StringRef getGroup() { return getGroupAttr().getValue(); }
    /// Null if there is none.
    ::fsdp::AllGatherWaitOp getWait();
    /// The only reshard; null if there is none.
    ::fsdp::ReshardOp getReshard();
  }];
  let hasVerifier = 1;
}

def Fsdp_AllGatherWaitOp : Fsdp_WaitOp<"all_gather.wait", [
    Fsdp_SymbolUser, Fsdp_InStepBy<["getTitle", "getMadeCategory", "getAlias"]>]> {
  let summary = "Wait for a gather; yields the group's parameters in the group's order";
  let description = [{
    `offsets`, written by memory planning in the per-param layout only, are the arena offsets of the
    full parameters (bytes). The wait copies the gathered bytes there. A wait for encoded shards
    (`fsdp.encode`) decodes the parameters there.
  }];
  let arguments = (ins Fsdp_HandleType:$handle, OptionalAttr<DenseI64ArrayAttr>:$offsets);
  let results = (outs Variadic<AnyStaticShapeTensor>:$results);
  let assemblyFormat = "$handle (`at` $offsets^)? attr-dict `:` type($results)";
  let extraClassDeclaration = [{
    ::fsdp::AllGatherStartOp getStart();
  }];
}

def Fsdp_ReshardOp : Fsdp_Op<"reshard", [
    MemoryEffects<[MemFree<Fsdp_Storage>]>, Fsdp_InStep]> {
  let summary = "End the live range of gathered parameters (FSDP2: reshard)";
  let description = [{
    No later operation may read the results of the handle's wait, or a view of them.
  }];
  let arguments = (ins Fsdp_HandleType:$handle, EnumProp<Aten_Phase>:$phase);
  let assemblyFormat = "$handle $phase attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::fsdp::AllGatherStartOp getStart();
  }];
}

def Fsdp_ReduceScatterStartOp : Fsdp_StartOp<"reduce_scatter.start", [
    Fsdp_InStepBy<["getTitle", "getMadeCategory", "getPacked"]>]> {
  let summary = "Start reducing a group's gradients into their shards (FSDP2: post-backward)";
  let description = [{
    Takes one gradient per parameter that is not frozen, in the group's order. `coalesced` is as in
    `fsdp.all_gather.start`.

    Each rank divides its input by `predivide` and its result by `postdivide`, each rounded to the
    dtype. `premul_sum` instead multiplies by the reciprocal of `predivide` during the sum.

    `offsets`, written by memory planning, are the arena offsets (bytes) of the whole group's
    gradients (the collective's input) and of this rank's reduced shard (its output).

    ```mlir
    %r0 = fsdp.reduce_scatter.start @layers.0(%g0, %g1) over ["dp"] avg bwd on reduce
        : tensor<64x64xf32>, tensor<64xf32>
    %d0 = fsdp.reduce_scatter.wait %r0 : !fsdp.shard<@layers.0, f32>
    %r1 = fsdp.reduce_scatter.start @layers.1(%g2) over ["dp"] sum predivide 2.0 postdivide 2.0 bwd on reduce
        : tensor<64x64xf16>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$group,
                       Variadic<AnyStaticShapeTensor>:$grads,
                       StrArrayAttr:$axes,
                       EnumProp<Fsdp_ReduceOp>:$reduce_op,
                       OptionalAttr<F64Attr>:$predivide,
                       OptionalAttr<F64Attr>:$postdivide,
                       EnumProp<Aten_Phase>:$phase,
                       EnumProp<Fsdp_Stream>:$stream,
                       UnitAttr:$coalesced,
                       OptionalAttr<DenseI64ArrayAttr>:$offsets);
  let results = (outs Fsdp_HandleType:$handle);
  let assemblyFormat = [{
    $group `(` $grads `)` `over` $axes $reduce_op
    (`predivide` custom<PlainFloat>($predivide)^)? (`postdivide` custom<PlainFloat>($postdivide)^)?
    $phase `on` $stream (`coalesced` $coalesced^)?
    (`at` $offsets^)? attr-dict `:` type($grads)
  }];
  let extraClassDeclaration = declaration # [{
    ::fsdp::ReduceScatterWaitOp getWait();
    /// The all-reduce of the result over the replicas; null if there is none.
    ::fsdp::AllReduceStartOp getAcross();
    /// The shard's gradient after the reduction over all ranks: the result of the last wait, this
    /// one's or the all-reduce's; null if there is no wait.
    ::mlir::Value getReduced();
    /// The update that reads `getReduced()`; null if there is none.
    ::fsdp::UpdateOp getUpdate();
  }];
}

def Fsdp_ReduceScatterWaitOp : Fsdp_WaitOp<"reduce_scatter.wait", [
    Fsdp_InStepBy<["getAlias"]>]> {
  let summary = "Wait for a reduction; yields this rank's shard of the gradients";
  let description = [{
    If an all-reduce takes the result through the handle, no operation reads the wait's result; the
    wait then only frees the memory of the full gradients.
  }];
  let arguments = (ins Fsdp_HandleType:$handle);
  let results = (outs Fsdp_ShardType:$result);
  let assemblyFormat = "$handle attr-dict `:` qualified(type($result))";
  let extraClassDeclaration = [{
    ::fsdp::ReduceScatterStartOp getStart();
  }];
}

def Fsdp_AllReduceSource : AnyTypeOf<[Fsdp_HandleType, Fsdp_ShardType, AnyStaticShapeTensor],
                                     "a handle, a shard or a tensor">;

def Fsdp_AllReduceStartOp : Fsdp_StartOp<"all_reduce.start", [
    Fsdp_InStepBy<["getAlias"]>]> {
  let summary = "Start an in-place all-reduce of a shard's gradients or of a tensor";
  let description = [{
    With the handle of a reduce-scatter it takes that result and begins, on its own stream, when the
    reduce-scatter has ended; the compute stream waits for neither. `coalesced` is as in
    `fsdp.all_gather.start`, `predivide` and `postdivide` as in `fsdp.reduce_scatter.start`.

    ```mlir
    %r = fsdp.reduce_scatter.start @layers.0(%g0, %g1) over ["shard"] avg bwd on reduce
        : tensor<64x64xf32>, tensor<64xf32>
    %a = fsdp.all_reduce.start %r over ["replicate"] avg bwd on replicate : !fsdp.handle
    %f = fsdp.all_reduce.wait %a : !fsdp.shard<@layers.0, f32>
    %n = fsdp.all_reduce.start %part over ["shard"] sum bwd on reduce : tensor<f64>
    ```
  }];
  let arguments = (ins Fsdp_AllReduceSource:$source,
                       StrArrayAttr:$axes,
                       EnumProp<Fsdp_ReduceOp>:$reduce_op,
                       OptionalAttr<F64Attr>:$predivide,
                       OptionalAttr<F64Attr>:$postdivide,
                       EnumProp<Aten_Phase>:$phase,
                       EnumProp<Fsdp_Stream>:$stream,
                       UnitAttr:$coalesced);
  let results = (outs Fsdp_HandleType:$handle);
  let assemblyFormat = [{
    $source `over` $axes $reduce_op
    (`predivide` custom<PlainFloat>($predivide)^)? (`postdivide` custom<PlainFloat>($postdivide)^)?
    $phase `on` $stream (`coalesced` $coalesced^)? attr-dict `:` type($source)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = declaration # [{
    ::mlir::Value getPredecessor();
    ::fsdp::AllReduceWaitOp getWait();
  }];
}

def Fsdp_AllReduceWaitOp : Fsdp_WaitOp<"all_reduce.wait", [
    Fsdp_InStepBy<["getAlias"]>]> {
  let summary = "Wait for an all-reduce; yields the reduced shard or tensor";
  let arguments = (ins Fsdp_HandleType:$handle);
  let results = (outs AnyTypeOf<[Fsdp_ShardType, AnyStaticShapeTensor]>:$result);
  let assemblyFormat = "$handle attr-dict `:` qualified(type($result))";
  let extraClassDeclaration = [{
    ::fsdp::AllReduceStartOp getStart();
  }];
}

//===----------------------------------------------------------------------===//
// Clipping
//===----------------------------------------------------------------------===//

def Fsdp_NormPart : TypeConstraint<
    CPred<"$_self == ::mlir::RankedTensorType::get({}, ::mlir::Float64Type::get($_self.getContext()))">,
    "tensor<f64>", "::mlir::RankedTensorType">;

def Fsdp_ShardNormOp : Fsdp_Op<"shard_norm", [
    MemoryEffects<[MemRead<Fsdp_Storage>]>, Fsdp_NamesResults,
    Fsdp_InStepBy<["getTitle", "getMoved"]>]> {
  let summary = "The contribution of one shard to the norm of gradients, computed early";
  let description = [{
    For a gradient that leaves the arena before all gradients are ready: the part of
    `fsdp.partial_norm` for this shard. Until then the result is kept outside the arena.

    ```mlir
    %n = fsdp.shard_norm 2(%d) : (!fsdp.shard<@layers.0, f32>) -> !fsdp.norm<@layers.0>
    %part = fsdp.partial_norm 2(%n, %e)
        : (!fsdp.norm<@layers.0>, !fsdp.shard<@layers.1, f32>) -> tensor<f64>
    ```
  }];
  let arguments = (ins EnumProp<Fsdp_NormType>:$norm_type, Fsdp_ShardType:$gradient);
  let results = (outs Fsdp_ShardNormType:$result);
  let assemblyFormat = [{
    custom<NormType>($norm_type) `(` $gradient `)` attr-dict `:` functional-type($gradient, $result)
  }];
  let hasVerifier = 1;
}

def Fsdp_PartialNormOp : Fsdp_Op<"partial_norm", [
    MemoryEffects<[MemRead<Fsdp_Storage>]>, Fsdp_NamesResults,
    Fsdp_InStepBy<["getTitle", "getMadeCategory"]>]> {
  let summary = "This rank's part of the norm of gradients";
  let description = [{
    Over the elements of this rank's shards, in double: the sum of their squares (norm 2) or of
    their absolute values (1), or the largest absolute value (inf). A NaN element makes the result
    NaN. An all-reduce sums the parts of all ranks (`sum`), or takes their maximum for norm inf
    (`max`). `offset`, written by memory planning, is the result's arena offset (bytes).

    If all groups are sharded over equally many ranks, the all-reduce is over the axis of the
    shards. Otherwise it is over all axes of the first mesh, and each group's shards only count on
    the ranks of its first replica.

    ```mlir
    %part = fsdp.partial_norm 2(%d0, %d1)
        : (!fsdp.shard<@layers.0, f32>, !fsdp.shard<@layers.1, f32>) -> tensor<f64>
    %n = fsdp.all_reduce.start %part over ["dp"] sum bwd on reduce : tensor<f64>
    %total = fsdp.all_reduce.wait %n : tensor<f64>
    %clip = fsdp.clip_factor %total : tensor<f64>
    fsdp.update @layers.0 with %d0 step %step lr %lr clip %clip : !fsdp.shard<@layers.0, f32>
    ```
  }];
  let arguments = (ins EnumProp<Fsdp_NormType>:$norm_type,
                       Variadic<AnyTypeOf<[Fsdp_ShardType, Fsdp_ShardNormType]>>:$gradients,
                       OptionalAttr<I64Attr>:$offset);
  let results = (outs Fsdp_NormPart:$result);
  let assemblyFormat = [{
    custom<NormType>($norm_type) `(` $gradients `)` (`at` custom<PlainInteger>($offset)^)? attr-dict
    `:` functional-type($gradients, $result)
  }];
}

def Fsdp_ClipFactorOp : Fsdp_Op<"clip_factor", [
    Pure, Fsdp_NamesResults, Fsdp_InStep]> {
  let summary = "The factor that reduces the gradients' norm to the optimizer's `clip_grad_norm`";
  let description = [{
    min(1, clip_grad_norm / (norm + 1e-6)) in fp32, with the norm rounded to fp32: the square root
    of `total` for a `clip_norm_type` of 2 (the default), else `total`. The factor is 0 for an
    infinite norm and NaN for a NaN, as in torch.

    With `scale`, an `fsdp.loss_scale`, the norm is multiplied by 1 / `scale`, rounded to fp32, and
    the factor is NaN for any `total` that is not finite. Without `clip_grad_norm` the factor is else
    1.

    ```mlir
    %clip = fsdp.clip_factor %total scale %loss_scale : tensor<f64>
    ```
  }];
  let arguments = (ins Fsdp_NormPart:$total, Optional<Fsdp_F32Number>:$scale);
  let results = (outs F32:$factor);
  let assemblyFormat = "$total (`scale` $scale^)? attr-dict `:` type($total)";
}
