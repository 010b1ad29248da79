//===- LinearProgram.cpp - Linear programs, solved by HiGHS ---------------===//
//
// The only file that uses HiGHS. HiGHS runs with one thread, a fixed seed and no time limit, so the
// same program gives the same answer everywhere.
//
//===----------------------------------------------------------------------===//

#include "LinearProgram.h"

#include <interfaces/highs_c_api.h>

#include <algorithm>
#include <cmath>
#include <memory>

using namespace fsdp::schedule;

Expression &Expression::add(Column column, double coefficient) {
  if (column && coefficient != 0)
    terms.push_back({column.index, coefficient});
  return *this;
}

Expression &Expression::add(const Expression &other, double factor) {
  for (const Term &term : other.terms)
    terms.push_back({term.column, factor * term.coefficient});
  constant += factor * other.constant;
  return *this;
}

Column LinearProgram::addColumn(double lower, double upper) {
  costs.push_back(0);
  columnLower.push_back(lower);
  columnUpper.push_back(upper);
  return {int32_t(costs.size()) - 1};
}

/// The expression is in [0, upper].
void LinearProgram::addRow(const Expression &expression, double upper) {
  std::vector<Expression::Term> terms = expression.terms;
  std::ranges::stable_sort(terms, {}, &Expression::Term::column);
  const size_t start = indices.size();
  starts.push_back(int(start));
  rowLower.push_back(0 - expression.constant);
  rowUpper.push_back(upper - expression.constant);
  for (const Expression::Term &term : terms) {
    if (indices.size() == start || indices.back() != term.column) {
      indices.push_back(term.column);
      values.push_back(0);
    }
    values.back() += term.coefficient;
    if (values.back() == 0) {
      indices.pop_back();
      values.pop_back();
    }
  }
}

double LinearProgram::boundOf(const std::vector<double> &rowDuals) const {
  std::vector<double> reducedCosts = costs;
  double bound = 0;
  for (size_t i = 0; i < starts.size(); ++i) {
    double side = rowDuals[i] > 0 ? rowLower[i] : rowUpper[i];
    if (rowDuals[i] == 0 || std::isinf(side))
      continue; // a dual price of the wrong sign counts as 0
    bound += rowDuals[i] * side;
    size_t end = i + 1 < starts.size() ? size_t(starts[i + 1]) : indices.size();
    for (size_t k = starts[i]; k < end; ++k)
      reducedCosts[indices[k]] -= rowDuals[i] * values[k];
  }
  for (size_t j = 0; j < costs.size(); ++j)
    bound += std::min(reducedCosts[j] * columnLower[j], reducedCosts[j] * columnUpper[j]);
  return bound;
}

std::optional<LinearProgram::Solution> LinearProgram::solve(int iterationLimit) const {
  std::unique_ptr<void, void (*)(void *)> owner(Highs_create(), Highs_destroy);
  void *highs = owner.get();
  Highs_setBoolOptionValue(highs, "output_flag", 0);
  Highs_setIntOptionValue(highs, "threads", 1);
  Highs_setStringOptionValue(highs, "parallel", "off");
  Highs_setIntOptionValue(highs, "random_seed", 0);
  Highs_setStringOptionValue(highs, "solver", "simplex");
  Highs_setIntOptionValue(highs, "simplex_iteration_limit", iterationLimit);
  // Our units keep coefficients near 1; scaling by HiGHS takes a third more iterations. Only one
  // column has a cost, so nearly all reduced costs are 0 without perturbation.
  Highs_setIntOptionValue(highs, "simplex_scale_strategy", 0);
  Highs_setDoubleOptionValue(highs, "dual_simplex_cost_perturbation_multiplier", 100);
  const HighsInt numColumns = HighsInt(costs.size()), numRows = HighsInt(starts.size());
  if (Highs_passLp(highs, numColumns, numRows, HighsInt(indices.size()), kHighsMatrixFormatRowwise,
                   kHighsObjSenseMinimize, 0, costs.data(), columnLower.data(), columnUpper.data(),
                   rowLower.data(), rowUpper.data(), starts.data(), indices.data(),
                   values.data()) == kHighsStatusError)
    return std::nullopt;
  Highs_run(highs);
  if (Highs_getModelStatus(highs) != kHighsModelStatusOptimal)
    return std::nullopt;
  Solution solution;
  solution.values.resize(costs.size());
  std::vector<double> columnDuals(costs.size()), rowValues(starts.size()), rowDuals(starts.size());
  Highs_getSolution(highs, solution.values.data(), columnDuals.data(), rowValues.data(),
                    rowDuals.data());
  solution.bound = boundOf(rowDuals);
  return solution;
}
