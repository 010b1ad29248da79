//===- CheckedOperators.cpp - Operators that check values of arguments ----===//
//
// torch composes these operators of others, and first compares values of the arguments by
// aten::equal: quantiles must lie between 0 and 1, windows must not add up to zero. A step leaves
// such checks out, as it does those of the model's code.
//
//===----------------------------------------------------------------------===//

#include "Overrides.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/istft_native.h>
#include <ATen/ops/nanquantile_native.h>
#include <ATen/ops/quantile_native.h>

using namespace fsdp::frontend;
using at::Tensor;
using Dimension = std::optional<int64_t>;

/// The result of a comparison with which the check of the running operator holds.
static thread_local std::optional<bool> assumed;

namespace {
/// While this object lives, comparisons are checks.
struct Checking {
  explicit Checking(bool result) { assumed = result; }
  Checking(const Checking &) = delete;
  ~Checking() { assumed.reset(); }
};
} // namespace

static bool equal(const Tensor &left, const Tensor &right) {
  if (assumed)
    return *assumed;
  at::AutoDispatchBelowADInplaceOrView below;
  return at::equal(left, right); // refused: its result is a value
}

template <typename Q>
static Tensor quantile(const Tensor &x, Q q, Dimension dim, bool keepdim,
                       std::string_view between) {
  Checking checking(true); // "q is in the range [0, 1]" is true
  return at::native::quantile(x, q, dim, keepdim, between);
}

template <typename Q>
static Tensor nanquantile(const Tensor &x, Q q, Dimension dim, bool keepdim,
                          std::string_view between) {
  Checking checking(true);
  return at::native::nanquantile(x, q, dim, keepdim, between);
}

static Tensor istft(const Tensor &x, int64_t nFft, Dimension hopLength, Dimension winLength,
                    const std::optional<Tensor> &window, bool center, bool normalized,
                    std::optional<bool> onesided, Dimension length, bool returnComplex) {
  Checking checking(false); // "the least sum of windows is 0" is false
  return at::native::istft(x, nFft, hopLength, winLength, window, center, normalized, onesided,
                           length, returnComplex);
}

void Overrides::addCheckedOperators() {
  library.impl("equal", &equal);
  library.impl("istft", &istft);
  library.impl("quantile", &quantile<const Tensor &>);
  library.impl("quantile.scalar", &quantile<double>);
  library.impl("nanquantile", &nanquantile<const Tensor &>);
  library.impl("nanquantile.scalar", &nanquantile<double>);
}
