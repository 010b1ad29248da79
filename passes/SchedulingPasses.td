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
    Input: a sharded module. Output: a scheduled module. Its program order is the order in which every
    rank issues its operations.

    `prefetch=fsdp2` is the order of eager FSDP2, event for event. When the backward of a group's
    modules begins, the gather of the preceding group in forward order starts, unless that group is
    gathered already. A group's `forward_prefetch` and `backward_prefetch` name groups whose gathers
    start when the forward or the backward of its modules begins, after the wait for its own gather;
    `backward_prefetch` replaces the implicit order. A group that is gathered early stays gathered until
    its use, even if the use is in the backward.

    On CPUs a gather of the forward starts where its result is used, as FSDP2's does there. In a step
    for CUDA (`fsdp.target`) it starts as early as FSDP2's gather may begin on a device whose host is
    far ahead: torch's stream of gathers then waits only for the work that precedes the last group but
    one. So while a group computes, the next group is gathered, and, if there is time, the one after it;
    up to three groups are in memory. In the same way, a gather started by a `forward_prefetch` list may
    begin one group earlier than the group of that list.

    `prefetch=none` leaves each gather where its result is used. The default is the module's attribute
    `fsdp.prefetch`, else fsdp2.

    In both orders one reduction is pending at a time: its wait, and the update that follows it, are
    placed before the start of the next reduction, or at the end of the step for the last one. On meshes
    of several replicas the wait for the all-reduce, and the update, are placed one reduction later: the
    all-reduce runs while the next group is reduced, as FSDP2's does. Updates that clip stay after all
    reductions.

    Why: collectives overlap computation only where their start and wait are apart.
  }];
  let options = [
    Option<"prefetch", "prefetch", "std::string", "\"\"", "fsdp2 or none">
  ];
}

def OptimizeSchedule : Fsdp_Pass<"fsdp-optimize-schedule"> {
  let summary = "Search for the schedule of least predicted time that fits the memory cap";
  let description = [{
    Input: a sharded module. Output: a scheduled module with streams assigned, whose arena fits
    `memory-cap`. Its step gives the results of `fsdp-schedule`, bit for bit.

    With the durations of a cost model the search decides:

    - which groups with `reshard_after_forward auto` stay gathered until their next use: their reshard,
      their second gather and the views that it makes again are removed;
    - which of these groups leave chunks that the ranks of a host keep together (`fsdp.chunk`), from
      which the next use is gathered. The group then records the number of ranks (`auto to 8`) and the
      reason. Chunks are a choice if the network has a level of hosts whose ranks properly divide the
      axis. With `offload-chunks` they may wait on the host instead: they are stored behind the use
      that leaves them (`fsdp.store.start`), and the gather fetches them;
    - before which operation each gather and each reduction starts, and where the wait of each reduction
      is. Memory for a collective is reserved from its start to its wait, so the schedule is safe for
      any timing;
    - buckets: consecutive starts that are issued as one launch (`coalesced`);
    - whether reductions share the gathers' stream;
    - whether a shard is updated once the next group's gradients are ready (with replicas: those of the
      group after the next), or at the end of the step (always, if gradients are clipped).

    Groups with any other `reshard_after_forward` stay as they are. A gradient that is read after its
    reduction's start, or that cannot be written into the reduction's input directly, is copied by a
    `clone.default` first. If the live bytes fit the cap but the arena does not, because of holes, the
    search is repeated with room for the holes. If nothing fits, the error names the least peak, a
    sufficient cap, the operation where the peak occurs, the buffers that are live there, and changes
    that would lower the peak. With `fusion=auto`, a step that fits the cap only without kernels gets no
    kernels. On one rank there is nothing to decide.

    Deterministic: the same module, seed and budget give the same schedule on every machine.

    Remarks (`--remarks-filter-analyse=fsdp-optimize-schedule`): `PredictedNs`, `BoundNs` (no schedule
    is faster), `Ratio`, `MeanNs` and `Percentile95Ns` (under jitter; 0: none), `Kept`, `Chunked`,
    `ChunksOnHost`, `Gathers`, `GatherLaunches`, `Reductions`, `ReductionLaunches`, `PeakLiveBytes`.

    Why: hooks know neither the rest of the step nor how much memory there is; a compiler knows both.
  }];
  let options = searchOptions # fusionOptions;
}

def AssignStreams : Fsdp_Pass<"fsdp-assign-streams"> {
  let summary = "Give gathers and reductions the streams of FSDP2";
  let description = [{
    Input: a scheduled module. Output: the same module with all gathers on the gather stream, and all
    reductions over replicas on the replicate stream. Reductions over shards are on the reduce stream; with
    target cuda they are on the gather stream.

    Why: the collectives of a stream run one after another, in one order on all ranks. FSDP2 issues gathers
    and reductions to one process group. On GPUs that is one NCCL communicator, which runs them one after
    another. On CPUs gloo runs them at the same time.
  }];
}

def OffloadGradients : Fsdp_Pass<"fsdp-offload-gradients"> {
  let summary = "Keep reduced gradients in the memory of the host until they are used";
  let description = [{
    Input: a scheduled module. Output: the same module, in which reduced gradients of groups with
    `offload_policy cpu` do not wait in the arena for other microbatches, or for the norm of all
    gradients: they are stored on the host after their reduction, and fetched before the sum or the
    update that reads them. A gradient's part of the norm is computed before it is stored
    (`fsdp.shard_norm`). The step gives the same bits.

    The wait of a store is before the next store's start. A fetch starts with the fetch of the group's
    optimizer state, or with the reduction of the gradient to which the fetched one is added. So at most
    two gradients are in the arena at a time. A gradient that updates its group at once stays in the
    arena.

    Remarks (`--remarks-filter-analyse=fsdp-offload-gradients`): `OffloadedGradients`.

    Why: otherwise waiting gradients of all parameters would be in the arena, even if all other state is
    on the host.
  }];
}

def Report : Fsdp_Pass<"fsdp-report"> {
  let summary = "Write events, collectives and the prediction of a scheduled step as JSON";
  let description = [{
    Input: a scheduled or planned module, which is not changed. The file holds the events (unshard,
    reshard, post_backward) in program order, each collective with its kind, group, phase, dtype,
    elements and axis, and counts and bytes by kind and phase. `elements` is the size of the
    collective's input on one rank, as torch counts: the shard of an all_gather, the whole group's
    gradients of a reduce_scatter, the reduced shard of an all_reduce. The file also holds a prediction:
    step time, exposed communication by launch, a lower bound on the time of every schedule and how it
    was found, the peak and where it occurs, memory by category over time, and the sources of the
    durations. `--fsdp-report=FILE` is short for `--fsdp-report=file=FILE`.
  }];
  let options = [
    Option<"file", "file", "std::string", "\"-\"", "Where to write; - is standard output">,
    Option<"memoryCap", "memory-cap", "std::string", "\"0\"",
           "Memory cap for which the lower bound holds: 80000000, 70GiB; 0: none">
  ] # costOptions;
}

def Fuse : Fsdp_Pass<"fsdp-fuse"> {
  let summary = "Fuse elementwise operators that read each other's results into kernels";
  let description = [{
    Input: a sharded or a scheduled module, or a program of several. Output: the same module, in which
    calls of elementwise operators, casts, row reductions and rearrangements of columns that read each
    other's results are replaced by launches of `fsdp.kernel`s, whose bodies hold the calls. A value
    that only its own kernel reads is not stored in memory. Layers with equal kernels share one kernel.

    All results of a kernel have one shape, or one element for each row of that shape. Calls are fused
    only between two operations that nothing may cross (collectives, reshards, writes to the model's
    state). They become one kernel if they read each other's results or the same operand, and if there
    is a position for the launch after everything that they read and before all readers of their
    results. The launch takes the position of its last call, or the one before its first reader. A
    kernel recomputes a value that another kernel would otherwise store for it, if this moves fewer
    bytes and if the operands of the recomputation, which stay in memory longer, have no more bytes than
    the value. Views follow the values that they view. A kernel reads through `slice` and `split` of
    columns, `expand` of one element per row, and `view`s that count the same rows by other dimensions.
    The cast of a gradient that is reduced or added to others stays a call.

    `fusion=exact` fuses the operators for which a kernel gives the bits of torch's operators on CPUs:
    sums, differences, products, quotients, negation, casts between f32, bf16 and f16, copies, relu and
    its backward, where, comparisons, and concatenations of columns. (A NaN stays a NaN, perhaps with
    other bits.) In f32 it also fuses reciprocals, reciprocal square roots, small powers, dropout's
    backward, and on x86-64 sums and means of rows in torch's order. On x86-64 it also fuses exp,
    sigmoid, tanh, silu and sqrt in bf16 and f16, and the backwards of sigmoid, tanh and silu in bf16.
    On GPUs `fusion=exact` rounds where torch's operators do, but adds up rows in the order of threads.

    `fusion=fast` fuses all these operators in f32, bf16 and f16. It also fuses gelu and its backward,
    `_log_softmax` and its backward, the backward of `nll_loss`, `logsumexp`, and the `gather` of one
    element of each row and its backward. A kernel then computes in fp32 and rounds once, where a result
    is stored. The lookup of a loss that follows a `_log_softmax` becomes a `gather` in the kernel of
    the `_log_softmax`. So only one element per row is stored, also for weighted, smoothed, ignored or
    summed losses (`fsdp/Analysis/SplitCalls.h`).

    In a module captured for CUDA, `fusion=fast` also replaces products of bf16 or f16 matrices whose
    only reader is the cast of a gradient to f32, directly or through views of the whole product: they
    become `mm.dtype` or `bmm.dtype`, which store f32 (`fsdp/Analysis/WideProducts.h`).

    `fusion=off` changes nothing. `fusion=auto` is `fast` for a module captured for CUDA, else `exact`.
    With `auto`, a scheduled module that fits the `memory-cap` only without kernels gets no kernels, and
    a remark says so. A module that has kernels is not fused again.

    Remarks (`--remarks-filter-analyse=fsdp-fuse`): `Kernels`, `Launches`, `FusedCalls`, `WideProducts`,
    and the bytes that all operators except matrix products and attention read and write:
    `ElementwiseBytesBefore`, `ElementwiseBytesAfter`. Then, for each kernel and each such operator
    outside of kernels, sorted by bytes: `Operator`, `Times` and `Bytes`.

    A sharded module is fused before the search for a schedule: its kernels stay between the first and
    the last operation that need a group, and the search moves the starts of collectives among them
    (`fusion` of `fsdp-optimize-schedule`). A module in FSDP2's order is fused after `fsdp-schedule`,
    which depends on the calls of modules.

    Why: the time of elementwise operators is the time to move their bytes.
  }];
  let options = [
    Option<"fusion", "fusion", "::fsdp::FusionChoice", "::fsdp::FusionChoice::Exact",
           "Operators that become kernels", fusionValues>,
    Option<"memoryCap", "memory-cap", "std::string", "\"0\"",
           "Memory cap for which fusion=auto may leave out the kernels of a scheduled module: "
           "80000000, 70GiB; 0: none">,
    Option<"profile", "profile", "std::string", "\"\"",
           "Measured durations (JSON); the temporaries inside operators that it lists count "
           "towards the cap">
  ];
}

//===----------------------------------------------------------------------===//
// scheduled -> planned
//===----------------------------------------------------------------------===//

def PlanMemory : Fsdp_Pass<"fsdp-plan-memory"> {
  let summary = "Give every buffer of the step an offset in one arena";
  let description = [{
    Input: a scheduled module. Output: a planned module. Every operation that makes or fills a buffer
    has the buffer's arena offset (bytes, a multiple of 64) as its `at`, and the module has
    `fsdp.arena_bytes` and `fsdp.peak_live_bytes`, a lower bound on the size of every arena.

    A buffer is live from its first write to its last use in program order; the buffers of a collective
    are live until its wait. Shards, optimizer state, buffers of the model, constants and inputs are
    live throughout. In the flat layout a gradient is placed directly in the input of its group's
    reduction, if one operation makes all of it, contiguous, and it does not share its storage; each
    part of the reduction's input is live only from its gradient's definition. Other gradients are
    copied when the reduction starts.

    Remarks (`--remarks-filter-analyse=fsdp-plan-memory`): `ArenaBytes`, `PeakLiveBytes`,
    `ArenaOverPeak`, `GradientsPlaced`, `GradientsCopied`, `GradientBytesCopied`.

    Why: with planned addresses a step allocates nothing, its memory is known before it runs, and a
    plan that does not fit is refused here.
  }];
  let options = [
    Option<"memoryCap", "memory-cap", "std::string", "\"0\"",
           "Refuse a plan that needs more bytes: 80000000, 70GiB; 0: no cap">,
    Option<"profile", "profile", "std::string", "\"\"",
           "File of fsdp-profile, whose measured temporaries inside operators count towards the "
           "cap">
  ];
}
