//===- HostDescription.h - Host and versions for profiles ----- -*- C++ -*-===//

#ifndef FSDP_TOOLS_PROFILE_HOSTDESCRIPTION_H
#define FSDP_TOOLS_PROFILE_HOSTDESCRIPTION_H

#include <string>

namespace fsdp::profile {

/// "AMD EPYC, 2 cores"
std::string describeHost();

/// "fsdp-profile 0.1.0, torch 2.11.0"
std::string describeVersions();

} // namespace fsdp::profile

#endif // FSDP_TOOLS_PROFILE_HOSTDESCRIPTION_H
