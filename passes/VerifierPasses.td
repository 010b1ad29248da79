//===- VerifierPasses.td - A verifier for each phase -------*- tablegen -*-===//
//
// Part of Passes.td.
//
//===----------------------------------------------------------------------===//

def VerifyCaptured : Fsdp_Pass<"fsdp-verify-captured"> {
  let summary = "Check that a module is one step of single-device training";
  let description = [{
    Proves of a captured module, as the verifiers of later phases do, too:

    - M1: the module has one function, of one block, and at most one optimizer. All its meshes have as
      many ranks, and as many as `fsdp.ranks` says.
    - M2: no parameter is in two groups.

    Proves of a captured module only:

    - C1: it has one function without arguments whose result is one floating-point scalar: `@step`, or
      `@evaluate` for an evaluation.
    - C2: it has nothing of a later phase: no collectives of parameters, no clip factor, no arena
      offsets.
    - C3: operators are functional: none mutates an argument.
    - C4: every parameter has exactly one gradient in each microbatch, and one update; a frozen
      parameter has neither. There is one optimizer. An evaluation has no backward, no gradients and no
      updates.
    - C5: inputs of a microbatch have different names, and random draws have different positions. The
      backward may repeat a draw of the forward at the same position to recompute its result
      (`fsdp-recompute`): by the same operator on the same values. A training step has one
      `fsdp.loss_scale` if its optimizer has a `loss_scale`, else none; an evaluation has none.
    - C6: no operation of the forward uses a value of the backward.
    - C7: if groups are declared, they hold every parameter exactly once.
  }];
}

def VerifySharded : Fsdp_Pass<"fsdp-verify-sharded"> {
  let summary = "Check that parameters are used only while gathered, and reduced once";
  let description = [{
    Proves of a sharded module:

    - S1: there is a mesh, every parameter is in a group, and the step has no arguments, and as many
      microbatches as `fsdp.accumulation` has, each with the same inputs. A group is gathered and
      reduced in the dtypes that it asks for, or records why not.
    - S2: every start has one wait; every gather has one wait and one reshard, in this order, and
      gathers its group's shards of parameters, or chunks of an earlier gather; no group is gathered
      twice at a time, nor after its update. With an `all_gather_extension` the shard of parameters is
      encoded once, before its update, and each gather reads the encoded shard. So is the shard of a
      group that is gathered as float8, by the largest absolute values of its whole parameters: the
      maximum over the axis of the shards, from one all-reduce of the step, of which an `fsdp.amax`
      reads its parameter's. A value that is stored on the host is fetched once.
    - S3: no full parameter, nor a view of one, is used after its reshard.
    - S4: each group's gradients are reduced (or packed, if they are whole on a rank) at least once and
      at most once for each microbatch, and once over replicas if the group has any. Each group is
      updated once, with the sum of all its reductions, each taken once and in order. Operation and
      divisors of a reduction are those that the group asks for (`GradientDivision.h`). Only gradients
      that nothing else reads are reduced or added up in place. The `all_reduce_hook` of a group is
      called once on the result of each last reduction, which nothing else reads. Groups of only frozen
      parameters are neither reduced nor updated. An evaluation reduces and updates no group.
    - S5: in a group of several shards every parameter is read through a gather and every gradient is
      reduced by a collective; a group of one shard is not gathered, and on one rank there are no
      collectives.
    - S6: optimizer state on the host is fetched once, with the wait before the group's update, and
      stored after the update, with a wait. Other state is not fetched.
    - S7: a parameter that is whole on each rank is read in the dtype of its declaration.
    - S8: if the optimizer clips or has a `loss_scale`, all updates take a clip factor. It comes from the
      optimizer's kind of norm, over the gradients of all updates, each once, and over the ranks of the
      shards (over all ranks, if groups have different numbers of shards). Otherwise no update takes a clip factor. The
      step has an `fsdp.loss_scale` as in C5; if it has one, the factor and all updates take it.
    - S9: the step computes what was captured: loss, gradients and buffers, traced back to parameters,
      inputs and constants, have the digest that `fsdp-insert-collectives` wrote into the module
      (`fsdp.provenance`). A module without that attribute is not compared. No operator mutates an
      argument, and the model's own collectives are for as many ranks as the mesh has.
  }];
}

def VerifyScheduled : Fsdp_Pass<"fsdp-verify-scheduled"> {
  let summary = "Check order and streams of a scheduled module";
  let description = [{
    Proves of a scheduled module, in addition to all that `fsdp-verify-sharded` proves:

    - D1: the step is one block of operations of the dialects `aten` and `fsdp`, so that every rank
      issues the same collectives in the same order.
    - D2: gathers are on the gather stream, by kernels or copy engines; reductions are all on the reduce
      stream, or all on the gather stream too; reductions over replicas are on the replicate stream, and
      the reduction of the gradients' norm is on the reduce stream. So each communicator has one order
      on all ranks, and there is no deadlock.
    - D3: a coalesced start directly follows a start of its kind on its stream, in which the same
      ranks meet by the same transport.

    A value from another stream is used only after its wait, since the value is a result of that wait.
    So S2 and S3 hold across streams, too.
  }];
}

def VerifyPlanned : Fsdp_Pass<"fsdp-verify-planned"> {
  let summary = "Check that no two live buffers of a planned module overlap";
  let description = [{
    Proves of a planned module all that `fsdp-verify-scheduled` proves and, from its offsets alone and
    without the planner's help:

    - P1: every buffer has an offset, a multiple of 64 bytes, and lies within the arena.
    - P2: no two buffers that are live at the same time overlap; live ranges follow the memory model of
      streams (see the fsdp dialect): the buffers of a collective are live until its wait.
    - P3: every view lies within its storage.
    - P4: a buffer or shard that is read keeps its value until the last use of the value read: no write
      or update precedes the read, or that use.
    - P5: optimizer state on the host, and gradients, activations and chunks while they wait there,
      do not overlap in the host's arena.
    - P6: a program consists of training steps, with samples of different shapes, followed by evaluation
      steps, if any. All steps declare the same state, at the same offsets, in arenas of one size; the
      constants of a step overlap no buffer of another step.
  }];
}
