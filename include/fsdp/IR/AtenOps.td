//===- AtenOps.td - Captured aten operator calls -----------*- tablegen -*-===//

#ifndef FSDP_IR_ATENOPS
#define FSDP_IR_ATENOPS

include "fsdp/IR/AtenBase.td"
include "fsdp/IR/StepOp.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Aten_Result : AnyTypeOf<[AnyStaticShapeTensor, NoneType], "tensor or none">;

def Aten_CallOp : Op<Aten_Dialect, "call", [
    Pure, DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>,
    DeclareOpInterfaceMethods<Fsdp_StepOpInterface,
        ["getTitle", "isOfGroups", "getMadeCategory", "getAlias"]>]> {
  let summary = "Call one aten operator by its schema name";
  let description = [{
    `callee` is the operator's name and overload, as the dispatcher spells it without `aten::`.
    Operators of other namespaces, operators that torch 2.11 does not have, and operators that touch
    files, devices or processes (`from_file`, `record_stream`, ...) are refused. The argument list
    follows the schema's:

    | argument of the schema | written as |
    |---|---|
    | tensor | an SSA operand |
    | list of tensors | bracketed operands; `none` for an absent one |
    | absent optional argument, generator | `none` |
    | int, float, bool, str | `2`, `2.0`, `true`, `"s"` |
    | list of ints | `[2, 3]` (`[]` when empty); of floats, bools likewise |
    | dtype | an element type: `f32`, `i64`, `ui8` |
    | device | `#aten.device` |
    | memory format, layout | `#aten.memory_format<contiguous>`, `#aten.strided` |
    | number for a tensor | a literal: torch's wrapped number, which does not promote types |

    There is one result per return value of the schema; a single list of tensors is flattened. A
    return value that is undefined or not a tensor has type `none`.

    ```mlir
    %mm = aten.call "mm.default"(%x, %wt) fwd in "layers.0.attn.wq"
        : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
    %d:2 = aten.call "native_dropout.default"(%x, 0.1, true) fwd in "drop" rng 3
        : (tensor<8x32xf32>) -> (tensor<8x32xf32>, tensor<8x32xi1>)
    ```

    `phase` and `scope` tell the origin of the call: the part of the step, and the qualified name
    of the module whose forward (or whose forward's backward) issued it; the root module is "".
    A module's second call is written `"drop@1"`. In a step of several microbatches (gradient
    accumulation) the number of the microbatch follows, if it is not the first: `microbatch 1`.

    `rng` is the position of a random draw within the step. Together with the seed, the step and the
    rank it determines the random numbers, so that a recomputed call with the same `rng` draws the
    same ones.

    `offsets`, written by memory planning, has one arena offset (bytes) per result, -1 for a result
    without storage of its own (a view, none, or an empty tensor).
  }];
  let arguments = (ins
    Variadic<AnyStaticShapeTensor>:$operands,
    StrAttr:$callee,
    ArrayAttr:$args,
    EnumProp<Aten_Phase>:$phase,
    Aten_ScopeAttr:$scope,
    OptionalAttr<I64Attr>:$rng,
    OptionalAttr<DenseI64ArrayAttr>:$offsets);
  let results = (outs Variadic<Aten_Result>:$results);
  let assemblyFormat = [{
    $callee `(` custom<CallArguments>($operands, $args) `)` $phase `in` custom<Scope>($scope)
    (`rng` custom<PlainInteger>($rng)^)? (`at` $offsets^)? attr-dict
    `:` functional-type($operands, $results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The operator's name without its overload: `mm` of `mm.default`.
    ::llvm::StringRef getBaseName() { return getCallee().split('.').first; }

    /// The qualified name of the module that issued the call.
    ::mlir::StringAttr getModuleAttr() { return getScope().getModule(); }
    ::llvm::StringRef getModule() { return getModuleAttr().getValue(); }
    int64_t getMicrobatch() { return getScope().getMicrobatch(); }

    /// True if every tensor result shares the storage of the first operand.
    bool isView();

    /// True if the operator draws random numbers.
    bool isRandom();

    /// True if computing the result again costs about as much as reading it.
    bool isCheap();
  }];
}

def Aten_ConstantOp : Op<Aten_Dialect, "constant", [
    Pure, ConstantLike, AllTypesMatch<["value", "result"]>,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>,
    DeclareOpInterfaceMethods<Fsdp_StepOpInterface, ["isOfGroups", "getMadeCategory"]>]> {
  let summary = "A tensor that the model holds as a literal";
  let description = [{
    ```mlir
    %c = aten.constant dense<[1.0, 2.0]> : tensor<2xf32>
    ```
  }];
  let arguments = (ins ElementsAttr:$value, OptionalAttr<I64Attr>:$offset);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "$value (`at` custom<PlainInteger>($offset)^)? attr-dict";
  let hasFolder = 1;
}

#endif // FSDP_IR_ATENOPS
