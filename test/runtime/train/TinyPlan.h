//===- TinyPlan.h - A small training step, as a compiler would lay it out ----===//
//
// loss = mean((((x @ l.w) + l.b) * scale - t)^2), with x:f32[4,5] and t:f32[4,3] per rank, groups
// "l" (l.w:f32[5,3], l.b:f32[3]) and the root (scale:f32[3], also known as tied.scale), and a
// buffer count:f32[] that counts steps. Odd sizes, so that every layout has padding and pieces of
// parameters.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_TINYPLAN_H
#define FSDP_TEST_TINYPLAN_H

#include "fsdp/Plan/Abi.h"
#include "fsdp/Plan/GroupLayout.h"

#include <map>
#include <string>
#include <vector>

namespace fsdp::test {

class TinyPlan {
public:
  /// With `cutsColumns`, for 1 or 3 ranks, l.w is cut on dimension 1.
  TinyPlan(unsigned ranks, plan::Layout layout, bool cutsColumns = false);
  /// The tables; they live as long as this object.
  const fsdp_plan &tables() const { return plan; }
  /// From now on `count` is no part of the model's state_dict, and begins as `init`.
  void makeCountTransient(float init);

  /// From now on the optimizer's state is kept in this dtype.
  void keepStateIn(fsdp_dtype dtype);

  static constexpr int64_t kBatch = 4, kIn = 5, kOut = 3;

private:
  struct Group {
    plan::GroupLayout layout;
    uint32_t firstParameter;
    int64_t gathered, gradients, reduced; // arena offsets
  };

  uint32_t string(const std::string &text);
  uint32_t list(const std::vector<int64_t> &numbers);
  int64_t place(int64_t elements);
  uint32_t value(const std::string &name, const std::vector<int64_t> &sizes, int64_t offset,
                 std::vector<int64_t> strides = {});
  uint32_t fresh(const std::string &name, const std::vector<int64_t> &sizes);
  static fsdp_argument tensor(uint32_t value);
  static fsdp_argument integer(int64_t value);
  static fsdp_argument real(double value);
  static fsdp_argument none();
  fsdp_argument integers(const std::vector<int64_t> &numbers);

  void addGroup(const std::string &name, const std::vector<int64_t> &shardDims,
                const std::vector<std::string> &names,
                const std::vector<std::vector<int64_t>> &shapes);
  void call(fsdp_entry_kind kind, const char *callee, const char *overload, fsdp_phase phase,
            const std::vector<fsdp_argument> &arguments, uint32_t result);
  fsdp_entry &entry(fsdp_entry_kind kind, fsdp_phase phase);
  void copy(uint32_t source, uint32_t destination, fsdp_phase phase);
  /// Gathers a group; its parameters' values, whole.
  std::vector<uint32_t> gather(uint32_t group);
  /// Where the gradients of a group's parameters are to be written.
  std::vector<uint32_t> gradientValues(uint32_t group);
  void reduceAndUpdate(uint32_t group, const std::vector<uint32_t> &gradients);
  void copyPieces(uint32_t group, const std::vector<uint32_t> &whole, int64_t cut, bool toCut,
                  fsdp_phase phase);
  void writeStep();
  void finish();

  unsigned ranks;
  plan::Layout layout;
  fsdp_plan plan{};
  std::vector<fsdp_value> values;
  std::vector<fsdp_argument> arguments;
  std::vector<fsdp_entry> entries;
  std::vector<fsdp_input> inputs;
  std::vector<fsdp_buffer> buffers;
  std::vector<fsdp_constant> constants;
  std::vector<unsigned char> data;
  std::vector<fsdp_group> groups;
  std::vector<fsdp_parameter> parameters;
  std::vector<fsdp_piece> pieces;
  std::vector<fsdp_communicator> communicators;
  std::vector<int64_t> numbers;
  std::string strings = std::string(1, '\0');
  std::vector<Group> layouts;
  std::vector<std::vector<std::vector<int64_t>>> shapes; // by group and parameter
  int64_t arenaBytes = 0;
  uint32_t handles = 0;
};

} // namespace fsdp::test

#endif // FSDP_TEST_TINYPLAN_H
