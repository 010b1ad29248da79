//===- fuzz-plans.cpp - The checks of a plan's tables ---------------------===//
//
// Mutates plans: tables keep their sizes, but every number in them may become any other. The input
// is a byte that chooses a program, and a list of positions with new bytes. The programs come from
// the planned modules in the environment variable FSDP_FUZZ_MODULES, separated by colons.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Export/LowerToPlan.h"
#include "fsdp/IR/Fsdp.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "plan/CollectiveOrder.h"
#include "plan/EntryBytes.h"
#include "plan/PlanView.h"
#include "plan/ValidateProgram.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>
#include <cstring>

using namespace mlir;

using Program = std::vector<fsdp::PlanTables>;

static std::vector<Program> seeds;

extern "C" int LLVMFuzzerInitialize(int *, char ***) {
  DialectRegistry registry;
  registry.insert<func::FuncDialect, fsdp::aten::AtenDialect, fsdp::FsdpDialect>();
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  const char *paths = std::getenv("FSDP_FUZZ_MODULES");
  for (llvm::StringRef path : llvm::split(paths ? paths : "", ':')) {
    OwningOpRef<ModuleOp> module;
    if (!path.empty())
      module = parseSourceFile<ModuleOp>(path, &context);
    FailureOr<Program> program = module ? fsdp::lowerProgram(*module) : FailureOr<Program>();
    if (failed(program)) {
      llvm::errs() << "fuzz-plans: error: FSDP_FUZZ_MODULES must name planned modules\n";
      std::exit(1);
    }
    seeds.push_back(std::move(*program));
  }
  return 0;
}

namespace {

struct Bytes {
  void *begin;
  size_t size;
};

/// One change: the table among all plans, the position, and the new bytes.
struct Edit {
  uint8_t table, width;
  uint16_t place; // modulo the table's size
  uint8_t bytes[8];
};

} // namespace

template <typename T>
static Bytes bytesOf(std::vector<T> &table) {
  return {table.data(), table.size() * sizeof(T)};
}

static void addTables(fsdp::PlanTables &tables, std::vector<Bytes> &places) {
  const Bytes own[] = {{&tables.header, offsetof(fsdp_plan, num_values)},
                       bytesOf(tables.values),
                       bytesOf(tables.arguments),
                       bytesOf(tables.entries),
                       bytesOf(tables.inputs),
                       bytesOf(tables.buffers),
                       bytesOf(tables.constants),
                       bytesOf(tables.groups),
                       bytesOf(tables.parameters),
                       bytesOf(tables.pieces),
                       bytesOf(tables.integers),
                       bytesOf(tables.optimizerGroups),
                       bytesOf(tables.communicators),
                       bytesOf(tables.data),
                       {tables.strings.data(), tables.strings.size()}};
  places.insert(places.end(), std::begin(own), std::end(own));
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0)
    return 0;
  Program program = seeds[*data % seeds.size()];
  std::vector<Bytes> places;
  for (fsdp::PlanTables &tables : program)
    addTables(tables, places);
  for (++data, --size; size >= sizeof(Edit); data += sizeof(Edit), size -= sizeof(Edit)) {
    Edit edit;
    std::memcpy(&edit, data, sizeof(edit));
    const Bytes &table = places[edit.table % places.size()];
    size_t width = size_t(1) << edit.width % 4;
    if (table.size < width)
      continue;
    size_t at = edit.place * width % (table.size - width + 1) / width * width;
    std::memcpy(static_cast<char *>(table.begin) + at, edit.bytes, width);
  }
  const std::vector<fsdp_plan> plans = fsdp::linkPlans(program);
  if (!fsdp::rt::validateProgram(plans.front()).ok())
    return 0;
  // printPlan also prints the plans after the first one.
  fsdp::printPlan(plans.front(), llvm::nulls());
  for (const fsdp_plan &plan : plans) {
    fsdp::rt::PlanView view(plan);
    (void)fsdp::rt::describePlan(plan);
    (void)fsdp::rt::collectiveOrderHashes(view);
    for (const fsdp_entry &entry : view.entries())
      (void)fsdp::rt::EntryBytes::of(view, entry);
  }
  return 0;
}
