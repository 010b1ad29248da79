//===- fsdp-profile.cpp - Measures what a step's operations cost -----------===//

#include "CollectiveProfiler.h"
#include "HostDescription.h"
#include "StepProfiler.h"
#include "fsdp/IR/OutputFile.h"
#include "llvm/Support/FormatVariadic.h"

#include <CLI/CLI.hpp>

#include <csignal>
#include <dlfcn.h>

using namespace fsdp;

namespace {

struct Options {
  std::string input, output, device = "cpu", communicator = "shm", clock = "wall";
  bool collectives = false;
  int64_t ranks = 0;
  int threads = 1, samples = 20;
};

} // namespace

static int fail(const llvm::Twine &message) {
  llvm::errs() << "fsdp-profile: error: " << message << '\n';
  return 1;
}

static int fail(llvm::Error error) { return fail(llvm::toString(std::move(error))); }

static std::string milliseconds(double durationNs) {
  return llvm::formatv("{0:f3} ms", durationNs / 1e6);
}

static int profileStep(const Options &options) {
  profile::Clock clock = options.clock == "cpu" ? profile::Clock::Cpu : profile::Clock::Wall;
  if (clock == profile::Clock::Cpu && options.threads > 1)
    return fail("--clock cpu counts one thread, --threads " + std::to_string(options.threads) +
                " are asked for");
  llvm::Expected<profile::PlannedStep> step = profile::planStep(options.input, options.ranks);
  if (!step)
    return fail(step.takeError());
  // The file is opened before anything is measured.
  llvm::Error error = writeFile(options.output, [&](llvm::raw_ostream &os) -> llvm::Error {
    llvm::Expected<cost::Profile> profile =
        profile::profileStep(*step, {options.threads, options.samples, clock});
    if (!profile)
      return profile.takeError();
    profile->device = options.device;
    profile->description = profile::describeHost() + ", " + std::to_string(options.threads) +
                           (options.threads == 1 ? " thread" : " threads") + " per rank" +
                           (clock == profile::Clock::Cpu ? ", CPU time" : "");
    profile->source = profile::describeVersions();
    profile->copies = profile::profileCopies(profile->ranks, options.samples);
    cost::writeProfile(*profile, os);
    const cost::ProfiledStep &parts = profile->step;
    llvm::errs() << "fsdp-profile: step " << milliseconds(parts.durationNs) << " on "
                 << profile->ranks << (profile->ranks == 1 ? " rank: " : " ranks: ")
                 << profile->calls.size() << " distinct calls " << milliseconds(parts.callsNs)
                 << ", updates " << milliseconds(parts.updatesNs) << ", copies "
                 << milliseconds(parts.copiesNs) << ", collectives "
                 << milliseconds(parts.collectivesNs) << '\n';
    return llvm::Error::success();
  });
  return error ? fail(std::move(error)) : 0;
}

static int profileCollectives(const Options &options) {
  if (options.ranks < 2)
    return fail("--collectives needs --ranks, at least 2");
  profile::CollectiveOptions collectives{static_cast<unsigned>(options.ranks), options.communicator,
                                         options.samples};
  // The file is opened before anything is measured.
  llvm::Error error = writeFile(options.output, [&](llvm::raw_ostream &os) -> llvm::Error {
    llvm::Expected<std::string> network = profile::profileCollectives(collectives);
    if (!network)
      return network.takeError();
    os << *network;
    return llvm::Error::success();
  });
  return error ? fail(std::move(error)) : 0;
}

/// Why CUDA devices cannot be measured here.
static std::string refuseCuda() {
  if (!dlopen("libcuda.so.1", RTLD_LAZY))
    return "--device cuda: no CUDA driver on this machine";
  return "--device cuda: operators are measured on CPUs only";
}

int main(int argc, char **argv) {
  // A rank that dies closes its pipes and sockets: an error to report, not a reason to die.
  std::signal(SIGPIPE, SIG_IGN);
  CLI::App app("Measures what the operations of a step, or collectives, cost on this machine.",
               "fsdp-profile");
  Options options;
  auto *input = app.add_option("STEP", options.input,
                               "Step of any phase, text or bytecode; - is standard input");
  app.add_option("-o,--output", options.output, "JSON file to write; - is standard output")
      ->required();
  auto *collectives =
      app.add_flag("--collectives", options.collectives, "Measure collectives instead of a step")
          ->excludes(input);
  app.add_option("--ranks", options.ranks,
                 "Ranks that run at the same time on this machine (default: those of the step; 1 "
                 "for a captured step)")
      ->check(CLI::Range(1, 1024));
  app.add_option("--communicator", options.communicator,
                 "shm: processes of this host (default); local: threads of this process")
      ->check(CLI::IsMember({"shm", "local"}))
      ->needs(collectives);
  app.add_option("--device", options.device, "Device that runs the step: cpu")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->excludes(collectives);
  app.add_option("--threads", options.threads, "Threads of torch, per rank")
      ->check(CLI::Range(1, 1024))
      ->excludes(collectives)
      ->capture_default_str();
  app.add_option("--clock", options.clock,
                 "wall, or cpu: the time that the thread runs, where other programs run too")
      ->check(CLI::IsMember({"wall", "cpu"}))
      ->excludes(collectives)
      ->capture_default_str();
  app.add_option("--samples", options.samples, "Measured steps, or collectives of each size")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  if (options.collectives)
    return profileCollectives(options);
  if (options.input.empty())
    return fail("a step, or --collectives, is needed");
  if (options.device == "cuda")
    return fail(refuseCuda());
  return profileStep(options);
}
