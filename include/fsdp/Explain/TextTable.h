//===- TextTable.h - Aligned columns of text ---------------------*- C++ -*-===//

#ifndef FSDP_EXPLAIN_TEXTTABLE_H
#define FSDP_EXPLAIN_TEXTTABLE_H

#include "llvm/Support/raw_ostream.h"

#include <string>
#include <vector>

namespace fsdp::explain {

/// Prints rows in columns as wide as their widest cell. Columns whose cells below the header are
/// all empty are left out.
class TextTable {
public:
  enum class Align : uint8_t { Left, Right };
  struct Column {
    std::string header;
    Align align = Align::Left;
  };

  explicit TextTable(std::vector<Column> columns) : columns(std::move(columns)) {}

  /// One cell per column.
  void addRow(std::vector<std::string> cells) { rows.push_back(std::move(cells)); }
  void print(llvm::raw_ostream &os, unsigned indent = 0) const;

private:
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;
};

} // namespace fsdp::explain

#endif // FSDP_EXPLAIN_TEXTTABLE_H
