//===- VerifierPasses.td - A verifier for each phase -------*- tablegen -*-===//
//
// Part of Passes.td.
//
//===----------------------------------------------------------------------===//

def VerifyCaptured : Fsdp_Pass<"fsdp-verify-captured"> {
  let summary = "Check that a module is one step of single-device training";
  let description = [{
    Proves of a captured module, as the verifiers of later phases do of theirs:

    - M1: the module has one function, of one block, and at most one optimizer. All its meshes have as
      many ranks.
    - M2: no parameter is in two groups.

    And of a captured module alone:

    - C1: it has one function without arguments whose result is one floating-point scalar: `@step`, or
      of an evaluation `@evaluate`.
    - C2: nothing belongs to a later phase: no collectives, no clip factor, no arena offsets.
    - C3: operators are functional: none mutates an argument.
    - C4: every parameter has exactly one gradient in each microbatch, and one update; a frozen one
      has neither. There is one optimizer. An evaluation has no backward, no gradients and no
      updates.
    - C5: inputs have names of their own in a microbatch, and random draws positions of their own. The backward may
      repeat a draw of the forward, at its position, where it computes the result again
      (`fsdp-recompute`): the same operator on the same values.
    - C6: no operation of the forward uses a value of the backward.
    - C7: groups, where they are declared, hold every parameter exactly once.
  }];
}

def VerifySharded : Fsdp_Pass<"fsdp-verify-sharded"> {
  let summary = "Check that parameters are used only while gathered, and reduced once";
  let description = [{
    Proves of a sharded module:

    - S1: there is a mesh, every parameter is in a group, the step has no arguments, and as many
      microbatches as `fsdp.accumulation` says, each with the same inputs in the same order. A group travels in the dtypes that it asks for, or
      says why not.
    - S2: every start has one wait; every gather has one wait and one reshard, in this order, and
      gathers its group's shards of parameters, or chunks of an earlier gather; no group is gathered
      while it is gathered, nor after its update. With an `all_gather_extension` the shard of
      parameters is encoded once, before its update, and each gather takes what was encoded. What is
      stored on the host is fetched once.
    - S3: no full parameter, nor a view of one, is used after its reshard.
    - S4: each group's gradients are reduced (where they lie whole on a rank: packed) once at least, at
      most once for each microbatch, and if the group has replicas once over these; each group is updated
      once, with the sum of all its reductions, each once and in their order. Operation and divisors of
      a reduction are those that the group asks for (`GradientDivision.h`). What is reduced or
      added up in place are gradients, which nothing else reads. The `all_reduce_hook` of a group is
      called once on the result of each last reduction, which nothing else reads. Groups of frozen
      parameters alone are neither reduced nor updated. An evaluation reduces and updates none.
    - S5: of a group of several shards no parameter is read and no gradient left without a collective;
      of one shard nothing is gathered, and with one rank there are no collectives.
    - S6: optimizer state on the host is fetched once, and waited for before the group's update,
      behind which it is stored; the store is waited for. Other state is not fetched.
    - S7: a parameter that lies whole on each rank is read in the dtype that it is declared with.
    - S8: if the optimizer clips, all updates take a clip factor, which comes from the norm that
      the optimizer says of the gradients that they take, each once, over the ranks of the shards, or if
      groups have different numbers of shards over all ranks.
      Else none takes one.
    - S9: the step computes what was captured: loss, gradients and buffers, followed down to
      parameters, inputs and constants, have the digest that `fsdp-insert-collectives` wrote into the
      module (`fsdp.provenance`), and no operator mutates an argument. A module without that
      attribute is not compared.
  }];
}

def VerifyScheduled : Fsdp_Pass<"fsdp-verify-scheduled"> {
  let summary = "Check order and streams of a scheduled module";
  let description = [{
    Proves of a scheduled module, beside all that `fsdp-verify-sharded` proves:

    - D1: the step is one block of operations of the dialects `aten` and `fsdp`, so that every rank
      issues the same collectives in the same order.
    - D2: gathers are on the gather stream, by kernels or copy engines; reductions are all on the
      reduce stream, or all on the gather stream too; reductions over replicas are on the replicate
      stream, and that of the gradients' norm is on the reduce stream: one order per communicator on
      all ranks, thus no deadlock.
    - D3: a coalesced start directly follows a start of its kind on its stream, in which the same
      ranks meet by the same transport.

    What another stream produces is used only after the wait for it, since it is a result of that
    wait: S2 and S3 hold of streams, too.
  }];
}

def VerifyPlanned : Fsdp_Pass<"fsdp-verify-planned"> {
  let summary = "Check that no two live buffers of a planned module overlap";
  let description = [{
    Proves of a planned module all that `fsdp-verify-scheduled` proves and, from its offsets alone and
    without the planner's help:

    - P1: every buffer has an offset, a multiple of 64 bytes, and lies within the arena.
    - P2: no two buffers that are live at the same time overlap; live ranges follow the memory model
      of streams (see the fsdp dialect): what a collective touches is live until its wait.
    - P3: every view lies within its storage.
    - P4: a buffer or shard that is read keeps its value until the last use of what was read: no
      write or update comes before, neither before the use nor before the read.
    - P5: optimizer state on the host, and gradients and activations while they wait there, have places
      of their own in the host's arena.
    - P6: a program is steps that train, with samples of different shapes, and then at most one that
      evaluates. All declare one state, which lies in one place for all of them, in arenas of one
      size; constants of one step lie where no other step has anything.
  }];
}
