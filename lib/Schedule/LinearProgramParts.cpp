//===- LinearProgramParts.cpp - Rows from whole numbers in a part ---------===//
//
// Let x be a solution of a linear program, y the prices of its rows and d the reduced costs of its
// columns. For some rows P and columns Q, sum y_i * row_i + d_j * column_j. In the solution that is
// the sum of y_i * side_i + d_j * bound_j. Let z be the least that it can be where all rows of P
// hold and integer columns are whole, found by branch and bound over P alone. That it is at least z
// holds for all whole points of the program, and raises its bound by what z exceeds the sum in the
// solution (Boyd 1994: Fenchel cutting planes).
//
//===----------------------------------------------------------------------===//

#include "LinearProgram.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace fsdp::schedule;

static constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Whole numbers, and rows, are taken as such that miss by so much.
static constexpr double kTolerance = 1e-6;

/// A rise below this is not worth a row.
static constexpr double kLeastRise = 1e-4;

struct LinearProgram::Part {
  LinearProgram program;          // its costs are those of the sum
  std::vector<int32_t> originals; // by column of it
  double sum = 0;                 // in the solution
  double sumOfPrices = 0;
  bool isWhole = true; // in the solution
};

std::vector<double> LinearProgram::integerPlaces() const {
  std::vector<double> places;
  for (const ColumnBounds &column : columns)
    if (column.integer)
      places.push_back(column.place);
  std::sort(places.begin(), places.end());
  return places;
}

/// Integer columns of other places may occur beside columns of these.
bool LinearProgram::isInside(size_t row, double begin, double end) const {
  bool isWhole = true;
  for (size_t k = rows[row].begin; k < endOf(row); ++k)
    isWhole &= columns[entries[k].column].integer;
  for (size_t k = rows[row].begin; k < endOf(row); ++k) {
    const ColumnBounds &column = columns[entries[k].column];
    if ((isWhole || !column.integer) && !(begin <= column.place && column.place <= end))
      return false;
  }
  return true;
}

LinearProgram::Part LinearProgram::makePart(const Solution &solution, double begin,
                                            double end) const {
  Part part;
  std::vector<Column> columnOf(columns.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!isInside(i, begin, end))
      continue;
    // Rows that were added since had no price.
    const double price = i < solution.prices.size() ? solution.prices[i] : 0;
    const double side = price > 0 ? rows[i].lower : rows[i].upper;
    const bool isPriced = price != 0 && std::isfinite(side);
    Expression row;
    for (size_t k = rows[i].begin; k < endOf(i); ++k) {
      const int32_t original = entries[k].column;
      const ColumnBounds &it = columns[original];
      Column &column = columnOf[original];
      if (!column) {
        bool isInteger = it.integer && begin <= it.place && it.place <= end;
        column = part.program.addColumn(it.lower, it.upper, isInteger);
        part.originals.push_back(original);
        double value = solution.values[original];
        if (double cost = solution.reducedCosts[original]; begin <= it.place && it.place <= end) {
          part.program.setCost(column, cost);
          part.sum += std::min(cost * it.lower, cost * it.upper);
        }
        part.isWhole &= !isInteger || std::abs(value - std::round(value)) < kTolerance;
      }
      row.add(column, entries[k].coefficient);
      if (isPriced)
        part.program.columns[column.index].cost += price * entries[k].coefficient;
    }
    part.program.addRow(row, rows[i].lower, rows[i].upper);
    if (isPriced) {
      part.sum += price * side;
      part.sumOfPrices += std::abs(price);
    }
  }
  return part;
}

double LinearProgram::tighten(const Solution &solution, double begin, double end,
                              int64_t nodeLimit) {
  Part part = makePart(solution, begin, end);
  if (part.isWhole)
    return 0;
  std::optional<double> least = part.program.branchAndBound(nodeLimit);
  if (!least || *least == kInfinity)
    return 0;
  const double proven = *least - kTolerance * part.sumOfPrices, rise = proven - part.sum;
  if (rise < kLeastRise)
    return 0;
  Expression sum;
  for (size_t j = 0; j < part.originals.size(); ++j)
    sum.add(Column{part.originals[j]}, part.program.columns[j].cost);
  addRow(sum, proven, kInfinity);
  return rise;
}
