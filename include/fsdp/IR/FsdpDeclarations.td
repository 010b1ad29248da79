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
  let extraClassDeclaration = [{
    /// The name, then the aliases.
    ::llvm::SmallVector<::llvm::StringRef> getNames();
  }];
}

def Fsdp_BufferOp : Fsdp_Op<"buffer", [Symbol]> {
  let summary = "Declare a buffer of the model: state other than parameters, whole on every rank";
  let description = [{
    `aliases` are its other qualified names in the model's state_dict, which files of weights and
    checkpoints have, too. A buffer with `init` is *transient*: it is not in the model's state_dict (`persistent=False`).
    Weights files do not contain it, a run begins with `init`, and checkpoints store it under a name
    that the state_dict does not have.

    `offset`, written by memory planning, is the buffer's offset in the arena (bytes).

    ```mlir
    fsdp.buffer @bn.running_mean : tensor<8xf32> aliases ["head.bn.running_mean"]
    fsdp.buffer @calls : tensor<i64> init dense<0> : tensor<i64>
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       TypeAttrOf<AnyStaticShapeTensor>:$type,
                       OptionalAttr<StrArrayAttr>:$aliases,
                       OptionalAttr<ElementsAttr>:$init,
                       OptionalAttr<I64Attr>:$offset);
  let assemblyFormat = [{
    $sym_name `:` $type (`aliases` $aliases^)? (`init` $init^)?
    (`at` custom<PlainInteger>($offset)^)? attr-dict
  }];
  let hasVerifier = 1;
}

def Fsdp_OptimizerOp : Fsdp_Op<"optimizer"> {
  let summary = "Declare the optimizer and its hyper-parameters, named as in torch.optim";
  let description = [{
    `lr` is the default learning rate; each step receives its own as an input. An optimizer has the
    options that torch's has, listed in `fsdp/Plan/Optimizers.h`, all of which are stated, but for
    flags that are false and for a `dampening`, `lr_decay`, `initial_accumulator_value`, `ema_decay`
    or `clip_grad_value` of 0.
    adamw is torch's Adam with `decoupled_weight_decay`. Parameters of an `fsdp.optimizer_group` have
    options of their own.

    With `clip_grad_norm` updates take clipped gradients: multiplied by
    min(1, clip_grad_norm / (norm + 1e-6)), where norm is that of the averaged gradients of all
    parameters: the 2-norm, unless `clip_norm_type` is 1 or inf (torch.nn.utils.clip_grad_norm_).

    With `clip_grad_value` updates take the averaged gradients with each element clamped to
    [-clip_grad_value, clip_grad_value] in the parameter's dtype; a NaN stays a NaN
    (torch.nn.utils.clip_grad_value_). An optimizer does not have both kinds of clipping.

    With `ema_decay` the state `ema` is an exponential moving average of the parameters: a copy of
    them after the first update, and after each other update ema += (1 - ema_decay) * (p - ema)
    (torch.optim.swa_utils.AveragedModel with get_ema_multi_avg_fn).

    With `loss_scale` the backward begins with the loss times `fsdp.loss_scale`, and updates take the
    gradients divided by it (torch.amp.GradScaler). The scale is `loss_scale` in the first step. A
    step whose gradients have an Inf or NaN updates nothing, and multiplies the scale by
    `backoff_factor`; `growth_interval` steps without one in a row multiply it by `growth_factor`.

    `state_dtype` has the dtypes, f32 or bf16, of states whose dtype differs from their parameter's.
    An update then widens states and parameters to fp32, computes in fp32, and rounds each result
    once when it is stored.

    ```mlir
    fsdp.optimizer adamw lr = 1.0e-3 weight_decay = 1.0e-2 betas = [0.9, 0.999] eps = 1.0e-8
    fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.9 clip_grad_norm = 1.0 clip_norm_type = inf
    fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.9 nesterov maximize
    fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.9 clip_grad_value = 0.5
    fsdp.optimizer rmsprop lr = 0.01 weight_decay = 0.0 momentum = 0.0 alpha = 0.99 eps = 1.0e-8 centered
    fsdp.optimizer adagrad lr = 0.01 weight_decay = 0.0 eps = 1.0e-10 initial_accumulator_value = 0.1
    fsdp.optimizer nadam lr = 2.0e-3 weight_decay = 0.0 betas = [0.9, 0.999] eps = 1.0e-8 momentum_decay = 4.0e-3
    fsdp.optimizer adadelta lr = 1.0 weight_decay = 0.0 rho = 0.9 eps = 1.0e-6
    fsdp.optimizer adam lr = 1.0e-3 weight_decay = 0.0 betas = [0.9, 0.999] eps = 1.0e-8 ema_decay = 0.999
    fsdp.optimizer adam lr = 1.0e-3 weight_decay = 0.0 betas = [0.9, 0.999] eps = 1.0e-8 state_dtype = {exp_avg = bf16}
    fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.9
        loss_scale = 65536.0 growth_factor = 2.0 backoff_factor = 0.5 growth_interval = 2000
    ```
  }];
  let arguments = (ins EnumProp<Fsdp_OptimizerKind>:$kind,
                       F64Attr:$lr,
                       F64Attr:$weight_decay,
                       OptionalAttr<F64Attr>:$momentum,
                       OptionalAttr<F64Attr>:$dampening,
                       OptionalAttr<DenseF64ArrayAttr>:$betas,
                       OptionalAttr<F64Attr>:$alpha,
                       OptionalAttr<F64Attr>:$rho,
                       OptionalAttr<F64Attr>:$eps,
                       OptionalAttr<F64Attr>:$momentum_decay,
                       OptionalAttr<F64Attr>:$lr_decay,
                       OptionalAttr<F64Attr>:$initial_accumulator_value,
                       OptionalAttr<F64Attr>:$ema_decay,
                       OptionalAttr<F64Attr>:$clip_grad_value,
                       UnitAttr:$nesterov,
                       UnitAttr:$amsgrad,
                       UnitAttr:$centered,
                       UnitAttr:$decoupled_weight_decay,
                       UnitAttr:$maximize,
                       OptionalAttr<F64Attr>:$clip_grad_norm,
                       DefaultValuedProp<EnumProp<Fsdp_NormType>, "::fsdp::NormType::Two">:$clip_norm_type,
                       OptionalAttr<F64Attr>:$loss_scale,
                       OptionalAttr<F64Attr>:$growth_factor,
                       OptionalAttr<F64Attr>:$backoff_factor,
                       OptionalAttr<I64Attr>:$growth_interval,
                       OptionalAttr<DictionaryAttr>:$state_dtype);
  let assemblyFormat = [{
    $kind `lr` `=` custom<PlainFloat>($lr) `weight_decay` `=` custom<PlainFloat>($weight_decay)
    (`momentum` `=` custom<PlainFloat>($momentum)^)? (`dampening` `=` custom<PlainFloat>($dampening)^)?
    (`betas` `=` $betas^)? (`alpha` `=` custom<PlainFloat>($alpha)^)? (`rho` `=` custom<PlainFloat>($rho)^)?
    (`eps` `=` custom<PlainFloat>($eps)^)? (`momentum_decay` `=` custom<PlainFloat>($momentum_decay)^)?
    (`lr_decay` `=` custom<PlainFloat>($lr_decay)^)?
    (`initial_accumulator_value` `=` custom<PlainFloat>($initial_accumulator_value)^)?
    (`ema_decay` `=` custom<PlainFloat>($ema_decay)^)?
    (`clip_grad_value` `=` custom<PlainFloat>($clip_grad_value)^)?
    (`nesterov` $nesterov^)? (`amsgrad` $amsgrad^)? (`centered` $centered^)?
    (`decoupled_weight_decay` $decoupled_weight_decay^)? (`maximize` $maximize^)?
    (`clip_grad_norm` `=` custom<PlainFloat>($clip_grad_norm)^)?
    (`clip_norm_type` `=` custom<NormType>($clip_norm_type)^)?
    (`loss_scale` `=` custom<PlainFloat>($loss_scale)^)?
    (`growth_factor` `=` custom<PlainFloat>($growth_factor)^)?
    (`backoff_factor` `=` custom<PlainFloat>($backoff_factor)^)?
    (`growth_interval` `=` custom<PlainInteger>($growth_interval)^)?
    (`state_dtype` `=` $state_dtype^)? attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The step takes the norm of all gradients before its updates: to clip them, or to see whether
    /// they have an Inf or NaN.
    bool needsNorm() { return getClipGradNormAttr() || getLossScaleAttr(); }
  }];
}

def Fsdp_OptimizerGroupOp : Fsdp_Op<"optimizer_group", [Fsdp_SymbolUser]> {
  let summary = "Declare parameters that the optimizer updates with options of their own";
  let description = [{
    One of torch.optim's parameter groups: options that it leaves out are the optimizer's. A
    parameter belongs to at most one group.

    ```mlir
    fsdp.optimizer_group [@layers.0.norm.weight, @layers.0.wq.bias] weight_decay = 0.0
    fsdp.optimizer_group [@wte.weight] lr = 1.0e-4 betas = [0.9, 0.95]
    ```
  }];
  let arguments = (ins TypedArrayAttrBase<FlatSymbolRefAttr, "parameters">:$params,
                       OptionalAttr<F64Attr>:$lr,
                       OptionalAttr<F64Attr>:$weight_decay,
                       OptionalAttr<DenseF64ArrayAttr>:$betas,
                       OptionalAttr<F64Attr>:$alpha,
                       OptionalAttr<F64Attr>:$rho,
                       OptionalAttr<F64Attr>:$eps,
                       OptionalAttr<F64Attr>:$momentum_decay,
                       OptionalAttr<F64Attr>:$lr_decay);
  let assemblyFormat = [{
    $params (`lr` `=` custom<PlainFloat>($lr)^)? (`weight_decay` `=` custom<PlainFloat>($weight_decay)^)?
    (`betas` `=` $betas^)? (`alpha` `=` custom<PlainFloat>($alpha)^)? (`rho` `=` custom<PlainFloat>($rho)^)?
    (`eps` `=` custom<PlainFloat>($eps)^)? (`momentum_decay` `=` custom<PlainFloat>($momentum_decay)^)?
    (`lr_decay` `=` custom<PlainFloat>($lr_decay)^)? attr-dict
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// How the model is sharded
//===----------------------------------------------------------------------===//

def Fsdp_MeshOp : Fsdp_Op<"mesh", [Symbol]> {
  let summary = "Declare the device mesh: the names and sizes of its axes";
  let description = [{
    Ranks are numbered in row-major order: the last axis varies fastest. A module may have several
    meshes with equal numbers of ranks; each group names its mesh. The first mesh is the model's.

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
    `modules` are the modules whose forward the group serves ("" is the root): those of one
    `fully_shard` call of FSDP2. The order of the groups in the module is FSDP2's order of calls;
    the root group is last. The order of `params`, frozen parameters last, determines each
    parameter's position in the group.

    `part_of` names a module of another group ("" is the root), in which these parameters are in
    FSDP2. They form a separate group because the step uses them at another time than that group's
    other parameters (`split_root`), or because that group has so many (`split_blocks`); `modules`
    contain them. What the backward recomputes, and which activations wait on the host, is decided
    for a block with its parts: by the group of the block's module.

    Parameters are sharded over one axis of the group's mesh. In a mesh of two axes the shards are
    `replicated` along the first (FSDP2's HSDP).

    `reshard_after_forward true to 2` (FSDP2: `reshard_after_forward=2`) keeps a half of the
    gathered parameters from forward to backward: every 2 neighbours on the axis hold them together
    (`fsdp.chunk`). `auto to 8` is the decision of a schedule.

    In the per_param layout each parameter is sharded on one dimension: `shard_dims`, in the order
    of `params` (FSDP2's `shard_placement_fn`; absent: dimension 0 for all). The size of a dimension
    other than 0 is divisible by the ranks of the axis.

    Some attributes are requests of the user, which no pass changes; others are decisions of passes:

    | request | decision | by |
    |---|---|---|
    | `mixed_precision`, `float8_cast` | `gather_dtype`, `reduce_dtype` | `fsdp-mixed-precision` |
    | `recompute` | `recomputed` | `fsdp-recompute`, `fsdp-choose-recompute` |
    | `offload_optimizer` | `optimizer_state` | `fsdp-offload-optimizer`, `fsdp-choose-recompute` |
    | `offload_activations` | `activations` | `fsdp-offload-activations`, `fsdp-choose-recompute` |
    | `reshard_after_forward auto` | `to` a number of ranks | `fsdp-optimize-schedule` |

    `decisions` has the reason of each decision that differs from the request.

    `gather_dtype` is the dtype of gathered parameters, and `reduce_dtype` that of reduced
    gradients, if they differ from the parameters' dtype. Parameters are updated, saved and loaded
    in their own dtype.

    With `float8_cast` the parameters are gathered in that cast's 8-bit float: each rank casts its
    shard by the scale of the whole parameter (`fsdp.encode`).

    `gradient_divide_factor` is the divisor of summed gradients, if it is not the number of all
    ranks. With `force_sum_reduction` collectives only add, and the division is separate (FSDP2's
    `set_gradient_divide_factor` and `set_force_sum_reduction_for_comms`).

    With `all_gather_extension` a pair of transforms encodes parameters as bytes before a gather and
    decodes them afterwards (FSDP2's `fsdp_pre_all_gather` and `fsdp_post_all_gather`), in the
    per_param layout.

    `all_reduce_hook` names the torch operator, `fsdp_extension::<name>_hook`, that is called on
    each reduced gradient (FSDP2's `set_all_reduce_hook`).

    `places`, written by memory planning, are the offsets of what the group keeps between steps:
    this rank's shard of the parameters, each optimizer state, and, if the shard is gathered in
    another dtype, its copy in that dtype.

    `recompute` is the user's request for what the backward of the group's modules recomputes, if it
    differs from the rest of the step; `recomputed` is the decision.

    In a step of several microbatches `gradient_sync` says after which of them gradients are
    reduced. With `reshard_after_backward false` parameters stay gathered between microbatches
    (FSDP2's `set_requires_gradient_sync`, `set_requires_all_reduce` and
    `set_reshard_after_backward`).

    `forward_prefetch` and `backward_prefetch` are groups whose gathers start, in this order, when
    the forward or the backward of this group's modules begins (`set_modules_to_forward_prefetch`,
    `set_modules_to_backward_prefetch`).

    `offload_optimizer` is the user's request for the place of the optimizer state. With
    `optimizer_state host` it lies on the host: it is fetched before the group's update and stored
    after it. Its `places` are then in the host's arena.

    `offload_activations` is the user's request for the place of the activations that the forward
    keeps for the backward of the group's modules. With `activations host` they lie on the host.

    `offload_policy cpu` keeps the parameters on the host (FSDP2's `CPUOffloadPolicy`): a gather
    copies this rank's shard from the host to its part of the gathered bytes, and the update fetches
    and stores the shard as it does the states. The states lie on the host as well, unless
    `offload_optimizer` says otherwise.

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
                       OptionalAttr<StrAttr>:$part_of,
                       FlatSymbolRefAttr:$mesh,
                       StrAttr:$axis,
                       OptionalAttr<StrAttr>:$replicate_axis,
                       EnumProp<Fsdp_Layout>:$layout,
                       OptionalAttr<DenseI64ArrayAttr>:$shard_dims,
                       EnumProp<Fsdp_Reshard>:$reshard_after_forward,
                       OptionalAttr<I64Attr>:$reshard_ranks,
                       OptionalAttr<Fsdp_MixedPrecisionAttr>:$mixed_precision,
                       OptionalAttr<Fsdp_Float8CastAttr>:$float8_cast,
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
    $sym_name $params `of` $modules (`part_of` $part_of^)? `over` $mesh $axis (`replicated` $replicate_axis^)? $layout
    (`shard_dims` $shard_dims^)?
    `reshard_after_forward` $reshard_after_forward (`to` custom<PlainInteger>($reshard_ranks)^)?
    (`mixed_precision` $mixed_precision^)?
    (`float8_cast` `` $float8_cast^)?
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

    /// True if the group is one of FSDP2's blocks: neither the root group nor a part of another.
    bool isBlock() { return !isRoot() && !getPartOf(); }
    bool isPartOfRoot() { return getPartOf() == ""; }
    bool isPartOfBlock() { return getPartOf() && !isPartOfRoot(); }

    /// True if the optimizer state lies on the host between steps.
    bool isStateOnHost() { return getOptimizerState() == ::fsdp::StatePlace::Host; }

    /// True if activations that the forward keeps for the group's backward lie on the host.
    bool areActivationsOnHost() { return getActivations() == ::fsdp::StatePlace::Host; }

    /// True if the parameters' shard lies on the host between steps, and with it its gathered copy.
    bool areParametersOnHost() { return getOffloadToCpu(); }

    /// True if parameters are cast to an 8-bit float before their gathers.
    bool isGatheredAsFloat8() { return getFloat8Cast() && getGatherDtype(); }

    /// True if the shard is encoded before its gathers.
    bool isEncoded() { return getAllGatherExtension() || isGatheredAsFloat8(); }

    /// True if the update fetches and stores optimizer state or parameters.
    bool isUpdatedFromHost() { return isStateOnHost() || areParametersOnHost(); }

    /// The dimension on which a parameter, by its index, is sharded.
    int64_t getShardDim(unsigned param) {
      return getShardDims() ? (*getShardDims())[param] : 0;
    }

    /// The reason of a pass's decision; null if the user's request or the default holds.
    ::mlir::StringAttr getReason(::fsdp::Subject subject);

    /// Records the reason of a decision, in place of an earlier one.
    void setReason(::fsdp::Subject subject, const ::llvm::Twine &reason);

    /// The group's name in messages and in FSDP2: "root", or the modules' paths.
    std::string getModuleName();
  }];
}

def Fsdp_MixedPrecisionOp : Fsdp_Op<"mixed_precision"> {
  let summary = "Declare the mixed-precision policy with which modules of one group were exported";
  let description = [{
    The casts that FSDP2's MixedPrecisionPolicy makes, of parameters, arguments of `modules` and
    their results, are already operators of the step (`fsdpc.export(..., mixed_precision=...)`). The
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
  let summary = "Declare a module whose forward the backward recomputes";
  let description = [{
    Activation checkpointing of one module (torch.utils.checkpoint), whatever group its parameters
    belong to: `fsdp-recompute` keeps the module's inputs, and for `selected` also the results of
    the operators `keep` (absent: of products, convolutions and attention). Of nested regions the
    innermost decides.

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
