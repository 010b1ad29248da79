/*===- CollectivesAbi.h - Collectives of a shared library --------------------===*\
|*
|* What `--collectives LIB.so` of a training binary loads: a library that exports
|* fsdp_get_collectives() runs the collectives of a plan in place of the run's communicator, or
|* around it. Plain C. Any change of this file changes FSDP_COLLECTIVES_ABI_VERSION.
|*
\*===----------------------------------------------------------------------===*/

#ifndef FSDP_PLAN_COLLECTIVESABI_H
#define FSDP_PLAN_COLLECTIVESABI_H

#include "fsdp/Plan/Abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define FSDP_COLLECTIVES_ABI_VERSION 1u

/* One collective of this rank. All of it is valid during the call alone. */
typedef struct fsdp_collective {
  /* This rank among those that meet, and their number. Number i of them is rank
   * `first + i * stride` of the run. */
  uint32_t rank, ranks;
  uint32_t first, stride;
  /* "gather", "reduce", ...: the collectives of a lane are issued in one order, the same on all
   * ranks. Calls of one lane follow each other, calls of different lanes run at the same time. */
  const char *lane;
  /* The group of parameters, "layers.0" or "root"; "" of the norm of all gradients. */
  const char *group;
  /* all_gather: `count` elements of each rank; output: those of all, rank by rank. The input may be
   *   this rank's part of the output. What moves are bytes: `dtype` is FSDP_U8.
   * reduce_scatter: `count` elements for each rank, rank by rank; output: this rank's `count`,
   *   reduced.
   * all_reduce: `count` elements; output: the same place, which holds them before. */
  const void *input;
  void *output;
  uint64_t count;
  uint32_t dtype;     /* fsdp_dtype */
  uint32_t reduce_op; /* fsdp_reduce_op: FSDP_AVERAGE or FSDP_SUM; of all_gather 0 */
  /* all_reduce: 1 if the largest FSDP_I64 is wanted, whatever `reduce_op` says; else 0 */
  uint32_t takes_max;
  uint32_t reserved;
  int64_t deadline_ms; /* a collective that takes longer has failed */
  /* Has the run's own communicator do this collective; returns 0, or 1 if it failed. */
  int (*otherwise)(const struct fsdp_collective *collective);
  /* Returns 1 once the run has failed, on this rank or another: peers may never come. */
  int (*has_failed)(const struct fsdp_collective *collective);
  void *run; /* what the two functions above need; not for the library */
} fsdp_collective;

/* Returns 0. Any other value says that the collective has failed, and the library writes a line of
 * text to `error`, which holds `error_bytes` bytes. The step then fails on all ranks. */
typedef int (*fsdp_run_collective)(const fsdp_collective *collective, char *error,
                                   uint64_t error_bytes);

/* A function that is null leaves its collectives to the run's own communicator. */
typedef struct fsdp_collectives {
  uint32_t abi_version; /* FSDP_COLLECTIVES_ABI_VERSION */
  const char *name;     /* for messages */
  fsdp_run_collective all_gather;
  fsdp_run_collective reduce_scatter;
  fsdp_run_collective all_reduce; /* over replicas, and of the gradients' norm */
} fsdp_collectives;

/* What the library exports. The table lives as long as the process. */
const fsdp_collectives *fsdp_get_collectives(void);

#ifdef __cplusplus
}
#endif

#endif /* FSDP_PLAN_COLLECTIVESABI_H */
