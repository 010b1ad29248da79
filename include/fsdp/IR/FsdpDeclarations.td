//===- FsdpDeclarations.td - Parameters, groups, the optimizer -*- tablegen -*-===//
//
// Parameters, buffers, the optimizer, meshes, groups and policies. Part of FsdpOps.td.
//
//===----------------------------------------------------------------------===//

//===----------------------------------------------------------------------===//
// What the model holds
//===----------------------------------------------------------------------===//

def Fsdp_ParamOp : Fsdp_Op<"param", [Symbol]> {
  let summary = "Declare a parameter and its global type";
  let description = [{
    `aliases` are the other qualified names of a parameter that several modules share. A `frozen`
    parameter has no gradient and is not updated: it does not require one, or the loss does not
    depend on it.

    ```mlir
    fsdp.param @wte.weight : tensor<64x64xf32> aliases ["head.weight"]
    fsdp.param @base.weight : tensor<64x64xf32> frozen
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       TypeAttrOf<AnyStaticShapeTensor>:$type,
                       OptionalAttr<StrArrayAttr>:$aliases,
                       UnitAttr:$frozen);
  let assemblyFormat = "$sym_name `:` $type (`aliases` $aliases^)? (`frozen` $frozen^)? attr-dict";
  let hasVerifier = 1;
}

def Fsdp_BufferOp : Fsdp_Op<"buffer", [Symbol]> {
  let summary = "Declare a buffer of the model: state that is no parameter, whole on every rank";
  let description = [{
    A buffer with `init` is *transient*: it is no part of the model's state_dict (`persistent=False`).
    Files of weights do not hold it, a run begins with `init`, and checkpoints hold it under a name
    that the state_dict does not have.

    `offset` is the buffer's place in the arena (bytes), written by memory planning.

    ```mlir
    fsdp.buffer @bn.running_mean : tensor<8xf32>
    fsdp.buffer @calls : tensor<i64> init dense<0> : tensor<i64>
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       TypeAttrOf<AnyStaticShapeTensor>:$type,
                       OptionalAttr<ElementsAttr>:$init,
                       OptionalAttr<I64Attr>:$offset);
  let assemblyFormat = [{
    $sym_name `:` $type (`init` $init^)? (`at` custom<PlainInteger>($offset)^)? attr-dict
  }];
  let hasVerifier = 1;
}

def Fsdp_OptimizerOp : Fsdp_Op<"optimizer"> {
  let summary = "Declare the optimizer and its hyper-parameters, named as in torch.optim";
  let description = [{
    `lr` is the default learning rate; the one of a step is a run-time input. `momentum`, `dampening`
    and `nesterov` belong to sgd, `betas`, `eps` and `amsgrad` to adam and adamw. Parameters of a
    `fsdp.optimizer_group` have values of their own.

    With `clip_grad_norm` updates take clipped gradients: multiplied by
    min(1, clip_grad_norm / (norm + 1e-6)), where norm is that of the averaged gradients of all
    parameters: the 2-norm, unless `clip_norm_type` is 1 or inf (torch.nn.utils.clip_grad_norm_).

    `state_dtype` has the dtypes, f32 or bf16, of states that are kept in another one than their
    parameter's. An update then computes in fp32 with states and parameters that are widened first,
    and rounds each of them once, where it is stored.

    ```mlir
    fsdp.optimizer adamw lr = 1.0e-3 weight_decay = 1.0e-2 betas = [0.9, 0.999] eps = 1.0e-8
    fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.9 clip_grad_norm = 1.0 clip_norm_type = inf
    fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.9 nesterov maximize
    fsdp.optimizer adam lr = 1.0e-3 weight_decay = 0.0 betas = [0.9, 0.999] eps = 1.0e-8 state_dtype = {exp_avg = bf16}
    ```
  }];
  let arguments = (ins EnumProp<Fsdp_OptimizerKind>:$kind,
                       F64Attr:$lr,
                       F64Attr:$weight_decay,
                       OptionalAttr<F64Attr>:$momentum,
                       OptionalAttr<F64Attr>:$dampening,
                       OptionalAttr<DenseF64ArrayAttr>:$betas,
                       OptionalAttr<F64Attr>:$eps,
                       UnitAttr:$nesterov,
                       UnitAttr:$amsgrad,
                       UnitAttr:$maximize,
                       OptionalAttr<F64Attr>:$clip_grad_norm,
                       DefaultValuedProp<EnumProp<Fsdp_NormType>, "::fsdp::NormType::Two">:$clip_norm_type,
                       OptionalAttr<DictionaryAttr>:$state_dtype);
  let assemblyFormat = [{
    $kind `lr` `=` custom<PlainFloat>($lr) `weight_decay` `=` custom<PlainFloat>($weight_decay)
    (`momentum` `=` custom<PlainFloat>($momentum)^)? (`dampening` `=` custom<PlainFloat>($dampening)^)?
    (`betas` `=` $betas^)? (`eps` `=` custom<PlainFloat>($eps)^)?
    (`nesterov` $nesterov^)? (`amsgrad` $amsgrad^)? (`maximize` $maximize^)?
    (`clip_grad_norm` `=` custom<PlainFloat>($clip_grad_norm)^)?
    (`clip_norm_type` `=` custom<NormType>($clip_norm_type)^)?
    (`state_dtype` `=` $state_dtype^)? attr-dict
  }];
  let hasVerifier = 1;
}

def Fsdp_OptimizerGroupOp : Fsdp_Op<"optimizer_group", [Fsdp_SymbolUser]> {
  let summary = "Declare parameters that the optimizer updates with values of their own";
  let description = [{
    One of torch.optim's parameter groups: what it does not say is the optimizer's. A parameter
    belongs to one group at most; `betas` and `eps` are for adam and adamw.

    ```mlir
    fsdp.optimizer_group [@layers.0.norm.weight, @layers.0.wq.bias] weight_decay = 0.0
    fsdp.optimizer_group [@wte.weight] lr = 1.0e-4 betas = [0.9, 0.95]
    ```
  }];
  let arguments = (ins TypedArrayAttrBase<FlatSymbolRefAttr, "parameters">:$params,
                       OptionalAttr<F64Attr>:$lr,
                       OptionalAttr<F64Attr>:$weight_decay,
                       OptionalAttr<DenseF64ArrayAttr>:$betas,
                       OptionalAttr<F64Attr>:$eps);
  let assemblyFormat = [{
    $params (`lr` `=` custom<PlainFloat>($lr)^)? (`weight_decay` `=` custom<PlainFloat>($weight_decay)^)?
    (`betas` `=` $betas^)? (`eps` `=` custom<PlainFloat>($eps)^)? attr-dict
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// How it is sharded
//===----------------------------------------------------------------------===//

def Fsdp_MeshOp : Fsdp_Op<"mesh", [Symbol]> {
  let summary = "Declare the device mesh: the names and sizes of its axes";
  let description = [{
    Ranks are numbered in row-major order: the last axis varies fastest. A module may have several
    meshes of as many ranks, of which each group names its own. The first one is the model's.

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
    group is last. Each parameter's place within the group follows from its order in `params`, in
    which frozen parameters are last.

    `part_of_root`: FSDP2 has these parameters in its root group. They have been given a group of their
    own, because the step uses them elsewhere than the others (`split_root`); `modules` hold them.

    Parameters are sharded over one axis of the group's mesh. A mesh of two axes holds `replicated`
    copies of the shards along its first (FSDP2's HSDP).

    `reshard_after_forward true to 2` (FSDP2: `reshard_after_forward=2`) keeps a half of the gathered
    parameters from forward to backward: every 2 neighbours on the axis hold them together
    (`fsdp.chunk`). With `auto to 8` a schedule has decided that.

    In the per_param layout each parameter is cut on one dimension, `shard_dims` in the order of
    `params` (FSDP2's `shard_placement_fn`; absent: all on dimension 0). Another dimension than 0 has
    a size that the ranks of the axis divide.

    Some attributes are what the user asks for, which no pass changes, and others what a pass decides:

    | asked for | decided | by |
    |---|---|---|
    | `mixed_precision` | `gather_dtype`, `reduce_dtype` | `fsdp-mixed-precision` |
    | `recompute` | `recomputed` | `fsdp-recompute`, `fsdp-choose-recompute` |
    | `offload_optimizer` | `optimizer_state` | `fsdp-offload-optimizer`, `fsdp-choose-recompute` |
    | `offload_activations` | `activations` | `fsdp-offload-activations`, `fsdp-choose-recompute` |
    | `reshard_after_forward auto` | `to` so many ranks | `fsdp-optimize-schedule` |

    `decisions` has the reason of each decision that is not simply what was asked for.

    `gather_dtype` is the dtype in which the parameters are gathered, and `reduce_dtype` the one in
    which their gradients are reduced, where they are not the parameters' own. What is updated, saved
    and loaded stays in the parameters' dtype.

    `gradient_divide_factor` is the number by which summed gradients are divided, where that is not
    the number of all ranks, and `force_sum_reduction` divides them beside the collectives, which only add
    (FSDP2's `set_gradient_divide_factor` and `set_force_sum_reduction_for_comms`).

    `all_gather_extension` has parameters travel as bytes that a pair of transforms makes and reads
    (FSDP2's `fsdp_pre_all_gather` and `fsdp_post_all_gather`), in the per_param layout.

    `all_reduce_hook` names the operator of torch, `fsdp_extension::<name>_hook`, to which each reduced
    gradient is handed (FSDP2's `set_all_reduce_hook`).

    `places`, written by memory planning, are the places in the arena of what the group keeps between
    steps: this rank's shard of the parameters, each state of the optimizer, and, if the shard is
    gathered in another dtype, its copy in that.

    `recompute` is what the backward of the group's modules is to compute again, where that differs
    from the rest, and `recomputed` what it does.

    In a step of several microbatches `gradient_sync` says after which of them gradients are reduced,
    and `reshard_after_backward false` that parameters stay gathered between them (FSDP2's
    `set_requires_gradient_sync`, `set_requires_all_reduce` and `set_reshard_after_backward`).

    `forward_prefetch` and `backward_prefetch` are groups whose gathers start, in this order, when
    the forward or the backward of this group's modules begins (`set_modules_to_forward_prefetch`,
    `set_modules_to_backward_prefetch`).

    `offload_optimizer` says where the user wants the states of the optimizer. `optimizer_state host`
    keeps them in the memory of the host: they are fetched before the group's update and stored behind
    it. Their `places` are then in the host's arena.

    `offload_activations` says where the user wants what the forward keeps for the backward of the
    group's modules. `activations host` keeps it in the memory of the host.

    `offload_policy cpu` keeps the parameters in the memory of the host (FSDP2's `CPUOffloadPolicy`):
    a gather copies this rank's shard from there to its place among the gathered bytes, and the update
    fetches and stores it as it does the states. The states lie there, too, unless `offload_optimizer`
    says otherwise.

    ```mlir
    fsdp.group @layers.0 [@layers.0.wq.weight, @layers.0.wo.weight] of ["layers.0"]
        over @mesh "dp" flat reshard_after_forward true
    fsdp.group @layers.1 [@layers.1.wq.weight, @layers.1.wo.weight] of ["layers.1"]
        over @mesh "shard" replicated "replicate" flat reshard_after_forward true
        mixed_precision <param_dtype = bf16> gather_dtype bf16 reduce_dtype bf16
    fsdp.group @layers.2 [@layers.2.wq.weight, @layers.2.wo.weight] of ["layers.2"]
        over @mesh "dp" per_param shard_dims [0, 1] reshard_after_forward true
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       TypedArrayAttrBase<FlatSymbolRefAttr, "parameters">:$params,
                       StrArrayAttr:$modules,
                       UnitAttr:$part_of_root,
                       FlatSymbolRefAttr:$mesh,
                       StrAttr:$axis,
                       OptionalAttr<StrAttr>:$replicate_axis,
                       EnumProp<Fsdp_Layout>:$layout,
                       OptionalAttr<DenseI64ArrayAttr>:$shard_dims,
                       EnumProp<Fsdp_Reshard>:$reshard_after_forward,
                       OptionalAttr<I64Attr>:$reshard_ranks,
                       OptionalAttr<Fsdp_MixedPrecisionAttr>:$mixed_precision,
                       OptionalAttr<TypeAttrOf<AnyFloat>>:$gather_dtype,
                       OptionalAttr<TypeAttrOf<AnyFloat>>:$reduce_dtype,
                       OptionalAttr<F64Attr>:$gradient_divide_factor,
                       UnitAttr:$force_sum_reduction,
                       OptionalAttr<Fsdp_AllGatherExtensionAttr>:$all_gather_extension,
                       OptionalAttr<StrAttr>:$all_reduce_hook,
                       OptionalAttr<Fsdp_RecomputePolicyAttr>:$recompute,
                       OptionalAttr<Fsdp_RecomputePolicyAttr>:$recomputed,
                       OptionalAttr<Fsdp_GradientSyncAttr>:$gradient_sync,
                       OptionalAttr<BoolAttr>:$reshard_after_backward,
                       OptionalAttr<TypedArrayAttrBase<FlatSymbolRefAttr, "groups">>:$forward_prefetch,
                       OptionalAttr<TypedArrayAttrBase<FlatSymbolRefAttr, "groups">>:$backward_prefetch,
                       UnitAttr:$offload_to_cpu,
                       OptionalAttr<BoolAttr>:$offload_optimizer,
                       OptionalAttr<Fsdp_StatePlaceAttr>:$optimizer_state,
                       OptionalAttr<BoolAttr>:$offload_activations,
                       OptionalAttr<Fsdp_StatePlaceAttr>:$activations,
                       OptionalAttr<TypedArrayAttrBase<Fsdp_DecisionAttr, "decisions">>:$decisions,
                       OptionalAttr<Fsdp_PlacesAttr>:$places);
  let assemblyFormat = [{
    $sym_name $params `of` $modules (`part_of_root` $part_of_root^)? `over` $mesh $axis (`replicated` $replicate_axis^)? $layout
    (`shard_dims` $shard_dims^)?
    `reshard_after_forward` $reshard_after_forward (`to` custom<PlainInteger>($reshard_ranks)^)?
    (`mixed_precision` $mixed_precision^)?
    (`gather_dtype` $gather_dtype^)? (`reduce_dtype` $reduce_dtype^)?
    (`gradient_divide_factor` custom<PlainFloat>($gradient_divide_factor)^)?
    (`force_sum_reduction` $force_sum_reduction^)?
    (`all_gather_extension` `` $all_gather_extension^)? (`all_reduce_hook` $all_reduce_hook^)?
    (`recompute` `` $recompute^)? (`recomputed` `` $recomputed^)? (`gradient_sync` `` $gradient_sync^)?
    (`reshard_after_backward` $reshard_after_backward^)?
    (`forward_prefetch` $forward_prefetch^)? (`backward_prefetch` $backward_prefetch^)?
    (`offload_policy` `cpu` $offload_to_cpu^)?
    (`offload_optimizer` $offload_optimizer^)? (`optimizer_state` `` $optimizer_state^)?
    (`offload_activations` $offload_activations^)? (`activations` `` $activations^)?
    (`decisions` $decisions^)? (`at` `` $places^)? attr-dict
  }];
  let extraClassDeclaration = [{
    /// True if the group serves the root module.
    bool isRoot();

    /// True if the group is one of FSDP2's blocks: neither the root group nor a part of it.
    bool isBlock() { return !isRoot() && !getPartOfRoot(); }

    /// True if the optimizer's state lies in the memory of the host between steps.
    bool isStateOnHost() { return getOptimizerState() == ::fsdp::StatePlace::Host; }

    /// True if what the forward keeps for the group's backward waits there.
    bool areActivationsOnHost() { return getActivations() == ::fsdp::StatePlace::Host; }

    /// True if the parameters' shard lies there between steps, and with it the copy that is gathered.
    bool areParametersOnHost() { return getOffloadToCpu(); }

    /// True if the update fetches and stores what lies there.
    bool isUpdatedFromHost() { return isStateOnHost() || areParametersOnHost(); }

    /// The dimension on which a parameter, by its index, is cut.
    int64_t getShardDim(unsigned param) {
      return getShardDims() ? (*getShardDims())[param] : 0;
    }

    /// Why a pass has decided so; null: as the user asked for, or as a default says.
    ::mlir::StringAttr getReason(::fsdp::Subject subject);

    /// Records why, in place of an earlier reason.
    void setReason(::fsdp::Subject subject, const ::llvm::Twine &reason);

    /// The name that people and FSDP2 know it by: "root", or the modules' paths.
    std::string getModuleName();
  }];
}

def Fsdp_MixedPrecisionOp : Fsdp_Op<"mixed_precision"> {
  let summary = "Declare the policy with which modules of one group were exported";
  let description = [{
    The casts that FSDP2 makes for its MixedPrecisionPolicy, of parameters, arguments of `modules` and
    their results, are operators of the step already (`fsdpc.export(..., mixed_precision=...)`). The
    group of these modules ("" is the root) is gathered in `param_dtype`, and its gradients are
    reduced in `reduce_dtype`, unless the user says otherwise.

    ```mlir
    fsdp.mixed_precision ["layers.0"] param_dtype bf16 reduce_dtype f32
    fsdp.mixed_precision ["norm"]
    ```
  }];
  let arguments = (ins StrArrayAttr:$modules,
                       OptionalAttr<TypeAttrOf<AnyFloat>>:$param_dtype,
                       OptionalAttr<TypeAttrOf<AnyFloat>>:$reduce_dtype);
  let assemblyFormat = [{
    $modules (`param_dtype` $param_dtype^)? (`reduce_dtype` $reduce_dtype^)? attr-dict
  }];
}

def Fsdp_RecomputeRegionOp : Fsdp_Op<"recompute_region"> {
  let summary = "Declare a module whose forward the backward computes again";
  let description = [{
    Activation checkpointing of one module (torch.utils.checkpoint), whatever group its parameters
    belong to: `fsdp-recompute` keeps what enters the module, and for `selected` also the results of
    the operators `keep` (none: of products, convolutions and attention). Of regions inside each
    other the innermost says what is kept.

    ```mlir
    fsdp.recompute_region "layers.0.mlp" full
    fsdp.recompute_region "layers.1.attn" selected keep ["mm", "bmm"]
    ```
  }];
  let arguments = (ins StrAttr:$module, Fsdp_RecomputePolicyAttr:$policy,
                       OptionalAttr<StrArrayAttr>:$keep);
  let assemblyFormat = "$module `` $policy (`keep` $keep^)? attr-dict";
  let hasVerifier = 1;
}
