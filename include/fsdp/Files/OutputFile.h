//===- OutputFile.h - Atomic replacement of files ---------------*- C++ -*-===//
//
// How tools and training binaries write files. Standard library and POSIX only.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_FILES_OUTPUTFILE_H
#define FSDP_FILES_OUTPUTFILE_H

#include <cstddef>
#include <optional>
#include <string>

namespace fsdp {

/// A file that is being written. Until `commit` the path keeps its old content: the bytes go to a
/// temporary file in the same directory, which has no name if the file system allows that, so that
/// it never outlives the process. `commit` makes the bytes durable and renames the file into place.
/// Without `commit` the temporary file is removed.
///
/// - An existing file keeps its mode; a file without write permission is refused.
/// - A symbolic link is kept: its target is replaced, in the target's directory.
/// - Devices, pipes and other special files (/dev/stdout) are written directly and never replaced;
///   `commit` then does nothing.
///
/// Move-only, for one thread. Errors are texts without the path ("is a directory").
class OutputFile {
public:
  enum class Mode { Data, Executable };

  /// Opens the path, or returns nullopt and sets `problem` if it cannot be written.
  static std::optional<OutputFile> open(const std::string &path, std::string &problem,
                                        Mode mode = Mode::Data);

  OutputFile(OutputFile &&other) noexcept;
  OutputFile &operator=(OutputFile &&other) noexcept;
  ~OutputFile();

  /// The path that `open` received.
  const std::string &getPath() const { return path; }
  /// The descriptor for writing, owned by this object.
  int getDescriptor() const { return descriptor; }
  /// True if the bytes go to a device or pipe.
  bool isDirect() const { return folder < 0; }
  /// The path of a named temporary file, to be removed if a signal ends the process.
  std::string getTemporaryPath() const;

  /// `write` appends bytes. Both functions return the error, if any.
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
