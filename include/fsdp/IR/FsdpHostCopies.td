//===- FsdpHostCopies.td - Copies to and from the host -----*- tablegen -*-===//
//
// Optimizer state, parameters, gradients, activations and chunks on the host. Part of FsdpOps.td.
//
//===----------------------------------------------------------------------===//

//===----------------------------------------------------------------------===//
// Optimizer state on the host
//===----------------------------------------------------------------------===//
//
// Copies between the memories of host and device follow the memory model of streams: fetches run in
// order on the host-to-device stream, stores on the device-to-host stream. State occupies the arena
// from its fetch's start to its store's wait.

def Fsdp_FetchStateStartOp : Fsdp_Op<"fetch_state.start", [
    MemoryEffects<[MemRead<Fsdp_Storage>, MemWrite<Fsdp_Storage>]>, Fsdp_SymbolUser,
    Fsdp_NamesResults, Fsdp_InStepBy<["getTitle", "getMadeCategory"]>]> {
  let summary = "Start copying the optimizer state of a group from the host to the arena";
  let description = [{
    `offsets`, written by memory planning, are the arena offsets of the states (bytes), where the
    update reads and writes them.

    ```mlir
    %h = fsdp.fetch_state.start @layers.0
    %x = fsdp.fetch_state.wait %h : !fsdp.state<@layers.0>
    fsdp.update @layers.0 with %d step %step lr %lr state %x
        : !fsdp.shard<@layers.0, f32>, !fsdp.state<@layers.0>
    %t = fsdp.store_state.start %x : !fsdp.state<@layers.0>
    fsdp.store_state.wait %t
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$group, OptionalAttr<DenseI64ArrayAttr>:$offsets);
  let results = (outs Fsdp_HandleType:$handle);
  let assemblyFormat = "$group (`at` $offsets^)? attr-dict";
}

def Fsdp_FetchStateWaitOp : Fsdp_WaitOp<"fetch_state.wait", [
    Fsdp_InStepBy<["getAlias"]>]> {
  let summary = "Wait until the optimizer state of a group is in the arena; yields it";
  let arguments = (ins Fsdp_HandleType:$handle);
  let results = (outs Fsdp_StateType:$state);
  let assemblyFormat = "$handle attr-dict `:` qualified(type($state))";
  let extraClassDeclaration = [{
    ::fsdp::FetchStateStartOp getStart();
  }];
}

def Fsdp_StoreStateStartOp : Fsdp_Op<"store_state.start", [
    MemoryEffects<[MemRead<Fsdp_Storage>, MemWrite<Fsdp_Storage>]>, Fsdp_NamesResults,
    Fsdp_InStepBy<["getTitle", "getAlias"]>]> {
  let summary = "Start copying the fetched optimizer state of a group back to the host";
  let arguments = (ins Fsdp_StateType:$state);
  let results = (outs Fsdp_HandleType:$handle);
  let assemblyFormat = "$state attr-dict `:` qualified(type($state))";
  let extraClassDeclaration = [{
    ::mlir::FlatSymbolRefAttr getGroupAttr() { return getState().getType().getGroup(); }
    ::llvm::StringRef getGroup() { return getGroupAttr().getValue(); }
    /// Null if the store has no wait.
    ::fsdp::StoreStateWaitOp getWait();
  }];
}

def Fsdp_StoreStateWaitOp : Fsdp_Op<"store_state.wait", [
    MemoryEffects<[MemWrite<Fsdp_Storage>]>, Fsdp_InStep]> {
  let summary = "Wait until the optimizer state of a group is on the host; its bytes are free";
  let arguments = (ins Fsdp_HandleType:$handle);
  let assemblyFormat = "$handle attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::fsdp::StoreStateStartOp getStart();
  }];
}

//===----------------------------------------------------------------------===//
// Gradients, activations and chunks on the host
//===----------------------------------------------------------------------===//
//
// The same memory model. A stored value occupies the host's arena from its store's start to the end
// of its last fetch, a chunk to the wait for its gather.

def Fsdp_StoreStartOp : Fsdp_Op<"store.start", [
    MemoryEffects<[MemRead<Fsdp_Storage>, MemWrite<Fsdp_Storage>]>, Fsdp_NamesResults,
    Fsdp_InStepBy<["getTitle"]>]> {
  let summary = "Start copying a gradient, an activation or a chunk to the host";
  let description = [{
    The value is a reduced gradient, kept for later microbatches or for the norm of all gradients,
    an activation that the forward keeps for the backward, a tensor without gaps, or a chunk
    (`fsdp.chunk`). `at`, written by memory planning, is its offset in the host's arena (bytes).

    ```mlir
    %t = fsdp.store.start %d : !fsdp.shard<@layers.0, f32>
    %s = fsdp.store.wait %t : !fsdp.host<!fsdp.shard<@layers.0, f32>>
    %h = fsdp.fetch.start %s : !fsdp.host<!fsdp.shard<@layers.0, f32>>
    %e = fsdp.fetch.wait %h : !fsdp.shard<@layers.0, f32>
    fsdp.update @layers.0 with %e step %step lr %lr clip %clip : !fsdp.shard<@layers.0, f32>
    ```

    A chunk is not fetched: its gather takes it from the host.

    ```mlir
    %k = fsdp.chunk(%p#0, %p#1) : (tensor<64x64xf32>, tensor<64xf32>) -> !fsdp.shard<@layers.0, f32, 2>
    %t = fsdp.store.start %k : !fsdp.shard<@layers.0, f32, 2>
    %s = fsdp.store.wait %t : !fsdp.host<!fsdp.shard<@layers.0, f32, 2>>
    %u = fsdp.all_gather.start %s over ["dp"] bwd on gather : !fsdp.host<!fsdp.shard<@layers.0, f32, 2>>
    ```
  }];
  let arguments = (ins Fsdp_StorableType:$value, OptionalAttr<I64Attr>:$offset);
  let results = (outs Fsdp_HandleType:$handle);
  let assemblyFormat = [{
    $value (`at` custom<PlainInteger>($offset)^)? attr-dict `:` qualified(type($value))
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Null if the store has no wait.
    ::fsdp::StoreWaitOp getWait();
  }];
}

def Fsdp_StoreWaitOp : Fsdp_WaitOp<"store.wait", [Fsdp_InStep]> {
  let summary = "Wait until a value is on the host; its bytes in the arena are free";
  let arguments = (ins Fsdp_HandleType:$handle);
  let results = (outs Fsdp_HostType:$stored);
  let assemblyFormat = "$handle attr-dict `:` qualified(type($stored))";
  let extraClassDeclaration = [{
    ::fsdp::StoreStartOp getStart();
  }];
}

def Fsdp_FetchStartOp : Fsdp_Op<"fetch.start", [
    MemoryEffects<[MemRead<Fsdp_Storage>, MemWrite<Fsdp_Storage>]>, Fsdp_NamesResults,
    Fsdp_InStepBy<["getTitle", "getMadeCategory"]>]> {
  let summary = "Start copying a value from the host to the arena";
  let description = [{
    `at`, written by memory planning, is its arena offset (bytes).
  }];
  let arguments = (ins Fsdp_HostType:$stored, OptionalAttr<I64Attr>:$offset);
  let results = (outs Fsdp_HandleType:$handle);
  let assemblyFormat = [{
    $stored (`at` custom<PlainInteger>($offset)^)? attr-dict `:` qualified(type($stored))
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Null if the fetch has no wait.
    ::fsdp::FetchWaitOp getWait();
    /// The stored value.
    ::mlir::Value getSource();
    /// The stored value's type.
    ::mlir::Type getValueType() { return getStored().getType().getValue(); }
  }];
}

def Fsdp_FetchWaitOp : Fsdp_WaitOp<"fetch.wait", [
    Fsdp_InStepBy<["getAlias"]>]> {
  let summary = "Wait until a value is in the arena again; yields it";
  let arguments = (ins Fsdp_HandleType:$handle);
  let results = (outs Fsdp_StorableType:$result);
  let assemblyFormat = "$handle attr-dict `:` qualified(type($result))";
  let extraClassDeclaration = [{
    ::fsdp::FetchStartOp getStart();
  }];
}
