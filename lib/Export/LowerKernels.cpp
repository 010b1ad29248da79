//===- LowerKernels.cpp - Generated kernels of a plan ---------------------===//

#include "Lowering.h"
#include "fsdp/Codegen/CpuKernels.h"
#include "fsdp/Codegen/PtxKernels.h"
#include "fsdp/IR/TensorLayout.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace fsdp;

/// The operators of the body's calls, each once, in order; views compute nothing.
static std::string listOperators(KernelOp kernel) {
  llvm::SetVector<StringRef> names;
  for (auto call : kernel.getBody().front().getOps<aten::CallOp>())
    if (!call.isView())
      names.insert(call.getBaseName());
  return llvm::join(names, ", ");
}

LogicalResult Lowering::lowerKernels() {
  SmallVector<KernelOp> kernels(module.getOps<KernelOp>());
  FailureOr<codegen::CpuKernels> code = codegen::buildCpuKernels(kernels);
  if (failed(code))
    return failure();
  PlanTables &tables = builder.tables;
  for (auto [kernel, native] : llvm::zip_equal(kernels, code->kernels)) {
    kernelOf[kernel.getSymNameAttr()] = tables.kernels.size();
    tables.kernels.push_back(
        {builder.addString(kernel.getSymName()), builder.addString(native.code),
         kernel.getBody().front().getNumArguments(),
         static_cast<uint32_t>(kernel.getYielded().size()), native.units, native.grain,
         /*gpu_blocks=*/0, /*gpu_threads=*/0, builder.addString(listOperators(kernel)),
         /*reserved=*/0});
    // Architectures without levels use one function for all levels.
    for (size_t level = 0; level < FSDP_NUM_KERNEL_LEVELS; ++level)
      tables.kernelFunctions.push_back(
          native.functions[std::min(level, native.functions.size() - 1)]);
  }
  tables.kernelCode = std::move(code->bitcode);
  return getTarget(module) == Target::Cuda ? lowerGpuKernels(kernels) : success();
}

LogicalResult Lowering::lowerGpuKernels(ArrayRef<KernelOp> kernels) {
  FailureOr<codegen::PtxKernels> code = codegen::buildPtxKernels(kernels, chip);
  if (failed(code))
    return failure();
  for (auto [i, gpu] : llvm::enumerate(code->kernels)) {
    KernelOp kernel = kernels[i];
    if (gpu.blocks > std::numeric_limits<int32_t>::max())
      return kernel.emitError("kernel @")
             << kernel.getSymName() << " has " << gpu.blocks
             << " blocks of threads on a GPU, at most 2147483647 can be launched";
    builder.tables.kernels[i].gpu_blocks = static_cast<uint32_t>(gpu.blocks);
    builder.tables.kernels[i].gpu_threads = static_cast<uint32_t>(gpu.threads);
  }
  builder.tables.gpuCode = std::move(code->ptx);
  return success();
}

LogicalResult Lowering::lower(LaunchOp launch) {
  SmallVector<int64_t> results;
  for (auto [i, value] : llvm::enumerate(launch.getResults())) {
    FailureOr<int64_t> offset = getOffset(
        launch, launch.getOffsets() ? std::optional((*launch.getOffsets())[i]) : std::nullopt);
    if (failed(offset) || failed(define(value, *offset)))
      return failure();
    results.push_back(valueOf[value]);
  }
  PlanTables &tables = builder.tables;
  uint32_t firstArgument = tables.arguments.size();
  for (Value operand : launch.getOperands()) {
    fsdp_argument argument{};
    argument.kind = FSDP_ARG_VALUE;
    argument.index = valueOf.lookup(operand);
    tables.arguments.push_back(argument);
  }
  uint32_t firstResult = builder.addIntegers(results);
  fsdp_entry &entry = builder.addEntry(FSDP_KERNEL, getPlanPhase(launch.getPhase()));
  entry.target = kernelOf.lookup(launch.getKernelAttr().getAttr());
  entry.first_argument = firstArgument;
  entry.num_arguments = launch.getOperands().size();
  entry.first_result = firstResult;
  entry.num_results = results.size();
  entry.rng = -1;
  entry.module = builder.addString(launch.getScope().getModule());
  entry.location = builder.addLocation(launch.getLoc());
  return success();
}
