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
#include <limits>
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
  bool isConstant() const { return terms.empty(); }

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
  void setCost(Column column, double cost) { costs[column.index] = cost; }

  void requireAtLeast(const Expression &left, const Expression &right) {
    addRow(left - right, std::numeric_limits<double>::infinity());
  }
  void requireEqual(const Expression &left, const Expression &right) { addRow(left - right, 0); }

  struct Solution {
    /// A proven lower bound on the objective.
    double bound = 0;
    std::vector<double> values; // by column
    double valueOf(Column column) const { return column ? values[column.index] : 0; }
  };
  /// Nullopt if the simplex method did not end within the limit, or the program is infeasible.
  std::optional<Solution> solve(int iterationLimit) const;

private:
  void addRow(const Expression &expression, double upper);
  /// The Lagrangian lower bound of these dual prices.
  double boundOf(const std::vector<double> &rowDuals) const;

  // As HiGHS takes them. The entries of a row begin at its start, in order of columns.
  std::vector<double> costs, columnLower, columnUpper, rowLower, rowUpper, values;
  std::vector<int> starts, indices;
};

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_LINEARPROGRAM_H
