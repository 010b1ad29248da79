//===- FsdpBase.td - Dialect, types, attributes, interfaces -*- tablegen -*-===//

#ifndef FSDP_IR_FSDPBASE
#define FSDP_IR_FSDPBASE

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/Interfaces.td"
include "mlir/IR/OpBase.td"

def Fsdp_Dialect : Dialect {
  let name = "fsdp";
  let dependentDialects = ["::fsdp::aten::AtenDialect"];
  let cppNamespace = "::fsdp";
  let summary = "Sharded parameters and their collectives";
  let description = [{
    A parameter is declared once (`fsdp.param`) and belongs to exactly one group (`fsdp.group`).
    Reads and gradients refer to it by symbol. Collectives process whole groups; each is a start and
    a wait connected by a `!fsdp.handle`.

    A module goes through four phases, named by its attribute `fsdp.phase`: *captured* (single
    device), *sharded* (groups, collectives), *scheduled* (program order is issue order, streams),
    *planned* (every buffer has an arena offset). `fsdp-verify-<phase>` checks each.
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let extraClassDeclaration = [{
    /// Verifies a module by its phase after MLIR has verified its operations. For tools that run no
    /// passes, such as a language server; null: no such check.
    using PhaseVerifier = ::llvm::LogicalResult (*)(::mlir::ModuleOp);
    void setPhaseVerifier(PhaseVerifier verifier) { phaseVerifier = verifier; }

  private:
    PhaseVerifier phaseVerifier = nullptr;
    ::llvm::LogicalResult verifyPhaseOf(::mlir::Operation *module);

  public:
    /// Module attribute (`#fsdp.module_phase`): the module's phase.
    static constexpr ::llvm::StringLiteral getPhaseAttrName() { return "fsdp.phase"; }
    /// Module attribute (i64): bytes of the arena, on a planned module.
    static constexpr ::llvm::StringLiteral getArenaAttrName() { return "fsdp.arena_bytes"; }
    /// Module attribute (i64): bytes of the host's arena, on a planned module that has one.
    static constexpr ::llvm::StringLiteral getHostArenaAttrName() {
      return "fsdp.host_arena_bytes";
    }
    /// Module attribute (`#fsdp.prefetch`): the order of gathers that the user requests.
    static constexpr ::llvm::StringLiteral getPrefetchAttrName() { return "fsdp.prefetch"; }
    /// Module attribute (`#fsdp.target`): what the step was captured for; absent: CPUs.
    static constexpr ::llvm::StringLiteral getTargetAttrName() { return "fsdp.target"; }
    /// Module attribute (`#fsdp.recompute`): what the backward recomputes.
    static constexpr ::llvm::StringLiteral getRecomputeAttrName() { return "fsdp.recompute"; }
    /// Module attribute (i64): the largest sum of live buffers, in bytes, on a planned module.
    static constexpr ::llvm::StringLiteral getPeakAttrName() { return "fsdp.peak_live_bytes"; }
    /// Module attribute (i64): a lower bound on the duration of any schedule of the step,
    /// nanoseconds, in the search's cost model.
    static constexpr ::llvm::StringLiteral getBoundAttrName() { return "fsdp.bound_ns"; }
    /// Module attribute (i64): arithmetic operations that are recomputed per microbatch.
    static constexpr ::llvm::StringLiteral getRecomputedFlopsAttrName() {
      return "fsdp.recomputed_flops";
    }
    /// Module attribute (`#fsdp.transport`) of captured modules: the transport of gathers that the
    /// user requests; absent: kernels.
    static constexpr ::llvm::StringLiteral getTransportAttrName() { return "fsdp.transport"; }
    /// Module attribute (string): the digest of what the captured step computes (Provenance.h).
    static constexpr ::llvm::StringLiteral getProvenanceAttrName() { return "fsdp.provenance"; }
    /// Module attribute (`#fsdp.accumulation`): the microbatches of a step.
    static constexpr ::llvm::StringLiteral getAccumulationAttrName() {
      return "fsdp.accumulation";
    }
    /// Module attribute (i64): the number of ranks for which the model was exported; absent: the
    /// step is the same for any number.
    static constexpr ::llvm::StringLiteral getRanksAttrName() { return "fsdp.ranks"; }
    /// Module attribute (string): name of the model, for messages.
    static constexpr ::llvm::StringLiteral getModelAttrName() { return "fsdp.model"; }
  }];
}

class Fsdp_Enum<string name, string summary, list<I32EnumCase> cases>
    : I32Enum<name, summary, cases> {
  let cppNamespace = "::fsdp";
}

def Fsdp_ModulePhase : Fsdp_Enum<"ModulePhase", "phase of compilation", [
  I32EnumCase<"Captured", 0, "captured">,
  I32EnumCase<"Sharded", 1, "sharded">,
  I32EnumCase<"Scheduled", 2, "scheduled">,
  I32EnumCase<"Planned", 3, "planned">
]>;

def Fsdp_Reshard : Fsdp_Enum<"Reshard", "FSDP2's reshard_after_forward, or the schedule's choice", [
  I32EnumCase<"Never", 0, "false">,
  I32EnumCase<"Always", 1, "true">,
  I32EnumCase<"None", 2, "none">,
  I32EnumCase<"Auto", 3, "auto">
]>;

def Fsdp_Layout : Fsdp_Enum<"Layout", "how a group's parameters are sharded over the ranks", [
  I32EnumCase<"Flat", 0, "flat">,
  I32EnumCase<"PerParam", 1, "per_param">
]>;

def Fsdp_Stream : Fsdp_Enum<"Stream", "in-order queue of a device", [
  I32EnumCase<"Compute", 0, "compute">,
  I32EnumCase<"Gather", 1, "gather">,
  I32EnumCase<"Reduce", 2, "reduce">,
  I32EnumCase<"Replicate", 3, "replicate">
]>;

def Fsdp_Transport : Fsdp_Enum<"Transport", "how a collective moves bytes", [
  I32EnumCase<"Kernels", 0, "kernels">,
  I32EnumCase<"CopyEngine", 1, "copy_engine">, // the devices' copy engines, inside a host
  I32EnumCase<"Auto", 2, "auto">               // the schedule decides
]>;

def Fsdp_StatePlace : Fsdp_Enum<"StatePlace", "where optimizer state or activations lie", [
  I32EnumCase<"Device", 0, "device">,
  I32EnumCase<"Host", 1, "host">
]>;

def Fsdp_GradientSync : Fsdp_Enum<"GradientSync", "after which microbatches gradients are reduced", [
  I32EnumCase<"Each", 0, "each">,                   // all of them
  I32EnumCase<"ReduceScatter", 1, "reduce_scatter">, // each over the shards, the last over replicas
  I32EnumCase<"Last", 2, "last">                    // the last
]>;

def Fsdp_OptimizerKind : Fsdp_Enum<"OptimizerKind", "optimizer, as torch.optim names it", [
  I32EnumCase<"SGD", 0, "sgd">,
  I32EnumCase<"Adam", 1, "adam">,
  I32EnumCase<"AdamW", 2, "adamw">,
  I32EnumCase<"RMSprop", 3, "rmsprop">,
  I32EnumCase<"Adagrad", 4, "adagrad">,
  I32EnumCase<"Adamax", 5, "adamax">,
  I32EnumCase<"NAdam", 6, "nadam">,
  I32EnumCase<"RAdam", 7, "radam">,
  I32EnumCase<"Adadelta", 8, "adadelta">
]>;

def Fsdp_Prefetch : Fsdp_Enum<"Prefetch", "when a gather starts before its use", [
  I32EnumCase<"None", 0, "none">,
  I32EnumCase<"Fsdp2", 1, "fsdp2">
]>;

def Fsdp_Target : Fsdp_Enum<"Target", "devices that a step is captured for", [
  I32EnumCase<"Cpu", 0, "cpu">,
  I32EnumCase<"Cuda", 1, "cuda">
]>;

def Fsdp_Rounding : Fsdp_Enum<"Rounding", "where a generated kernel rounds", [
  I32EnumCase<"Exact", 0, "exact">, // where torch's operators do
  I32EnumCase<"Fast", 1, "fast">    // where it stores a result
]>;

def Fsdp_RecomputePolicy : Fsdp_Enum<"RecomputePolicy", "what the backward computes again", [
  I32EnumCase<"None", 0, "none">,         // nothing
  I32EnumCase<"Cheap", 1, "cheap">,       // results that cost about as much to compute as to read
  I32EnumCase<"Selected", 2, "selected">, // of blocks: all but products and attention
  I32EnumCase<"Full", 3, "full">,         // of blocks: all but their inputs
  I32EnumCase<"Auto", 4, "auto">          // the fastest of these that fits the memory cap
]>;

def Fsdp_RecomputeReason : Fsdp_Enum<"RecomputeReason", "why the backward recomputes", [
  I32EnumCase<"Asked", 0, "asked">,   // the user requests it
  I32EnumCase<"Memory", 1, "memory">, // to fit the memory cap
  I32EnumCase<"Time", 2, "time">      // memory for gathers saves more than recomputation costs
]>;

def Fsdp_RecomputePolicyAttr : EnumAttr<Fsdp_Dialect, Fsdp_RecomputePolicy, "recompute_policy">;

def Fsdp_LossReduction : Fsdp_Enum<"LossReduction", "how the losses of microbatches combine", [
  I32EnumCase<"Mean", 0, "mean">,
  I32EnumCase<"Sum", 1, "sum">
]>;

def Fsdp_GradientSyncAttr : EnumAttr<Fsdp_Dialect, Fsdp_GradientSync, "gradient_sync">;

def Fsdp_StatePlaceAttr : EnumAttr<Fsdp_Dialect, Fsdp_StatePlace, "state_place">;

class Fsdp_Attr<string name, string attrMnemonic> : AttrDef<Fsdp_Dialect, name> {
  let mnemonic = attrMnemonic;
}

def Fsdp_ModulePhaseAttr : Fsdp_Attr<"ModulePhase", "module_phase"> {
  let summary = "The phase of a module";
  let parameters = (ins EnumParameter<Fsdp_ModulePhase>:$value);
  let assemblyFormat = "`<` $value `>`";
}

def Fsdp_PrefetchAttr : Fsdp_Attr<"Prefetch", "prefetch"> {
  let summary = "When a gather starts before its use";
  let parameters = (ins EnumParameter<Fsdp_Prefetch>:$value);
  let assemblyFormat = "`<` $value `>`";
}

def Fsdp_TransportAttr : Fsdp_Attr<"Transport", "transport"> {
  let summary = "How gathers move bytes";
  let parameters = (ins EnumParameter<Fsdp_Transport>:$value);
  let assemblyFormat = "`<` $value `>`";
}

def Fsdp_TargetAttr : Fsdp_Attr<"Target", "target"> {
  let summary = "The devices that a step was captured for";
  let parameters = (ins EnumParameter<Fsdp_Target>:$value);
  let assemblyFormat = "`<` $value `>`";
}

def Fsdp_AccumulationAttr : Fsdp_Attr<"Accumulation", "accumulation"> {
  let summary = "How many microbatches a step has, and how their losses combine";
  let description = [{
    Before `fsdp-accumulate-gradients` the user's request, afterwards the step's microbatches. With
    `stages` the microbatches are interleaved in 1F1B order; each stage begins with the module of
    this name.
  }];
  let parameters = (ins "int64_t":$microbatches, EnumParameter<Fsdp_LossReduction>:$loss,
                        OptionalArrayRefParameter<"::mlir::StringAttr">:$stages);
  let assemblyFormat =
      "`<` $microbatches `,` `loss` `=` $loss (`,` `stages` `=` `[` $stages^ `]`)? `>`";
}

def Fsdp_RecomputeAttr : Fsdp_Attr<"Recompute", "recompute"> {
  let summary = "What the backward recomputes in groups without a policy of their own, and why";
  let description = [{
    `policy` applies to `blocks` of these groups, `cheap` to the others (`none`, if the policy is
    `none`). With `auto` the groups have several policies, each in its `recomputed` attribute.
  }];
  let parameters = (ins EnumParameter<Fsdp_RecomputePolicy>:$policy, "int64_t":$blocks,
                        EnumParameter<Fsdp_RecomputeReason>:$reason);
  let assemblyFormat = "`<` $policy `,` `blocks` `=` $blocks `,` `for` `=` $reason `>`";
}

def Fsdp_MixedPrecisionAttr : Fsdp_Attr<"MixedPrecision", "mixed_precision"> {
  let summary = "The dtypes of FSDP2's MixedPrecisionPolicy that the user requests";
  let description = [{
    Parameters are gathered and used in `param_dtype`; absent: in the dtype in which the model uses
    them. Gradients are reduced in `reduce_dtype`; absent: in `param_dtype`, or the parameters' own.
  }];
  let parameters = (ins OptionalParameter<"::mlir::Type">:$param_dtype,
                        OptionalParameter<"::mlir::Type">:$reduce_dtype);
  let assemblyFormat = "`<` struct(params) `>`";
  let extraClassDeclaration = [{
    /// Null: the parameters' own.
    ::mlir::Type getDtypeOfReduction() const {
      return getReduceDtype() ? getReduceDtype() : getParamDtype();
    }
  }];
}

def Fsdp_F32Number : Type<
    CPred<"$_self == ::mlir::RankedTensorType::get({}, ::mlir::Float32Type::get($_self.getContext()))">,
    "tensor<f32>", "::mlir::RankedTensorType">,
    BuildableType<"::mlir::RankedTensorType::get({}, $_builder.getF32Type())">;

def Fsdp_Float8CastAttr : Fsdp_Attr<"Float8Cast", "float8_cast"> {
  let summary = "How a step casts a parameter to an 8-bit float";
  let description = [{
    The parameter, rounded to `from` if that is given, is multiplied by a scale in f32 and cast to
    `dtype`; with `saturated` the product is first limited to the range of `dtype`. The scale comes
    from the largest absolute value of the whole parameter (amax), in f32 or f64: the reciprocal of
    max(amax, `eps`), times the largest number of `dtype`, rounded to f32. These are the casts of
    torchao's `Float8Linear`.

    ```mlir
    #fsdp.float8_cast<dtype = f8E4M3FN, from = bf16, scale = f64, eps = 1.0e-12 : f64, saturated = true>
    ```
  }];
  let parameters = (ins "::mlir::Type":$dtype, OptionalParameter<"::mlir::Type">:$from,
                        "::mlir::Type":$scale, "::mlir::FloatAttr":$eps, "bool":$saturated);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Fsdp_AllGatherExtensionAttr : Fsdp_Attr<"AllGatherExtension", "all_gather_extension"> {
  let summary = "A pair of transforms before and after the gathers of a group";
  let description = [{
    FSDP2's `fsdp_pre_all_gather` and `fsdp_post_all_gather`: each rank encodes its shard of each
    parameter as bytes, the bytes are gathered, and each rank decodes the parameters from them. The
    two operators are `fsdp_extension::<name>_encode` and `fsdp_extension::<name>_decode`, from the
    runtime or from a library. An encoded shard has `bytes_per_element` for each of its elements,
    padding included, and `bytes_per_part` more.

    ```mlir
    #fsdp.all_gather_extension<"int8", bytes_per_element = 1, bytes_per_part = 4>
    ```
  }];
  let parameters = (ins "::mlir::StringAttr":$name, "int64_t":$bytes_per_element,
                        "int64_t":$bytes_per_part);
  let assemblyFormat = [{
    `<` $name `,` `bytes_per_element` `=` $bytes_per_element `,`
    `bytes_per_part` `=` $bytes_per_part `>`
  }];
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Bytes of an encoded shard of `elements` elements.
    int64_t getEncodedBytes(int64_t elements) const {
      return elements * getBytesPerElement() + getBytesPerPart();
    }
  }];
}

def Fsdp_Subject : Fsdp_Enum<"Subject", "attribute of a group that a pass decides", [
  I32EnumCase<"GatherDtype", 0, "gather_dtype">,
  I32EnumCase<"ReduceDtype", 1, "reduce_dtype">,
  I32EnumCase<"Recomputed", 2, "recomputed">,
  I32EnumCase<"OptimizerState", 3, "optimizer_state">,
  I32EnumCase<"ReshardRanks", 4, "reshard_ranks">,
  I32EnumCase<"Activations", 5, "activations">
]>;

def Fsdp_DecisionAttr : Fsdp_Attr<"Decision", "decision"> {
  let summary = "Why an attribute of a group differs from the user's request";
  let description = [{
    The decision is the attribute's value; an absent attribute has its default.

    ```mlir
    #fsdp.decision<gather_dtype, "all uses of its parameters are casts to bf16">
    ```
  }];
  let parameters = (ins EnumParameter<Fsdp_Subject>:$subject, "::mlir::StringAttr":$reason);
  let assemblyFormat = "`<` $subject `,` $reason `>`";
}

def Fsdp_PlacesAttr : Fsdp_Attr<"Places", "places"> {
  let summary = "The offsets, in bytes, of what a group keeps between steps";
  let description = [{
    In the arena: this rank's shard of the parameters; each optimizer state; the copy of the shard
    in another dtype, if that is gathered. In the host's arena: those of them that are on the host.

    ```mlir
    #fsdp<places shard 0 states [64, 128] copy 192>
    #fsdp<places shard 0 host_states [0, 64]>
    #fsdp<places host_shard 0 host_states [64, 128] host_copy 192>
    ```
  }];
  let parameters = (ins OptionalParameter<"std::optional<int64_t>">:$shard,
                        OptionalArrayRefParameter<"int64_t">:$states,
                        OptionalParameter<"std::optional<int64_t>">:$copy,
                        OptionalParameter<"std::optional<int64_t>">:$hostShard,
                        OptionalArrayRefParameter<"int64_t">:$hostStates,
                        OptionalParameter<"std::optional<int64_t>">:$hostCopy);
  let assemblyFormat = [{
    (`shard` $shard^)? (`states` ` ` `[` $states^ `]`)? (`copy` $copy^)?
    (`host_shard` $hostShard^)? (`host_states` ` ` `[` $hostStates^ `]`)? (`host_copy` $hostCopy^)?
  }];
}

def Fsdp_ReduceOp : Fsdp_Enum<"ReduceOp", "how a reduction combines the inputs of the ranks", [
  I32EnumCase<"Average", 0, "avg">,
  I32EnumCase<"Sum", 1, "sum">,
  I32EnumCase<"Max", 2, "max">,
  I32EnumCase<"PremulSum", 3, "premul_sum"> // of scaled inputs, as NCCL's PreMulSum
]>;

/// Numbered as in plans (Plan/Abi.h).
def Fsdp_NormType : Fsdp_Enum<"NormType", "norm_type of torch.nn.utils.clip_grad_norm_", [
  I32EnumCase<"One", 1, "1">,
  I32EnumCase<"Two", 2, "2">,
  I32EnumCase<"Infinity", 3, "inf">
]>;

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

def Fsdp_HandleType : TypeDef<Fsdp_Dialect, "Handle"> {
  let mnemonic = "handle";
  let summary = "A collective or copy in flight: started once, waited for once";
}

def Fsdp_ShardType : TypeDef<Fsdp_Dialect, "Shard"> {
  let mnemonic = "shard";
  let summary = "This rank's part of a group: of its parameters or of their gradients";
  let description = [{
    One buffer of elements of `elementType`, in the group's layout.

    With a number of ranks k it is a chunk, 1/k of the group: k neighbours on the group's axis hold
    the whole group together, each the shards of equally many consecutive ranks (`fsdp.chunk`).

    With `ui8` it is the result of `fsdp.encode`, in the layout of the group's
    `all_gather_extension`.

    ```mlir
    !fsdp.shard<@layers.0, f32>
    !fsdp.shard<@layers.0, f32, 2>
    !fsdp.shard<@layers.0, ui8>
    ```
  }];
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$group, "::mlir::Type":$elementType,
                        DefaultValuedParameter<"int64_t", "0">:$ranks);
  let assemblyFormat = "`<` $group `,` $elementType (`,` $ranks^)? `>`";
  let builders = [
    TypeBuilder<(ins "::mlir::FlatSymbolRefAttr":$group, "::mlir::Type":$elementType),
                "return $_get($_ctxt, group, elementType, /*ranks=*/0);">
  ];
}

def Fsdp_StateType : TypeDef<Fsdp_Dialect, "State"> {
  let mnemonic = "state";
  let summary = "The optimizer state of this rank's part of a group, fetched from the host";
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$group);
  let assemblyFormat = "`<` $group `>`";
}

def Fsdp_HostType : TypeDef<Fsdp_Dialect, "Host"> {
  let mnemonic = "host";
  let summary = "A gradient, an activation or a chunk in the memory of the host";
  let description = [{
    ```mlir
    !fsdp.host<!fsdp.shard<@layers.0, f32>>
    !fsdp.host<tensor<4x8xf32>>
    ```
  }];
  let parameters = (ins "::mlir::Type":$value);
  let assemblyFormat = "`<` $value `>`";
}

/// A value that can be stored on the host: a reduced gradient or a tensor.
def Fsdp_StorableType : AnyTypeOf<[Fsdp_ShardType, AnyRankedTensor], "a shard or a tensor">;

def Fsdp_ShardNormType : TypeDef<Fsdp_Dialect, "ShardNorm"> {
  let mnemonic = "norm";
  let summary = "The contribution of a group's shard to the norm of gradients";
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$group);
  let assemblyFormat = "`<` $group `>`";
}

//===----------------------------------------------------------------------===//
// Interfaces
//===----------------------------------------------------------------------===//

def Fsdp_CollectiveOpInterface : OpInterface<"CollectiveOpInterface"> {
  let cppNamespace = "::fsdp";
  let description = [{
    The start of one collective, on a shard of a group or on a tensor. Schedulers, reports, lowering
    and verifiers ask this interface, never a concrete operation.
  }];
  let methods = [
    InterfaceMethod<"The kind: all_gather, reduce_scatter or all_reduce.",
      "::llvm::StringRef", "getCollectiveKind">,
    InterfaceMethod<[{
      The input of one rank to a gather, or its result of a reduction: a shard, or a tensor.
    }], "::mlir::Type", "getPayload">,
    InterfaceMethod<"The axes of the mesh along which ranks meet.",
      "::mlir::ArrayAttr", "getAxes">,
    InterfaceMethod<"How a reduction combines the inputs of the ranks; none for a gather.",
      "std::optional<::fsdp::ReduceOp>", "getReduceOp", (ins), "", "return std::nullopt;">,
    InterfaceMethod<"The part of the step that issues it.", "::fsdp::aten::Phase", "getPhase">,
    InterfaceMethod<"The stream on which it runs.", "::fsdp::Stream", "getStream">,
    InterfaceMethod<"Moves it to another stream.", "void", "setStream",
      (ins "::fsdp::Stream":$stream)>,
    InterfaceMethod<"How it moves bytes.", "::fsdp::Transport", "getTransport", (ins), "",
      "return ::fsdp::Transport::Kernels;">,
    InterfaceMethod<"True if it shares a launch with the start before it.",
      "bool", "getCoalesced">,
    InterfaceMethod<"Makes it share the launch of the start before it, or not.",
      "void", "setCoalesced", (ins "bool":$coalesced)>,
    InterfaceMethod<"The handle of the collective whose result it takes; null: none.",
      "::mlir::Value", "getPredecessor", (ins), "", "return {};">
  ];
  let extraSharedClassDeclaration = [{
    /// The group of the shard; null for a tensor.
    ::mlir::FlatSymbolRefAttr getCollectiveGroup() {
      auto shard = ::mlir::dyn_cast<::fsdp::ShardType>($_op.getPayload());
      return shard ? shard.getGroup() : ::mlir::FlatSymbolRefAttr();
    }

    /// How many neighbours on the axis meet; 0: all ranks of the axis.
    int64_t getNeighbours() {
      auto shard = ::mlir::dyn_cast<::fsdp::ShardType>($_op.getPayload());
      return shard ? shard.getRanks() : 0;
    }
  }];
}

#endif // FSDP_IR_FSDPBASE
