//===- TextTable.cpp - Aligned columns of text ----------------------------===//

#include "fsdp/Explain/TextTable.h"

#include <cassert>

using namespace fsdp::explain;

void TextTable::print(llvm::raw_ostream &os, unsigned indent) const {
  std::vector<size_t> widths(columns.size(), 0);
  for (const std::vector<std::string> &row : rows) {
    assert(row.size() == columns.size() && "one cell per column");
    for (size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size());
  }
  bool hasHeader = false;
  for (size_t i = 0; i < columns.size(); ++i) {
    hasHeader |= !columns[i].header.empty();
    if (widths[i] > 0)
      widths[i] = std::max(widths[i], columns[i].header.size());
  }
  auto printRow = [&](auto getCell) {
    std::string line(indent, ' ');
    for (size_t i = 0; i < columns.size(); ++i) {
      if (widths[i] == 0)
        continue;
      const std::string &cell = getCell(i);
      std::string padding(widths[i] - cell.size(), ' ');
      line += columns[i].align == Align::Left ? cell + padding : padding + cell;
      line += "  ";
    }
    os << llvm::StringRef(line).rtrim() << '\n';
  };
  if (hasHeader && !rows.empty())
    printRow([&](size_t i) -> const std::string & { return columns[i].header; });
  for (const std::vector<std::string> &row : rows)
    printRow([&](size_t i) -> const std::string & { return row[i]; });
}
