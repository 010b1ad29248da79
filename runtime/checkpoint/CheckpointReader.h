//===- CheckpointReader.h - Reads a checkpoint's tensors ------ -*- C++ -*-===//
//
// Reads checkpoints of CheckpointWriter, from any mesh and layout, and checkpoints of FSDP2 models
// that torch's HuggingFaceStorageWriter wrote (without a manifest; names may begin with "model.",
// names of optimizer state with "optim.", "optimizer." or no prefix). Each rank reads the elements
// that it holds, whichever files have them. No file is trusted.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_CHECKPOINTREADER_H
#define FSDP_RUNTIME_CHECKPOINTREADER_H

#include "checkpoint/CheckpointWriter.h"
#include "checkpoint/SafetensorsReader.h"

#include <map>
#include <optional>

namespace fsdp::rt {

class CheckpointReader {
public:
  /// Reads the manifest and all files' headers. An error names the file that is missing, damaged or
  /// foreign.
  static Result<CheckpointReader> open(const std::string &folder);

  const std::string &path() const { return folder; }
  std::vector<std::string> filePaths() const; // of the files of all tensors
  /// Set for a checkpoint that a training binary wrote.
  const std::optional<Manifest> &manifest() const { return ownManifest; }
  const std::vector<ManifestFile> &allFiles() const { return files; }
  std::string filePath(size_t file) const { return folder + "/" + files[file].name; }

  /// Lines for people about optimizer states whose dtype in the checkpoint is not the plan's, and
  /// about averages of weights that the checkpoint does not have.
  std::vector<std::string> describeDifferences(const PlanView &plan) const;

  /// Fails if there is a tensor that the plan does not have.
  Status checkNames(const PlanView &plan) const;

  /// The number of the last step: the manifest's, else the step of torch's optimizer state for each
  /// parameter, or a tensor "step".
  Result<int64_t> step(const PlanView &plan) const;

  /// Fails if the products of momenta of nadam are not those of the plan's options after `step`
  /// steps, from which updates compute them.
  Status checkProducts(const PlanView &plan, int64_t step) const;

  /// A whole tensor, whose parts may be in several files.
  struct Listed {
    std::string name, dtypeName;
    std::optional<fsdp_dtype> dtype; // see StoredTensor
    std::vector<int64_t> shape;
  };
  /// All tensors, by name.
  std::vector<Listed> list() const;

  /// Consecutive elements of a file that go to consecutive elements of memory, of the same dtype or
  /// cast (isCast()).
  struct Copy {
    size_t file;
    uint64_t position;
    int64_t bytes;  // in the file
    int64_t offset; // in the arena, or the host's
    bool onHost;
    fsdp_dtype stored, dtype; // in the file and in memory

    bool isCast() const { return stored != dtype; }
  };
  /// The copies that bring all elements that `rank` holds to memory, in the order of the files.
  /// Fails if an element is missing or stored twice, or if a tensor has another dtype or shape.
  /// Optimizer state of f32, bf16 and f16 is cast.
  Result<std::vector<Copy>> copiesFor(const PlanView &plan, unsigned rank) const;
  /// The copies that bring elements [first, first + count) of a tensor to memory, from offset 0 on.
  /// Fails for a dtype that plans do not have.
  Result<std::vector<Copy>> copiesOf(const Listed &tensor, int64_t first, int64_t count) const;

private:
  struct Chunk {
    size_t file;
    uint64_t position; // of its bytes in the file
    Rectangle part;
  };
  struct Tensor {
    std::string dtypeName;
    std::optional<fsdp_dtype> dtype;
    std::vector<int64_t> shape; // the smallest shape that holds all chunks
    std::vector<Chunk> chunks;
  };
  Status openManifest();
  Status findFiles();
  Status addFile(size_t index);
  Status addChunk(size_t file, const std::string &name, const StoredTensor &stored,
                  uint64_t position, std::vector<int64_t> offsets);
  const Tensor *find(const std::string &name) const;
  const Tensor *find(const StateRange &range, const PlanView &plan, unsigned rank) const;
  const Tensor *findState(const PlanView &plan, const fsdp_parameter &parameter,
                          unsigned state) const;
  Status addCopies(const StateRange &range, const Tensor &tensor, std::vector<Copy> &copies) const;
  Result<double> scalar(const std::string &name, const Tensor &tensor) const;

  std::string folder;
  std::optional<Manifest> ownManifest;
  std::vector<ManifestFile> files; // checksums only with a manifest
  std::map<std::string, Tensor, std::less<>> tensors;
};

/// A file that is open for reading.
class OpenFile {
public:
  explicit OpenFile(std::string path);
  ~OpenFile();
  OpenFile(const OpenFile &) = delete;

  /// Fills `to` with the bytes at `position`. Errors name the path.
  Status read(uint64_t position, std::span<std::byte> to) const;

private:
  const std::string path;
  const int descriptor, openError;
};

// Both classes below read in portions, so that ranks can meet in between. The arguments outlive the
// objects.

/// Verifies files by the manifest's checksums.
class CheckpointVerifier {
public:
  /// Verifies the `share`-th of `shares` equal parts of the files; nothing without a manifest.
  /// `staging` is any host memory.
  CheckpointVerifier(const CheckpointReader &reader, size_t share, size_t shares,
                     std::span<std::byte> staging);
  /// Reads about `bytes` more. True once all bytes are read; an error names the file.
  Result<bool> read(int64_t bytes);

private:
  const CheckpointReader &reader;
  const size_t shares;
  const std::span<std::byte> staging;
  size_t file; // the open one, or the next
  std::optional<OpenFile> opened;
  uint64_t position = 0;
  uint32_t checksum = 0;
};

/// Loads a rank's elements into its memory.
class CheckpointLoader {
public:
  CheckpointLoader(const CheckpointReader &reader, std::vector<CheckpointReader::Copy> copies,
                   const RankMemory &memory)
      : reader(reader), memory(memory), copies(std::move(copies)) {}
  /// Reads about `bytes` more. True once all elements are in memory.
  Result<bool> read(int64_t bytes);

private:
  /// A portion of a copy, in host memory.
  struct Staged {
    std::span<const std::byte> values; // cast as they go to memory
    size_t read, used;                 // bytes of the file; bytes of the staging memory
  };
  /// Reads as much as fits after the first `used` bytes of the staging memory.
  Result<Staged> stage(const CheckpointReader::Copy &copy, size_t used) const;

  const CheckpointReader &reader;
  const RankMemory &memory;
  const std::vector<CheckpointReader::Copy> copies;
  size_t next = 0;                // of the copies
  int64_t done = 0;               // bytes of copy `next`
  std::optional<OpenFile> opened; // the file of copy `next`
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_CHECKPOINTREADER_H
