//===- ShardingPasses.td - From captured to sharded --------*- tablegen -*-===//
//
// Part of Passes.td.
//
//===----------------------------------------------------------------------===//

def GroupParameters : Fsdp_Pass<"fsdp-group-parameters"> {
  let summary = "Declare the mesh and the groups of parameters that are gathered together";
  let description = [{
    Input: a captured module without mesh and groups. Output: the same module with one `fsdp.mesh`, one
    more for each other mesh that a group names, and one `fsdp.group` per call of `fully_shard` that an
    FSDP2 user would make, in the order of the calls. The root group is last and takes the remaining
    parameters. A parameter belongs to the first call whose modules hold it.

    The groups come from a YAML file in FSDP2's terms:

    ```yaml
    mesh: {dp: 4}                         # or {replicate: 2, shard: 4}
    layout: per-param                     # or flat, the default
    prefetch: fsdp2                       # or none
    reshard_after_forward: none           # for groups without their own: true, false, none, auto or a number
    groups:
      - modules: ["layers.*"]             # one group per matching module
        reshard_after_forward: true
        backward_prefetch: 2              # or a list of modules; forward_prefetch likewise
        mesh: {replicate: 2, shard: 2}    # of this group: another one of as many ranks
      - together: ["norm", "lm_head"]     # one group of several modules
    root: {reshard_after_forward: none}
    split_root: false                     # the default, except with a searched schedule
    optimizer: {name: adamw, lr: 1.0e-3}  # replaces the captured one
    mixed_precision: {param_dtype: bfloat16, reduce_dtype: float32}  # see fsdp-mixed-precision
    gradient_divide_factor: 8             # for groups without their own; default: all ranks
    force_sum_reduction_for_comms: true   # likewise; default: false
    shard_placement: {"**.wo.weight": 1}  # likewise; a dimension, or largest; default: 0
    ```

    A mesh has one axis, over which parameters are sharded, or two, of which the first replicates and
    the second shards (FSDP2's HSDP), whatever their names. On two axes rank r is shard r mod S of
    replica r / S, for S ranks on the second axis. The same holds for a mesh that a group names for
    itself.

    With `split_root: true` the root's parameters before, between and after the other groups, in the
    model's order, form groups of their own, marked `part_of ""`. So an embedding at the beginning and
    a head at the end are gathered and reduced separately, each where it is used. Parameters of the root
    module itself, shared parameters, and parameters that are used outside of their module stay in one
    group.

    `split_blocks` does the same with a group of one module that has many parameters: the modules inside
    are divided, in the model's order, into as many parts of about equal size as have the given number of
    parameters each. The first part stays in the group, and the others are marked `part_of "layers.0"`.
    The backward recomputes the block as a whole.

    `mixed_precision: {gather_dtype: float8_e4m3fn}` selects the parameters that the step casts to float8
    by a scale of their largest absolute value, and uses for nothing else. Beside others they form a
    group of their own, `NAME.float8`, whose `float8_cast` is this cast. A parameter that is cast to
    float8, but also used otherwise, is refused by name.

    A `*` in a pattern stands for one component of a module's path. A pattern matches only modules that
    no earlier entry names. Without a file each repeated block (a module `X.0` with siblings `X.1`, ...,
    outermost) is a group. Options given on the command line override the file's `mesh`, `layout`,
    `prefetch` and top-level `reshard_after_forward` and `shard_placement`; the entry of a group
    overrides both.

    Why: groups are symbols of their own, so later passes read which parameters to gather together, and
    not how the user asked for it.
  }];
  let options = [
    Option<"config", "config", "std::string", "\"\"", "YAML file with mesh and groups">,
    Option<"mesh", "mesh", "std::string", "\"\"", "Device mesh as AXIS=RANKS, or replicate=R,shard=S; default dp=1">,
    Option<"reshardAfterForward", "reshard-after-forward", "std::string", "\"\"",
           "true, false, none (the root stays gathered, other groups are resharded), auto (the "
           "schedule decides) or a number of ranks that together keep one copy of the parameters, "
           "a factor of the axis">,
    Option<"reshardDefault", "reshard-default", "std::string", "\"none\"",
           "reshard-after-forward if neither the option nor the file gives it">,
    Option<"splitRoot", "split-root", "std::string", "\"\"",
           "true: the root's parameters before, between and after the other groups form groups of "
           "their own; false: one group">,
    Option<"splitBlocks", "split-blocks", "std::string", "\"\"",
           "a number: groups of one module with at least twice as many parameters become parts of "
           "at least so many; true: of 450,000,000; false: none is split">,
    Option<"splitDefault", "split-default", "bool", "false",
           "split-root and split-blocks if neither the option nor the file gives them">,
    Option<"layout", "layout", "std::string", "\"\"",
           "flat or per-param (FSDP2's); default flat">,
    Option<"prefetch", "prefetch", "std::string", "\"\"",
           "fsdp2 (its implicit backward prefetch) or none; default fsdp2">,
    Option<"paramDtype", "param-dtype", "std::string", "\"\"",
           "Dtype in which parameters are gathered: float32, bfloat16, float16; default the dtype "
           "in which they are used">,
    Option<"reduceDtype", "reduce-dtype", "std::string", "\"\"",
           "Dtype in which gradients are reduced: float32, bfloat16, float16; default "
           "param-dtype, else the parameters' dtype">,
    Option<"microbatches", "microbatches", "int64_t", "0",
           "Number of microbatches of a step, whose gradients are added up; 0: the file's, else 1">,
    Option<"microbatchLoss", "microbatch-loss", "std::string", "\"\"",
           "mean (the loss of each microbatch is divided by the number of microbatches) or sum; "
           "default mean">,
    Option<"microbatchOrder", "microbatch-order", "std::string", "\"\"",
           "sequential (one microbatch after another) or 1f1b (stages are interleaved); default "
           "sequential">,
    Option<"stages", "stages", "std::string", "\"\"",
           "For microbatch-order 1f1b: the first module of each stage, as names or patterns "
           "separated by commas">,
    Option<"gradientSync", "gradient-sync", "std::string", "\"\"",
           "Microbatches after which gradients are reduced: each, reduce_scatter (over the shards "
           "after each one, over the replicas after the last one) or last; default each">,
    Option<"reshardAfterBackward", "reshard-after-backward", "std::string", "\"\"",
           "false: parameters stay gathered between microbatches; default true">,
    Option<"shardPlacement", "shard-placement", "std::string", "\"\"",
           "Dimension on which the per-param layout shards parameters: a number, or largest: the "
           "largest dimension that the number of ranks divides; default 0">,
    Option<"offloadPolicy", "offload-policy", "std::string", "\"\"",
           "cpu: parameters and optimizer state are in host memory between their uses; default "
           "none">,
    Option<"transport", "transport", "::fsdp::Transport", "::fsdp::Transport::Kernels",
           "What moves the bytes of gathers", [{::llvm::cl::values(
             clEnumValN(::fsdp::Transport::Kernels, "kernels", "kernels"),
             clEnumValN(::fsdp::Transport::CopyEngine, "copy-engine",
                        "the devices' copy engines, between ranks of one host"),
             clEnumValN(::fsdp::Transport::Auto, "auto", "as the schedule decides"))}]>
  ];
}

def SumGradientsByModule : Fsdp_Pass<"fsdp-sum-gradients-by-module"> {
  let summary = "Add up gradients of values that modules share in FSDP2's order";
  let description = [{
    Input: a captured module with groups, whose sums of gradients name their terms in the attribute
    `aten.sum` (`include/fsdp/IR/GradientSum.h`). Output: the same module, with these sums in FSDP2's
    order and without the attributes.

    A value that several calls use gets a gradient from each, and autograd adds these gradients up in
    the order of the backward: ((g4 + g3) + g2) + g1. FSDP2 inserts an identity before each call of a
    group's module, for the inputs that need a gradient. So if a module uses its input twice, the two
    gradients from this module are added up before those of other modules: (g4 + g3) + (g2 + g1). An
    example is an encoder's output, which every decoder block reads. Modules may be nested. Values that
    are made inside a call, parameters, and the copies of parameters that mixed precision makes, are not
    inputs of it.

    Remarks (`--remarks-filter-analyse=fsdp-sum-gradients-by-module`): `Reordered`, the number of sums.

    Why: floating-point addition is not associative, and the step's results are to be FSDP2's bit for
    bit.
  }];
}

def MixedPrecision : Fsdp_Pass<"fsdp-mixed-precision"> {
  let summary = "Gather parameters in the dtype that the step computes in";
  let description = [{
    Input: a captured module with groups, whose `mixed_precision` has the user's request. Output: a
    captured module whose groups have the dtypes that are used in `gather_dtype` and `reduce_dtype`, and
    the reason in `decisions` where they differ from the request.

    A group of f32 parameters is gathered in bf16 or f16 if the only use of each parameter is a cast to
    that dtype: the casts are removed, and `fsdp.read` yields the parameter in that dtype. The values
    are the same, and half the bytes are gathered. A group without a `param_dtype` is narrowed if that
    is possible. If a group asks for a `param_dtype` in which it cannot be gathered, that is an error,
    which names the use. A group that asks for the parameters' own dtype is left alone. The modules of a
    group that asks for a `param_dtype` may not take values of another floating dtype from outside:
    FSDP2 would cast them.

    Gradients are reduced in `reduce_dtype`, or else in `param_dtype`. A gradient that is computed in
    that dtype loses the cast that follows it; any other gradient is cast to it. Remaining casts of
    gradients move up to directly follow the operator whose result they cast: autograd would run the
    casts that belong to parameters cast before the forward at the end of the backward. A parameter that
    a rank holds whole is not gathered: it is cast where the step uses it first.

    A group with a `float8_cast` is gathered in that cast's 8-bit float, if the step uses each of its
    parameters only for this cast and for the largest absolute value: `fsdp.read` yields the parameter as
    float8, and `fsdp.amax` the largest absolute value. Casting is elementwise, and the largest absolute
    value of the whole is the largest of the parts', so the values are the same. The scales remain in the
    step.

    Remarks: `GroupsNarrowed`, `CastsRemoved` (`--remarks-filter-analyse=fsdp-mixed-precision`); the
    decisions (`--remarks-filter-passed=fsdp-mixed-precision`), and why a group with casts of only some
    parameters is not narrowed (`--remarks-filter-missed=fsdp-mixed-precision`).

    Why: FSDP2's MixedPrecisionPolicy casts shards before they are gathered. Where a model casts its
    parameters itself, casting first and gathering then gives the same values.
  }];
}

def Recompute : Fsdp_Pass<"fsdp-recompute"> {
  let summary = "Compute results of the forward again in the backward instead of keeping them";
  let description = [{
    Input: a captured module, with groups where the policy goes by blocks. Output: a captured module in
    which the backward recomputes the results that `policy` selects. The same operator on the same
    operands, with the same `rng`, gives the same bits.

    `cheap`: a result of the forward that the backward uses is recomputed if its operator is cheap
    (`AtenSemantics.h`: one pass over its operands), and its operands are in memory anyway when the
    backward first needs it: parameters, buffers, inputs, and values that the backward uses at that time
    or later, whether recomputed themselves or not. So memory falls by the size of the result, from its
    last use in the forward to its first use in the backward.

    `full`: only the inputs of a block's forward are kept; all other values that its backward uses are
    computed again, each before its first use there. This is activation checkpointing of one block at a
    time. A block is the computation of one group's modules (inner groups are blocks of their own); the
    root group is not a block. `blocks` chooses among the blocks, and the rest of the step follows
    `cheap`.

    `selected`: as `full`, but the results of the operators `keep` are kept: by default matrix
    products, convolutions and fused attention, which cost the most, and the model's own collectives
    (selective activation checkpointing).

    A `fsdp.recompute_region`, a module inside those of one group, is a block of its own, whatever the
    policy.

    `none`: nothing is recomputed. A group with an attribute `recompute` follows that policy; `auto`,
    which leaves the policy to a search, means `cheap` in this pass. The module's attribute
    `fsdp.recompute` records the policy of the other groups, and each group's `recomputed` the policy
    that it follows.

    A result is recomputed only if all its uses in the backward, by repeated operators too, belong to
    the block that made it, so that no group's backward begins earlier or ends later than before. A
    result that another block's backward reads is therefore kept. New values of buffers are those of the
    forward: a repeated batch normalisation updates nothing. Repeated operators read parameters that are
    gathered for the backward.

    Remarks (`--remarks-filter-analyse=fsdp-recompute`): `Recomputed` (operators), `BytesNotKept`.

    Why: eager training keeps the values that autograd saved, although an elementwise product or a
    normalised activation costs less than a hundredth of the matrix product that reads it. Where memory
    is short, a second forward of a block costs a third of its step and saves nearly all of its
    activations.
  }];
  let options = [
    Option<"policy", "policy", "::fsdp::RecomputePolicy", "::fsdp::RecomputePolicy::Cheap",
           "What the backward recomputes",
           [{::llvm::cl::values(
             clEnumValN(::fsdp::RecomputePolicy::None, "none", "nothing"),
             clEnumValN(::fsdp::RecomputePolicy::Cheap, "cheap",
                        "results that cost about as much to compute as to read"),
             clEnumValN(::fsdp::RecomputePolicy::Selected, "selected",
                        "of blocks, all but the operators `keep`"),
             clEnumValN(::fsdp::RecomputePolicy::Full, "full",
                        "of blocks, all but their inputs"))}]>,
    ListOption<"blockPatterns", "blocks", "std::string",
               "Modules of groups that are blocks, as layers.*; default all">,
    ListOption<"keep", "keep", "std::string",
               "Operators whose results policy=selected keeps, as mm; default products and "
               "attention">,
    Option<"cheapFirst", "cheap-first", "bool", "false",
           "Before whole blocks are repeated, give cheap results a copy of their own where the "
           "backward uses them, so that the live ranges of the block's repeated results end early">,
    Option<"minBytes", "min-bytes", "int64_t", "16384",
           "Keep results of fewer bytes: their memory is not worth a call">
  ];
}

def ChooseRecompute : Fsdp_Pass<"fsdp-choose-recompute"> {
  let summary = "Choose what to recompute by predicted time and memory";
  let description = [{
    Input: a captured module with groups. Output: the module after `fsdp-recompute`, with a policy for
    each block. The policies are those whose schedule, found as `fsdp-optimize-schedule` finds it with
    the same options, is predicted to be the fastest that fits `memory-cap`.

    Without a cap, on a device whose memory is known, `none` is taken if its step time is at least 0.5 %
    less than that of `cheap`, and if its arena fits the device; else `cheap`. The memory of the driver
    and libraries is subtracted from the device's, and also a 32nd of it where no profile has measured
    what operators allocate beside the arena. Both step times are estimated, by a lower bound and by the
    schedule that starts each operation as soon as possible. Schedules are searched for only where these
    estimates do not decide. The root follows `none` if all blocks do.

    Under a cap all blocks begin with `none`, and become `cheap` one by one. Then recomputation grows by
    steps. A step takes one block from its policy to the next one on the lower convex hull of time over
    bytes kept. Steps that take the least time for each byte saved come first, so that for any price of
    a byte at the peak, the best choice is a prefix of these steps. Blocks may therefore follow
    different policies.

    Bisection finds the fewest steps whose least peak fits; then earlier steps that are not needed to
    fit are undone. Where `cheap` in all blocks fits, it is taken unless the steps found are more than
    0.5 % faster. If the schedule does not fit because of holes in the arena, or takes over 5 % longer
    than its bound, it is tried without undoing steps, then with one, two and four more; if none of these
    fits, with half of the remaining steps, then with all of them.

    If the step then takes over 1 % longer than its computation, more steps may be worth their time: they
    free memory in which more parameters stay gathered, and their time may hide collectives. For a number
    of further steps, the linear program of the lower bound, with their time in the backwards and their
    bytes added to the cap, estimates the step. The number with the least estimate is scheduled, and
    taken if it is 1 % faster.

    Where nothing fits, the choice with the least peak is taken, so that the
    scheduler's error names that peak. On one rank, and without a cap on devices of unknown memory, this
    pass is `fsdp-recompute`.

    A group with an attribute `recompute` other than `auto` keeps that policy, and a `policy` other than
    `auto` holds for all groups without the attribute. Only the remaining groups count as blocks. With
    `offload=auto`, where nothing fits or the cap asks for recomputation, the choice is repeated with
    optimizer state on the host (`fsdp-offload-optimizer`), and this is taken if it alone fits or is
    more than 1 % faster. With `fusion=auto`, where nothing fits, the choice is repeated for the step
    without kernels.

    With `activations=auto` steps may also offload a block's activations to the host
    (`fsdp-offload-activations`). The first such blocks, spread over the model, are as many as have
    their copies hidden by the forward; they offload the activations that one policy keeps. Each of
    `cheap`, `selected` and `full` is tried for these blocks after no offloading, and a choice replaces
    an earlier one if it is more than 1 % faster.

    A remark names the choice if it is not `cheap`, and `decisions` of the groups concerned have the
    reason. Remarks for tools (`--remarks-filter-analyse=fsdp-choose-recompute`): `Policy` (`auto`:
    several), `RecomputedBlocks`, `OffloadedBlocks`, `Blocks`, under a cap `PredictedNs`.

    Why: recomputation of a block saves the memory of its activations until its backward and costs the
    time of its forward, so as few blocks as possible should be recomputed. The memory that
    recomputation frees may serve to keep groups gathered.
  }];
  let options = searchOptions # fusionOptions # [
    Option<"policy", "policy", "::fsdp::RecomputePolicy", "::fsdp::RecomputePolicy::Auto",
           "What the backward recomputes in groups without a policy of their own",
           [{::llvm::cl::values(
             clEnumValN(::fsdp::RecomputePolicy::Auto, "auto", "the fastest choice that fits"),
             clEnumValN(::fsdp::RecomputePolicy::None, "none", "nothing"),
             clEnumValN(::fsdp::RecomputePolicy::Cheap, "cheap", "as in fsdp-recompute"),
             clEnumValN(::fsdp::RecomputePolicy::Selected, "selected", "likewise"),
             clEnumValN(::fsdp::RecomputePolicy::Full, "full", "likewise"))}]>
  ] # [offloadActivationsOption] # offloadOptions;
}

def AccumulateGradients : Fsdp_Pass<"fsdp-accumulate-gradients"> {
  let summary = "Make a step of several microbatches and add up their gradients";
  let description = [{
    Input: a captured module, whose attribute `fsdp.accumulation` has the number of microbatches of a
    step; without the attribute nothing changes. Output: a captured module that runs forward and
    backward once for each microbatch, one after another, each on its own inputs, and updates once. A
    parameter's gradient is the sum of the microbatches' gradients, in their order.

    With `loss = mean` the loss of each microbatch is divided by the number of microbatches before its
    backward, and the step returns the sum of these losses: the mean over all samples, as if they were
    one batch. `loss = sum` leaves the losses as they are. Each microbatch reads the buffers as the one
    before left them, and draws its own random numbers.

    With `stages` the microbatches are interleaved in 1F1B order, in which torch's
    `ScheduleInterleaved1F1B` runs several stages on one rank. A unit is the forward or the backward of
    one stage for one microbatch. Of n stages n - 1 forward units run first, then one forward and one
    backward alternately, then the remaining backwards. The forward of a stage begins with the first
    operation of the module that names it; the loss belongs to the last stage. The backward of an
    operation belongs to the stage of its module's forward. Losses, gradients, buffers and random
    numbers are those of the sequential order. An error, with both modules by name, is a stage whose
    forward is not contiguous, a group or a parameter in two stages, and a backward that needs a
    gradient of an earlier stage. Each parameter must belong to a group other than the root's.

    The groups' `gradient_sync` decides after which microbatches gradients are reduced
    (`fsdp-insert-collectives`).

    Remarks (`--remarks-filter-analyse=fsdp-accumulate-gradients`): `Microbatches`.

    Why: a batch may be too large for its activations to fit, and a step needs fewer reductions for each
    sample.

    ```mlir
    %x = fsdp.input "x" : tensor<4xf32>
    %y = aten.call "mul.Tensor"(%x, %w) fwd in "l" : ...
    fsdp.grad @l.w, %g : tensor<4xf32>
    // becomes, with fsdp.accumulation = #fsdp.accumulation<2, loss = sum>
    %x = fsdp.input "x" : tensor<4xf32>
    %y = aten.call "mul.Tensor"(%x, %w) fwd in "l" : ...
    fsdp.grad @l.w, %g : tensor<4xf32>
    %x_0 = fsdp.input "x" microbatch 1 : tensor<4xf32>
    %y_1 = aten.call "mul.Tensor"(%x_0, %w) fwd in "l" microbatch 1 : ...
    fsdp.grad @l.w, %g_2 microbatch 1 : tensor<4xf32>
    ```

    With `stages = ["a", "b"]` (`test/passes/interleave-microbatches.mlir`):

    ```mlir
    %a = aten.call "mul.Tensor"(%x, %a.w) fwd in "a" : ...
    %b = aten.call "mul.Tensor"(%a, %b.w) fwd in "b" : ...
    %g = aten.call "mul.Tensor"(%e, %b.w) bwd in "b" : ...
    %d = aten.call "mul.Tensor"(%g, %x) bwd in "a" : ...
    // becomes
    %a = aten.call "mul.Tensor"(%x, %a.w) fwd in "a" : ...
    %b = aten.call "mul.Tensor"(%a, %b.w) fwd in "b" : ...
    %g = aten.call "mul.Tensor"(%e, %b.w) bwd in "b" : ...
    %a_1 = aten.call "mul.Tensor"(%x_1, %a.w) fwd in "a" microbatch 1 : ...
    %d = aten.call "mul.Tensor"(%g, %x) bwd in "a" : ...
    %b_1 = aten.call "mul.Tensor"(%a_1, %b.w) fwd in "b" microbatch 1 : ...
    %g_1 = aten.call "mul.Tensor"(%e_1, %b.w) bwd in "b" microbatch 1 : ...
    %d_1 = aten.call "mul.Tensor"(%g_1, %x_1) bwd in "a" microbatch 1 : ...
    ```
  }];
}

def InsertCollectives : Fsdp_Pass<"fsdp-insert-collectives"> {
  let summary = "Gather, reshard and reduce each group where FSDP2's hooks would";
  let description = [{
    Input: a captured module with groups. Output: a sharded module.

    - A group is gathered before the first operation of its modules' forward. With
      `reshard_after_forward` it is resharded after the last operation of the forward and gathered again
      before the first operation of the backward (with `auto` as well: a schedule may undo it). The
      second gather reads the shards, or, if `reshard_after_forward` is a number of ranks, the chunks
      that this many neighbours keep (`fsdp.chunk`).
    - After the last operation of its modules' backward a group is resharded, its gradients are
      reduce-scattered (and all-reduced over replicas, if there are several), and its shards are
      updated. If no input of the modules needs a gradient, this happens at the end of the step instead,
      after the root group.
    - `fsdp.read` of a parameter becomes the result of the gather. Views of a parameter that were made
      before a reshard are made again from the next gather.

    An optimizer that clips (`clip_grad_norm`) updates at the end of the step, after the reductions of
    all groups and the norm of all gradients.

    Gathers from the shards take the transport in the module's attribute `fsdp.transport`, which is
    removed.

    Every start is directly followed by its wait, and all operations run on the compute stream: this is
    correct, but nothing overlaps. On a mesh of one rank there are no collectives: parameters are read,
    and the gradients of a group are packed in the place of its reduction. In the per-param layout,
    parameters at unaligned addresses are copied before their first use (`clone.default`): some kernels
    add up in another order there.

    A digest of the captured computation is written into the module (`fsdp.provenance`). The verifiers
    of later phases compare it.

    Why: this pass decides which collectives exist and how data flows through them; `fsdp-schedule`
    decides when they run.
  }];
}

def OffloadOptimizer : Fsdp_Pass<"fsdp-offload-optimizer"> {
  let summary = "Keep optimizer state in the memory of the host between updates";
  let description = [{
    Input: a sharded module. Output: the same module, in which groups with `offload_optimizer true` are
    marked `optimizer_state host`, and the state of marked groups is fetched before their update and
    stored after it. `offload=all` also marks the groups without `offload_optimizer`. Updates give the
    same bits.

    Each start is directly followed by its wait, so that nothing overlaps: this is correct and needs the
    least memory. A schedule (`fsdp-schedule`, `fsdp-optimize-schedule`) moves them apart: the state of
    a group is fetched while the previous group is updated, at the earliest, and stored while the next
    one is updated, so that at most two groups have their state in the arena.

    Remarks (`--remarks-filter-analyse=fsdp-offload-optimizer`): `OffloadedGroups`, `Groups`.

    Why: Adam keeps two values for each parameter, which a step needs only during the update. Where no
    recomputation makes a step fit, the link to the host is the last resort.
  }];
  let options = offloadOptions;
}

def OffloadActivations : Fsdp_Pass<"fsdp-offload-activations"> {
  let summary = "Keep activations in the memory of the host between forward and backward";
  let description = [{
    Input: a sharded module. Output: the same module, in which groups with `offload_activations true`
    are marked `activations host`, and the results of the forward that the backward of marked groups
    reads are stored on the host and fetched for the backward. `activations=all` also marks the blocks
    without `offload_activations`. A tensor belongs to the group whose backward is the first to read it.
    Views of a tensor that the backward reads are made again from the fetched tensor. The step gives the
    same bits.

    A store starts after the last operation of the forward that reads the tensor, and its wait is at the
    end of the next block's forward. A fetch starts when the backward of the preceding block begins
    (`fsdp-optimize-schedule` shortens either interval where computation hides the copy). A tensor whose
    backward is too near for both copies stays in the arena, as do tensors of fewer than `min-bytes`,
    tensors with gaps, and tensors that are read by anything but operators of the model.

    Remarks (`--remarks-filter-analyse=fsdp-offload-activations`): `OffloadedGroups`,
    `OffloadedActivations`, `OffloadedBytes`.

    Why: the link to the host is idle while a block computes. Copies that computation hides cost no
    time, whereas recomputation does.
  }];
  let options = [
    offloadActivationsOption,
    Option<"minBytes", "min-bytes", "int64_t", "::fsdp::kLeastOffloadedBytes", "Smaller tensors stay in the arena">
  ];
}
