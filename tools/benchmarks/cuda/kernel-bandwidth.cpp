//===- kernel-bandwidth.cpp - GB/s of the backend's kernels ---------------===//
//
// Prints, as JSON, the bytes per second that each kernel reads and writes (1 GB = 1e9 bytes) on
// device 0, and their ratio to a copy within the device (cudaMemcpyAsync, bytes read plus bytes
// written). A figure is the median over repetitions between two events, after a warm-up; choose
// more elements than the caches hold. All values have the magnitude of gradients, in fp32 and bf16,
// since the speed of divisions depends on the values.
//
//===----------------------------------------------------------------------===//

#include "cuda/kernels/Kernels.h"
#include "executor/OptimizerSteps.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

using namespace fsdp::rt;

static void check(cudaError_t error, const std::string &what) {
  if (error != cudaSuccess)
    throw std::runtime_error(what + ": " + cudaGetErrorString(error) + " (" +
                             cudaGetErrorName(error) + ")");
}

namespace {
struct Options {
  int64_t elements = int64_t(1) << 28;
  int repetitions = 50;
};

class Benchmark {
public:
  explicit Benchmark(const Options &options) : options(options) {
    check(cudaSetDevice(0), "device 0");
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
    check(cudaEventCreate(&begin), "cudaEventCreate");
    check(cudaEventCreate(&end), "cudaEventCreate");
    for (float *&buffer : buffers) {
      check(cudaMalloc(reinterpret_cast<void **>(&buffer), options.elements * sizeof(float)),
            "cudaMalloc of " + std::to_string(options.elements) + " floats");
    }
    check(cudaMalloc(reinterpret_cast<void **>(&sums), partialNormBlocks(options.elements) * 8),
          "cudaMalloc");
    check(cudaMalloc(reinterpret_cast<void **>(&scalars), sizeof(OptimizerScalars)), "cudaMalloc");
  }
  ~Benchmark() {
    for (float *buffer : buffers)
      cudaFree(buffer);
    cudaFree(sums);
    cudaFree(scalars);
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    cudaStreamDestroy(stream);
  }
  Benchmark(const Benchmark &) = delete;
  Benchmark &operator=(const Benchmark &) = delete;

  void run() {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
    double copy = gigabytesPerSecond(8, [&] {
      return cudaMemcpyAsync(buffers[1], buffers[0], options.elements * sizeof(float),
                             cudaMemcpyDeviceToDevice, stream);
    });
    std::printf("{\"device\": \"%s\", \"elements\": %lld, \"repetitions\": %d, "
                "\"copy_gb_per_s\": %.1f, \"kernels\": [",
                properties.name, static_cast<long long>(options.elements), options.repetitions,
                copy);
    copyRate = copy;
    updates();
    for (fsdp_dtype dtype : {FSDP_F32, FSDP_BF16})
      print("partial_norm " + name(dtype), size(dtype), [&] {
        return launchKernel(PartialNormArguments{buffers[0], dtype, options.elements, sums},
                            stream);
      });
    for (fsdp_dtype to : {FSDP_F32, FSDP_BF16})
      for (fsdp_dtype from : {FSDP_F32, FSDP_BF16})
        for (float toScale : {0.f, 1.f})
          print(std::string(toScale != 0 ? "accumulate " : "cast ") + name(from) + " to " +
                    name(to),
                size(from) + size(to) * (toScale != 0 ? 2 : 1), [&] {
                  return launchKernel(AccumulateArguments{buffers[1], to, toScale, buffers[0], from,
                                                          0.5f, options.elements},
                                      stream);
                });
    std::printf("]}\n");
  }

private:
  /// Fills all buffers with positive numbers from 2^-10 to 2^-6, also if they are read as bf16.
  void fill() {
    std::vector<uint32_t> words(static_cast<size_t>(std::min<int64_t>(options.elements, 1 << 20)));
    uint32_t state = 1;
    for (uint32_t &word : words) {
      state = state * 1664525 + 1013904223; // Numerical Recipes' generator
      const uint32_t exponent = 117 + (state >> 30), fraction = state >> 16 & 0x7f;
      word = (exponent << 7 | fraction) * 0x10001;
    }
    const int64_t bytes = options.elements * int64_t(sizeof(float));
    for (float *buffer : buffers) {
      auto *to = reinterpret_cast<char *>(buffer);
      auto done = static_cast<int64_t>(words.size() * sizeof(uint32_t));
      check(cudaMemcpyAsync(to, words.data(), done, cudaMemcpyHostToDevice, stream), "cudaMemcpy");
      for (; done < bytes; done *= 2)
        check(cudaMemcpyAsync(to + done, to, std::min(done, bytes - done), cudaMemcpyDeviceToDevice,
                              stream),
              "cudaMemcpy");
    }
    check(cudaStreamSynchronize(stream), "cudaMemcpy");
  }

  static std::string name(fsdp_dtype dtype) { return dtype == FSDP_F32 ? "f32" : "bf16"; }
  static int size(fsdp_dtype dtype) { return dtype == FSDP_F32 ? 4 : 2; }

  struct Update {
    const char *name;
    fsdp_optimizer_kind kind;
    std::array<bool, FSDP_MAX_STATES> states;
  };

  void updates() {
    for (const Update &update :
         {Update{"sgd_momentum", FSDP_SGD, {true}}, Update{"adam", FSDP_ADAM, {true, true}},
          Update{"adamw", FSDP_ADAMW, {true, true}}, Update{"rmsprop", FSDP_RMSPROP, {true}},
          Update{"rmsprop_centered_momentum", FSDP_RMSPROP, {true, true, true}},
          Update{"adagrad", FSDP_ADAGRAD, {true}}, Update{"adamax", FSDP_ADAMAX, {true, true}},
          Update{"nadam", FSDP_NADAM, {true, true}}, Update{"radam", FSDP_RADAM, {true, true}},
          Update{"adadelta", FSDP_ADADELTA, {true, true}}}) {
      fsdp_optimizer optimizer{};
      optimizer.kind = update.kind;
      optimizer.weight_decay = 0.1;
      optimizer.momentum = optimizer.beta1 = optimizer.alpha = optimizer.rho = 0.9;
      optimizer.beta2 = 0.999;
      optimizer.eps = 1e-8;
      optimizer.momentum_decay = 4e-3;
      const OptimizerScalars own = OptimizerSteps(optimizer).at(10, 1e-3); // radam is rectified
      check(cudaMemcpy(scalars, &own, sizeof(own), cudaMemcpyHostToDevice), "cudaMemcpy");
      const bool isUsual = update.kind <= FSDP_ADAMW;
      for (fsdp_dtype gradient : {FSDP_F32, FSDP_BF16})
        for (bool casts : {false, true})
          if (isUsual ||
              casts == (gradient == FSDP_BF16)) // the others have one kernel for all four
            measure(update, FSDP_F32, gradient, casts);
      measure(update, FSDP_BF16, FSDP_BF16, false);
    }
  }

  /// An update of a shard and state of `dtype`.
  void measure(const Update &update, fsdp_dtype dtype, fsdp_dtype gradient, bool casts) {
    OptimizerUpdateArguments arguments{.kind = update.kind,
                                       .elements = options.elements,
                                       .parameters = buffers[0],
                                       .gradients = buffers[1],
                                       .gradientDtype = gradient,
                                       .state = {},
                                       .gathered = casts ? buffers[2] : nullptr,
                                       .gatheredDtype = FSDP_BF16,
                                       .scalars = scalars,
                                       .clipFactor = nullptr,
                                       .dtype = dtype};
    // Parameters and states are read and written, gradients are read, the cast is written.
    int bytes = 2 * size(dtype) + size(gradient) + (casts ? 2 : 0);
    for (int i = 0; i < FSDP_MAX_STATES; ++i)
      if (update.states[i]) {
        arguments.state[i] = buffers[3 + i];
        bytes += 2 * size(dtype);
      }
    const std::string dtypes = dtype == FSDP_BF16 ? " of bf16"
                                                  : " gradients " + name(gradient) + " gathers " +
                                                        (casts ? "bf16" : "f32");
    print(update.name + dtypes, bytes, [&] { return launchKernel(arguments, stream); });
  }

  double gigabytesPerSecond(int bytesPerElement, const std::function<cudaError_t()> &launch) {
    fill();
    std::vector<float> milliseconds;
    for (int i = 0; i < options.repetitions + 3; ++i) {
      check(cudaEventRecord(begin, stream), "cudaEventRecord");
      check(launch(), "a launch");
      check(cudaEventRecord(end, stream), "cudaEventRecord");
      check(cudaEventSynchronize(end), "a kernel");
      float duration = 0;
      check(cudaEventElapsedTime(&duration, begin, end), "cudaEventElapsedTime");
      if (i >= 3)
        milliseconds.push_back(duration);
    }
    auto median = milliseconds.begin() + static_cast<std::ptrdiff_t>(milliseconds.size() / 2);
    std::nth_element(milliseconds.begin(), median, milliseconds.end());
    return bytesPerElement * static_cast<double>(options.elements) / (*median * 1e6);
  }

  void print(const std::string &kernel, int bytesPerElement,
             const std::function<cudaError_t()> &launch) {
    double rate = gigabytesPerSecond(bytesPerElement, launch);
    std::printf("%s\n  {\"kernel\": \"%s\", \"bytes_per_element\": %d, \"gb_per_s\": %.1f, "
                "\"of_copy\": %.3f}",
                separator, kernel.c_str(), bytesPerElement, rate, rate / copyRate);
    separator = ",";
  }

  const Options options;
  cudaStream_t stream = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr;
  float *buffers[3 + FSDP_MAX_STATES] = {};
  double *sums = nullptr;
  OptimizerScalars *scalars = nullptr;
  double copyRate = 0;
  const char *separator = "";
};

int64_t number(const std::string &flag, const char *text, int64_t most) {
  char *end = nullptr;
  long long value = text ? std::strtoll(text, &end, 10) : 0;
  if (!text || *end != '\0' || value < 1 || value > most)
    throw std::runtime_error(flag + " takes a number of 1 to " + std::to_string(most) + ", got '" +
                             (text ? text : "nothing") + "'");
  return value;
}

Options parse(int argc, char **argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    std::string flag = argv[i];
    if (flag == "--elements")
      options.elements = number(flag, argv[i + 1], int64_t(1) << 36);
    else if (flag == "--repetitions")
      options.repetitions = static_cast<int>(number(flag, argv[i + 1], 100000));
    else
      throw std::runtime_error("unknown flag '" + flag + "'; flags: --elements N --repetitions N");
  }
  return options;
}
} // namespace

int main(int argc, char **argv) {
  try {
    Benchmark(parse(argc, argv)).run();
    return 0;
  } catch (const std::exception &error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
