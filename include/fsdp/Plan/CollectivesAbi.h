/*===- CollectivesAbi.h - Collectives of a shared library --------------------===*\
|*
|* The interface of libraries for `--collectives LIB.so` of a training binary. A library that
|* exports fsdp_get_collectives() runs the collectives of a plan in place of the run's communicator,
|* or around it. Plain C. Any change of this file changes FSDP_COLLECTIVES_ABI_VERSION.
|*
\*===----------------------------------------------------------------------===*/

#ifndef FSDP_PLAN_COLLECTIVESABI_H
#define FSDP_PLAN_COLLECTIVESABI_H

#include "fsdp/Plan/Abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define FSDP_COLLECTIVES_ABI_VERSION 1u

/* One collective of this rank. Valid only during the call. */
typedef struct fsdp_collective {
  /* This rank's number among the ranks that meet, and their count. Number i is rank
   * `first + i * stride` of the run. */
  uint32_t rank, ranks;
  uint32_t first, stride;
  /* "gather", "reduce", ...: the collectives of a lane are issued in the same order on all ranks.
   * Calls of one lane run one after another, calls of different lanes at the same time. */
  const char *lane;
  /* The group of parameters, "layers.0" or "root"; "" for the norm of all gradients, for largest
   * absolute values of parameters, and for collectives of the model's own code. */
  const char *group;
  /* all_gather: input: `count` elements of this rank; output: those of all ranks, rank by rank. The
   *   input may be this rank's part of the output. `dtype` is FSDP_U8: elements are bytes.
   * reduce_scatter: input: `count` elements for each rank, rank by rank; output: the `count`
   *   reduced elements of this rank.
   * all_reduce: `count` elements, reduced in place: input and output are equal. */
  const void *input;
  void *output;
  uint64_t count;
  uint32_t dtype;     /* fsdp_dtype */
  uint32_t reduce_op; /* fsdp_reduce_op: FSDP_AVERAGE or FSDP_SUM; of all_gather 0 */
  /* all_reduce: 1 for the maximum of elements, whatever `reduce_op` says; else 0 */
  uint32_t takes_max;
  uint32_t reserved;
  int64_t deadline_ms; /* after this time the collective counts as failed */
  /* Runs this collective by the run's own communicator. Returns 0, or 1 if it failed. */
  int (*otherwise)(const struct fsdp_collective *collective);
  /* Returns 1 once the run has failed, on this rank or another: peers may then never arrive. */
  int (*has_failed)(const struct fsdp_collective *collective);
  void *run; /* context of the two functions above; not for the library */
} fsdp_collective;

/* Returns 0 for success. Any other value means failure: the library then writes a line of text to
 * `error`, which holds `error_bytes` bytes, and the step fails on all ranks. */
typedef int (*fsdp_run_collective)(const fsdp_collective *collective, char *error,
                                   uint64_t error_bytes);

/* Collectives whose function is null run by the run's own communicator. */
typedef struct fsdp_collectives {
  uint32_t abi_version; /* FSDP_COLLECTIVES_ABI_VERSION */
  const char *name;     /* for messages */
  fsdp_run_collective all_gather;
  fsdp_run_collective reduce_scatter;
  fsdp_run_collective all_reduce; /* over replicas, of the gradients' norm, and of the model */
} fsdp_collectives;

/* The symbol that the library exports. The table lives as long as the process. */
const fsdp_collectives *fsdp_get_collectives(void);

#ifdef __cplusplus
}
#endif

#endif /* FSDP_PLAN_COLLECTIVESABI_H */
