//===- OperatorReport.cpp - Writes --operator-report ----------------------===//

#include "train/OperatorReport.h"
#include "fsdp/Files/OutputFile.h"
#include "fsdp/Frontend/OperatorFacts.h"

#include <nlohmann/json.hpp>

using namespace fsdp::rt;
using Json = nlohmann::ordered_json;

static std::string textOf(const Executor &executor) {
  std::string text;
  auto add = [&](const Json &line) {
    text += line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  };
  for (const std::string &message : executor.operatorFailures())
    add({{"kind", "failure"}, {"message", message}});
  for (const fsdp::OperatorFact &fact : executor.operatorFacts())
    text += toJsonLine(fact) + "\n";
  const ExecutorStatistics &statistics = executor.statistics();
  for (const auto &[call, copies] : statistics.relaid)
    add({{"kind", "strides"},
         {"operator", call},
         {"results", copies.results},
         {"copied_bytes", copies.bytes}});
  for (const auto &[name, count] : statistics.fallbacksByOperator)
    add({{"kind", "allocation"}, {"operator", name}, {"per_step", count}});
  add({{"kind", "graph"}, {"note", executor.graphNote().text}});
  return text;
}

Status fsdp::rt::writeOperatorReport(const Executor &executor, const std::string &path) {
  const std::string text = textOf(executor);
  std::string problem;
  std::optional<OutputFile> file = OutputFile::open(path, problem);
  std::optional<std::string> wrong = problem;
  if (file) {
    wrong = file->write(text.data(), text.size());
    if (!wrong)
      wrong = file->commit();
  }
  if (wrong)
    return Status::error("--operator-report " + path + ": cannot be written: " + *wrong);
  return {};
}
