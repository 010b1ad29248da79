//===- Device.h - Rooflines of devices --------------------------*- C++ -*-===//

#ifndef FSDP_COSTMODEL_DEVICE_H
#define FSDP_COSTMODEL_DEVICE_H

#include "fsdp/CostModel/OperatorWork.h"
#include "llvm/Support/Error.h"

namespace fsdp::cost {

/// A roofline: peaks of the data sheet (dense), and the fractions of them that kernels reach.
/// lib/CostModel/Device.cpp gives the source of every figure.
struct Device {
  llvm::StringLiteral name; // on the command line
  llvm::StringLiteral fullName;
  llvm::StringLiteral calibration; // what the fractions are from
  double f8FlopsPerSec;            // 8-bit floating point and integers
  double f16FlopsPerSec; // f16 and bf16
  double f32FlopsPerSec; // by torch's default for f32 products: without TF32
  double f64FlopsPerSec;
  double memoryBytesPerSec;
  double matrixProductFraction; // of the peak, for products and convolutions
  double productRampNs;         // added to a product's duration; at most doubles it
  double attentionFraction;     // of the peak, for fused attention
  double attentionBackwardFraction; // of the peak, for its backward
  double memoryFraction;       // of the bandwidth, for operators
  double generatedFraction;    // of the bandwidth, for generated kernels
  double elementsPerSec;       // OperatorWork::singleElements; infinite: no limit
  int64_t cachedRowBytes;      // of a row: the part that a second pass still finds in a cache
  double hostBytesPerSec;      // of the link to the host, each way; 0: shared memory
  double hostFraction;         // of it, for copies of pinned memory
  double kernelNs;             // of every kernel besides its work: to launch, fill and drain
  int64_t memoryBytes;         // 0: unknown
  int64_t reservedBytes;       // of it, for driver and libraries before a step begins
  llvm::StringLiteral network; // the default preset of Network.h

  /// Nanoseconds for the arithmetic alone, at the peak of its dtype; 0 without arithmetic.
  double getPeakNs(const OperatorWork &work) const;
  /// Nanoseconds on an otherwise idle device.
  double getDurationNs(const OperatorWork &work) const;
  /// The same for a generated kernel.
  double getGeneratedNs(const OperatorWork &work) const;

private:
  double getTrafficNs(const OperatorWork &work, double fraction) const;
};

/// The device of this name. The error lists the known names.
llvm::Expected<const Device *> lookupDevice(llvm::StringRef name);

/// The device whose name is a word of a driver's product name ("NVIDIA H100 80GB HBM3"); null
/// if there is none.
const Device *findProduct(llvm::StringRef product);

} // namespace fsdp::cost

#endif // FSDP_COSTMODEL_DEVICE_H
