//===- LoadBackend.cpp - Loads a device library ---------------------------===//

#include "backend/Backend.h"

#include <dlfcn.h>

using namespace fsdp::rt;

/// Loads `lib<name>.so`, which lies beside the runtime's own library.
static Result<DeviceBackend *> loadLibrary(const std::string &name) {
  std::string file = "lib" + name + ".so";
  // The folder of this function's library. A static build has none, and the loader searches its own
  // path.
  Dl_info self{};
  if (dladdr(reinterpret_cast<void *>(&loadDeviceBackend), &self) && self.dli_fname) {
    std::string path = self.dli_fname;
    if (size_t slash = path.rfind('/'); slash != std::string::npos)
      file = path.substr(0, slash + 1) + file;
  }
  // RTLD_LOCAL: its symbols are not visible to others. RTLD_NODELETE: it stays loaded, since
  // torch's kernels in it have registered themselves.
  void *library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!library) {
    const char *error = dlerror();
    return Status::error(std::string("cannot load ") + (error ? error : file.c_str()));
  }
  void *symbol = dlsym(library, kGetDeviceBackend);
  if (!symbol)
    return Status::error("'" + file + "' is of another version: it has no '" + kGetDeviceBackend +
                         "'");
  return reinterpret_cast<GetDeviceBackend *>(symbol)();
}

Result<DeviceBackend *> fsdp::rt::loadDeviceBackend(const std::string &device) {
  if (device == "cpu")
    return static_cast<DeviceBackend *>(nullptr);
  auto refused = [&](const Status &status) {
    return Status::error("--device " + device + ": " + status.message());
  };
  Result<DeviceBackend *> backend = loadLibrary("fsdp_" + device);
  if (!backend.ok())
    return refused(backend.status());
  if (Result<unsigned> devices = (*backend)->countDevices(); !devices.ok())
    return refused(devices.status());
  return backend;
}
