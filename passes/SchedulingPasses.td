//===- SchedulingPasses.td - From sharded to planned -------*- tablegen -*-===//
//
// Part of Passes.td.
//
//===----------------------------------------------------------------------===//

//===----------------------------------------------------------------------===//
// sharded -> scheduled
//===----------------------------------------------------------------------===//

def Schedule : Fsdp_Pass<"fsdp-schedule"> {
  let summary = "Put the collectives' starts and waits in the order of issue";
  let description = [{
    Input: a sharded module. Output: a scheduled module, whose program order is the order in which
    every rank issues its operations.

    `prefetch=fsdp2` is the order of eager FSDP2, event for event: when the backward of a group's
    modules begins, the gather of the group before it in forward order is started, unless that group
    is gathered already. A group's `forward_prefetch` and `backward_prefetch` name groups whose gathers
    start when the forward or the backward of its modules begins, behind the wait for its own; the
    latter take the place of the implicit order. What is gathered early is kept until its use, also
    where that is in the backward.

    On CPUs a gather of the forward starts where it is used, as FSDP2's does there. In a step for CUDA
    (`fsdp.target`) it starts as early as FSDP2's may begin on a device, whose host is far ahead:
    torch's stream of gathers then waits for what precedes the last group but one. So while a group
    computes, the next one is gathered, and the one behind that if there is time, and up to three
    groups are in memory. The gather that a list of `forward_prefetch` starts may begin a group
    earlier than where its list stands, likewise.

    `prefetch=none` leaves each gather where it is used. The default is what
    the module's attribute `fsdp.prefetch` says, else fsdp2.

    Either way one reduction is pending at a time: its wait, and the update that follows it, stand
    before the next reduction's start, the last at the end of the step. On meshes of several replicas
    the wait for the all-reduce, and the update, stand one reduction later: the all-reduce runs while
    the next group is reduced, as FSDP2's does. Updates that clip stay behind all reductions.

    Why: collectives can run beside computation only where their start and wait are apart.
  }];
  let options = [
    Option<"prefetch", "prefetch", "std::string", "\"\"", "fsdp2 or none">
  ];
}

def OptimizeSchedule : Fsdp_Pass<"fsdp-optimize-schedule"> {
  let summary = "Search for the schedule of least predicted time that fits the memory cap";
  let description = [{
    Input: a sharded module. Output: a scheduled module, streams assigned, whose
    arena fits `memory-cap`; the results of its step are those of `fsdp-schedule`, bit for bit.

    Decides, with the durations of a cost model:

    - which copies of a group that says `reshard_after_forward auto` are kept for its next use: the
      reshard and the second gather go, and so do views that were made again;
    - which of them leave chunks that the ranks of a host keep together (`fsdp.chunk`), from which the
      next use is gathered. The group then says over how many ranks (`auto to 8`), and why. That is a
      choice where the network has a level of hosts whose ranks properly divide the axis;
    - before which operation each gather and each reduction starts, and where a reduction is waited
      for. Each start's memory is free from there to its wait, whatever the timing;
    - buckets: starts in a row that are issued as one launch (`coalesced`);
    - whether reductions share the gathers' stream;
    - whether a shard is updated once the next group's gradients are ready (with replicas: those of
      the group after it), or at the end of the step (always there where gradients are clipped).

    Groups that say something else of `reshard_after_forward` stay as they are. A gradient that is
    read after its reduction's start, or cannot be written where that reads it, is copied by a
    `clone.default` first. Where live bytes fit the cap but the arena does not, for the holes in it,
    the search is repeated with room for them. Where nothing fits, the error names the least peak, a
    cap that is enough, the operation where the peak occurs, what is live there, and what would lower
    it. With `fusion=auto` a step that fits the cap without kernels only gets none. On one rank there is
    nothing to decide.

    Deterministic: the same module, seed and budget give the same schedule on every machine.

    Remarks (`--remarks-filter-analyse=fsdp-optimize-schedule`): `PredictedNs`, `BoundNs` (no
    schedule is faster), `Ratio`, `MeanNs` and `Percentile95Ns` (under jitter; 0: none), `Kept`, `Chunked`, `Gathers`, `GatherLaunches`, `Reductions`,
    `ReductionLaunches`, `PeakLiveBytes`.

    Why: hooks decide without knowing what comes next or how much memory there is; a compiler knows
    both.
  }];
  let options = searchOptions # fusionOptions;
}

def AssignStreams : Fsdp_Pass<"fsdp-assign-streams"> {
  let summary = "Give gathers and reductions streams of their own";
  let description = [{
    Input: a scheduled module. Output: the same with all gathers on the gather stream and all
    reductions on the reduce stream, and those over replicas on the replicate stream.

    Why: each stream has a communicator, so that a reduction never waits behind a gather, and all
    ranks meet in one order on each of them.
  }];
}

def OffloadGradients : Fsdp_Pass<"fsdp-offload-gradients"> {
  let summary = "Let reduced gradients wait in the memory of the host";
  let description = [{
    Input: a scheduled module. Output: the same, in which reduced gradients of groups with
    `offload_policy cpu` do not wait in the arena for other microbatches, or for the norm of all: they
    are stored on the host when they are there, and fetched before the sum or the update that reads
    them. What such a gradient adds to the norm is taken before it is stored (`fsdp.shard_norm`). The
    step computes what it did before, on the same bits.

    A store is waited for when the next one starts; a fetch starts with that of the group's optimizer
    state, or when the gradient starts to be reduced to which it will be added. So two gradients are
    in the arena at a time. A gradient with which its group is updated at once stays.

    Remarks (`--remarks-filter-analyse=fsdp-offload-gradients`): `OffloadedGradients`.

    Why: with gradients that wait, a rank holds those of all parameters, whatever else is on the host.
  }];
}

def Report : Fsdp_Pass<"fsdp-report"> {
  let summary = "Write events, collectives and the prediction of a scheduled step as JSON";
  let description = [{
    Input: a scheduled or planned module, which is not changed. The file holds the events (unshard,
    reshard, post_backward) in program order, each collective with its kind, group, phase, dtype,
    elements and axis, counts and bytes by kind and phase. `elements` is the size of the collective's
    input on one rank, as torch counts: the shard of an all_gather, the whole group's gradients of
    a reduce_scatter, the reduced shard of an all_reduce. The file also holds a prediction: step
    time, what of it is exposed communication (by launch), a lower bound of every schedule and how it
    was found, the peak and where it occurs, memory by category over time, and where the durations
    come from.
    `--fsdp-report=FILE` is short for `--fsdp-report=file=FILE`.
  }];
  let options = [
    Option<"file", "file", "std::string", "\"-\"", "Where to write; - is standard output">,
    Option<"memoryCap", "memory-cap", "std::string", "\"0\"",
           "Under which cap the bound holds: 80000000, 70GiB; 0: none">
  ] # costOptions;
}

def Fuse : Fsdp_Pass<"fsdp-fuse"> {
  let summary = "Make elementwise operators that follow from each other one kernel";
  let description = [{
    Input: a sharded or a scheduled module, or a program of several. Output: the same, with calls of elementwise
    operators, casts, sums of rows and rearrangements of columns that read each other's results replaced
    by launches of `fsdp.kernel`s, whose bodies hold the calls. What only a kernel reads has no place in
    memory then. Layers whose kernels are equal share one.

    A kernel's results have one shape, or one number for each row of that. Between two operations that
    nothing moves past (collectives, reshards, what writes to the model's state) calls become one kernel
    if they read each other or the same operand, and if it can be launched behind all that they read and
    before all that reads them; it stands where its last call stood, or before its first reader. A kernel
    computes again what another kernel would store for it, if it moves fewer bytes so and what it reads
    for that, kept in memory longer, has no more bytes than what is not stored. Views stand behind what
    they show; a kernel reads through `slice` and `split` of columns, `expand` of numbers of rows, and
    `view`s that count the same rows by other dimensions. The cast of a gradient that is reduced or added to
    others stays a call.

    `fusion=exact` takes the operators for which a kernel gives the bits that torch's operators give on
    CPUs: sums, differences, products, quotients, negation, casts between f32, bf16 and f16, copies, relu
    and its backward, where, comparisons, and concatenations of columns. (A NaN stays one, with other bits
    perhaps.) In f32 it also takes reciprocals, reciprocal square roots, small powers, dropout's backward,
    and on x86-64 sums and means of rows in torch's order. On x86-64 it also takes exp, sigmoid, tanh, silu
    and sqrt in bf16 and f16, and the backwards of sigmoid, tanh and silu in bf16. On GPUs `fusion=exact`
    says where kernels round, and rows are added up in the order of threads.

    `fusion=fast` takes all these operators in f32, bf16 and f16. It also takes gelu and its backward,
    `_log_softmax` and its backward, the backward of `nll_loss`, `logsumexp`, and the `gather` of one number of
    each row and its backward. A kernel then computes in fp32 and rounds once, where a result is stored. The
    lookup of a loss that follows a `_log_softmax` becomes a `gather` in its kernel. So one number for each
    row is stored, whatever is weighted, smoothed, ignored or summed (`fsdp/Analysis/SplitCalls.h`).

    In a module that was captured for CUDA, with `fusion=fast`, a product of bf16 or f16 matrices whose only
    reader is the cast of a gradient to f32, through views of all of it too, becomes `mm.dtype` or `bmm.dtype`,
    which stores f32 (`fsdp/Analysis/WideProducts.h`).

    `fusion=off` changes nothing. `fusion=auto` is `fast` of a module that was captured for CUDA, `exact` of
    others; if a scheduled module does not fit the `memory-cap` so and fits it without kernels, it gets none,
    and a remark says so. A module that has kernels is not fused again.

    Remarks (`--remarks-filter-analyse=fsdp-fuse`): `Kernels`, `Launches`, `FusedCalls`, `WideProducts`, and the bytes
    that all operators but matrix products and attention read and write: `ElementwiseBytesBefore`,
    `ElementwiseBytesAfter`; then, for each kernel and each such operator that is left, the most bytes
    first, `Mover`, `Times` and `Bytes`.

    A sharded module is fused before a schedule is searched for, whatever that is: kernels lie between the
    first and the last operation that need a group, and the search moves the starts of collectives between
    them (`fusion` of `fsdp-optimize-schedule`). A module in FSDP2's order is fused behind `fsdp-schedule`,
    which goes by the calls of modules.

    Why: such operators take as long as their bytes take to move.
  }];
  let options = [
    Option<"fusion", "fusion", "::fsdp::FusionChoice", "::fsdp::FusionChoice::Exact",
           "Which operators become kernels", fusionValues>,
    Option<"memoryCap", "memory-cap", "std::string", "\"0\"",
           "Under which cap fusion=auto leaves kernels out of a scheduled module: 80000000, 70GiB; 0: none">,
    Option<"profile", "profile", "std::string", "\"\"",
           "Measured durations (JSON), whose temporaries inside operators count, too">
  ];
}

//===----------------------------------------------------------------------===//
// scheduled -> planned
//===----------------------------------------------------------------------===//

def PlanMemory : Fsdp_Pass<"fsdp-plan-memory"> {
  let summary = "Give every buffer of the step its place in one arena";
  let description = [{
    Input: a scheduled module. Output: a planned module: every operation that makes or fills a buffer
    has the buffer's arena offset (bytes, multiples of 64) as its `at`, and the module has
    `fsdp.arena_bytes` and `fsdp.peak_live_bytes`, below which no arena can be.

    A buffer is live from its first write to its last use in program order; what a collective touches,
    until its wait. Shards, optimizer state, buffers of the model, constants and inputs are live
    throughout. In the flat layout a gradient is placed where its group's reduction reads it, if the
    operation that makes it makes all of it, contiguous, and nothing else lies in its storage; each
    part of the reduction's input is live only from its gradient's definition. Other gradients are
    copied when the reduction starts.

    Remarks (`--remarks-filter-analyse=fsdp-plan-memory`): `ArenaBytes`, `PeakLiveBytes`,
    `ArenaOverPeak`, `GradientsPlaced`, `GradientsCopied`, `GradientBytesCopied`.

    Why: with planned addresses a step allocates nothing, its memory is known before it runs, and a
    plan that does not fit is refused here.
  }];
  let options = [
    Option<"memoryCap", "memory-cap", "std::string", "\"0\"",
           "Refuse a plan that needs more: 80000000, 70GiB; 0: no cap">,
    Option<"profile", "profile", "std::string", "\"\"",
           "A file of fsdp-profile: temporaries inside operators count too, as measured there">
  ];
}
