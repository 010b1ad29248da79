//===- LibraryCollectives.h - Collectives of a shared library ----*- C++ -*-===//
//
// A library of fsdp/Plan/CollectivesAbi.h runs the collectives of a communicator's lanes. The
// communicator itself runs the collectives that the library lacks, and all collectives of the
// control lane.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_COMM_LIBRARYCOLLECTIVES_H
#define FSDP_RUNTIME_COMM_LIBRARYCOLLECTIVES_H

#include "comm/Communicator.h"
#include "fsdp/Plan/CollectivesAbi.h"

namespace fsdp::rt {

/// Loads a library, which stays loaded. Errors name the file and the missing symbol.
Result<const fsdp_collectives *> loadCollectives(const std::string &path);

/// Passes collectives that `library` lacks on to `inner`. A call of the library that does not
/// return within `deadline` + kLibraryGrace is an error; the call is abandoned and keeps `inner`
/// alive. An exception of the library is an error, too. Errors name the library, the collective,
/// the lane and the rank.
std::unique_ptr<Communicator> makeLibraryCommunicator(std::unique_ptr<Communicator> inner,
                                                      const fsdp_collectives &library,
                                                      std::chrono::milliseconds deadline);

/// Time beyond the deadline in which a library can report that the deadline has passed.
inline constexpr std::chrono::milliseconds kLibraryGrace{1000};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_COMM_LIBRARYCOLLECTIVES_H
