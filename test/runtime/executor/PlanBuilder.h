//===- PlanBuilder.h - Plans by hand, for tests ------------------*- C++ -*-===//

#ifndef FSDP_TEST_RUNTIME_EXECUTOR_PLANBUILDER_H
#define FSDP_TEST_RUNTIME_EXECUTOR_PLANBUILDER_H

#include "fsdp/Plan/Abi.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fsdp::test {

/// One argument of a call: a value, a number, a list.
struct Argument {
  fsdp_argument lowered{};
  std::vector<int64_t> list; // goes to `integers`
  std::string text;
};

Argument value(uint32_t index);
Argument values(std::vector<int64_t> indices);
Argument integer(int64_t number);
Argument real(double number);
Argument boolean(bool flag);
Argument integers(std::vector<int64_t> numbers);
Argument reals(std::vector<double> numbers);
Argument booleans(std::vector<int64_t> flags);
Argument string(std::string text);
Argument none();
Argument dtype(fsdp_dtype type);
Argument device();
/// This rank's number among `ranks` consecutive ones.
Argument part(int64_t ranks);
Argument layout();
Argument memoryFormat(int64_t format);

/// Appends to a plan's tables. Offsets are handed out one after another, 64-byte aligned: no buffer
/// shares its place with another unless a test says so.
class PlanBuilder {
public:
  PlanBuilder();

  int64_t allocate(int64_t bytes);
  uint32_t addString(const std::string &text);

  /// A contiguous tensor at `offset`, or in memory of its own.
  uint32_t addValue(fsdp_dtype dtype, std::vector<int64_t> sizes,
                    std::optional<int64_t> offset = {});
  uint32_t addStrided(fsdp_dtype dtype, std::vector<int64_t> sizes, std::vector<int64_t> strides,
                      std::optional<int64_t> offset = {});
  /// A value without storage: torch's undefined tensor.
  uint32_t addUndefined();
  int64_t offsetOf(uint32_t value) const { return valueTable[value].offset; }

  uint32_t addInput(const std::string &name, uint32_t value);
  /// A literal of f32.
  uint32_t addConstant(std::vector<int64_t> sizes, std::vector<float> data);

  /// A call of `aten::name`; `overload` may be empty.
  fsdp_entry &call(const std::string &name, const std::string &overload,
                   std::vector<Argument> arguments, std::vector<int64_t> results);
  fsdp_entry &view(const std::string &name, const std::string &overload,
                   std::vector<Argument> arguments, std::vector<int64_t> results);
  fsdp_entry &entry(fsdp_entry_kind kind);
  /// A kernel of `units` units with one function for all instruction sets, which is launched.
  fsdp_entry &kernel(fsdp_kernel_function function, int64_t units,
                     const std::vector<uint32_t> &inputs, std::vector<int64_t> results);
  void copy(uint32_t source, uint32_t destination);
  void zero(int64_t offset, int64_t bytes);

  /// A group of one parameter of `elements` (a multiple of the world size), cut evenly.
  uint32_t addGroup(const std::string &name, const std::string &parameter,
                    std::vector<int64_t> sizes, fsdp_dtype dtype = FSDP_F32);
  /// The group of fp32 parameters is gathered in `gatherDtype`, from a copy of its shard, and its
  /// gradients are reduced in `reduceDtype`.
  void narrow(uint32_t group, fsdp_dtype gatherDtype, fsdp_dtype reduceDtype);
  /// Gathers the group to `destination`; returns the handle.
  uint32_t allGather(uint32_t group, int64_t destination);
  /// Keeps this rank's chunk of the gathered group, whose parameters are `values`, at `place`.
  fsdp_entry &chunk(uint32_t group, std::vector<int64_t> values, int64_t place);
  /// Gathers the group from the chunks at `place` to `destination`; returns the handle.
  uint32_t gatherChunks(uint32_t group, int64_t place, int64_t destination);
  /// Takes the largest of `count` numbers of f32 over the ranks. Returns the handle.
  uint32_t reduceAmax(int64_t place, int64_t count);
  /// A collective of the model over all ranks, between contiguous values.
  fsdp_entry &modelCollective(fsdp_entry_kind kind, uint32_t source, uint32_t destination,
                              fsdp_reduce_op op);
  uint32_t reduceScatter(uint32_t group, int64_t source, int64_t destination);
  /// Over the replicas, of what the reduce-scatter of handle `after` leaves at `place`.
  uint32_t allReduce(uint32_t group, uint32_t after, int64_t place);
  void wait(uint32_t handle);
  /// Makes the plan one of a scaled loss; returns the scale's value. Before clip().
  uint32_t scaleLoss(const fsdp_loss_scale &scale);
  /// The gradients' norm, over the ranks if there are several, and the clip factor.
  void clip(double norm, fsdp_norm_type type = FSDP_NORM_2);
  void update(uint32_t group, int64_t gradients);

  /// The table of communicators, of the plan's ranks and its groups' chunks; once.
  void addCommunicators();
  /// The plan; valid as long as the builder, until the next change.
  fsdp_plan &finish(uint32_t loss);

  fsdp_plan plan{};
  std::vector<fsdp_value> valueTable;
  std::vector<fsdp_entry> entryTable;
  std::vector<fsdp_group> groupTable;
  std::vector<fsdp_parameter> parameterTable;
  std::vector<fsdp_optimizer> optimizerGroupTable;
  std::vector<fsdp_communicator> communicatorTable;
  std::vector<fsdp_kernel> kernelTable;
  std::vector<fsdp_kernel_function> kernelFunctions;
  std::string gpuCode; // "": kernels are for CPUs; else each is launched as 1 block of 32 threads

private:
  uint32_t addIntegers(const std::vector<int64_t> &numbers);

  std::vector<fsdp_argument> argumentTable;
  std::vector<fsdp_input> inputTable;
  std::vector<fsdp_constant> constantTable;
  std::vector<fsdp_piece> pieceTable;
  std::vector<int64_t> integerTable;
  std::string strings;
  std::vector<unsigned char> data;
  int64_t top = 0;
};

} // namespace fsdp::test

#endif // FSDP_TEST_RUNTIME_EXECUTOR_PLANBUILDER_H
