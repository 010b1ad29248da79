//===- Definitions.h - Parts of the namespace fsdpc --------------*- C++ -*-===//

#ifndef FSDP_LIB_FRONTEND_OPERATORS_DEFINITIONS_H
#define FSDP_LIB_FRONTEND_OPERATORS_DEFINITIONS_H

#include <torch/library.h>

namespace fsdp {

void defineCtcLoss(torch::Library &library);
void defineModelCollectives(torch::Library &library);

} // namespace fsdp

#endif // FSDP_LIB_FRONTEND_OPERATORS_DEFINITIONS_H
