//===- ModelCollectives.cpp - Collectives of the model's own code ---------===//
//
// They have shapes only: plans have entries of their own for them.
//
//===----------------------------------------------------------------------===//

#include "Definitions.h"

#include <ATen/ops/empty.h>

using at::Tensor;
using c10::DispatchKey;

static void checkReduction(const Tensor &x, std::string_view op, bool mayBeMaximum) {
  TORCH_CHECK(op == "sum" || op == "avg" || (mayBeMaximum && op == "max"),
              "a collective reduces by 'sum'", mayBeMaximum ? ", 'avg' or 'max'" : " or 'avg'",
              ", not by '", op, "'");
  const at::ScalarType type = x.scalar_type();
  TORCH_CHECK(at::isFloatingType(type) || type == at::kLong || type == at::kInt ||
                  type == at::kByte,
              "a collective reduces floating-point numbers, i32, i64 and u8, not ", toString(type));
  TORCH_CHECK(op != "avg" || at::isFloatingType(type), "a collective averages ",
              "floating-point numbers, not ", toString(type));
}

static Tensor allReduce(const Tensor &x, std::string_view op) {
  checkReduction(x, op, /*mayBeMaximum=*/true);
  return at::empty(x.sizes(), x.options());
}

static Tensor allGather(const Tensor &x, int64_t ranks) {
  TORCH_CHECK(ranks >= 1, "a collective gathers from at least 1 rank, not ", ranks);
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.insert(sizes.begin(), ranks);
  return at::empty(sizes, x.options());
}

static Tensor takeRow(const Tensor &x) {
  TORCH_CHECK(x.dim() > 0, "a collective takes a row for each rank, not a single number");
  return at::empty(x.sizes().slice(1), x.options());
}

static Tensor reduceScatter(const Tensor &x, std::string_view op) {
  checkReduction(x, op, /*mayBeMaximum=*/false);
  return takeRow(x);
}

void fsdp::defineModelCollectives(torch::Library &library) {
  library.def("all_reduce(Tensor x, str op) -> Tensor");
  library.def("all_gather(Tensor x, int ranks) -> Tensor");
  library.def("reduce_scatter(Tensor x, str op) -> Tensor");
  library.def("own_part(Tensor x) -> Tensor");
  library.impl("all_reduce", torch::dispatch(DispatchKey::Meta, &allReduce));
  library.impl("all_gather", torch::dispatch(DispatchKey::Meta, &allGather));
  library.impl("reduce_scatter", torch::dispatch(DispatchKey::Meta, &reduceScatter));
  library.impl("own_part", torch::dispatch(DispatchKey::Meta, &takeRow));
}
