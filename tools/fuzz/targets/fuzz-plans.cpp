//===- fuzz-plans.cpp - The checks of a plan's tables ---------------------===//
//
// A plan is part of a program, and its tables have the sizes that it says; every number in them may
// be any. The input is a list of places and new bytes: the tables are those of the planned module
// that the environment variable FSDP_FUZZ_MODULE names.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Export/LowerToPlan.h"
#include "fsdp/IR/Fsdp.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "plan/CollectiveOrder.h"
#include "plan/EntryBytes.h"
#include "plan/PlanView.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>
#include <cstring>

using namespace mlir;

static fsdp::PlanTables seed;

extern "C" int LLVMFuzzerInitialize(int *, char ***) {
  const char *path = std::getenv("FSDP_FUZZ_MODULE");
  DialectRegistry registry;
  registry.insert<func::FuncDialect, fsdp::aten::AtenDialect, fsdp::FsdpDialect>();
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  OwningOpRef<ModuleOp> module;
  FailureOr<fsdp::PlanTables> tables = failure();
  if (path)
    module = parseSourceFile<ModuleOp>(path, &context);
  if (module)
    tables = fsdp::lowerToPlan(*module);
  if (failed(tables)) {
    llvm::errs() << "fuzz-plans: error: FSDP_FUZZ_MODULE must name a planned module\n";
    std::exit(1);
  }
  seed = std::move(*tables);
  return 0;
}

namespace {

struct Bytes {
  void *begin;
  size_t size;
};

/// One change: which table, where, and what.
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

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fsdp::PlanTables tables = seed;
  const Bytes places[] = {{&tables.header, offsetof(fsdp_plan, num_values)},
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
                          {tables.strings.data(), tables.strings.size()}};
  for (; size >= sizeof(Edit); data += sizeof(Edit), size -= sizeof(Edit)) {
    Edit edit;
    std::memcpy(&edit, data, sizeof(edit));
    const Bytes &table = places[edit.table % std::size(places)];
    size_t width = size_t(1) << edit.width % 4;
    if (table.size < width)
      continue;
    size_t at = edit.place * width % (table.size - width + 1) / width * width;
    std::memcpy(static_cast<char *>(table.begin) + at, edit.bytes, width);
  }
  fsdp_plan plan = tables.getPlan();
  if (!fsdp::rt::validatePlan(plan).ok())
    return 0;
  fsdp::rt::PlanView view(plan);
  fsdp::printPlan(plan, llvm::nulls());
  (void)fsdp::rt::collectiveOrderHashes(view);
  for (const fsdp_entry &entry : view.entries())
    (void)fsdp::rt::EntryBytes::of(view, entry);
  (void)fsdp::rt::bytesAfterStep(view);
  return 0;
}
