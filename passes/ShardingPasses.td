//===- ShardingPasses.td - From captured to sharded --------*- tablegen -*-===//
//
// Part of Passes.td.
//
//===----------------------------------------------------------------------===//

def GroupParameters : Fsdp_Pass<"fsdp-group-parameters"> {
  let summary = "Declare the mesh and the groups of parameters that travel together";
  let description = [{
    Input: a captured module without mesh and groups. Output: the same with one `fsdp.mesh`, one more
    for each other mesh that a group names, and one `fsdp.group` per call that an FSDP2 user would
    make of `fully_shard`, in the order of the calls; the root group is last and takes what is left. A
    parameter belongs to the first call whose modules hold it.

    The groups come from a YAML file in FSDP2's words:

    ```yaml
    mesh: {dp: 4}                         # or {replicate: 2, shard: 4}
    layout: per-param                     # or flat, the default
    prefetch: fsdp2                       # or none
    reshard_after_forward: none           # of groups that do not say; true, false, none, auto or a number
    groups:
      - modules: ["layers.*"]             # one group per matching module
        reshard_after_forward: true
        backward_prefetch: 2              # or a list of modules; forward_prefetch likewise
        mesh: {replicate: 2, shard: 2}    # of this group: another one of as many ranks
      - together: ["norm", "lm_head"]     # one group of several modules
    root: {reshard_after_forward: none}
    split_root: false                     # the default, but where schedules are searched for
    optimizer: {name: adamw, lr: 1.0e-3}  # replaces what the capture says
    mixed_precision: {param_dtype: bfloat16, reduce_dtype: float32}  # see fsdp-mixed-precision
    gradient_divide_factor: 8             # of groups that do not say; default: all ranks
    force_sum_reduction_for_comms: true   # likewise; default: false
    shard_placement: {"**.wo.weight": 1}  # likewise; a dimension, or largest; default: 0
    ```

    A mesh has one axis, over which parameters are sharded, or two, of which the first replicates and
    the second shards (FSDP2's HSDP), whatever their names. Rank r is then shard r mod S of replica
    r / S, for S ranks on the second axis. So it is in each mesh that a group names for itself.

    With `split_root: true` what is left for the root before, between and behind the other groups, in
    the model's order, makes groups of their own, which say `part_of_root`: of an embedding at the
    beginning and a head at the end each is gathered and reduced when it is there. Parameters of the
    root module itself, shared ones, and those that are used outside of their module stay together.

    A `*` in a pattern stands for one component of a module's path. A pattern is about the modules
    that nothing before it names. Without a file each repeated block (a module `X.0` with siblings
    `X.1`, ..., outermost) is a group. The options given on the command line win over the file's
    `mesh`, `layout`, `prefetch` and top-level `reshard_after_forward` and `shard_placement`; what a
    group says itself wins over both.

    Why: groups are symbols of their own, so that everything after this pass reads what to gather
    together and never how the user said so.
  }];
  let options = [
    Option<"config", "config", "std::string", "\"\"", "YAML file with mesh and groups">,
    Option<"mesh", "mesh", "std::string", "\"\"", "Device mesh as AXIS=RANKS, or replicate=R,shard=S; default dp=1">,
    Option<"reshardAfterForward", "reshard-after-forward", "std::string", "\"\"",
           "true, false, none (the root is kept, others are resharded), auto (the schedule "
           "decides) or a number of ranks that together keep the parameters, a factor of the axis">,
    Option<"reshardDefault", "reshard-default", "std::string", "\"none\"",
           "reshard-after-forward where neither the option nor the file says it">,
    Option<"splitRoot", "split-root", "std::string", "\"\"",
           "true: what the root holds before, between and behind the other groups are groups of "
           "their own; false: one group">,
    Option<"splitRootDefault", "split-root-default", "bool", "false",
           "split-root where neither the option nor the file says it">,
    Option<"layout", "layout", "std::string", "\"\"",
           "flat or per-param (FSDP2's); default flat">,
    Option<"prefetch", "prefetch", "std::string", "\"\"",
           "fsdp2 (its implicit backward prefetch) or none; default fsdp2">,
    Option<"paramDtype", "param-dtype", "std::string", "\"\"",
           "In which parameters are gathered: float32, bfloat16, float16; default as they are used">,
    Option<"reduceDtype", "reduce-dtype", "std::string", "\"\"",
           "In which gradients are reduced: float32, bfloat16, float16; default param-dtype, or if that is "
           "not given the parameters'">,
    Option<"microbatches", "microbatches", "int64_t", "0",
           "Forwards and backwards of a step, whose gradients are added up; 0: as the file says, "
           "else 1">,
    Option<"microbatchLoss", "microbatch-loss", "std::string", "\"\"",
           "mean (the loss of each microbatch is divided by their number) or sum; default mean">,
    Option<"microbatchOrder", "microbatch-order", "std::string", "\"\"",
           "sequential (one microbatch after another) or 1f1b (stages are interleaved); default "
           "sequential">,
    Option<"stages", "stages", "std::string", "\"\"",
           "Of microbatch-order 1f1b: the modules with which stages begin, or patterns, with commas">,
    Option<"gradientSync", "gradient-sync", "std::string", "\"\"",
           "After which microbatches gradients are reduced: each, reduce_scatter (each over the "
           "shards, the last over the replicas) or last; default each">,
    Option<"reshardAfterBackward", "reshard-after-backward", "std::string", "\"\"",
           "false: parameters stay gathered between microbatches; default true">,
    Option<"shardPlacement", "shard-placement", "std::string", "\"\"",
           "On which dimension the per-param layout cuts parameters: a number, or largest for the "
           "largest that the ranks divide; default 0">,
    Option<"offloadPolicy", "offload-policy", "std::string", "\"\"",
           "cpu: parameters and the optimizer's state lie in the host's memory; default none">,
    Option<"transport", "transport", "::fsdp::Transport", "::fsdp::Transport::Kernels",
           "What moves the bytes of gathers", [{::llvm::cl::values(
             clEnumValN(::fsdp::Transport::Kernels, "kernels", "kernels"),
             clEnumValN(::fsdp::Transport::CopyEngine, "copy-engine",
                        "the devices' copy engines, between ranks of one host"),
             clEnumValN(::fsdp::Transport::Auto, "auto", "as the schedule decides"))}]>
  ];
}

def SumGradientsByModule : Fsdp_Pass<"fsdp-sum-gradients-by-module"> {
  let summary = "Add up first what one call of a group's module contributes to the gradient of its input";
  let description = [{
    Input: a captured module with groups, whose sums of gradients say in `aten.sum` what they add up
    (`include/fsdp/IR/GradientSum.h`). Output: the same with these sums in the order that they have
    under FSDP2, and without the attributes.

    A value that several calls use has a gradient from each, and autograd adds them up in the order of
    the backward: ((g4 + g3) + g2) + g1. FSDP2 puts an identity before each call of a group's module,
    for the inputs that need a gradient. So if a module uses its input twice, its two gradients are
    added up before others are: (g4 + g3) + (g2 + g1). The values that decoder blocks take from an
    encoder are such inputs. Modules may be nested. A value that is made in a call is no input of it,
    and neither is a parameter.

    Remarks (`--remarks-filter-analyse=fsdp-sum-gradients-by-module`): `Reordered`, the number of sums.

    Why: floating-point addition is not associative, and the step's numbers are to be FSDP2's.
  }];
}

def MixedPrecision : Fsdp_Pass<"fsdp-mixed-precision"> {
  let summary = "Gather parameters in the dtype that the step computes in";
  let description = [{
    Input: a captured module with groups, whose `mixed_precision` says what the user asks for. Output:
    a captured module whose groups say in `gather_dtype` and `reduce_dtype` what is done, and in
    `decisions` why, where that was not asked for.

    A group of f32 parameters is gathered in bf16 or f16 if all that the step does with each of them
    is to cast it to that dtype: the casts go, and `fsdp.read` yields the parameter in that dtype. The
    values are the same, the gathered bytes half. A group that asks for no `param_dtype` is narrowed if
    that is possible; one that asks for it and cannot be is an error, which names the use; one that asks
    for the parameters' own dtype is left alone. Where a group asks for it, its modules may not take values of
    another floating dtype from outside: FSDP2 would cast them.

    With `reduce_dtype`, or without it in `param_dtype`, gradients are reduced in that: the cast behind a gradient of that dtype goes,
    another gradient is cast. Casts that stay move up behind what they cast: autograd runs those of
    parameters that were cast before the forward at the end of the backward. What a
    rank holds whole is not gathered: it is cast where the step uses it first.

    Remarks: `GroupsNarrowed`, `CastsRemoved` (`--remarks-filter-analyse=fsdp-mixed-precision`); the
    decisions (`--remarks-filter-passed=fsdp-mixed-precision`), and why a group that is cast in part is
    not narrowed (`--remarks-filter-missed=fsdp-mixed-precision`).

    Why: FSDP2's MixedPrecisionPolicy casts shards before they are gathered. Where a model casts its
    parameters itself, casting first and gathering then gives the same values.
  }];
}

def Recompute : Fsdp_Pass<"fsdp-recompute"> {
  let summary = "Compute results of the forward again in the backward instead of keeping them";
  let description = [{
    Input: a captured module, with groups if they matter. Output: a captured module in which the
    backward computes again what `policy` says. The same operator on the same operands, with the same
    `rng`, gives the same bits.

    `cheap`: a result of the forward that the backward uses is recomputed if its operator is cheap
    (`AtenSemantics.h`: one pass over its operands), and its operands are there anyway when the
    backward first needs it: parameters, buffers, inputs, and what the backward uses then or later,
    recomputed itself or not. So memory falls by the whole result, from its last use in the forward
    to its first in the backward.

    `full`: of a block's forward only what enters it is kept; all else that its backward uses is
    computed again, each result before its first use there. This is activation checkpointing of one
    block at a time. A block is what the modules of one group compute (inner groups are blocks of
    their own), the root group excepted; `blocks` chooses among them, and the rest of the step follows
    `cheap`.

    `selected`: as `full`, but the results of the operators `keep` are kept: by default matrix
    products, convolutions and fused attention, which cost the most (selective activation
    checkpointing).

    A `fsdp.recompute_region` is a block of its own, whatever the policy: a module inside those of one
    group.

    `none`: nothing. A group that says `recompute` itself follows that; what it leaves to a search
    (`auto`) is cheap here. The module's attribute `fsdp.recompute` says what the others follow, and
    each group's `recomputed` what it follows.

    A result is recomputed only if all its uses in the backward, repeated operators included, belong
    to the block that made it, so that no group's backward begins earlier or ends later than before.
    What leaves a block for another's backward is therefore kept. New values of buffers are those of
    the forward: a batch normalisation that is repeated updates nothing. Parameters are read where
    the backward reads them, after its gather.

    Remarks (`--remarks-filter-analyse=fsdp-recompute`): `Recomputed` (operators), `BytesNotKept`.

    Why: eager training keeps what autograd saved, although a product or a normalised activation
    costs less than a hundredth of the matrix product that reads it; and where memory is short, a
    second forward of a block costs a third of its step and saves nearly all of its activations.
  }];
  let options = [
    Option<"policy", "policy", "::fsdp::RecomputePolicy", "::fsdp::RecomputePolicy::Cheap",
           "What is computed again",
           [{::llvm::cl::values(
             clEnumValN(::fsdp::RecomputePolicy::None, "none", "nothing"),
             clEnumValN(::fsdp::RecomputePolicy::Cheap, "cheap",
                        "what costs about as much to compute as to read"),
             clEnumValN(::fsdp::RecomputePolicy::Selected, "selected",
                        "of blocks, all but the operators `keep`"),
             clEnumValN(::fsdp::RecomputePolicy::Full, "full",
                        "of blocks, all but what enters them"))}]>,
    ListOption<"blockPatterns", "blocks", "std::string",
               "Modules of groups that are blocks, as layers.*; default all">,
    ListOption<"keep", "keep", "std::string",
               "Operators whose results policy=selected keeps, as mm; default products and "
               "attention">,
    Option<"cheapFirst", "cheap-first", "bool", "false",
           "Before whole blocks are repeated, give what is cheap a copy of its own where the backward "
           "uses it, so that those of the block's repetition end early">,
    Option<"minBytes", "min-bytes", "int64_t", "16384",
           "Keep results of fewer bytes: their memory is not worth a call">
  ];
}

def ChooseRecompute : Fsdp_Pass<"fsdp-choose-recompute"> {
  let summary = "Recompute what the memory asks for, by predicted time";
  let description = [{
    Input: a captured module with groups. Output: the same after `fsdp-recompute` with the policies by
    block whose schedule, found as by `fsdp-optimize-schedule` with the same options, is predicted to
    be the fastest that fits `memory-cap`.

    Without a cap, on a device whose memory is known, `cheap` is taken unless `none` takes at least half a
    hundredth less time, and its arena fits the memory less what driver and libraries take, and less a
    32nd of it where no profile says what operators allocate beside the arena. Both are
    estimated, by a lower bound and by the order in which everything starts as soon as possible, and
    searched for only where that leaves the answer open. The root follows `none` where all blocks do.

    Under a cap recomputation begins with `none`; block by block it becomes `cheap`. Then it grows by
    steps. A step takes one block from its policy to the next one on the lower
    convex hull of time over bytes kept. Those that take the least time for each byte saved come
    first, so whatever a byte is worth at the peak, the first steps, up to some number, are the best
    choice. Blocks may so follow different policies.

    Bisection finds the fewest steps whose least peak fits, and earlier steps without which it fits, too,
    are taken back. Where `cheap` fits in all blocks, it is taken unless that is more than half a hundredth
    faster, or half of the blocks or all under `selected` are more than a hundredth, which is tried where
    more than a hundredth of the step is exposed. If the schedule does not fit because of holes in the arena, none is
    taken back, then half of the remaining steps and all of them are tried. Where nothing fits, what
    has the least peak is taken, so that the scheduler's error names that. On one rank, and
    without a cap on other devices, this is `fsdp-recompute`.

    Groups that say `recompute` themselves keep to that, and so do all with a `policy`, but those that
    say `auto`: only these count as blocks. With `offload=auto`, where nothing fits or the cap asks for
    recomputation, all of this is repeated with the optimizer's state on the host
    (`fsdp-offload-optimizer`), which is taken if it alone fits or is more than a hundredth faster. With
    `fusion=auto`, where nothing fits, all of this is repeated for the step without kernels.

    With `activations=auto` steps may also put what a block keeps on the host
    (`fsdp-offload-activations`). As many blocks as the forward hides the copies of do that first, spread
    over the model, and keep what one policy leaves: each of `cheap`, `selected` and `full` is tried, and
    that none is offloaded. One that is more than a hundredth faster than those before it is taken.

    A remark says what was chosen if it is not `cheap`, and `decisions` of the groups that it was chosen
    for say why. Remarks for tools
    (`--remarks-filter-analyse=fsdp-choose-recompute`): `Policy` (`auto`: several), `RecomputedBlocks`,
    `OffloadedBlocks`, `Blocks`, under a cap `PredictedNs`.

    Why: a block that is recomputed saves its activations until its backward and costs its forward,
    so that as few as possible should be; and memory that recomputing frees may serve to keep groups
    gathered.
  }];
  let options = searchOptions # fusionOptions # [
    Option<"policy", "policy", "::fsdp::RecomputePolicy", "::fsdp::RecomputePolicy::Auto",
           "What is computed again in groups that do not say so",
           [{::llvm::cl::values(
             clEnumValN(::fsdp::RecomputePolicy::Auto, "auto", "what is fastest and fits"),
             clEnumValN(::fsdp::RecomputePolicy::None, "none", "nothing"),
             clEnumValN(::fsdp::RecomputePolicy::Cheap, "cheap", "as in fsdp-recompute"),
             clEnumValN(::fsdp::RecomputePolicy::Selected, "selected", "likewise"),
             clEnumValN(::fsdp::RecomputePolicy::Full, "full", "likewise"))}]>
  ] # [offloadActivationsOption] # offloadOptions;
}

def AccumulateGradients : Fsdp_Pass<"fsdp-accumulate-gradients"> {
  let summary = "Make a step of several microbatches, whose gradients are added up";
  let description = [{
    Input: a captured module, whose attribute `fsdp.accumulation` says how many microbatches a step
    is to have; without it nothing changes. Output: a captured module that runs forward and backward
    as often, each on inputs of its own, one after another, and updates once. A parameter's gradient
    is the sum of those of the microbatches, in their order.

    With `loss = mean` the loss of each is divided by their number before its backward, and the step
    returns the sum of these: the mean over all samples, as if they were one batch. `loss = sum`
    leaves the losses as they are. Buffers go on from microbatch to microbatch; random numbers are drawn anew.

    With `stages` the microbatches are interleaved in 1F1B order, as torch's `ScheduleInterleaved1F1B` runs
    several stages on one rank. A unit is the forward or the backward of one stage for one microbatch. Of n
    stages n - 1 forward units run first, then one forward and one backward alternately, then the remaining
    backwards. The forward of a stage begins with the first operation of the module that names it; the
    loss belongs to the last stage. The backward of an operation belongs to the stage of its module's
    forward. Losses, gradients, buffers and random numbers are those of the sequential order. Refused
    with both modules by name are a stage whose forward is not one piece, a group or a parameter of two
    stages, and a backward that needs a gradient of an earlier stage. Each parameter belongs to a group
    other than the root's.

    What is communicated after which microbatch is the groups' `gradient_sync`, which
    `fsdp-insert-collectives` follows.

    Remarks (`--remarks-filter-analyse=fsdp-accumulate-gradients`): `Microbatches`.

    Why: a large batch whose activations do not fit, or fewer reductions for each sample.

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

    - A group is gathered before the first operation of its modules' forward. If it says so (or
      `auto`: a schedule may undo it) it is resharded after the last and gathered again before the
      first operation of their backward: from the shards, or if it says a number of ranks, by so many
      neighbours from chunks that they keep (`fsdp.chunk`).
    - After the last operation of their backward it is resharded, and its gradients are
      reduce-scattered, on meshes of several replicas all-reduced over them, and its shards updated.
      If no input of the modules needs a gradient, this happens at the end of the step
      instead, after the root group's turn.
    - `fsdp.read` of a parameter becomes the result of the gather; views of a parameter that were
      made before it was resharded are made again from the next gather.

    An optimizer that clips (`clip_grad_norm`) updates at the end of the step, behind the reductions
    of all groups and the norm of all gradients.

    Gathers from the shards go by what the module's attribute `fsdp.transport` says, which is taken
    off it.

    Every start is directly followed by its wait and all run on the compute stream: correct, and
    nothing overlaps. On a mesh of one rank there are no collectives: parameters are read, and the
    gradients of a group are packed where its reduction would have been.

    The digest of what the captured step computes is written into the module (`fsdp.provenance`), for
    the verifiers of later phases to compare.

    Why: which collectives exist, and what they mean for the data flow, is decided here; when they
    run is decided by `fsdp-schedule`.
  }];
}

def OffloadOptimizer : Fsdp_Pass<"fsdp-offload-optimizer"> {
  let summary = "Keep optimizer state in the memory of the host between updates";
  let description = [{
    Input: a sharded module. Output: the same, in which groups that say `offload_optimizer true` are
    marked `optimizer_state host`, and all that are marked so have their state fetched before their update
    and stored behind it; `offload=all` adds the groups that say nothing. Updates compute what they did before, on the same bits.

    Start and wait stand together, so that nothing overlaps: correct, and the least memory. A
    schedule (`fsdp-schedule`, `fsdp-optimize-schedule`) moves them apart: a state is fetched, at
    the earliest, while the group before is updated, and stored while the next one is, so that two
    groups at most have their state in the arena.

    Remarks (`--remarks-filter-analyse=fsdp-offload-optimizer`): `OffloadedGroups`, `Groups`.

    Why: Adam keeps two numbers for each parameter, which are needed for a moment of each step.
    Where no recomputation makes a step fit, the link to the host is the last resort.
  }];
  let options = offloadOptions;
}

def OffloadActivations : Fsdp_Pass<"fsdp-offload-activations"> {
  let summary = "Let what the forward keeps for the backward wait in the memory of the host";
  let description = [{
    Input: a sharded module. Output: the same, in which groups that say `offload_activations true` are
    marked `activations host`, and what the backward of all that are marked so reads of the forward is
    stored on the host and fetched for it; `activations=all` adds the blocks that say nothing. A tensor
    belongs to the group whose backward is the first to read it. Views of a tensor that the backward
    reads are made again of what is fetched. The step computes what it did before, on the same bits.

    A store starts behind the last operation of the forward that reads the tensor, and is waited for
    when the forward of the next block has ended. A fetch starts when the backward of the block before
    it begins (`fsdp-optimize-schedule` lets either take less, where computation hides it). So a
    tensor stays in the arena if its backward is nearer than that; tensors of fewer than `min-bytes`,
    tensors with gaps, and what else than operators of the model reads stay as well.

    Remarks (`--remarks-filter-analyse=fsdp-offload-activations`): `OffloadedGroups`,
    `OffloadedActivations`, `OffloadedBytes`.

    Why: the link to the host is idle while a block computes. What it hides costs no time, where
    recomputation does.
  }];
  let options = [
    offloadActivationsOption,
    Option<"minBytes", "min-bytes", "int64_t", "::fsdp::kLeastOffloadedBytes", "Smaller tensors stay in the arena">
  ];
}
