//===- Page.cpp - A simulated step as one HTML file -----------------------===//

#include "fsdp/Explain/Page.h"

#include "SchedulePage.h"
#include "StepData.h"

using namespace fsdp::explain;

void fsdp::explain::writePage(const ExplainedPlan &plan, llvm::raw_ostream &os) {
  std::string data;
  llvm::raw_string_ostream stream(data);
  llvm::json::OStream out(stream);
  out.object([&] { writeStepData(plan.view, &plan, out); });
  writePageAround(kSchedulePage, data, os);
}

void fsdp::explain::writePageAround(const PageTemplate &page, llvm::StringRef json,
                                    llvm::raw_ostream &os) {
  os << page.head;
  for (size_t i = 0; i < json.size(); ++i)
    os << (json[i] == '<' ? llvm::StringRef("\\u003c") : json.substr(i, 1));
  os << page.tail;
}
