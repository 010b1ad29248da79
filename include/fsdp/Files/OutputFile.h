//===- OutputFile.h - A file that appears whole or not at all ----*- C++ -*-===//
//
// The one way in which tools and training binaries write files. Standard library and POSIX only.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_FILES_OUTPUTFILE_H
#define FSDP_FILES_OUTPUTFILE_H

#include <cstddef>
#include <optional>
#include <string>

namespace fsdp {

/// A file that is being written. Until `commit` the path holds what it held before: the bytes go to
/// a temporary file in the same directory, which has no name where the file system allows that, so
/// that nothing of it outlives the process, however that ends. `commit` makes the bytes durable and
/// puts the file in place by rename; without it the temporary file is removed.
///
/// - A file that exists keeps its mode; one that may not be written is refused.
/// - A symbolic link stays: the file it names is replaced, in that file's directory.
/// - What is no regular file (a device, a pipe, /dev/stdout) is written directly and never
/// replaced;
///   `commit` then has nothing to do.
///
/// Move-only, for one thread. Problems are texts without the path ("is a directory").
class OutputFile {
public:
  enum class Mode { Data, Executable };

  /// None, and `problem` says why, if the path cannot be written.
  static std::optional<OutputFile> open(const std::string &path, std::string &problem,
                                        Mode mode = Mode::Data);

  OutputFile(OutputFile &&other) noexcept;
  OutputFile &operator=(OutputFile &&other) noexcept;
  ~OutputFile();

  /// As it was given to `open`.
  const std::string &getPath() const { return path; }
  /// To write to; owned by this object.
  int getDescriptor() const { return descriptor; }
  /// Whether the bytes go to a device or pipe.
  bool isDirect() const { return folder < 0; }
  /// The path of the temporary file where it has one, to be removed if a signal ends the process.
  std::string getTemporaryPath() const;

  /// Writes all bytes at the end of what was written. Both return what went wrong, if anything did.
  [[nodiscard]] std::optional<std::string> write(const void *data, size_t bytes);
  [[nodiscard]] std::optional<std::string> commit();

private:
  OutputFile() = default;
  void release();

  std::string path;
  std::string folderPath, name; // of the file to replace
  std::string temporary;        // in the folder; empty: it has no name
  int descriptor = -1;
  int folder = -1; // -1: direct
};

} // namespace fsdp

#endif // FSDP_FILES_OUTPUTFILE_H
