/*===- Abi.h - The plan: tables that a compiled step hands to the runtime ---===*\
|*
|* Plain C, constant data, no pointers but those of `fsdp_plan`. fsdp-compile writes the tables into
|* .rodata; the runtime reads them and never changes them. Any change of this file changes
|* FSDP_PLAN_ABI_VERSION.
|*
|* Conventions. Strings are offsets into `strings` (NUL-terminated, offset 0 is ""). Lists of
|* integers are `first, count` into `integers`. Arena offsets are bytes from the arena's beginning;
|* -1 means "none". All ranks have the same plan and thus the same offsets.
|*
\*===----------------------------------------------------------------------===*/

#ifndef FSDP_PLAN_ABI_H
#define FSDP_PLAN_ABI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FSDP_PLAN_ABI_VERSION 28u

/* Element types, numbered as c10::ScalarType. */
typedef enum fsdp_dtype {
  FSDP_U8 = 0,
  FSDP_I8 = 1,
  FSDP_I16 = 2,
  FSDP_I32 = 3,
  FSDP_I64 = 4,
  FSDP_F16 = 5,
  FSDP_F32 = 6,
  FSDP_F64 = 7,
  FSDP_C64 = 9, /* complex numbers of two f32 */
  FSDP_C128 = 10,
  FSDP_BOOL = 11,
  FSDP_BF16 = 15,
  FSDP_F8E5M2 = 23,
  FSDP_F8E4M3 = 24, /* float8_e4m3fn: without infinity */
  FSDP_U64 = 29
} fsdp_dtype;

typedef enum fsdp_phase { FSDP_FORWARD = 0, FSDP_BACKWARD = 1 } fsdp_phase;

typedef enum fsdp_stream {
  FSDP_COMPUTE = 0,
  FSDP_GATHER = 1,
  FSDP_REDUCE = 2,
  FSDP_REPLICATE = 3,
  FSDP_HOST_TO_DEVICE = 4,
  FSDP_DEVICE_TO_HOST = 5
} fsdp_stream;
#define FSDP_NUM_STREAMS 6

/* A training step updates the parameters. An evaluation only computes their loss. */
typedef enum fsdp_step_kind { FSDP_TRAINING = 0, FSDP_EVALUATION = 1 } fsdp_step_kind;

typedef enum fsdp_layout { FSDP_LAYOUT_FLAT = 0, FSDP_LAYOUT_PER_PARAM = 1 } fsdp_layout;

/* Optimizers of torch.optim. Optimizers.h has their options and states. */
typedef enum fsdp_optimizer_kind {
  FSDP_SGD = 0,
  FSDP_ADAM = 1,
  FSDP_ADAMW = 2,
  FSDP_RMSPROP = 3,
  FSDP_ADAGRAD = 4,
  FSDP_ADAMAX = 5,
  FSDP_NADAM = 6,
  FSDP_RADAM = 7,
  FSDP_ADADELTA = 8
} fsdp_optimizer_kind;
#define FSDP_NUM_OPTIMIZER_KINDS 9

/* The norm that gradients are clipped by: the sum of absolute values, the root of the sum of
 * squares, or the largest absolute value. */
typedef enum fsdp_norm_type { FSDP_NORM_1 = 1, FSDP_NORM_2 = 2, FSDP_NORM_INF = 3 } fsdp_norm_type;

/* How a reduction combines the inputs of the ranks. */
typedef enum fsdp_reduce_op {
  FSDP_AVERAGE = 0,
  FSDP_SUM = 1,
  FSDP_PREMUL_SUM = 2, /* the collective multiplies each input by 1 / predivide, then sums */
  FSDP_MAX = 3         /* only of FSDP_MODEL_ALL_REDUCE */
} fsdp_reduce_op;

/* Ranks that meet, and one order of their collectives, the same on all of them. The ranks are
 * `ranks` ranks, `stride` apart: rank r of the run meets the ranks with the same quotient
 * rank / (ranks * stride) and the same remainder rank % stride. */
typedef struct fsdp_communicator {
  uint32_t name; /* string: "gather" */
  uint32_t axes; /* string: the mesh axes that the ranks span: "dp"; "" for a part of an axis */
  uint32_t ranks, stride;
  uint32_t stream; /* fsdp_stream: where the plan issues its collectives; FSDP_COMPUTE: the
                      model's own */
  /* 1: the devices' copy engines gather whole groups; 0: kernels run all collectives */
  uint32_t by_copy_engine;
} fsdp_communicator;

/* A tensor of the step: a view of the arena at a fixed address. Two values may share bytes: a view
 * and its base. */
typedef struct fsdp_value {
  int64_t offset; /* arena, bytes, of the first element; -1: the value is undefined */
  uint32_t dtype; /* fsdp_dtype */
  uint32_t num_dims;
  uint32_t first_size; /* `num_dims` sizes in `integers`, then as many strides (elements) */
  uint32_t name;       /* for messages: the SSA name */
} fsdp_value;

/* One argument of an operator call. */
typedef enum fsdp_argument_kind {
  FSDP_ARG_NONE = 0,           /* absent optional, generator */
  FSDP_ARG_VALUE = 1,          /* index: value */
  FSDP_ARG_VALUE_LIST = 2,     /* index, count: values in `integers`; -1 is an absent tensor */
  FSDP_ARG_INT = 3,            /* payload.integer; for a tensor parameter a wrapped number */
  FSDP_ARG_FLOAT = 4,          /* payload.real; likewise */
  FSDP_ARG_BOOL = 5,           /* payload.integer; likewise */
  FSDP_ARG_STRING = 6,         /* index: string */
  FSDP_ARG_INT_LIST = 7,       /* index, count: `integers` */
  FSDP_ARG_FLOAT_LIST = 8,     /* index, count: `integers`, each the bits of a double */
  FSDP_ARG_BOOL_LIST = 9,      /* index, count: `integers` */
  FSDP_ARG_DTYPE = 10,         /* payload.integer: fsdp_dtype */
  FSDP_ARG_DEVICE = 11,        /* the device of the step */
  FSDP_ARG_MEMORY_FORMAT = 12, /* payload.integer: c10::MemoryFormat */
  FSDP_ARG_LAYOUT = 13,        /* torch.strided */
  FSDP_ARG_PART = 14           /* payload.integer: shards of a group; the number of this rank's */
} fsdp_argument_kind;

typedef struct fsdp_argument {
  uint32_t kind; /* fsdp_argument_kind */
  uint32_t index;
  uint32_t count;
  uint32_t reserved;
  union {
    int64_t integer;
    double real;
  } payload;
} fsdp_argument;

typedef enum fsdp_entry_kind {
  /* Calls `callee` with `num_arguments` arguments from `first_argument`. Result i of the schema (a
   * single list of tensors is flattened) is value `integers[first_result + i]`, -1 where unused. */
  FSDP_CALL = 0,
  /* Like FSDP_CALL, but the results are views of the first argument at known addresses: nothing
   * runs. */
  FSDP_VIEW = 1,
  /* Gathers group `target` on `stream`: `bytes` per rank from `source` (its gather_shard, of
   * `dtype`) to `destination` (rank by rank). One FSDP_WAIT waits for `handle`. If `communicator`
   * has the group's chunk_ranks neighbours, `source` is the chunk of an FSDP_CHUNK. With
   * `from_host`, `source` is in the host's arena, the chunk as an FSDP_STORE_START has stored it,
   * or, with parameters_on_host, the group's host_gather_shard: the runtime first copies it to its
   * part of `destination` on stream FSDP_HOST_TO_DEVICE, and gathers from there. If `dtype` is
   * FSDP_U8 and the group's gather_dtype another, `source` is the shard as encoded by FSDP_CALLs:
   * as bytes, in the per-param layout only, which FSDP_CALLs after the FSDP_WAIT decode, or as
   * 8-bit floats, one for each element. */
  FSDP_ALL_GATHER_START = 2,
  /* Reduces the gradients of group `target` by `reduce_op`. The input at `source` has `count`
   * elements of `dtype` per rank (rank by rank); this rank's result goes to `destination`. The
   * input is divided by `predivide` in place before the collective, except with FSDP_PREMUL_SUM,
   * where the collective multiplies by 1 / `predivide`. The result is divided by `postdivide`. */
  FSDP_REDUCE_SCATTER_START = 3,
  /* Compute waits for `handle`. */
  FSDP_WAIT = 4,
  /* Reshards group `target`: its gathered bytes may be reused. Nothing runs. */
  FSDP_RELEASE = 5,
  /* Copies value `source_value` into value `destination_value` (equal sizes, any strides), with a
   * cast to the destination's dtype. */
  FSDP_COPY = 6,
  /* Sets `bytes` bytes at `destination` to zero. */
  FSDP_ZERO = 7,
  /* Updates this rank's shard of group `target`, and its gather_shard, by the gradients at
   * `source`, of the group's reduce_dtype. */
  FSDP_UPDATE = 8,
  /* Reduces the reduced shard of group `target` over the replicas, in place, by `reduce_op` and
   * with the divisions of FSDP_REDUCE_SCATTER_START: `count` elements of `dtype` at `destination`
   * (and `source`). Begins on `stream` after the reduce-scatter of handle `after`, whose output it
   * reduces; the compute stream waits for neither. With FSDP_NO_HANDLE it begins after the
   * preceding entries of the compute stream. */
  FSDP_ALL_REDUCE_START = 9,
  /* Copies the parts of group `target` that its update reads from the host's arena to the arena, on
   * stream FSDP_HOST_TO_DEVICE: with parameters_on_host the first `trained_elements` of the shard
   * (host_shard to shard), with state_on_host each optimizer state (host_state to state). `bytes`
   * is their sum. One FSDP_WAIT waits for `handle`. */
  FSDP_FETCH_STATE_START = 10,
  /* Copies the same parts from the arena to the host's, on stream FSDP_DEVICE_TO_HOST; with
   * parameters_on_host also as many elements of the gather_shard, if it is not the shard itself. */
  FSDP_STORE_STATE_START = 11,
  /* Writes this rank's part of the norm of all gradients that the plan's updates read to the double
   * at `destination`: the sum of their squares (FSDP_NORM_2) or absolute values (FSDP_NORM_1), or
   * the largest absolute value (FSDP_NORM_INF). A group with an FSDP_SHARD_NORM contributes the
   * result of that entry. Occurs together with FSDP_CLIP_FACTOR, before all updates, or not at all.
   * If groups differ in `shards`, a rank only counts the groups in whose first replica it is, so
   * that each shard counts once. */
  FSDP_PARTIAL_NORM = 12,
  /* Sums the double at `destination` (and `source`), or takes the largest (FSDP_NORM_INF), in
   * place, on stream FSDP_REDUCE: over the ranks of the shard axis, or over all ranks if groups
   * differ in `shards`. `count` is 1, `dtype` FSDP_F64. One FSDP_WAIT waits for `handle`. */
  FSDP_NORM_ALL_REDUCE_START = 13,
  /* Computes the factor by which later updates multiply gradients from the total at `source`, a
   * double: min(1, clip_grad_norm / (norm + 1e-6)), where norm is the total, or its root
   * (FSDP_NORM_2). In a plan with a loss_scale, norm and gradients are first multiplied by 1 / the
   * step's scale, and later updates do nothing if the total is not finite; without clip_grad_norm
   * the factor is 1. */
  FSDP_CLIP_FACTOR = 14,
  /* Adds value `source_value` to value `destination_value`, in place (equal sizes, any strides and
   * dtypes): the sum is rounded to the destination's dtype. */
  FSDP_ACCUMULATE = 15,
  /* Copies this rank's chunk of the gathered group `target`, `count` elements of `dtype` in `bytes`
   * bytes, to `destination`. Parameter i is value `integers[first_result + i]`. Rank r of the shard
   * axis keeps the shards of all ranks n with n / m = r % chunk_ranks, where m is the number of
   * ranks of the axis divided by chunk_ranks. Their elements lie rank by rank in the flat layout,
   * in the per-param layout parameter by parameter and, for each run of the parameter, rank by
   * rank. */
  FSDP_CHUNK = 16,
  /* Runs kernel `target` on the values of its `num_arguments` arguments (FSDP_ARG_VALUE) from
   * `first_argument`; result i is value `integers[first_result + i]`. */
  FSDP_KERNEL = 17,
  /* Computes the norm of the gradients of group `target` on this rank, which the runtime keeps for
   * FSDP_PARTIAL_NORM, from `count` elements of `dtype` at `source`. */
  FSDP_SHARD_NORM = 18,
  /* Copies a reduced gradient, an activation or a chunk, `bytes` bytes, from `source` in the arena
   * to `destination` in the host's, on stream FSDP_DEVICE_TO_HOST. One FSDP_WAIT waits for
   * `handle`. `module` is the group's, or that of the operator that computed the activation. */
  FSDP_STORE_START = 19,
  /* The same from `source` in the host's arena to `destination` in the arena, on stream
   * FSDP_HOST_TO_DEVICE. */
  FSDP_FETCH_START = 20,
  /* Takes the largest of `count` non-negative numbers of FSDP_F32 at `destination` (and `source`),
   * each over the ranks of `communicator`, in place: the largest absolute values of parameters. A
   * NaN is the largest. One FSDP_WAIT waits for `handle`. */
  FSDP_AMAX_ALL_REDUCE_START = 21,
  /* Collectives of the model's own code, over all ranks of the run, of contiguous tensors of
   * `dtype` at `source`, with results at `destination`. Each begins after the preceding entries of
   * the compute stream, and ends before the following ones. Reduces `count` elements by
   * `reduce_op`: an average, a sum or a maximum. */
  FSDP_MODEL_ALL_REDUCE = 22,
  /* Gathers `bytes` bytes per rank, rank by rank. */
  FSDP_MODEL_ALL_GATHER = 23,
  /* Reduces `count` elements per rank (rank by rank) by `reduce_op`, an average or a sum; this
   * rank's go to `destination`. */
  FSDP_MODEL_REDUCE_SCATTER = 24
} fsdp_entry_kind;

/* `after` of an all-reduce that follows no reduce-scatter. */
#define FSDP_NO_HANDLE 0xffffffffu

/* One entry of the plan; the order of entries is the order of issue. Fields that a kind does not
 * name are 0. */
typedef struct fsdp_entry {
  uint8_t kind;    /* fsdp_entry_kind */
  uint8_t phase;   /* fsdp_phase */
  uint8_t stream;  /* fsdp_stream */
  uint8_t dtype;   /* fsdp_dtype */
  uint32_t target; /* group */
  uint32_t handle;
  uint32_t callee;   /* string: "aten::mm" */
  uint32_t overload; /* string: "" or "out" */
  uint32_t first_argument, num_arguments;
  uint32_t first_result, num_results;
  uint32_t coalesced; /* starts: 1 if launched together with the preceding entry, a start as well */
  int64_t rng; /* FSDP_CALL: position of the random draw within the step; -1 without a draw */
  int64_t source, destination; /* arena offsets */
  int64_t bytes, count;
  int64_t expected_ns; /* starts: how long the collective is predicted to take; 0: unknown */
  uint32_t source_value, destination_value;
  uint32_t after; /* FSDP_ALL_REDUCE_START: handle of the reduce-scatter, or FSDP_NO_HANDLE */
  uint32_t communicator; /* of collectives: in `communicators` */
  uint32_t module;       /* string: qualified name of the module */
  uint32_t location;     /* string: file:line, or "" */
  uint32_t reduce_op;    /* fsdp_reduce_op */
  uint32_t from_host;    /* FSDP_ALL_GATHER_START: 1 if `source` is in the host's arena */
  double predivide, postdivide; /* divisors of reductions; 0: nothing is divided */
} fsdp_entry;

/* A tensor of the batch; the runtime fills its value before each step. */
typedef struct fsdp_input {
  uint32_t name;
  uint32_t value;
  uint32_t microbatch; /* of the step: each microbatch has its own entry for each input */
  uint32_t reserved;
} fsdp_input;

/* A buffer of the model: whole on every rank, kept between steps. A constant with the same `value`
 * holds the buffer's initial content; weights files then do not contain the buffer. */
typedef struct fsdp_buffer {
  uint32_t name;
  uint32_t value;
  uint32_t first_alias, num_aliases; /* strings in `integers`: its other names in files */
} fsdp_buffer;

/* A literal tensor, copied into the arena at start, before a checkpoint is read. Its bytes lie in
 * `data`. */
typedef struct fsdp_constant {
  uint32_t value;
  uint32_t reserved;
  int64_t first_byte, bytes;
} fsdp_constant;

/* The part of a parameter that one rank of each replica of its group holds: elements
 * [first, first + count) of the parameter, flattened in row-major order, at element `shard_offset`
 * of the group's shard. If the parameter's shard_dim is d > 0, the part has one run of elements for
 * each index of the dimensions before d. The first run begins at `first`; runs are equally long and
 * have `count` elements together. In the parameter, the distance between runs is the number of
 * elements from dimension d on; in the shard they are adjacent. In both layouts every rank holds at
 * most one piece of a parameter. */
typedef struct fsdp_piece {
  uint32_t rank; /* on the shard axis: below the group's `shards` */
  uint32_t parameter;
  int64_t first, count;
  int64_t shard_offset;
} fsdp_piece;

typedef struct fsdp_parameter {
  uint32_t name;
  uint32_t group;
  uint32_t dtype;
  uint32_t num_dims;
  uint32_t first_size;               /* global sizes in `integers` */
  uint32_t first_alias, num_aliases; /* strings in `integers`: other names of a shared parameter */
  uint32_t first_piece, num_pieces;  /* in `pieces`, by rank */
  uint32_t optimizer; /* that updates it: 0: the plan's `optimizer`; n: `optimizer_groups`[n - 1] */
  uint32_t shard_dim; /* the dimension that is sharded; 0 in the flat layout */
} fsdp_parameter;

/* States of an optimizer: of its formula, and with the moving average of the weights, the last one.
 * Each has one element per element of the shard. */
#define FSDP_MAX_STATES 3
#define FSDP_MAX_KEPT_STATES 4

typedef struct fsdp_group {
  uint32_t name;
  uint32_t dtype;        /* of the parameters as they are updated, saved and loaded */
  uint32_t gather_dtype; /* of gathered parameters: `dtype`; if that is f32, also bf16 or f16 */
  uint32_t reduce_dtype; /* of reduced gradients: likewise */
  uint32_t layout;       /* fsdp_layout */
  uint32_t first_parameter, num_parameters;
  uint32_t state_on_host; /* 1: the optimizer state is in the host's arena between steps */
  uint32_t chunk_ranks;   /* from forward to backward this many neighbours on the shard axis hold
                             one chunk each of the group; divides the axis; 0: no chunks */
  uint32_t parameters_on_host; /* 1: so are the shard and the gather_shard */
  uint32_t shards; /* ranks over which the group is sharded, at least 1; divides world_size. Rank r
                      of the run has shard r % shards and is part of replica r / shards */
  uint32_t state_dtype[FSDP_MAX_KEPT_STATES]; /* of each state: `dtype`; if that is f32, bf16
                                            or f16, also f32 or bf16 */
  uint32_t reserved;
  int64_t shard_elements;   /* per rank, padding included; equal on all ranks */
  int64_t trained_elements; /* of parameters with gradients, which are the first: the number of
                               reduced and updated elements, and the size of each optimizer state */
  int64_t shard;            /* arena offset of this rank's shard of the parameters */
  int64_t gather_shard;     /* arena offset of this rank's input of a gather: `shard`, or if
                               gather_dtype is another dtype, the shard's copy in gather_dtype,
                               which updates write, and the runtime before the first step */
  /* Arena offsets of the optimizer's states of the shard, in the order of Optimizers.h; else -1. */
  int64_t state[FSDP_MAX_KEPT_STATES];
  /* With state_on_host: offsets in the host's arena; `state` is then the fetched copies'
   * offsets. */
  int64_t host_state[FSDP_MAX_KEPT_STATES];
  /* With parameters_on_host: likewise; `shard` and `gather_shard` are then the offsets where the
   * update reads and writes the first `trained_elements`, -1 in a plan that does not update
   * them. */
  int64_t host_shard, host_gather_shard;
} fsdp_group;

/* Options of torch.optim, as bits of `options`. */
#define FSDP_NESTEROV 1u
#define FSDP_AMSGRAD 2u
#define FSDP_MAXIMIZE 4u
#define FSDP_OWN_LR 8u /* the parameter group has its own learning rate: no flag replaces it */
#define FSDP_CENTERED 16u
#define FSDP_DECOUPLED_WEIGHT_DECAY 32u /* adamw has it without this bit */

/* Options of one of torch.optim's parameter groups; 0 where the optimizer does not have the
 * option. */
typedef struct fsdp_optimizer {
  uint32_t kind;    /* fsdp_optimizer_kind */
  uint32_t options; /* FSDP_NESTEROV, ... */
  double lr, weight_decay, momentum, beta1, beta2, eps, dampening;
  double alpha, rho, lr_decay, initial_accumulator_value, momentum_decay, ema_decay,
      clip_grad_value;
} fsdp_optimizer;

/* torch.amp.GradScaler's options; all 0 in a plan that does not scale its loss. */
typedef struct fsdp_loss_scale {
  double init; /* of the first step */
  double growth_factor, backoff_factor;
  int64_t growth_interval; /* steps */
} fsdp_loss_scale;

/* A kernel that the compiler generated, for fixed dtypes, sizes and strides. */
typedef struct fsdp_kernel {
  uint32_t name; /* string, for messages */
  uint32_t code; /* string: equal for kernels with equal code; names the function in `gpu_code` */
  uint32_t num_inputs, num_outputs;
  int64_t units; /* independent units of work, at least 1 */
  int64_t grain; /* the fewest units that are worth a thread, at least 1 */
  /* In a plan with `gpu_code`: blocks and threads per block of a launch; else 0. */
  uint32_t gpu_blocks, gpu_threads;
  uint32_t operators; /* string, for messages: the operators it computes, each once: "mul, add" */
  uint32_t reserved;
} fsdp_kernel;

/* Computes units [begin, end) of a kernel. `tensors` has the addresses of the inputs' first
 * elements, then of the outputs'. No output overlaps another tensor. Allocates nothing. Several
 * threads may compute disjoint units at once. */
typedef void (*fsdp_kernel_function)(void *const *tensors, int64_t begin, int64_t end);

/* Instruction sets with a function of each kernel: the x86-64 baseline, x86-64-v3 (AVX2, FMA, F16C)
 * and x86-64-v4 (AVX-512). On other architectures all functions are the baseline's. */
#define FSDP_NUM_KERNEL_LEVELS 3

typedef struct fsdp_plan {
  uint32_t abi_version;    /* FSDP_PLAN_ABI_VERSION */
  uint32_t struct_bytes;   /* sizeof(fsdp_plan) */
  uint32_t model;          /* string */
  uint32_t axis;           /* string: the axis of the model's mesh over which groups are sharded */
  uint32_t replicate_axis; /* string: the axis over which shards are replicated; "": none */
  uint32_t world_size;
  uint32_t replicas;  /* ranks of replicate_axis, at least 1; divides world_size. For messages:
                         groups may have other meshes (fsdp_group::shards) */
  uint32_t step_kind; /* fsdp_step_kind; an evaluation has no updates and no optimizer state */
  uint32_t num_optimizer_groups; /* of `optimizer_groups` */
  uint32_t loss_value;
  uint32_t num_handles;
  uint32_t num_microbatches; /* that a step accumulates the gradients of, at least 1 */
  uint32_t clip_norm_type;   /* fsdp_norm_type; 0: the plan does not take the gradients' norm */
  uint32_t num_communicators;
  int64_t arena_bytes;
  int64_t host_arena_bytes; /* size of the host's arena; 0: none */
  int64_t peak_live_bytes;  /* largest sum of live buffers: a lower bound of arena_bytes */
  fsdp_optimizer optimizer; /* of parameters that belong to no optimizer group */
  double clip_grad_norm;    /* the largest norm that FSDP_CLIP_FACTOR allows; 0: no clipping */
  fsdp_loss_scale loss_scale;
  double model_flops;       /* per step and rank, of products, convolutions and attention; without
                               recomputation; a multiply-add is two */
  double bound_ns;          /* lower bound on the step's duration in the search's cost model; 0: no
                               search ran */

  uint32_t num_values, num_arguments, num_entries, num_inputs, num_buffers, num_constants,
      num_groups, num_parameters, num_pieces, num_integers, num_kernels;
  uint32_t loss_scale_value; /* f32, of the step's loss scale, which the runtime writes before each
                                step; 0 without loss_scale */
  uint64_t num_string_bytes, num_data_bytes, num_gpu_code_bytes;
  const fsdp_value *values;
  const fsdp_argument *arguments;
  const fsdp_entry *entries;
  const fsdp_input *inputs;
  const fsdp_buffer *buffers;
  const fsdp_constant *constants;
  const fsdp_group *groups;
  const fsdp_parameter *parameters;
  const fsdp_piece *pieces;
  const int64_t *integers;
  const fsdp_optimizer *optimizer_groups; /* of `optimizer`'s kind; equal in the options that are
                                             of no group, see Optimizers.h */
  const fsdp_communicator *communicators; /* equal in all plans of a program */
  const fsdp_kernel *kernels;
  const char *strings;
  const unsigned char *data;
  /* For GPUs: the kernels as PTX, NUL-terminated. A function's arguments are the addresses of the
   * inputs' first elements, then of the outputs'. */
  const char *gpu_code;
  /* FSDP_NUM_KERNEL_LEVELS per kernel, by level; null in a plan without native code. */
  const fsdp_kernel_function *kernel_functions;

  /* The next step of the program, over the same state in the same arena: shards, buffers and
   * arena_bytes are equal; other bytes are not kept from one step to another. Null: the last step.
   * The first plans train, each with samples of another shape; the last ones may evaluate. */
  const struct fsdp_plan *next;
} fsdp_plan;

/* The runtime's entry point: `main` of a training binary. Returns the exit code. */
int fsdp_train_main(int argc, char **argv, const fsdp_plan *plan);

#ifdef __cplusplus
}
#endif

#endif /* FSDP_PLAN_ABI_H */
