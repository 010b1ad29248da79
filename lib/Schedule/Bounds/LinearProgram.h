//===- LinearProgram.h - Linear programs, solved by HiGHS ----------*- C++ -*-===//
//
// Minimises the sum of cost times column. Bounds that are returned do not rest on the solver's
// word: for a linear program they are recomputed from its dual solution, which gives a valid bound
// whatever the tolerances were.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_SCHEDULE_LINEARPROGRAM_H
#define FSDP_LIB_SCHEDULE_LINEARPROGRAM_H

#include <cstdint>
#include <optional>
#include <vector>

namespace fsdp::schedule {

/// By default one that is always 0 and in no program.
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
    /// Proven: no point has a smaller objective.
    double bound = 0;
    std::vector<double> values; // by column
    double valueOf(Column column) const { return column ? values[column.index] : 0; }
  };
  /// None if the simplex method did not end within the limit, or the program has no point.
  std::optional<Solution> solve(int64_t iterationLimit) const;

private:
  struct ColumnBounds {
    double lower, upper, cost;
  };
  struct Row {
    size_t begin; // of its entries
    double lower, upper;
  };
  void addRow(const Expression &expression, double lower, double upper);
  size_t endOf(size_t row) const {
    return row + 1 < rows.size() ? rows[row + 1].begin : entries.size();
  }
  /// The Lagrangian bound of these row prices.
  double boundOf(const std::vector<double> &rowDuals) const;
  /// A HiGHS instance with this program loaded; the caller destroys it. Null if that failed.
  void *load() const;

  std::vector<ColumnBounds> columns;
  std::vector<Row> rows;
  std::vector<Expression::Term> entries;
};

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_LINEARPROGRAM_H
