//===- Operators.cpp - Operators that torch does not have -----------------===//

#include "fsdp/Frontend/Operators.h"

#include "Definitions.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <memory>
#include <mutex>

void fsdp::registerOperators() {
  static std::once_flag once;
  static std::unique_ptr<torch::Library> library; // unregisters when it is destroyed
  std::call_once(once, [] {
    // A compiler and a runtime in one process have both this code.
    if (c10::Dispatcher::singleton().findSchema({"fsdpc::ctc_loss", ""}))
      return;
    library = std::make_unique<torch::Library>(torch::Library::FRAGMENT, "fsdpc", std::nullopt,
                                               __FILE__, __LINE__);
    defineCtcLoss(*library);
    defineModelCollectives(*library);
  });
}
