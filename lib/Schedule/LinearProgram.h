//===- LinearProgram.h - Linear and integer programs, solved by HiGHS -*- C++ -*-===//
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
  /// Both bounds must be finite; an integer column takes whole numbers in `branchAndBound`.
  Column addColumn(double lower, double upper, bool integer = false);
  void setCost(Column column, double cost) { columns[column.index].cost = cost; }
  void setUpper(Column column, double upper) { columns[column.index].upper = upper; }
  /// Gives the columns that are added next a place on a line, along which each row is short.
  void setPlace(double newPlace) { place = newPlace; }

  void requireAtLeast(const Expression &left, const Expression &right);
  void requireEqual(const Expression &left, const Expression &right);

  struct Solution {
    /// Proven: no point has a smaller objective.
    double bound = 0;
    std::vector<double> values;       // by column
    std::vector<double> prices;       // by row
    std::vector<double> reducedCosts; // by column
    double valueOf(Column column) const { return column ? values[column.index] : 0; }
  };
  /// None if the simplex method did not end within the limit, or the program has no point.
  std::optional<Solution> solve(int64_t iterationLimit) const;

  /// The bound alone, by an interior point method: many times faster on large programs. Below the
  /// optimum by about 1e-8 of it.
  std::optional<double> boundByInteriorPoint(int64_t iterationLimit) const;

  /// Searches the tree of integer columns for at most that many nodes. Returns a lower bound, and
  /// infinity if the tree holds no point. None if not even the root was solved.
  std::optional<double> branchAndBound(int64_t nodeLimit) const;

  /// Solves the part of the program between two places (the columns there, and the rows that have
  /// no others) with integer columns whole, and adds the row that this proves. Returns by how much
  /// the row raises the bound; 0 if there is no such row, or none within the limit. The raises of
  /// parts without common columns add up.
  double tighten(const Solution &solution, double begin, double end, int64_t nodeLimit);

  /// The places of integer columns, ascending.
  std::vector<double> integerPlaces() const;

private:
  struct ColumnBounds {
    double lower, upper, cost;
    bool integer;
    double place;
  };
  struct Row {
    size_t begin; // of its entries
    double lower, upper;
  };
  struct Part;
  Part makePart(const Solution &solution, double begin, double end) const;
  bool isInside(size_t row, double begin, double end) const;
  void addRow(const Expression &expression, double lower, double upper);
  size_t endOf(size_t row) const {
    return row + 1 < rows.size() ? rows[row + 1].begin : entries.size();
  }
  /// The Lagrangian bound of these row prices.
  double boundOf(const std::vector<double> &rowDuals) const;
  /// A HiGHS instance with this program loaded; the caller destroys it. Null if that failed.
  void *load(bool integer) const;
  /// Solves the loaded program and destroys the instance. None if it did not end.
  std::optional<Solution> runAndDestroy(void *highs) const;

  std::vector<ColumnBounds> columns;
  std::vector<Row> rows;
  std::vector<Expression::Term> entries;
  double place = 0; // of the next column
};

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_LINEARPROGRAM_H
