//===- FsdpShards.td - Shards of parameters and gradients --*- tablegen -*-===//
//
// Shards of parameters and of gradients, on one rank. Part of FsdpOps.td.
//
//===----------------------------------------------------------------------===//

def Fsdp_ShardOp : Fsdp_Op<"shard", [
    MemoryEffects<[MemRead<Fsdp_Storage>]>, Fsdp_SymbolUser, Fsdp_NamesResults,
    Fsdp_InStep]> {
  let summary = "This rank's shard of a group, kept between steps";
  let description = [{
    The shard of the parameters themselves or, if the group has a `gather_dtype`, its copy in that
    dtype, which updates write as well.

    ```mlir
    %s = fsdp.shard @layers.0 : !fsdp.shard<@layers.0, f32>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$group);
  let results = (outs Fsdp_ShardType:$result);
  let assemblyFormat = "$group attr-dict `:` qualified(type($result))";
}

def Fsdp_PackOp : Fsdp_Op<"pack", [
    MemoryEffects<[MemRead<Fsdp_Storage>]>, Fsdp_SymbolUser, Fsdp_NamesResults,
    Fsdp_InStepBy<["getTitle", "getMadeCategory", "getPacked"]>]> {
  let summary = "Pack the gradients of a group into its shard's gradient, on one rank";
  let description = [{
    On one rank the shard is the whole group without its frozen parameters: nothing is reduced.
    `offset`, written by memory planning, is the arena offset of the packed gradients (bytes). The
    gradients are divided by `postdivide`, if present.

    ```mlir
    %d = fsdp.pack @layers.0(%g0, %g1) : (tensor<64x64xf32>, tensor<64xf32>)
        -> !fsdp.shard<@layers.0, f32>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$group, Variadic<AnyStaticShapeTensor>:$grads,
                       OptionalAttr<F64Attr>:$postdivide, OptionalAttr<I64Attr>:$offset);
  let results = (outs Fsdp_ShardType:$result);
  let assemblyFormat = [{
    $group `(` $grads `)` (`postdivide` custom<PlainFloat>($postdivide)^)?
    (`at` custom<PlainInteger>($offset)^)? attr-dict `:` functional-type($grads, $result)
  }];
  let extraClassDeclaration = [{
    /// The divisor of the gradients; 1 without `postdivide`.
    double getDivisor() { return getPostdivide() ? getPostdivide()->convertToDouble() : 1; }
  }];
}

def Fsdp_CastOp : Fsdp_Op<"cast", [
    MemoryEffects<[MemRead<Fsdp_Storage>]>, Fsdp_SymbolUser, Fsdp_NamesResults,
    Fsdp_InStepBy<["getTitle", "getMadeCategory"]>]> {
  let summary = "Cast a shard's gradient to the dtype of its parameters";
  let description = [{
    For gradients that are reduced in another dtype and then accumulated over microbatches in the
    parameters' own. `offset`, written by memory planning, is the arena offset of the result
    (bytes).

    ```mlir
    %c = fsdp.cast %d : !fsdp.shard<@layers.0, bf16> to !fsdp.shard<@layers.0, f32>
    ```
  }];
  let arguments = (ins Fsdp_ShardType:$source, OptionalAttr<I64Attr>:$offset);
  let results = (outs Fsdp_ShardType:$result);
  let assemblyFormat = [{
    $source (`at` custom<PlainInteger>($offset)^)? attr-dict
    `:` qualified(type($source)) `to` qualified(type($result))
  }];
  let hasVerifier = 1;
}

def Fsdp_EncodeOp : Fsdp_Op<"encode", [
    MemoryEffects<[MemRead<Fsdp_Storage>]>, Fsdp_SymbolUser, Fsdp_NamesResults,
    Fsdp_InStepBy<["getMadeCategory"]>]> {
  let summary = "Encode a shard for the group's gathers (FSDP2: fsdp_pre_all_gather)";
  let description = [{
    By the group's all_gather_extension the result is this rank's encoded shard of each parameter,
    one after another in the group's order. The waits of the gathers decode them
    (`fsdp_post_all_gather`). A step encodes a shard once, however often it is gathered. `offset`,
    written by memory planning, is the arena offset of the result (bytes).

    By the group's float8_cast the result is the shard, cast to the gathers' dtype, in the shard's
    layout. `amax` has the largest absolute values of whole parameters, in the order of
    `fsdp.partial_amax`.

    ```mlir
    %s = fsdp.shard @layers.0 : !fsdp.shard<@layers.0, f32>
    %q = fsdp.encode %s : !fsdp.shard<@layers.0, f32> to !fsdp.shard<@layers.0, ui8>
    %u = fsdp.all_gather.start %q over ["dp"] fwd on gather : !fsdp.shard<@layers.0, ui8>
    %w:2 = fsdp.all_gather.wait %u : tensor<64x64xf32>, tensor<64xf32>
    %r = fsdp.encode %t by %amax : !fsdp.shard<@layers.1, f32> by tensor<1xf32>
        to !fsdp.shard<@layers.1, f8E4M3FN>
    ```
  }];
  let arguments = (ins Fsdp_ShardType:$source, Optional<AnyStaticShapeTensor>:$amax,
                       OptionalAttr<I64Attr>:$offset);
  let results = (outs Fsdp_ShardType:$result);
  let assemblyFormat = [{
    $source (`by` $amax^)? (`at` custom<PlainInteger>($offset)^)? attr-dict
    `:` qualified(type($source)) (`by` type($amax)^)? `to` qualified(type($result))
  }];
}

def Fsdp_PartialAmaxOp : Fsdp_Op<"partial_amax", [
    MemoryEffects<[MemRead<Fsdp_Storage>]>, Fsdp_SymbolUser, Fsdp_NamesResults,
    Fsdp_InStepBy<["getTitle", "getMadeCategory"]>]> {
  let summary = "The largest absolute value of each parameter in this rank's shards";
  let description = [{
    One number for each parameter of the shards' groups, in order; 0 if this rank has no element of
    it, NaN if one is a NaN. An all-reduce over the axis of the shards takes the maximum of all
    ranks. Only groups with a `float8_cast` are asked. `offset`, written by memory planning, is the
    result's arena offset (bytes).

    ```mlir
    %part = fsdp.partial_amax(%s0, %s1)
        : (!fsdp.shard<@layers.0, f32>, !fsdp.shard<@layers.1, f32>) -> tensor<2xf32>
    %n = fsdp.all_reduce.start %part over ["dp"] max fwd on reduce : tensor<2xf32>
    %amax = fsdp.all_reduce.wait %n : tensor<2xf32>
    %q0 = fsdp.encode %s0 by %amax : !fsdp.shard<@layers.0, f32> by tensor<2xf32>
        to !fsdp.shard<@layers.0, f8E4M3FN>
    %a = fsdp.amax @layers.0.up.weight of %amax : tensor<2xf32> -> tensor<f32>
    ```
  }];
  let arguments = (ins Variadic<Fsdp_ShardType>:$shards, OptionalAttr<I64Attr>:$offset);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = [{
    `(` $shards `)` (`at` custom<PlainInteger>($offset)^)? attr-dict
    `:` functional-type($shards, $result)
  }];
}

def Fsdp_AmaxOp : Fsdp_Op<"amax", [
    Pure, Fsdp_SymbolUser, Fsdp_NamesResults, Fsdp_InStepBy<["isOfGroups", "getAlias"]>]> {
  let summary = "The largest absolute value of a whole parameter that is gathered as float8";
  let description = [{
    `total`, which `fsdp-insert-collectives` adds, has the values of all such parameters.

    ```mlir
    %a = fsdp.amax @layers.0.up.weight -> tensor<f32>
    %b = fsdp.amax @layers.0.up.weight of %amax : tensor<2xf32> -> tensor<f32>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$param, Optional<AnyStaticShapeTensor>:$total);
  let results = (outs Fsdp_F32Number:$result);
  let assemblyFormat = "$param (`of` $total^ `:` type($total))? attr-dict `->` type($result)";
}

def Fsdp_Gradient : AnyTypeOf<[Fsdp_ShardType, AnyStaticShapeTensor], "a shard or a tensor">;

def Fsdp_AccumulateOp : Fsdp_Op<"accumulate", [
    MemoryEffects<[MemRead<Fsdp_Storage>, MemWrite<Fsdp_Storage>]>, Fsdp_NamesResults,
    AllTypesMatch<["sum", "result"]>, Fsdp_InStepBy<["getTitle", "getAlias"]>]> {
  let summary = "Add the gradient of a microbatch to the sum of earlier ones, in place";
  let description = [{
    For a parameter's whole gradients, or for a shard's. The result lies in the bytes of `sum`,
    which no other operation reads. The `gradient` of a shard may have a narrower dtype, that of a
    whole parameter any dtype: only the sum is rounded, to its own dtype.

    ```mlir
    %e = fsdp.accumulate %g0, %g1 : tensor<64x64xf32>, tensor<64x64xf32>
    %f = fsdp.accumulate %d0, %d1 : !fsdp.shard<@layers.0, f32>, !fsdp.shard<@layers.0, f32>
    ```
  }];
  let arguments = (ins Fsdp_Gradient:$sum, Fsdp_Gradient:$gradient);
  let results = (outs Fsdp_Gradient:$result);
  let assemblyFormat = [{
    $sum `,` $gradient attr-dict `:` qualified(type($sum)) `,` qualified(type($gradient))
  }];
  let hasVerifier = 1;
}

def Fsdp_AllReduceHookOp : Fsdp_Op<"all_reduce_hook", [
    MemoryEffects<[MemRead<Fsdp_Storage>, MemWrite<Fsdp_Storage>]>, Fsdp_SymbolUser,
    Fsdp_NamesResults, AllTypesMatch<["source", "result"]>, Fsdp_InStepBy<["getAlias"]>]> {
  let summary = "Call the group's all_reduce_hook on a reduced gradient, in place";
  let description = [{
    The hook changes the gradient of this rank's shard after its last reduction: over the replicas,
    or without replicas over the shards (FSDP2's `set_all_reduce_hook`). The result lies in the
    bytes of `source`, which no other operation reads.

    ```mlir
    %f = fsdp.all_reduce.wait %a : !fsdp.shard<@layers.0, f32>
    %h = fsdp.all_reduce_hook %f : !fsdp.shard<@layers.0, f32>
    ```
  }];
  let arguments = (ins Fsdp_ShardType:$source);
  let results = (outs Fsdp_ShardType:$result);
  let assemblyFormat = "$source attr-dict `:` qualified(type($source))";
}

def Fsdp_ChunkOp : Fsdp_Op<"chunk", [
    MemoryEffects<[MemRead<Fsdp_Storage>]>, Fsdp_SymbolUser, Fsdp_NamesResults,
    Fsdp_InStepBy<["getMadeCategory"]>]> {
  let summary = "This rank's chunk of gathered parameters, for a later gather among a few ranks";
  let description = [{
    Takes the results of the group's gather before their reshard. The result's type has the number
    of neighbours on the group's axis that keep one chunk each; each copies its own. `offset`,
    written by memory planning, is the chunk's arena offset (bytes).

    ```mlir
    %p:2 = fsdp.all_gather.wait %u : tensor<64x64xf32>, tensor<64xf32>
    %k = fsdp.chunk(%p#0, %p#1) : (tensor<64x64xf32>, tensor<64xf32>) -> !fsdp.shard<@layers.0, f32, 2>
    fsdp.reshard %u fwd
    %v = fsdp.all_gather.start %k over ["dp"] bwd on gather : !fsdp.shard<@layers.0, f32, 2>
    ```
  }];
  let arguments = (ins Variadic<AnyStaticShapeTensor>:$params, OptionalAttr<I64Attr>:$offset);
  let results = (outs Fsdp_ShardType:$result);
  let assemblyFormat = [{
    `(` $params `)` (`at` custom<PlainInteger>($offset)^)? attr-dict
    `:` functional-type($params, $result)
  }];
  let extraClassDeclaration = [{
    ::mlir::FlatSymbolRefAttr getGroupAttr() { return getResult().getType().getGroup(); }
    /// The gather that yields the operands.
    ::fsdp::AllGatherStartOp getGather();
  }];
}
