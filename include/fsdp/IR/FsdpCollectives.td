//===- FsdpCollectives.td - Collectives and norms ---------*- tablegen -*-===//
//
// Collectives, and the norm of gradients. Part of FsdpOps.td.
//
//===----------------------------------------------------------------------===//

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//
//
// The memory model of streams. Operations of the compute stream happen in program order. A start
// begins after every operation that precedes it in the program (it waits for the compute stream's
// position) and after the starts that precede it on its own stream; one that takes another start's
// handle also after that. Everything after a wait happens after the collective that it waits for.
// So a buffer may be reused from the operation on that follows the end of its live range in program
// order, where live ranges of what a collective touches reach to its wait. The starts of a bucket
// (`coalesced`) are one launch: what each of them touches is live from the first of them on.

class Fsdp_StartOp<string mnemonic, list<Trait> traits = []> : Fsdp_Op<mnemonic, [
    MemoryEffects<[MemRead<Fsdp_Storage>, MemWrite<Fsdp_Communicator>]>, Fsdp_SymbolUser,
    Fsdp_CollectiveOpInterface, Fsdp_NamesResults] # traits> {
  code declaration = [{
    ::llvm::StringRef getCollectiveKind();
    ::mlir::Type getPayload();
  }];
  let extraClassDeclaration = declaration;
}

/// A wait yields what its start makes, and what lies there.
class Fsdp_WaitOp<string mnemonic, list<Trait> traits = []> : Fsdp_Op<mnemonic, [
    MemoryEffects<[MemWrite<Fsdp_Communicator>, MemWrite<Fsdp_Storage>]>, Fsdp_NamesResults]
    # traits> {
  let hasVerifier = 1;
}

def Fsdp_AllGatherStartOp : Fsdp_StartOp<"all_gather.start", [
    Fsdp_InStepBy<["getMadeCategory"]>]> {
  let summary = "Start gathering the shards of a group (FSDP2: unshard)";
  let description = [{
    `offset`, written by memory planning, is the place of the gathered bytes in the arena, rank by
    rank. In the flat layout they are the parameters.

    A chunk is gathered by the neighbours that its type says.

    `by copy_engine`: the devices' copy engines move the bytes; else kernels do. `by auto`, of sharded
    steps alone: as the schedule decides.

    `coalesced` makes a bucket: the gather is issued in one launch with the start before it, on the
    same stream, and completes with it.

    ```mlir
    %u0 = fsdp.all_gather.start %s0 over ["dp"] fwd on gather : !fsdp.shard<@layers.0, f32>
    %u1 = fsdp.all_gather.start %s1 over ["dp"] fwd on gather coalesced : !fsdp.shard<@layers.1, f32>
    %u2 = fsdp.all_gather.start %s2 over ["dp"] fwd on gather by copy_engine
        : !fsdp.shard<@layers.2, f32>
    ```
  }];
  let arguments = (ins Fsdp_ShardType:$shard, StrArrayAttr:$axes, EnumProp<Aten_Phase>:$phase,
                       EnumProp<Fsdp_Stream>:$stream,
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
    ::mlir::FlatSymbolRefAttr getGroupAttr() { return getShard().getType().getGroup(); }
    ::llvm::StringRef getGroup() { return getGroupAttr().getValue(); }
    /// Null if there is none.
    ::fsdp::AllGatherWaitOp getWait();
    /// The only reshard; null if there is none.
    ::fsdp::ReshardOp getReshard();
  }];
}

def Fsdp_AllGatherWaitOp : Fsdp_WaitOp<"all_gather.wait", [
    Fsdp_SymbolUser, Fsdp_InStepBy<["getTitle", "getMadeCategory", "getAlias"]>]> {
  let summary = "Wait for a gather; yields the group's parameters in the group's order";
  let description = [{
    `offsets`, written by memory planning in the per-param layout only, are the places of the full
    parameters (bytes), into which the gathered bytes are copied at the wait. A wait for encoded
    shards (`fsdp.encode`) decodes the parameters to these places.
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
  let summary = "End the life of gathered parameters (FSDP2: reshard)";
  let description = [{
    After it nothing may read the results of the handle's wait, or a view of them.
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
    Takes one gradient per parameter that is not frozen, in the group's order. `coalesced` is that
    of `fsdp.all_gather.start`.

    What the ranks bring is divided by `predivide` before they meet, and the result by `postdivide`,
    each rounded to the dtype. `premul_sum` multiplies by the reciprocal of `predivide` while it adds.

    `offsets`, written by memory planning, are the place of the whole group's gradients (the
    collective's input) and of this rank's shard of the reduced ones (its output), in bytes.

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
    /// The all-reduce that goes on with the result; null if there is none.
    ::fsdp::AllReduceStartOp getAcross();
    /// The shard's gradient when all ranks are reduced over: what the last of the two waits for
    /// yields; null if there is no wait.
    ::mlir::Value getReduced();
    /// The update that reads `getReduced()`; null if there is none.
    ::fsdp::UpdateOp getUpdate();
  }];
}

def Fsdp_ReduceScatterWaitOp : Fsdp_WaitOp<"reduce_scatter.wait", [
    Fsdp_InStepBy<["getAlias"]>]> {
  let summary = "Wait for a reduction; yields this rank's shard of the gradients";
  let description = [{
    Where another collective goes on with the reduction, nothing reads the result; but the memory of
    the full gradients is free.
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
  let summary = "Start reducing a shard's gradients or a tensor over ranks that hold the same, in place";
  let description = [{
    Of the handle of a reduce-scatter it takes the result and begins, on a stream of its own, when
    that has ended; the compute stream waits for neither. `coalesced` is that of
    `fsdp.all_gather.start`, `predivide` and `postdivide` are those of `fsdp.reduce_scatter.start`.

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
  let summary = "Wait for an all-reduce; yields what it reduced";
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
  let summary = "The part of one shard in the norm of gradients, taken ahead";
  let description = [{
    Where a gradient does not stay in the arena until all of them are there: what `fsdp.partial_norm`
    would compute of it. It is kept beside the arena until then.

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
    Over the elements of this rank's shards, in double: the sum of their squares (norm 2) or of their
    absolute values (1), or the largest absolute value (inf). A NaN among them makes it a NaN. The
    parts of all ranks are added up (`sum`), of norm inf the largest is taken (`max`). `offset`,
    written by memory planning, is its place in the arena (bytes).

    If all groups are sharded over as many ranks, the parts are added up over the axis of the shards.
    Else they are added up over all axes of the first mesh, and of each group only the ranks of its
    first replica count their shards.

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
  let summary = "The factor that brings the gradients' norm down to the optimizer's `clip_grad_norm`";
  let description = [{
    min(1, clip_grad_norm / (norm + 1e-6)) in fp32, of the norm rounded to fp32: `total`, or if the
    optimizer's `clip_norm_type` is 2, as it is unless said, its square root. Of an infinite norm it
    is 0, of a NaN a NaN, as in torch.
  }];
  let arguments = (ins Fsdp_NormPart:$total);
  let results = (outs F32:$factor);
  let assemblyFormat = "$total attr-dict `:` type($total)";
}
