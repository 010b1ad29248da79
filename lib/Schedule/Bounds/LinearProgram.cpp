//===- LinearProgram.cpp - Linear programs, solved by HiGHS ---------------===//
//
// The only file that uses HiGHS. HiGHS runs with one thread, a fixed seed and no time limit, so the
// same program gives the same answer everywhere.
//
//===----------------------------------------------------------------------===//

#include "LinearProgram.h"

#include <interfaces/highs_c_api.h>

#include <algorithm>
#include <limits>

using namespace fsdp::schedule;

static constexpr double kInfinity = std::numeric_limits<double>::infinity();

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
  columns.push_back({lower, upper, 0});
  return {int32_t(columns.size()) - 1};
}

void LinearProgram::addRow(const Expression &expression, double lower, double upper) {
  std::vector<Expression::Term> terms = expression.terms;
  std::stable_sort(terms.begin(), terms.end(),
                   [](const auto &a, const auto &b) { return a.column < b.column; });
  rows.push_back({entries.size(), lower - expression.constant, upper - expression.constant});
  for (const Expression::Term &term : terms) {
    if (entries.size() > rows.back().begin && entries.back().column == term.column)
      entries.back().coefficient += term.coefficient;
    else
      entries.push_back(term);
    if (entries.back().coefficient == 0)
      entries.pop_back();
  }
}

void LinearProgram::requireAtLeast(const Expression &left, const Expression &right) {
  addRow(left - right, 0, kInfinity);
}

void LinearProgram::requireEqual(const Expression &left, const Expression &right) {
  addRow(left - right, 0, 0);
}

double LinearProgram::boundOf(const std::vector<double> &rowDuals) const {
  std::vector<double> reducedCost(columns.size());
  for (size_t j = 0; j < columns.size(); ++j)
    reducedCost[j] = columns[j].cost;
  double bound = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    double side = rowDuals[i] > 0 ? rows[i].lower : rows[i].upper;
    if (rowDuals[i] == 0 || side == kInfinity)
      continue; // a dual price of the wrong sign counts as 0
    bound += rowDuals[i] * side;
    for (size_t k = rows[i].begin; k < endOf(i); ++k)
      reducedCost[entries[k].column] -= rowDuals[i] * entries[k].coefficient;
  }
  for (size_t j = 0; j < columns.size(); ++j)
    bound += std::min(reducedCost[j] * columns[j].lower, reducedCost[j] * columns[j].upper);
  return bound;
}

void *LinearProgram::load() const {
  std::vector<double> cost, lower, upper, rowLower, rowUpper, values;
  std::vector<HighsInt> starts, indices;
  for (const ColumnBounds &column : columns) {
    cost.push_back(column.cost);
    lower.push_back(column.lower);
    upper.push_back(column.upper);
  }
  for (const Row &row : rows) {
    starts.push_back(HighsInt(row.begin));
    rowLower.push_back(row.lower);
    rowUpper.push_back(row.upper);
  }
  for (const Expression::Term &entry : entries) {
    indices.push_back(entry.column);
    values.push_back(entry.coefficient);
  }
  void *highs = Highs_create();
  Highs_setBoolOptionValue(highs, "output_flag", 0);
  Highs_setIntOptionValue(highs, "threads", 1);
  Highs_setStringOptionValue(highs, "parallel", "off");
  Highs_setIntOptionValue(highs, "random_seed", 0);
  HighsInt status = Highs_passLp(
      highs, HighsInt(columns.size()), HighsInt(rows.size()), HighsInt(entries.size()),
      kHighsMatrixFormatRowwise, kHighsObjSenseMinimize, 0, cost.data(), lower.data(), upper.data(),
      rowLower.data(), rowUpper.data(), starts.data(), indices.data(), values.data());
  if (status != kHighsStatusError)
    return highs;
  Highs_destroy(highs);
  return nullptr;
}

static HighsInt clampToInt(int64_t value) {
  return HighsInt(std::clamp<int64_t>(value, 0, std::numeric_limits<HighsInt>::max()));
}

std::optional<LinearProgram::Solution> LinearProgram::solve(int64_t iterationLimit) const {
  void *highs = load();
  if (!highs)
    return std::nullopt;
  Highs_setStringOptionValue(highs, "solver", "simplex");
  Highs_setIntOptionValue(highs, "simplex_iteration_limit", clampToInt(iterationLimit));
  // Our units keep coefficients near 1; scaling by HiGHS takes a third more iterations. Only one
  // column has a cost, so nearly all reduced costs are 0 without perturbation.
  Highs_setIntOptionValue(highs, "simplex_scale_strategy", 0);
  Highs_setDoubleOptionValue(highs, "dual_simplex_cost_perturbation_multiplier", 100);
  Highs_run(highs);
  std::optional<Solution> solution;
  if (Highs_getModelStatus(highs) == kHighsModelStatusOptimal) {
    std::vector<double> columnDuals(columns.size()), rowValues(rows.size()), rowDuals(rows.size());
    solution.emplace();
    solution->values.resize(columns.size());
    Highs_getSolution(highs, solution->values.data(), columnDuals.data(), rowValues.data(),
                      rowDuals.data());
    solution->bound = boundOf(rowDuals);
  }
  Highs_destroy(highs);
  return solution;
}
