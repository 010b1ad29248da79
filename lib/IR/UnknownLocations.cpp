//===- UnknownLocations.cpp - Diagnostics without a location ---------------===//

#include "fsdp/IR/UnknownLocations.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/WithColor.h"

using namespace mlir;

static bool isUnknown(const Diagnostic &diagnostic) {
  return isa<UnknownLoc>(diagnostic.getLocation());
}

static llvm::raw_ostream &printSeverity(DiagnosticSeverity severity) {
  switch (severity) {
  case DiagnosticSeverity::Note:
    return llvm::WithColor::note(llvm::errs());
  case DiagnosticSeverity::Warning:
    return llvm::WithColor::warning(llvm::errs());
  case DiagnosticSeverity::Error:
    return llvm::WithColor::error(llvm::errs());
  case DiagnosticSeverity::Remark:
    return llvm::WithColor::remark(llvm::errs());
  }
  llvm_unreachable("a severity without name");
}

static void print(const Diagnostic &diagnostic) {
  const Location location = diagnostic.getLocation();
  if (auto place = location->findInstanceOf<FileLineColLoc>())
    llvm::errs() << place.getFilename().getValue() << ':' << place.getLine() << ':'
                 << place.getColumn() << ": ";
  else if (!isUnknown(diagnostic))
    llvm::errs() << location << ": ";
  printSeverity(diagnostic.getSeverity()) << diagnostic.str() << '\n';
  for (const Diagnostic &note : diagnostic.getNotes())
    print(note);
}

void fsdp::hideUnknownLocations(MLIRContext &context) {
  context.getDiagEngine().registerHandler([](Diagnostic &diagnostic) {
    if (!isUnknown(diagnostic) && llvm::none_of(diagnostic.getNotes(), isUnknown))
      return failure();
    print(diagnostic);
    return success();
  });
}
