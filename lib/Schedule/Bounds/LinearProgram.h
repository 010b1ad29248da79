//===- LinearProgram.h - Linear programs, solved by HiGHS ----------*- C++ -*-===//
//
// Minimizes the sum of cost times column. The lower bound is recomputed from the solver's dual
// prices. Any prices give a valid bound, so its validity does not depend on the solver's
// tolerances.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_SCHEDULE_LINEARPROGRAM_H
#define FSDP_LIB_SCHEDULE_LINEARPROGRAM_H

#include <cstdint>
#include <optional>
#include <vector>

namespace fsdp::schedule {

/// A column of the linear program. A default column belongs to no program and is always 0.
struct Column {
  int32_t index = -1;
  explicit operator bool() const { return index >= 0; }
  bool operator==(const Column &) const = default;
};

/// A sum of columns and a constant.
class Expression {
public:
  Expression() = default;
  Expression(double constant) : constant(constant) {}
  Expression(Column column) { add(column, 1); }

  Expression &add(Column column, double coefficient);
  Expression &add(const Expression &other, double factor = 1);
  Expression &operator+=(const Expression &other) { return add(other); }
  Expression &operator-=(const Expression &other) { return add(other, -1); }

private:
  friend class LinearProgram;
  struct Term {
    int32_t column;
    double coefficient;
  };
  std::vector<Term> terms;
  double constant = 0;
};

inline Expression operator+(Expression left, const Expression &right) { return left += right; }
inline Expression operator-(Expression left, const Expression &right) { return left -= right; }
inline Expression operator*(double factor, const Expression &expression) {
  return Expression().add(expression, factor);
}

class LinearProgram {
public:
  /// Both bounds must be finite.
  Column addColumn(double lower, double upper);
  void setCost(Column column, double cost) { columns[column.index].cost = cost; }

  void requireAtLeast(const Expression &left, const Expression &right);
  void requireEqual(const Expression &left, const Expression &right);

  struct Solution {
    /// A proven lower bound on the objective.
    double bound = 0;
    std::vector<double> values; // by column
    double valueOf(Column column) const { return column ? values[column.index] : 0; }
  };
  /// Nullopt if the simplex method did not end within the limit, or the program is infeasible.
  std::optional<Solution> solve(int64_t iterationLimit) const;

private:
  struct ColumnBounds {
    double lower, upper, cost;
  };
  struct Row {
    size_t begin; // index of its first entry
    double lower, upper;
  };
  void addRow(const Expression &expression, double lower, double upper);
  size_t endOf(size_t row) const {
    return row + 1 < rows.size() ? rows[row + 1].begin : entries.size();
  }
  /// The Lagrangian lower bound of these dual prices.
  double boundOf(const std::vector<double> &rowDuals) const;
  /// A HiGHS instance with this program loaded; the caller destroys it. Null if that failed.
  void *load() const;

  std::vector<ColumnBounds> columns;
  std::vector<Row> rows;
  std::vector<Expression::Term> entries;
};

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_LINEARPROGRAM_H
