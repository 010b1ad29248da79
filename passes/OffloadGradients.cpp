//===- OffloadGradients.cpp - Keeps waiting gradients in host memory ------===//

#include "fsdp/Transforms/OffloadGradients.h"
#include "mlir/IR/Remarks.h"
#include "passes/Passes.h"

namespace fsdp {
#define GEN_PASS_DEF_OFFLOADGRADIENTS
#include "passes/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

namespace {
struct OffloadGradientsPass : public fsdp::impl::OffloadGradientsBase<OffloadGradientsPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (failed(expectPhase(module, getArgument(), ModulePhase::Scheduled)))
      return signalPassFailure();
    FailureOr<Step> step = Step::collect(module);
    if (failed(step))
      return signalPassFailure();
    offloadGradients(*step);
    const auto numOffloaded =
        llvm::count_if(step->getBody().getOps<StoreStartOp>(), [](auto store) {
          return isa<ShardType>(store.getValue().getType()) &&
                 !store.getValue().template getDefiningOp<ChunkOp>();
        });
    remark::analysis(module.getLoc(), remark::RemarkOpts::name("offload").category(getArgument()))
        << remark::metric("OffloadedGradients", numOffloaded);
  }
};
} // namespace
