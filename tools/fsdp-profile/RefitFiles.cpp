//===- RefitFiles.cpp - Refits a profile and a network of files -----------===//

#include "RefitFiles.h"

#include "Refit.h"
#include "fsdp/Analysis/Step.h"
#include "fsdp/Explain/ModuleFile.h"
#include "fsdp/Explain/Quantities.h"
#include "fsdp/Explain/TextTable.h"
#include "fsdp/Files/SameFile.h"
#include "fsdp/IR/OutputFile.h"
#include "passes/VerifyPhase.h"
#include "llvm/Support/FormatVariadic.h"

using namespace fsdp;
using namespace fsdp::profile;
using namespace fsdp::explain;

/// The relative error of the prediction: "+3.1 %".
static std::string formatError(const TimePair &pair) {
  const double measuredNs = pair.getMeasuredNs();
  if (measuredNs <= 0)
    return "";
  return llvm::formatv("{0}{1:f1} %", pair.predictedNs < measuredNs ? "-" : "+",
                       100 * pair.getDifferenceNs() / measuredNs);
}

static void printErrors(const MeasuredErrors &before, const MeasuredErrors &after,
                        llvm::raw_ostream &os) {
  using Align = TextTable::Align;
  TextTable table({{"", Align::Left},
                   {"measured", Align::Right},
                   {"before", Align::Right},
                   {"error", Align::Right},
                   {"after", Align::Right},
                   {"error", Align::Right}});
  for (auto [name, pair] : {std::pair("step", &MeasuredErrors::step),
                            {"computation", &MeasuredErrors::computation},
                            {"waits", &MeasuredErrors::waits}})
    table.addRow({name, formatTime((before.*pair).getMeasuredNs()),
                  formatTime((before.*pair).predictedNs), formatError(before.*pair),
                  formatTime((after.*pair).predictedNs), formatError(after.*pair)});
  for (auto [name, share] :
       {std::pair("absolute errors of blocks", &MeasuredErrors::shareOfBlocks),
        {"absolute errors of collectives", &MeasuredErrors::shareOfCollectives}})
    table.addRow({name, "", "", formatShare(before.*share), "", formatShare(after.*share)});
  table.print(os);
}

/// Of the step, and of all computation and waits.
static double getAbsoluteErrorNs(const MeasuredErrors &errors) {
  double sumNs = 0;
  for (const TimePair *pair : {&errors.step, &errors.computation, &errors.waits})
    sumNs += std::abs(pair->predictedNs - pair->getMeasuredNs());
  return sumNs;
}

/// The source of refitted figures. A second refit takes the first one's place.
static std::string describeSource(llvm::StringRef source, const MeasuredRun &measured) {
  constexpr llvm::StringLiteral kRefitted = "; refitted: ";
  return source.take_front(source.find(kRefitted)).str() + kRefitted.str() + measured.source;
}

static llvm::Expected<Costs> readCosts(const RefitPaths &paths) {
  llvm::Expected<cost::Profile> profile = cost::readProfile(paths.profile);
  if (!profile)
    return profile.takeError();
  llvm::Expected<cost::Network> network = cost::loadNetwork(paths.network);
  if (!network)
    return network.takeError();
  return Costs{std::move(*profile), std::move(*network)};
}

llvm::Error fsdp::profile::refitFiles(const RefitPaths &paths, llvm::raw_ostream &os) {
  if (std::optional<std::string> clash =
          findClash({{"STEP", paths.step},
                     {"--refit", paths.trace},
                     {"--profile", paths.profile},
                     {"--network", paths.network}},
                    {{"-o", paths.outputProfile}, {"--output-network", paths.outputNetwork}}))
    return llvm::createStringError(*clash);
  llvm::Expected<Costs> costs = readCosts(paths);
  if (!costs)
    return costs.takeError();
  auto file = ModuleFile::read(paths.step);
  if (!file)
    return file.takeError();
  mlir::ModuleOp module = (*file)->get();
  auto refused = [&](const llvm::Twine &why) {
    return llvm::createStringError("'" + llvm::Twine(paths.step) + "' " + why);
  };
  const ModulePhase phase = getPhase(module);
  if (phase != ModulePhase::Scheduled && phase != ModulePhase::Planned)
    return refused("is " + stringifyModulePhase(phase) +
                   ": a refit needs the scheduled or planned step that has run");
  if (failed(verifyPhase(module)))
    return refused("is refused (see above)");
  llvm::Expected<MeasuredRun> measured = readMeasuredRun(paths.trace);
  if (!measured)
    return measured.takeError();
  llvm::Expected<PlannedStep> step = planStep(module, /*ranks=*/0, FusionChoice::Auto);
  if (!step)
    return refused(llvm::toString(step.takeError()));
  llvm::Expected<Refit> result = refit(module, *step, *measured, *costs);
  if (!result)
    return result.takeError();
  Costs &fitted = result->costs;
  fitted.profile.source = describeSource(fitted.profile.source, *measured);
  fitted.network.source = describeSource(fitted.network.source, *measured);
  if (llvm::Error error = printFile(paths.outputProfile, [&](llvm::raw_ostream &out) {
        cost::writeProfile(fitted.profile, out);
      }))
    return error;
  if (llvm::Error error = printFile(paths.outputNetwork, [&](llvm::raw_ostream &out) {
        cost::writeNetwork(fitted.network, out);
      }))
    return error;
  printErrors(result->before, result->after, os);
  if (getAbsoluteErrorNs(result->after) > getAbsoluteErrorNs(result->before))
    llvm::errs() << "fsdp-profile: warning: the refitted costs predict this run worse than the "
                    "given ones\n";
  return llvm::Error::success();
}
