//===- CheckpointReader.h - A checkpoint's tensors, in rectangles -*- C++ -*-===//
//
// Reads what CheckpointWriter wrote, on any mesh and layout, and what torch's
// HuggingFaceStorageWriter wrote of an FSDP2 model (no manifest then; names may begin with
// "model.", optimizer state with "optim.", "optimizer." or nothing). Each rank reads the elements
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
  std::vector<std::string> filePaths() const; // of all tensors
  /// Of a checkpoint that a training binary wrote.
  const std::optional<Manifest> &manifest() const { return ownManifest; }
  const std::vector<ManifestFile> &allFiles() const { return files; }
  std::string filePath(size_t file) const { return folder + "/" + files[file].name; }

  /// A line for people about each state of the optimizer that has another dtype here.
  std::vector<std::string> describeCasts(const PlanView &plan) const;

  /// Fails if there is a tensor that the plan does not have.
  Status checkNames(const PlanView &plan) const;

  /// The number of the last step: the manifest's; else what torch's optimizer state says of each
  /// parameter, or a tensor "step".
  Result<int64_t> step(const PlanView &plan) const;

  /// A whole tensor, of which files hold parts.
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
  /// What brings to memory all that `rank` holds, in the order of the files. Fails if anything of
  /// it is missing, is there twice or has another dtype or shape. Optimizer state of f32, bf16 and
  /// f16 is cast.
  Result<std::vector<Copy>> copiesFor(const PlanView &plan, unsigned rank) const;
  /// What brings elements [first, first + count) of a tensor to memory, from offset 0 on. Fails for
  /// a dtype that plans do not have.
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
    std::vector<int64_t> shape; // the least that holds all chunks
    std::vector<Chunk> chunks;
  };
  Status openManifest();
  Status findFiles();
  Status addFile(size_t index);
  Status addChunk(size_t file, const std::string &name, const StoredTensor &stored,
                  uint64_t position, std::vector<int64_t> offsets);
  const Tensor *find(const std::string &name) const;
  const Tensor *find(const StateRange &range, const PlanView &plan, unsigned rank) const;
  Status addCopies(const StateRange &range, const Tensor &tensor, std::vector<Copy> &copies) const;
  Result<double> scalar(const std::string &name, const Tensor &tensor) const;

  std::string folder;
  std::optional<Manifest> ownManifest;
  std::vector<ManifestFile> files; // checksums with a manifest alone
  std::map<std::string, Tensor, std::less<>> tensors;
};

/// A file that is open for reading.
class OpenFile {
public:
  explicit OpenFile(std::string path);
  ~OpenFile();
  OpenFile(const OpenFile &) = delete;

  /// Fills `to` with what is at `position`. Errors name the path.
  Status read(uint64_t position, std::span<std::byte> to) const;

private:
  const std::string path;
  const int descriptor, openError;
};

// Both work in pieces, so that ranks can meet in between; the arguments outlive the objects.

/// Compares files with the manifest's checksums.
class CheckpointVerifier {
public:
  /// The `share`-th of `shares` parts of the files; none without a manifest. `staging` is any
  /// memory of the host.
  CheckpointVerifier(const CheckpointReader &reader, size_t share, size_t shares,
                     std::span<std::byte> staging);
  /// Reads about `bytes` more. True once all are read; an error names the file.
  Result<bool> read(int64_t bytes);

private:
  const CheckpointReader &reader;
  const size_t shares;
  const std::span<std::byte> staging;
  size_t file; // the next one, or the one that is open
  std::optional<OpenFile> opened;
  uint64_t position = 0;
  uint32_t checksum = 0;
};

/// Brings to a rank's memory what it holds.
class CheckpointLoader {
public:
  CheckpointLoader(const CheckpointReader &reader, std::vector<CheckpointReader::Copy> copies,
                   const RankMemory &memory)
      : reader(reader), memory(memory), copies(std::move(copies)) {}
  /// Reads about `bytes` more. True once all are in memory.
  Result<bool> read(int64_t bytes);

private:
  /// A piece of a copy, in memory of the host.
  struct Staged {
    std::span<const std::byte> values; // as they go to memory
    size_t read, used;                 // bytes of the file; of the staging memory
  };
  /// Reads what fits behind the first `used` bytes of the staging memory.
  Result<Staged> stage(const CheckpointReader::Copy &copy, size_t used) const;

  const CheckpointReader &reader;
  const RankMemory &memory;
  const std::vector<CheckpointReader::Copy> copies;
  size_t next = 0;                // of the copies
  int64_t done = 0;               // bytes of it
  std::optional<OpenFile> opened; // that of copy `next`
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_CHECKPOINTREADER_H
