/*===- Meshes.h - A binary with programs for several meshes ---------*- C -*-===*\
|*
|* Each program is the first plan of those that fsdp_plan::next chains. Programs of one binary train
|* one model, on different numbers of ranks.
|*
\*===----------------------------------------------------------------------===*/

#ifndef FSDP_PLAN_MESHES_H
#define FSDP_PLAN_MESHES_H

#include "fsdp/Plan/Abi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* `main` of such a binary: runs the program for the ranks that it was started with. Returns the
 * exit code. */
int fsdp_train_meshes_main(int argc, char **argv, const fsdp_plan *const *programs, uint32_t count);

#ifdef __cplusplus
}
#endif

#endif /* FSDP_PLAN_MESHES_H */
