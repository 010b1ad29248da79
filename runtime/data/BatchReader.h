//===- BatchReader.h - Batches from files ------------------------*- C++ -*-===//
//
// Two kinds of files. A safetensors file has one tensor per input of the step, whose first
// dimension counts samples. A file of tokens, for language models, is cut into windows: with
// inputs of shape [B, T], sample s is tokens [s * T, s * T + T], of which the first T go to the
// first input and the last T to the second (the target of each token is the next one); with a
// single input, sample s is tokens [s * T, s * T + T). Samples of several files are numbered one
// file after another; no window goes from one file to the next.
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
  std::optional<TokenType> tokenType; // of files of raw tokens; see openTokens()
  std::optional<uint64_t> shuffleSeed;
  unsigned rank = 0, worldSize = 1;
  unsigned microbatches = 1; // of a step
  int64_t origin = 0;        // of the order of samples, see SampleOrder
  bool overfit = false;      // every step reads the samples of the first one
  double heldOutFraction = 0; // of the samples; 0: all are read. See SampleSplit
  uint64_t heldOutSeed = 0;
  bool readHeldOut = false; // instead of those that train
};

/// Reads the batches of one rank. Used by one thread.
class BatchReader {
public:
  /// `batch` samples a microbatch.
  BatchReader(std::vector<std::unique_ptr<SampleFile>> files, int64_t batch,
              const DataOptions &options);

  /// That are read, held out or not.
  int64_t samples() const;
  int64_t samplesHeldOut() const { return split.heldOut(); }
  /// Tokens per sample; 0 if the files do not hold tokens.
  int64_t tokensPerSample() const { return files[0]->tokensPerSample(); }
  /// For people: the file, or how many there are.
  std::string description() const;

  /// A sample of a file.
  struct Place {
    SampleFile *file;
    int64_t sample;
  };
  /// The one that is row `index` of the batch of `step`.
  Place place(int64_t step, int64_t index);

  /// Fills the inputs of `step` (from 0), in the plan's order. Allocates nothing. Fails for a token
  /// that the input's type cannot hold, and if a file has become shorter.
  Status fill(int64_t step, std::span<const std::span<std::byte>> inputs);

private:
  std::vector<std::unique_ptr<SampleFile>> files;
  std::vector<int64_t> ends; // by file: the samples of the data until its end
  int64_t batch;
  std::optional<int64_t> repeated; // microbatches that are read again and again
  bool readAhead;
  const SampleSplit split;
  const bool readHeldOut;
  SampleOrder order;
};

/// Fills the inputs of all microbatches of `step`, in the plan's order: each is a step of the
/// reader.
Status fillStep(BatchReader &reader, int64_t step, size_t inputsOfMicrobatch,
                std::span<const std::span<std::byte>> inputs);

/// Fails if a batch that was read has an index that is out of range: it says which, of which sample
/// and input, in which file, and for whom. `inputs` as for fillStep(), those of a microbatch of
/// `shapes`.
Status checkIndices(std::span<const IndexUse> uses, const std::vector<InputShape> &shapes,
                    std::span<const std::span<std::byte>> inputs, BatchReader &reader,
                    int64_t step);

/// Opens the files and checks them against the inputs: names, dtypes, shapes, and a batch for every
/// microbatch of every rank. Errors name the file, the input and both values.
Result<std::unique_ptr<BatchReader>> openData(const DataOptions &options,
                                              const std::vector<InputShape> &inputs);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_BATCHREADER_H
