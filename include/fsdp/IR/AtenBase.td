//===- AtenBase.td - Dialect, phases of a step, literals ---*- tablegen -*-===//

#ifndef FSDP_IR_ATENBASE
#define FSDP_IR_ATENBASE

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/TensorEncoding.td"

def Aten_Dialect : Dialect {
  let name = "aten";
  let cppNamespace = "::fsdp::aten";
  let summary = "Calls of PyTorch's aten operators on functional tensors";
  let description = [{
    One captured training step is a block of `aten.call`s: functionalised aten operators in program
    order. The dialect does not define operators by name; the table in `AtenSemantics.h` has the
    properties that passes need (is it a view, does it draw random numbers).

    Tensor types include strides: a type without encoding is contiguous in row-major order at offset
    0 of its storage; any other layout is an encoding `#aten.strides<[...], offset = n>`, in
    elements, with the offset from the beginning of the storage.
  }];
  let useDefaultAttributePrinterParser = 1;
}

def Aten_Phase : I32Enum<"Phase", "part of the training step", [
  I32EnumCase<"Forward", 0, "fwd">,
  I32EnumCase<"Backward", 1, "bwd">
]> {
  let cppNamespace = "::fsdp::aten";
}

def Aten_MemoryFormat : I32Enum<"MemoryFormat", "memory format, as c10 numbers it", [
  I32EnumCase<"Contiguous", 0, "contiguous">,
  I32EnumCase<"Preserve", 1, "preserve">,
  I32EnumCase<"ChannelsLast", 2, "channels_last">,
  I32EnumCase<"ChannelsLast3d", 3, "channels_last_3d">
]> {
  let cppNamespace = "::fsdp::aten";
}

class Aten_Attr<string name, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<Aten_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}

def Aten_OperandAttr : Aten_Attr<"Operand", "operand"> {
  let summary = "The position of an SSA operand among the arguments of a call";
}

def Aten_StridesAttr : Aten_Attr<"Strides", "strides", [
    DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let summary = "The encoding of a tensor type that is not contiguous at offset 0 of its storage";
  let description = [{
    Strides and offset are elements, at least 0; the offset counts from the beginning of the
    storage.

    ```mlir
    tensor<8x4xf32, #aten.strides<[1, 8]>>
    tensor<2x4xf32, #aten.strides<[8, 1], offset = 4>>
    ```
  }];
  let parameters = (ins OptionalArrayRefParameter<"int64_t">:$strides,
                        DefaultValuedParameter<"int64_t", "0">:$offset);
  let assemblyFormat = "`<` `[` (`]`) : ($strides^ `]`)? (`,` `offset` `=` $offset^)? `>`";
}

def Aten_DeviceAttr : Aten_Attr<"Device", "device"> {
  let summary = "The device on which the step runs";
}

def Aten_StridedAttr : Aten_Attr<"Strided", "strided"> {
  let summary = "The layout argument torch.strided, the only layout that is captured";
}

def Aten_MemoryFormatAttr : Aten_Attr<"MemoryFormat", "memory_format"> {
  let summary = "A memory format argument";
  let parameters = (ins EnumParameter<Aten_MemoryFormat>:$value);
  let assemblyFormat = "`<` $value `>`";
}

def Aten_ScopeAttr : Aten_Attr<"Scope", "scope"> {
  let summary = "Which call of which module, in which microbatch, issued an operation";
  let description = [{
    `module` is the qualified name; the root module is "". `calls` has one number per component of
    the name: which call, from 0, of the module that ends with this component; empty if all are the
    first call. Calls are counted per module and microbatch, as torch.export's `path@1` does.

    Written as in a call: the second call of `layers.0` is `"layers.0@1"`, and within it the third
    call of its `attn` is `"layers.0@1.attn@2"`.
  }];
  let parameters = (ins "::mlir::StringAttr":$module,
                        OptionalArrayRefParameter<"int64_t">:$calls,
                        DefaultValuedParameter<"int64_t", "0">:$microbatch);
  let builders = [AttrBuilder<(ins "::llvm::StringRef":$module,
                                   CArg<"::llvm::ArrayRef<int64_t>", "{}">:$calls)>];
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    /// The name with all call numbers above 0: `layers.0@1.attn`.
    std::string getPath();
    /// The call number of the module named by the first `components` components.
    int64_t getCall(size_t components) {
      return getCalls().empty() || components == 0 ? 0 : getCalls()[components - 1];
    }
  }];
}

#endif // FSDP_IR_ATENBASE
