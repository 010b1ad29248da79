//===- EntryBytes.h - The bytes that an entry reads and writes -*- C++ -*-===//

#ifndef FSDP_RUNTIME_ENTRYBYTES_H
#define FSDP_RUNTIME_ENTRYBYTES_H

#include "plan/PlanView.h"

#include <vector>

namespace fsdp::rt {

/// Bytes of the arena: [begin, begin + bytes).
struct ByteRange {
  int64_t begin = 0, bytes = 0;
};

/// The bytes of the arena that an entry reads and writes. Values may share bytes, as views or
/// otherwise.
struct EntryBytes {
  /// Ranges that are written completely, so that their earlier contents are lost. Entries may write
  /// further bytes.
  std::vector<ByteRange> overwrites;
  /// The entry is a start: it reads and writes until the wait for its handle.
  bool untilWait = false;

  static EntryBytes of(const PlanView &view, const fsdp_entry &entry);
};

/// Bytes of the distinct elements of each value that a call or a kernel reads or writes; 0 for
/// other entries.
int64_t movedBytes(const PlanView &view, const fsdp_entry &entry);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_ENTRYBYTES_H
