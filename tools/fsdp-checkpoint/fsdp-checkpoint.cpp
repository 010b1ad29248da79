//===- fsdp-checkpoint.cpp - Lists, verifies and converts checkpoints -----===//

#include "Conversion.h"
#include "TensorValues.h"
#include "checkpoint/CheckpointFolder.h"
#include "fsdp/CommandLine/UnknownFlag.h"
#include "fsdp/Files/SameFile.h"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

using fsdp::findClash;
using fsdp::NamedPath;
using namespace fsdp::rt;

namespace {
struct Options {
  std::string first, second; // folders
  std::string output, names;
  std::string modelKey, python = "python3";
};

/// Prints an error, if `status` is one. Returns a command's exit code: 0 success, 1 differences or
/// an error.
int fail(const Status &status) {
  std::fflush(stdout);
  std::fprintf(stderr, "error: %s\n", status.message().c_str());
  return 1;
}
} // namespace

static uint64_t bytesOf(const CheckpointReader &reader) {
  uint64_t bytes = 0;
  for (const ManifestFile &file : reader.allFiles())
    bytes += file.bytes;
  return bytes;
}

static int listTensors(const CheckpointReader &reader) {
  if (const auto &manifest = reader.manifest())
    std::printf("%s, step %lld of %lld, %s on %u ranks, %zu files, %llu bytes\n",
                manifest->model.c_str(), static_cast<long long>(manifest->step),
                static_cast<long long>(manifest->steps), manifest->optimizer.c_str(),
                manifest->ranks, reader.allFiles().size(),
                static_cast<unsigned long long>(bytesOf(reader)));
  else
    std::printf("of torch.distributed.checkpoint, %zu files, %llu bytes\n",
                reader.allFiles().size(), static_cast<unsigned long long>(bytesOf(reader)));
  for (const CheckpointReader::Listed &tensor : reader.list())
    std::printf("  %s  %s\n", tensor.name.c_str(),
                describeStored(tensor.dtypeName, tensor.shape).c_str());
  return 0;
}

/// The checkpoints in a run's folder, or `folder` itself if it is a checkpoint.
static Result<std::vector<CheckpointEntry>> checkpointsIn(const std::string &folder) {
  Result<std::vector<CheckpointEntry>> listed = listCheckpoints(folder);
  if (listed.ok() && listed->empty())
    listed->push_back({0, folder, true});
  return listed;
}

static int list(const Options &options) {
  auto found = checkpointsIn(options.first);
  if (!found.ok())
    return fail(found.status());
  const bool one = found->size() == 1 && found->front().path == options.first;
  for (const CheckpointEntry &entry : *found) {
    if (!entry.complete) {
      std::printf("%s: not complete\n", entry.path.c_str());
      continue;
    }
    Result<CheckpointReader> reader = CheckpointReader::open(entry.path);
    if (!reader.ok())
      return fail(reader.status());
    if (one)
      return listTensors(*reader);
    std::printf("%s: step %lld of %lld, %u ranks, %llu bytes\n", entry.path.c_str(),
                static_cast<long long>(reader->manifest()->step),
                static_cast<long long>(reader->manifest()->steps), reader->manifest()->ranks,
                static_cast<unsigned long long>(bytesOf(*reader)));
  }
  return 0;
}

static int verify(const Options &options) {
  auto found = checkpointsIn(options.first);
  if (!found.ok())
    return fail(found.status());
  for (const CheckpointEntry &entry : *found) {
    if (!entry.complete)
      return fail(
          Status::error("'" + entry.path + "' is not complete: it lacks '" + kManifestName + "'"));
    Result<CheckpointReader> reader = CheckpointReader::open(entry.path);
    if (!reader.ok())
      return fail(reader.status());
    if (Status status = verifyCheckpoint(*reader); !status.ok())
      return fail(status);
    std::printf("%s: %zu tensors in %zu files, %s\n", entry.path.c_str(), reader->list().size(),
                reader->allFiles().size(),
                reader->manifest() ? "each element once, checksums agree"
                                   : "each element once, no checksums");
  }
  return 0;
}

static int compare(const Options &options) {
  Result<CheckpointReader> first = CheckpointReader::open(options.first),
                           second = CheckpointReader::open(options.second);
  for (const auto *reader : {&first, &second})
    if (!reader->ok())
      return fail(reader->status());
  std::map<std::string, CheckpointReader::Listed> others;
  for (CheckpointReader::Listed &tensor : second->list())
    others.emplace(tensor.name, tensor);
  int differences = 0;
  auto say = [&](const std::string &name, const std::string &what) {
    std::printf("%s: %s\n", name.c_str(), what.c_str());
    ++differences;
  };
  size_t same = 0;
  for (const CheckpointReader::Listed &tensor : first->list()) {
    auto other = others.extract(tensor.name);
    if (!other) {
      say(tensor.name, "only in " + options.first);
      continue;
    }
    std::string types[2] = {describeStored(tensor.dtypeName, tensor.shape),
                            describeStored(other.mapped().dtypeName, other.mapped().shape)};
    if (types[0] != types[1]) {
      say(tensor.name, types[0] + ", then " + types[1]);
      continue;
    }
    Result<std::string> difference = differenceOf(*first, *second, tensor);
    if (!difference.ok())
      return fail(difference.status());
    if (difference->empty())
      ++same;
    else
      say(tensor.name, *difference);
  }
  for (const auto &[name, tensor] : others)
    say(name, "only in " + options.second);
  std::printf("%zu tensors are the same, %d differ\n", same, differences);
  return differences != 0;
}

/// Reads a JSON object that maps the checkpoint's names to the file's.
static Result<std::map<std::string, std::string>> readNames(const std::string &path,
                                                            const CheckpointReader &reader) {
  std::map<std::string, std::string> names;
  if (path.empty())
    return names;
  std::ifstream file(path);
  auto json = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object())
    return Status::error("--names " + path + ": cannot be read as a JSON object");
  std::set<std::string> known;
  for (const CheckpointReader::Listed &tensor : reader.list())
    if (isOfModel(tensor.name))
      known.insert(tensor.name);
  for (const auto &[name, other] : json.items()) {
    if (!other.is_string() || !known.contains(name))
      return Status::error("--names " + path + ": '" + name + "' " +
                           (other.is_string()
                                ? "is no tensor of the model in '" + reader.path() + "'"
                                : "has no text beside it"));
    names[name] = other.get<std::string>();
  }
  std::set<std::string> used;
  for (const std::string &name : known)
    if (std::string other = names.contains(name) ? names[name] : name; !used.insert(other).second)
      return Status::error("--names " + path + ": two tensors would be called '" + other + "'");
  return names;
}

static int consolidate(const Options &options) {
  if (!options.output.ends_with(".safetensors"))
    return fail(
        Status::error("--output " + options.output + ": the name must end with .safetensors"));
  Result<CheckpointReader> reader = CheckpointReader::open(options.first);
  if (!reader.ok())
    return fail(reader.status());
  std::vector<NamedPath> inputs = {{"--names", options.names}};
  for (const std::string &file : reader->filePaths())
    inputs.push_back({"CHECKPOINT", file});
  if (std::optional<std::string> clash = findClash(inputs, {{"--output", options.output}}))
    return fail(Status::error(*clash));
  if (Status status = verifyCheckpoint(*reader); !status.ok())
    return fail(status);
  auto names = readNames(options.names, *reader);
  if (!names.ok())
    return fail(names.status());
  Status status = consolidate(*reader, options.output, [&](const std::string &name) {
    auto other = names->find(name);
    return other == names->end() ? name : other->second;
  });
  return status.ok() ? 0 : fail(status);
}

/// A checkpoint of a training binary is verified first. Torch's own format has no checksums.
static int convert(const Options &options) {
  std::error_code code;
  if (std::filesystem::exists(std::filesystem::path(options.first) / kManifestName, code)) {
    Result<CheckpointReader> reader = CheckpointReader::open(options.first);
    if (!reader.ok())
      return fail(reader.status());
    if (Status status = verifyCheckpoint(*reader); !status.ok())
      return fail(status);
  }
  return fail(becomeConversion({.checkpoint = options.first,
                                .folder = options.second,
                                .modelKey = options.modelKey,
                                .python = options.python}));
}

int main(int argc, char **argv) {
  CLI::App app("Lists, verifies, compares and converts checkpoints of training binaries and of "
               "torch.distributed.checkpoint.");
  fsdp::reportUnknownFlags(app);
  app.set_version_flag("--version", "fsdp-checkpoint " FSDP_VERSION ", plan ABI " +
                                        std::to_string(FSDP_PLAN_ABI_VERSION));
  app.require_subcommand(1);
  Options options;
  int (*run)(const Options &) = nullptr;
  auto command = [&](const char *name, const char *what, const char *argument,
                     int (*function)(const Options &)) {
    CLI::App *added = app.add_subcommand(name, what);
    added->add_option(argument, options.first, "Folder of a checkpoint")->required();
    added->callback([&run, function] { run = function; });
    return added;
  };
  command("ls", "List the checkpoints of a run's folder, or the tensors of one", "DIR", list);
  command("verify", "Verify the checksums of a run's checkpoints, or of one checkpoint", "DIR",
          verify);
  command("diff", "Compare the tensors of two checkpoints, regardless of how files divide them",
          "FIRST", compare)
      ->add_option("SECOND", options.second, "Folder of the other checkpoint")
      ->required();
  CLI::App *whole =
      command("consolidate", "Write the model's parameters and buffers into one safetensors file",
              "CHECKPOINT", consolidate);
  whole->add_option("-o,--output", options.output, "The file")
      ->type_name("FILE.safetensors")
      ->required();
  whole
      ->add_option(
          "--names", options.names,
          "New names for tensors: a JSON object {\"name in the checkpoint\": \"name in the file\"}")
      ->type_name("FILE.json");
  CLI::App *conversion =
      command("convert", "Convert from and to torch's own format (.distcp). Runs torch in Python",
              "CHECKPOINT", convert);
  conversion
      ->add_option("FOLDER", options.second, "Folder for the result: it is made, or must be empty")
      ->required();
  conversion
      ->add_option("--model-key", options.modelKey,
                   "Prefix in torch's format, where parameters and buffers are called KEY.NAME")
      ->type_name("KEY");
  conversion->add_option("--python", options.python, "A Python that has torch and fsdpc")
      ->type_name("PROGRAM")
      ->envname("FSDP_PYTHON")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return run(options);
}
