//===- CudaLaunches.cpp - Generated kernels on a GPU -----------------------===//

#include "cuda/CudaLaunches.h"

using namespace fsdp::rt;

CudaLaunches::~CudaLaunches() {
  if (library)
    (void)calls.libraryUnload(library);
}

Status CudaLaunches::load(const PlanView &view) {
  std::string log;
  cudaError_t error = calls.libraryLoadData(&library, view.tables().gpu_code, &log);
  if (error == cudaSuccess) {
    kernels.resize(view.kernels().size());
    return {};
  }
  library = nullptr;
  Status failed = checkCuda(calls, error, "the plan's generated kernels cannot be loaded");
  const std::string line = log.substr(0, log.find('\n'));
  return line.empty() ? failed : Status::error(failed.message() + ": " + line);
}

Status CudaLaunches::add(const PlanView &view, const fsdp_entry &entry,
                         std::vector<void *> tensors) {
  if (view.tables().num_gpu_code_bytes == 0)
    return Status::error(view.describeEntry(entry) +
                         ": generated for CPUs; capture the step with --target cuda");
  if (!library)
    if (Status status = load(view); !status.ok())
      return status;
  const fsdp_kernel &kernel = view.kernelOf(entry);
  cudaKernel_t &native = kernels[entry.target];
  if (!native)
    if (cudaError_t error = calls.libraryGetKernel(&native, library, view.string(kernel.code)))
      return checkCuda(calls, error, view.describeEntry(entry) + ": cudaLibraryGetKernel");
  Launch &added = launches.emplace_back();
  added.kernel = native;
  added.blocks = kernel.gpu_blocks;
  added.threads = kernel.gpu_threads;
  added.tensors = std::move(tensors);
  for (void *&tensor : added.tensors)
    added.arguments.push_back(&tensor);
  added.name = view.string(kernel.name);
  return {};
}

Status CudaLaunches::run(size_t index, CudaStream &compute) {
  if (!compute.error().ok())
    return compute.error();
  Launch &launch = launches[index];
  cudaError_t error = calls.launchKernel(launch.kernel, launch.blocks, launch.threads,
                                         launch.arguments.data(), compute.native());
  // This runs in every step, so a message is built only for errors.
  return error == cudaSuccess ? Status()
                              : compute.note(checkCuda(calls, error, "the kernel " + launch.name));
}
