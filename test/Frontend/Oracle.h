//===- Oracle.h - Compiled steps against captured ones -----------*- C++ -*-===//

#ifndef FSDP_TEST_FRONTEND_ORACLE_H
#define FSDP_TEST_FRONTEND_ORACLE_H

#include "TestModels.h"
#include "TestTensors.h"
#include "fsdp/Interpreter/Interpreter.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Pipelines.h"
#include "llvm/ADT/StringSet.h"

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

namespace fsdp::frontend {

/// One way to train one model.
struct Configuration {
  std::string model; // of getInputs()
  unsigned replicas = 1, shards = 2;
  unsigned rootShards = 0; // of a mesh of its own of the root group; 0: it has the model's
  std::string layout = "flat", shardPlacement = {};
  ScheduleChoice schedule = ScheduleChoice::Fsdp2;
  std::string reshard = {}, prefetch = {}, reduceDtype = {}; // as the flags; empty: default
  RecomputePolicy recompute = RecomputePolicy::Auto;
  bool offload = false, offloadParameters = false, buckets = true;
  Transport transport = Transport::Kernels;
  FusionChoice fusion = FusionChoice::Off; // of planned steps
  unsigned microbatches = 1;
  GradientSync gradientSync = GradientSync::Each;
  bool reshardAfterBackward = true;
  /// Interleaves the microbatches of two stages in 1F1B order. Models: mlp, convnet, llama.
  bool isInterleaved = false;
  /// What two neighbours may keep together of a group they do, and gather from that.
  bool chunks = false;
  /// Gathers with `all_gather_extension: int8`, of parameters that int8 holds exactly.
  bool encodes = false;
  /// `split-blocks`; 0: none is divided.
  unsigned splitBlocks = 0;
  /// Freezes every parameter whose position is a multiple of this; 0: none.
  unsigned frozenEvery = 0;
  OptimizerSpec optimizer = {};

  std::string describe() const;
};

void PrintTo(const Configuration &value, std::ostream *os);

/// A captured step, and what it computes on each rank's batch.
class Oracle {
public:
  explicit Oracle(const Configuration &configuration);

  /// Null, with a failure of the test, if a pass fails.
  mlir::OwningOpRef<mlir::ModuleOp> compile(ModulePhase upTo);
  llvm::Expected<interpreter::RanksStep> interpret(mlir::ModuleOp module) const;
  /// What differs from the captured steps, in words; empty if nothing does.
  std::string compare(mlir::ModuleOp module) const;

private:
  std::string compareRank(mlir::ModuleOp module, unsigned rank,
                          const interpreter::RankValues &values) const;
  void freezeParameters();
  void roundParameters();
  void interpretCaptured(const CaptureOptions &options);
  /// The gradient in the dtype in which it is reduced.
  at::Tensor getGradient(unsigned rank, unsigned microbatch, const std::string &parameter) const;
  at::Tensor averageGradient(const std::string &parameter) const;
  bool isExpected(const at::Tensor &found, const at::Tensor &expected) const;
  std::string compareClipFactor(std::optional<float> found) const;

  Configuration configuration;
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> captured;
  bool hasFastNorms = false;        // which have other bits than torch's
  llvm::StringSet<> rootParameters; // of the step that was compiled last
  interpreter::NamedTensors state;
  std::vector<interpreter::NamedTensors> inputs; // by rank
  /// By rank and microbatch.
  std::vector<std::vector<interpreter::StepValues>> steps;
};

} // namespace fsdp::frontend

#endif // FSDP_TEST_FRONTEND_ORACLE_H
