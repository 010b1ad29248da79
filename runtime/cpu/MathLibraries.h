//===- MathLibraries.h - The first calls of MKL ------------------*- C++ -*-===//

#ifndef FSDP_RUNTIME_CPU_MATHLIBRARIES_H
#define FSDP_RUNTIME_CPU_MATHLIBRARIES_H

namespace fsdp::rt {

/// Makes the first calls of the libraries under torch's operators, on this thread. To be called
/// before several threads run operators. Of two ranks as threads of a process, whose first calls
/// came at the same time, one had other last bits in its first forward, in 1 or 2 of 100 runs on a
/// busy machine: we think that MKL was finding out on which processor it runs. One call before was
/// enough, of a product or of a vector function.
void startMathLibraries();

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_CPU_MATHLIBRARIES_H
