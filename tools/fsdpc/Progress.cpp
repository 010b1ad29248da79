//===- Progress.cpp - The stages of a compilation -------------------------===//

#include "Progress.h"

#include "fsdp/Frontend/CommandLine.h"
#include "fsdp/IR/Fsdp.h"
#include "mlir/Pass/Pass.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace fsdp;

void Stage::begin(llvm::StringRef stageName) {
  name = stageName.str();
  started = std::chrono::steady_clock::now();
}

void Stage::end(const llvm::Twine &outcome) {
  if (quiet)
    return;
  double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  llvm::errs() << llvm::format("fsdpc: %-8s %7.3f s  ", name.c_str(), seconds) << outcome << '\n';
}

void Stage::note(const llvm::Twine &text) { llvm::errs() << "fsdpc: note: " << text << '\n'; }

int Stage::fail(const llvm::Twine &reason) {
  llvm::errs() << "fsdpc: error: stage '" << name << "' failed: " << reason << '\n';
  return 1;
}

static std::string describeModule(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream os(text);
  if (auto bytes = module->getAttrOfType<IntegerAttr>(FsdpDialect::getArenaAttrName())) {
    auto peak = module->getAttrOfType<IntegerAttr>(FsdpDialect::getPeakAttrName());
    os << "arena of " << bytes.getInt() << " bytes";
    if (peak && peak.getInt() > 0)
      os << llvm::format(", %.3f x the peak of live bytes",
                         static_cast<double>(bytes.getInt()) / peak.getInt());
    return text;
  }
  unsigned groups = 0, collectives = 0;
  module.walk([&](Operation *op) {
    groups += isa<GroupOp>(op);
    collectives += isa<CollectiveOpInterface>(op);
  });
  os << groups << " groups, " << collectives << " collectives per step";
  return text;
}

void Progress::runAfterPass(Pass *pass, Operation *op) {
  static constexpr struct {
    llvm::StringLiteral verifier, file, nextStage;
  } phases[] = {{"fsdp-verify-sharded", "sharded.mlir", "schedule"},
                {"fsdp-verify-scheduled", "scheduled.mlir", "plan"},
                {"fsdp-verify-planned", "planned.mlir", ""}};
  for (const auto &phase : phases) {
    if (pass->getArgument() != phase.verifier)
      continue;
    auto module = cast<ModuleOp>(op);
    stage.end(describeModule(module));
    if (!saveTemps.empty()) {
      llvm::SmallString<128> path(saveTemps);
      llvm::sys::path::append(path, prefix + phase.file.str());
      if (llvm::Error error = frontend::writeModule(module, std::string(path)))
        saveErrors = llvm::joinErrors(std::move(saveErrors), std::move(error));
    }
    if (!phase.nextStage.empty())
      stage.begin(phase.nextStage);
  }
}

void Progress::runAfterPassFailed(Pass *pass, Operation *) {
  failedPass = pass->getArgument().str();
}

void fsdp::printDiagnostic(Diagnostic &diagnostic) {
  static constexpr const char *severities[] = {"note", "warning", "error", "remark"};
  llvm::errs() << "fsdpc: " << severities[static_cast<int>(diagnostic.getSeverity())] << ": ";
  if (auto place = dyn_cast<FileLineColLoc>(diagnostic.getLocation()))
    llvm::errs() << place.getFilename().getValue() << ':' << place.getLine() << ": ";
  llvm::errs() << diagnostic.str() << '\n';
  for (Diagnostic &note : diagnostic.getNotes())
    printDiagnostic(note);
}
