//===- LibraryCollectives.h - Collectives of a shared library ----*- C++ -*-===//
//
// A library of fsdp/Plan/CollectivesAbi.h runs the collectives of a communicator's lanes. The
// communicator itself does those that the library leaves out, and all of the control lane.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_COMM_LIBRARYCOLLECTIVES_H
#define FSDP_RUNTIME_COMM_LIBRARYCOLLECTIVES_H

#include "comm/Communicator.h"
#include "fsdp/Plan/CollectivesAbi.h"

namespace fsdp::rt {

/// Loads a library, which stays loaded. Errors name the file and what it lacks.
Result<const fsdp_collectives *> loadCollectives(const std::string &path);

/// Passes on to `inner` what `library` does not do. A call of the library that does not end within
/// `deadline` and kLibraryGrace is an error; the call is left behind and keeps `inner` alive. A
/// library that throws is an error, too. Errors name the library, the collective, the lane and the
/// rank.
std::unique_ptr<Communicator> makeLibraryCommunicator(std::unique_ptr<Communicator> inner,
                                                      const fsdp_collectives &library,
                                                      std::chrono::milliseconds deadline);

/// Beyond the deadline, so that a library can report that it has passed.
inline constexpr std::chrono::milliseconds kLibraryGrace{1000};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_COMM_LIBRARYCOLLECTIVES_H
