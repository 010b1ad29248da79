//===- Reduction.h - Element-wise reductions in rank order -------*- C++ -*-===//

#ifndef FSDP_RUNTIME_COMM_REDUCTION_H
#define FSDP_RUNTIME_COMM_REDUCTION_H

#include "comm/Communicator.h"

#include <span>

namespace fsdp::rt {

/// "sum", "average", "max".
const char *reduceOpName(ReduceOp op);

/// An error if no backend reduces `dtype` with `op`: bool, i16 (which gloo lacks), averages of
/// integers.
Status checkReduction(fsdp_dtype dtype, ReduceOp op);

/// output[i] = inputs[0][i] op inputs[1][i] op …, for `count` elements, as if tensors of `dtype`
/// were added one after another: each addition is rounded to `dtype`, integers wrap around, and a
/// maximum with a NaN is a NaN. Average then divides by the number of inputs. One pass over memory.
/// `output` may be one of the inputs. Expects what checkReduction() accepts.
void reduceInOrder(std::span<const std::byte *const> inputs, std::byte *output, size_t count,
                   fsdp_dtype dtype, ReduceOp op);

/// data[i] /= divisor or data[i] *= factor, rounded to `dtype`, a floating-point type. The divisor
/// or factor is in fp32, or in f64 for f64 data, as torch's div_ and mul_ take it.
void divideInPlace(std::byte *data, size_t count, fsdp_dtype dtype, double divisor);
void multiplyInPlace(std::byte *data, size_t count, fsdp_dtype dtype, double factor);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_COMM_REDUCTION_H
