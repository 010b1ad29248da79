//===- BatchReader.h - Batches from files ------------------------*- C++ -*-===//
//
// There are two kinds of data files. A safetensors file has one tensor per input of the step, whose
// first dimension counts samples. A file of tokens, for language models, is cut into windows: with
// inputs of shape [B, T], sample s is tokens [s * T, s * T + T], of which the first T go to the
// first input and the last T to the second (the target of each token is the next one); with a
// single input, sample s is tokens [s * T, s * T + T). Samples of several files are numbered one
// file after another; no window crosses from one file to the next.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_BATCHREADER_H
#define FSDP_RUNTIME_BATCHREADER_H

#include "Status.h"
#include "data/IndexUses.h"
#include "data/SampleFile.h"
#include "data/SampleOrder.h"
#include "plan/PlanView.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace fsdp::rt {

/// The plan's inputs of one microbatch, checked: at least one, contiguous, all with the same first
/// dimension, the same in all microbatches.
Result<std::vector<InputShape>> planInputs(const PlanView &plan);

struct DataOptions {
  std::vector<std::string> paths;     // at least one
  std::optional<TokenType> tokenType; // for files of raw tokens; see openTokens()
  std::optional<uint64_t> shuffleSeed;
  unsigned rank = 0, worldSize = 1;
  unsigned microbatches = 1; // of a step
  int64_t origin = 0;        // first position in the order of samples, see SampleOrder
  bool overfit = false;      // every step reads the samples of the first one
  double heldOutFraction = 0; // fraction of the samples to hold out; 0: none. See SampleSplit
  uint64_t heldOutSeed = 0;
  bool readHeldOut = false; // read the held-out samples instead of the training samples
};

/// Reads the batches of one rank. Used by one thread.
class BatchReader {
public:
  /// `batch`: samples per microbatch.
  BatchReader(std::vector<std::unique_ptr<SampleFile>> files, int64_t batch,
              const DataOptions &options);

  /// The number of samples that this reader reads: the held-out ones, or the others.
  int64_t samples() const;
  int64_t samplesHeldOut() const { return split.heldOut(); }
  /// Tokens per sample; 0 if the files do not hold tokens.
  int64_t tokensPerSample() const { return files[0]->tokensPerSample(); }
  /// For people: the file's name, or the number of files.
  std::string description() const;

  /// A sample of a file.
  struct Place {
    SampleFile *file;
    int64_t sample;
  };
  /// The sample in row `index` of the batch of `step`.
  Place place(int64_t step, int64_t index);

  /// Fills the inputs of `step` (from 0), in the plan's order. Allocates nothing. Fails if the
  /// input's type cannot hold a token, or if a file has become shorter.
  Status fill(int64_t step, std::span<const std::span<std::byte>> inputs);

private:
  std::vector<std::unique_ptr<SampleFile>> files;
  std::vector<int64_t> ends; // for each file, the number of samples up to its end
  int64_t batch;
  std::optional<int64_t> repeated; // number of microbatches that are read repeatedly
  bool readAhead;
  const SampleSplit split;
  const bool readHeldOut;
  SampleOrder order;
};

/// Fills the inputs of all microbatches of `step`, in the plan's order. Each microbatch is one step
/// of the reader.
Status fillStep(BatchReader &reader, int64_t step, size_t inputsOfMicrobatch,
                std::span<const std::span<std::byte>> inputs);

/// Fails if a batch has an index out of range. The error names the index, its sample, input and
/// file, and the operator that uses it. `inputs` as for fillStep(); `shapes` are the inputs of one
/// microbatch.
Status checkIndices(std::span<const IndexUse> uses, const std::vector<InputShape> &shapes,
                    std::span<const std::span<std::byte>> inputs, BatchReader &reader,
                    int64_t step);

/// Opens the files and checks them against the inputs: names, dtypes, shapes, and a batch for every
/// microbatch of every rank. Errors name the file, the input and both values.
Result<std::unique_ptr<BatchReader>> openData(const DataOptions &options,
                                              const std::vector<InputShape> &inputs);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_BATCHREADER_H
