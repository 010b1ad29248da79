//===- MathLibraries.h - The first calls of MKL ------------------*- C++ -*-===//

#ifndef FSDP_RUNTIME_CPU_MATHLIBRARIES_H
#define FSDP_RUNTIME_CPU_MATHLIBRARIES_H

namespace fsdp::rt {

/// Makes the first calls of the libraries under torch's operators, on this thread. To be called
/// before several threads run operators: MKL finds out on which processor it runs when it is first
/// called, and a thread whose call comes meanwhile may get the results of code for another
/// processor, with other last bits.
void startMathLibraries();

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_CPU_MATHLIBRARIES_H
