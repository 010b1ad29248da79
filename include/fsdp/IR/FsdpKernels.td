//===- FsdpKernels.td - Kernels that the compiler generates -*- tablegen -*-===//
//
// Several operators of aten as one pass over memory. Part of FsdpOps.td.
//
//===----------------------------------------------------------------------===//

def Fsdp_KernelOp : Fsdp_Op<"kernel", [Symbol, IsolatedFromAbove, SingleBlock]> {
  let summary = "Declare a kernel that computes several aten calls in one pass over memory";
  let description = [{
    The body defines the kernel: the calls that it replaces, on the block's arguments as operands.
    `fsdp-compile` generates native code from the body, and the proof that the step computes what
    was captured follows the same calls.

    `exact` kernels have the same bits as torch's operators. `fast` kernels compute in fp32 and
    round once, where a result is stored.

    ```mlir
    fsdp.kernel @kernel exact {
    ^bb0(%a: tensor<8x16xf32>, %b: tensor<16xf32>):
      %mul = aten.call "mul.Tensor"(%a, %b) fwd in ""
          : (tensor<8x16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
      %relu = aten.call "relu.default"(%mul) fwd in "" : (tensor<8x16xf32>) -> tensor<8x16xf32>
      fsdp.yield %relu : tensor<8x16xf32>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, EnumProp<Fsdp_Rounding>:$rounding);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name $rounding custom<KernelBody>($body) attr-dict";
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    /// The kernel's results, in the order of a launch's results.
    ::mlir::OperandRange getYielded() { return getBody().front().getTerminator()->getOperands(); }
  }];
}

def Fsdp_YieldOp : Fsdp_Op<"yield", [Pure, Terminator, HasParent<"KernelOp">]> {
  let summary = "The results of a kernel";
  let arguments = (ins Variadic<AnyStaticShapeTensor>:$results);
  let assemblyFormat = "$results attr-dict `:` type($results)";
}

def Fsdp_LaunchOp : Fsdp_Op<"launch", [
    Pure, Fsdp_SymbolUser, Fsdp_NamesResults, Fsdp_InStepBy<["getTitle", "isOfGroups", "getMadeCategory"]>]> {
  let summary = "Launch a kernel; yields its results";
  let description = [{
    `phase` and `scope` are those of the last call that the launch replaces. `offsets`, written by
    memory planning, are the arena offsets of the results (bytes), -1 for an empty result.

    ```mlir
    %0 = fsdp.launch @kernel(%x, %w) fwd in <"layers.0.norm">
        : (tensor<8x16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Variadic<AnyStaticShapeTensor>:$operands,
                       EnumProp<Aten_Phase>:$phase, Aten_ScopeAttr:$scope,
                       OptionalAttr<DenseI64ArrayAttr>:$offsets);
  let results = (outs Variadic<AnyStaticShapeTensor>:$results);
  let assemblyFormat = [{
    $kernel `(` $operands `)` $phase `in` $scope (`at` $offsets^)? attr-dict
    `:` functional-type($operands, $results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The kernel; null in IR that does not verify.
    KernelOp getDeclaration();
  }];
}
