//===- Lowering.h - Lowers a planned step to tables -------------*- C++ -*-===//
//
// LowerDeclarations.cpp lowers declarations, LowerToPlan.cpp values and collectives, LowerCall.cpp
// operator calls, LowerModelCollectives.cpp collectives of the model, LowerCopies.cpp copies
// between full parameters or gradients and the layout of collectives.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_EXPORT_LOWERING_H
#define FSDP_LIB_EXPORT_LOWERING_H

#include "PlanBuilder.h"
#include "fsdp/Analysis/CommunicatorTable.h"
#include "fsdp/Analysis/GroupTable.h"
#include "fsdp/Analysis/Step.h"
#include "fsdp/IR/ModelCollectives.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/AsmState.h"

namespace fsdp {

inline fsdp_phase getPlanPhase(aten::Phase phase) {
  return phase == aten::Phase::Forward ? FSDP_FORWARD : FSDP_BACKWARD;
}

/// Of the reshard that the chunk precedes.
inline fsdp_phase getChunkPhase(ChunkOp chunk) {
  ReshardOp reshard = chunk.getGather().getReshard();
  return reshard ? getPlanPhase(reshard.getPhase()) : FSDP_FORWARD;
}

fsdp_stream getPlanStream(Stream stream);

/// Of the entries that copy, add or zero what is the group's, as in fsdp-explain.
inline std::string getModuleName(const GroupInfo &group) {
  return GroupOp(group.op).getModuleName();
}

class Lowering {
public:
  /// `communicators` (of the whole program) and `chip` must outlive the object.
  Lowering(Step declared, GroupTable groups, const CommunicatorTable &communicators,
           llvm::StringRef chip)
      : module(declared.module), step(declared.function), isEvaluation(declared.isEvaluation()),
        declared(std::move(declared)), groups(std::move(groups)), communicators(communicators),
        chip(chip), names(module, mlir::OpPrintingFlags().assumeVerified()) {}

  llvm::FailureOr<PlanTables> run();

private:
  // Declarations.
  llvm::LogicalResult lowerKernels();
  llvm::LogicalResult lowerGpuKernels(llvm::ArrayRef<KernelOp> kernels);
  llvm::LogicalResult lowerHeader();
  /// Sets the header's model_flops; fails if the step computes less than it claims to recompute.
  llvm::LogicalResult countModelFlops();
  llvm::LogicalResult lowerGroup(const GroupInfo &group);
  llvm::LogicalResult lowerParameters(const GroupInfo &group);
  llvm::LogicalResult lowerBuffer(BufferOp buffer);

  // Operations of the step.
  llvm::LogicalResult lower(InputOp input);
  llvm::LogicalResult lower(LossScaleOp scale);
  llvm::LogicalResult lower(aten::ConstantOp constant);
  llvm::LogicalResult lower(ReadOp read);
  llvm::LogicalResult lower(aten::CallOp call);
  void lowerModelCollective(aten::CallOp call, const ModelCollective &collective);
  void lowerOwnPart(aten::CallOp call);
  llvm::LogicalResult lower(LaunchOp launch);
  llvm::LogicalResult lower(ShardOp shard);
  llvm::LogicalResult lower(EncodeOp encode);
  /// Casts the shard to an 8-bit float.
  llvm::LogicalResult castToFloat8(EncodeOp encode, const GroupInfo &group, int64_t offset);
  llvm::LogicalResult lower(PartialAmaxOp amax);
  llvm::LogicalResult lower(AmaxOp amax);
  llvm::LogicalResult lower(ChunkOp chunk);
  llvm::LogicalResult lower(AllGatherStartOp start);
  llvm::LogicalResult lower(AllGatherWaitOp wait);
  llvm::LogicalResult lower(ReshardOp reshard);
  llvm::LogicalResult lower(ReduceScatterStartOp start);
  llvm::LogicalResult lower(ReduceScatterWaitOp wait);
  llvm::LogicalResult lower(AllReduceStartOp start);
  llvm::LogicalResult lowerTensorReduction(AllReduceStartOp start);
  llvm::LogicalResult lower(AllReduceWaitOp wait);
  llvm::LogicalResult lower(PackOp pack);
  llvm::LogicalResult lower(CastOp cast);
  llvm::LogicalResult lower(AllReduceHookOp hook);
  llvm::LogicalResult lower(AccumulateOp sum);
  /// A shard as a one-dimensional value of the plan.
  uint32_t getShardValue(mlir::Value shard);
  llvm::LogicalResult lower(WriteOp write);
  llvm::LogicalResult lower(UpdateOp update);
  llvm::LogicalResult lower(FetchStateStartOp fetch);
  llvm::LogicalResult lower(FetchStateWaitOp wait);
  llvm::LogicalResult lower(StoreStateStartOp store);
  llvm::LogicalResult lower(StoreStateWaitOp wait);
  llvm::LogicalResult lower(StoreStartOp store);
  llvm::LogicalResult lower(StoreWaitOp wait);
  llvm::LogicalResult lower(FetchStartOp fetch);
  llvm::LogicalResult lower(FetchWaitOp wait);
  llvm::LogicalResult lower(ShardNormOp norm);
  llvm::LogicalResult lower(PartialNormOp norm);
  llvm::LogicalResult lower(ClipFactorOp factor);
  llvm::LogicalResult lower(mlir::func::ReturnOp ret);

  llvm::LogicalResult lowerArgument(aten::CallOp call, mlir::Attribute argument,
                                    mlir::OperandRange::iterator &operand, fsdp_argument &lowered);
  llvm::LogicalResult lowerList(aten::CallOp call, mlir::Attribute list,
                                mlir::OperandRange::iterator &operand, fsdp_argument &lowered);

  /// Defines the plan's value for `value`, whose storage begins at `base`.
  llvm::LogicalResult define(mlir::Value value, int64_t base);
  /// The offset from memory planning; an error if it is missing.
  llvm::FailureOr<int64_t> getOffset(mlir::Operation *op, std::optional<int64_t> offset);
  void addCopy(fsdp_phase phase, uint32_t source, uint32_t destination, llvm::StringRef module,
               mlir::Location location);
  void addZero(int64_t begin, int64_t end, llvm::StringRef module,
               fsdp_phase phase = FSDP_BACKWARD);
  /// Adds the entry of a call; `results` are values, or -1.
  fsdp_entry &addCall(fsdp_phase phase, llvm::StringRef callee, llvm::StringRef overload,
                      llvm::ArrayRef<fsdp_argument> arguments, llvm::ArrayRef<int64_t> results,
                      llvm::StringRef module, mlir::Location location);
  /// Calls a torch operator that writes to its last argument, a value, and returns it.
  void addCallInPlace(fsdp_phase phase, llvm::StringRef callee,
                      llvm::ArrayRef<fsdp_argument> arguments, llvm::StringRef module,
                      mlir::Location location);
  void addCallInPlace(fsdp_phase phase, llvm::StringRef callee, llvm::ArrayRef<uint32_t> values,
                      llvm::StringRef module, mlir::Location location);
  /// The part of a shard at `base` that holds the group's parameter, and the first arguments of the
  /// operators that take it: the part, its number, and the parameter's elements.
  llvm::SmallVector<fsdp_argument> getFloat8Part(const GroupInfo &group, unsigned param,
                                                 int64_t base);
  /// One of the largest absolute values at `base`.
  uint32_t getAmaxValue(int64_t base, int64_t index, llvm::StringRef param);
  /// Decodes the gathered bytes at `gathered` into the parameters that the wait yields.
  llvm::LogicalResult decode(AllGatherWaitOp wait, const GroupInfo &group, int64_t gathered);
  void divideInPlace(uint32_t value, double divisor, llvm::StringRef module,
                     mlir::Location location);
  /// Adds the entry of a collective, without source and destination.
  fsdp_entry &addStart(fsdp_entry_kind kind, CollectiveOpInterface start);
  /// Adds the entry of a collective on the shard of `group` in the given form; the caller sets
  /// source and destination.
  fsdp_entry &addStart(fsdp_entry_kind kind, CollectiveOpInterface start, const GroupInfo &group,
                       const GroupForm &form);
  /// Sets the reduction of a collective's entry.
  template <typename StartOp> static void setReduction(fsdp_entry &entry, StartOp start);
  /// Waits for a start of this phase.
  void addWait(mlir::Operation *wait, fsdp_phase phase);
  /// Packs gradients into the group's buffer at `base`.
  void packGradients(const GroupInfo &group, mlir::ValueRange gradients, int64_t base,
                     mlir::Location location);
  /// Adds a copy of a group's optimizer state between host and device.
  void addStateCopy(fsdp_entry_kind kind, fsdp_stream stream, mlir::FlatSymbolRefAttr group,
                    mlir::Value handle);
  /// Adds a copy of the stored value of `store`, issued by `start`; without offsets.
  fsdp_entry &addHostCopy(fsdp_entry_kind kind, StoreStartOp store, mlir::Operation *start);
  /// Copies a gradient to its position in the group's gradients at `base`, if it is not there.
  void placeGradient(const GroupInfo &group, unsigned param, mlir::Value gradient, int64_t base,
                     mlir::Location location);
  void zeroPadding(const GroupInfo &group, int64_t base);
  /// Visits the parts of a parameter in the gathered group at `base`, with the matching parts of
  /// its full tensor: one value for all evenly filled ranks, one for the partly filled last rank.
  void forEachRankPart(const GroupInfo &group, const plan::GroupLayout &layout, unsigned param,
                       mlir::RankedTensorType fullType, int64_t fullOffset, int64_t base,
                       llvm::function_ref<void(uint32_t full, uint32_t inRanks)> action);

  mlir::ModuleOp module;
  mlir::func::FuncOp step;
  bool isEvaluation;
  Step declared;
  GroupTable groups;
  const CommunicatorTable &communicators;
  const llvm::StringRef chip; // of kernels for GPUs
  mlir::AsmState names;
  PlanBuilder builder;
  llvm::DenseMap<mlir::Value, uint32_t> valueOf;
  /// Arena offset of each storage: of tensors, shards, and results of a handle's start; of values
  /// on the host the offset in the host's arena.
  llvm::DenseMap<mlir::Value, int64_t> baseOf;
  llvm::DenseMap<mlir::Value, uint32_t> handleOf;
  llvm::DenseMap<mlir::StringAttr, uint32_t> bufferValue;
  llvm::DenseMap<mlir::StringAttr, uint32_t> kernelOf;
};

} // namespace fsdp

#endif // FSDP_LIB_EXPORT_LOWERING_H
