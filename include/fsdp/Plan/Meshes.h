/*===- Meshes.h - A binary with programs for several meshes ---------*- C -*-===*\
|*
|* A program is given by its first plan; fsdp_plan::next chains the others. The programs of one
|* binary train one model on different numbers of ranks.
|*
\*===----------------------------------------------------------------------===*/

#ifndef FSDP_PLAN_MESHES_H
#define FSDP_PLAN_MESHES_H

#include "fsdp/Plan/Abi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* `main` of such a binary: runs the program for the number of ranks of this run. Returns the exit
 * code. */
int fsdp_train_meshes_main(int argc, char **argv, const fsdp_plan *const *programs, uint32_t count);

#ifdef __cplusplus
}
#endif

#endif /* FSDP_PLAN_MESHES_H */
