//===- RanksInterpreter.h - One step on all ranks of a mesh ------*- C++ -*-===//
//
// One loop over the step; each operation is evaluated on all ranks before the next. All functions
// throw std::runtime_error. RanksInterpreter.cpp has the loop and operations of a single rank,
// RanksCollectives.cpp collectives, RanksGroups.cpp state and updates of groups.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_INTERPRETER_RANKSINTERPRETER_H
#define FSDP_LIB_INTERPRETER_RANKSINTERPRETER_H

#include "RankMemory.h"
#include "fsdp/Analysis/GroupTable.h"
#include "fsdp/Analysis/OptimizerValues.h"
#include "fsdp/Analysis/Step.h"
#include "fsdp/IR/ModelCollectives.h"
#include "fsdp/IR/VisitByClass.h"
#include "fsdp/Interpreter/Interpreter.h"

namespace fsdp::interpreter {

using RankDrawSeed = std::function<uint64_t(unsigned rank, int64_t position)>;

/// A group's state on one rank between steps: flat tensors of the shard's size.
struct KeptShard {
  at::Tensor parameters;
  at::Tensor gatherCopy; // in the gathers' dtype; undefined if that is the parameters' dtype
  llvm::SmallVector<at::Tensor, 2> states; // in the arena or on the host
};

/// A collective or copy between its start and its wait.
struct Flight {
  struct Input {
    at::Tensor live, atStart; // the operand, and a copy of its value at the start
  };
  struct Output {
    at::Tensor place, result;
  };
  mlir::Operation *start = nullptr;
  std::vector<llvm::SmallVector<Input, 1>> inputs;   // by rank
  std::vector<llvm::SmallVector<Output, 1>> outputs; // by rank
};

struct Rank {
  explicit Rank(std::optional<int64_t> arenaBytes) : memory(arenaBytes) {}

  RankMemory memory;
  llvm::DenseMap<mlir::Value, at::Tensor> values; // tensors, shards as flat tensors, clip factors
  llvm::DenseMap<mlir::Value, llvm::SmallVector<at::Tensor, 2>> states; // fetched
  std::vector<KeptShard> groups;
  NamedTensors buffers; // before the step's writes; in a planned step, in the arena
  RankValues result;
};

class RanksInterpreter {
public:
  RanksInterpreter(Step &step, const GroupTable &groups, const OptimizerTable &optimizers,
                   const NamedTensors &state, const std::vector<NamedTensors> &inputs,
                   const RankDrawSeed &seed);
  RanksStep run();

private:
  // State and inputs of the step.
  void keepGroups(const NamedTensors &state);
  void keepBuffers(const NamedTensors &state);
  void placeConstantsAndInputs(const std::vector<NamedTensors> &inputs);
  void checkConstantsAndInputs();

  // Operations of a single rank.
  void visit(InputOp) {} // placed before the step
  void visit(aten::ConstantOp) {}
  void visit(LossScaleOp) {}
  void visit(ReadOp read);
  void visit(aten::CallOp call);
  /// The poisoned places of a call's results on a rank; empty before memory planning, and of views.
  llvm::SmallVector<at::Tensor> placeResults(unsigned rank, aten::CallOp call);
  void storeResults(unsigned rank, aten::CallOp call, llvm::ArrayRef<at::Tensor> places,
                    llvm::MutableArrayRef<at::Tensor> results);
  void visitModelCollective(aten::CallOp call, const ModelCollective &collective);
  void visit(LaunchOp launch);
  void visit(WriteOp write);
  void visit(ShardOp shard);
  void visit(EncodeOp encode);
  void visit(PartialAmaxOp amax);
  void visit(AmaxOp amax);
  void castToFloat8(EncodeOp encode, const GroupInfo &group);
  void visit(AllReduceHookOp hook);
  void visit(PackOp pack);
  void visit(CastOp cast);
  void visit(AccumulateOp sum);
  void visit(ChunkOp chunk);
  void visit(ShardNormOp norm);
  void visit(PartialNormOp sum);
  /// The shard's contribution to the norm: none on ranks that do not count it.
  at::Tensor getNormPart(unsigned rank, NormType type, mlir::Value gradient, mlir::Operation *op);
  void visit(ClipFactorOp factor);
  void visit(mlir::func::ReturnOp ret);

  // Collectives.
  void visit(AllGatherStartOp start);
  void visit(AllGatherWaitOp wait);
  void visit(ReshardOp reshard);
  void visit(ReduceScatterStartOp start);
  void visit(ReduceScatterWaitOp wait);
  void visit(AllReduceStartOp start);
  void visit(AllReduceWaitOp wait);
  Flight makeFlight(mlir::Operation *start) const;
  /// Ends the flight of an earlier start: copies the results to their buffers. Throws if the inputs
  /// or the buffers have changed since.
  Flight land(mlir::Value handle, mlir::Operation *wait);
  llvm::SmallVector<unsigned> findPeers(CollectiveOpInterface start, unsigned rank) const;
  /// The group's gradients in a collective's input, rank by rank.
  at::Tensor packGradients(unsigned rank, const GroupInfo &group, mlir::OperandRange gradients,
                           std::optional<int64_t> offset, mlir::Operation *op);

  // State and updates of groups.
  void visit(UpdateOp update);
  void visit(FetchStateStartOp fetch);
  void visit(FetchStateWaitOp wait);
  void visit(StoreStateStartOp store);
  void visit(StoreStateWaitOp wait);
  void visit(StoreStartOp store);
  void visit(StoreWaitOp wait);
  void visit(FetchStartOp fetch);
  void visit(FetchWaitOp wait);
  void noteGradients(const GroupInfo &group, mlir::Value gradient, UpdateOp update);
  void noteParameters();
  /// The shards of all ranks along the group's axis.
  llvm::SmallVector<at::Tensor> collectShards(const GroupInfo &group, unsigned rank,
                                              llvm::function_ref<at::Tensor(unsigned)> getShard);

  /// The value of an operand, which must be defined.
  at::Tensor get(unsigned rank, mlir::Value value, mlir::Operation *user);
  /// Throws if an operation reads a parameter, or a view of one, after its reshard. Tracks views.
  void checkUses(mlir::Operation &op);

  Step &step;
  const GroupTable &groups;
  const OptimizerTable &optimizers;
  const RankDrawSeed &seed;
  bool isPlanned;
  std::vector<Rank> ranks;
  std::vector<std::string> updates;
  llvm::DenseMap<mlir::Value, Flight> flights; // by handle
  /// The results of reductions that an all-reduce over replicas takes, by handle and by rank.
  llvm::DenseMap<mlir::Value, std::vector<Flight::Output>> passedOn;
  /// The gather and the index in its group for each value that is a gathered parameter or a view.
  llvm::DenseMap<mlir::Value, std::pair<AllGatherStartOp, unsigned>> fullParams;
  llvm::DenseMap<mlir::Operation *, mlir::Operation *> reshardOf; // of a gather
  llvm::DenseMap<mlir::Value, std::vector<at::Tensor>> fixed;     // constants and inputs, by rank
};

/// A piece of a parameter, as a view of the flattened parameter and of its rank's shard.
at::Tensor inParam(const at::Tensor &whole, const plan::ParameterPlace &place,
                   const plan::Piece &piece);
at::Tensor inShard(const at::Tensor &shard, const plan::ParameterPlace &place,
                   const plan::Piece &piece);
/// A parameter, assembled from the ranks' shards, or chunks, of this layout.
at::Tensor assembleParam(const GroupInfo &group, const plan::GroupLayout &layout, unsigned param,
                         llvm::ArrayRef<at::Tensor> shards);
/// A rank's fp32 shard, decoded from the bytes of the group's extension. Throws if the interpreter
/// does not know the extension.
at::Tensor decodeShard(const GroupInfo &group, const at::Tensor &bytes);
/// "in module 'layers.0'" for a call, else the name of the operation.
std::string describeUser(mlir::Operation *op);
/// "the all_gather of group @layers.0".
std::string describeStart(mlir::Operation *start);

} // namespace fsdp::interpreter

#endif // FSDP_LIB_INTERPRETER_RANKSINTERPRETER_H
