//===- MeasuredJson.cpp - A prediction and a measurement as JSON ----------===//

#include "fsdp/Explain/MeasuredPairs.h"
#include "llvm/Support/JSON.h"

using namespace fsdp::explain;
namespace json = llvm::json;

static void writePair(json::OStream &out, llvm::StringRef key, const TimePair &pair) {
  out.attributeObject(key, [&] {
    out.attribute("predicted", std::llround(pair.predictedNs));
    out.attribute("measured", std::llround(pair.getMeasuredNs()));
  });
}

static void writeFigures(const MeasuredErrors &errors, json::OStream &out) {
  out.attributeObject("figures", [&] {
    writePair(out, "stepNs", errors.step);
    writePair(out, "computeNs", errors.computation);
    out.attributeObject("slowdownNs",
                        [&] { out.attribute("predicted", std::llround(errors.slowdownNs)); });
    out.attributeObject("betweenNs", [&] {
      out.attribute("measured", std::llround(errors.between.getMeasuredNs()));
    });
    for (auto [kind, work, exposed] : {std::tuple("all_gather", "gatherNs", "exposedGatherNs"),
                                       {"reduce_scatter", "reductionNs", "exposedReductionNs"},
                                       {"all_reduce", "acrossNs", "exposedAcrossNs"}})
      if (auto found = errors.collectives.find(kind); found != errors.collectives.end()) {
        writePair(out, work, found->second.work);
        writePair(out, exposed, found->second.exposed);
      }
  });
}

static void writeBlocks(const std::vector<BlockTimes> &blocks, json::OStream &out) {
  out.attributeArray("blocks", [&] {
    for (const BlockTimes &block : blocks)
      out.object([&] {
        out.attribute("block", block.name);
        out.attribute("part", std::string(getName(block.part)));
        writePair(out, "computeNs", block);
        out.attribute("slowdownNs", std::llround(block.slowdownNs));
        out.attribute("betweenNs", std::llround(block.between.getMeasuredNs()));
      });
  });
}

static void writeCollectives(const std::vector<CollectiveTimes> &collectives, json::OStream &out) {
  out.attributeArray("collectives", [&] {
    for (const CollectiveTimes &times : collectives)
      out.object([&] {
        out.attribute("kind", times.kind);
        out.attribute("groups", json::Array(times.groups));
        out.attribute("part", std::string(getName(times.part)));
        out.attribute("bytes", times.sizeBytes);
        writePair(out, "durationNs", times);
        writePair(out, "exposedNs", times.exposed);
      });
  });
}

llvm::Error fsdp::explain::writeMeasuredDiff(const fsdp::schedule::Problem &problem,
                                             const ScheduleView &view, const MeasuredRun &measured,
                                             llvm::raw_ostream &os) {
  const std::vector<BlockTimes> blocks = pairBlocks(problem, view, measured);
  llvm::Expected<std::vector<CollectiveTimes>> collectives = pairCollectives(view, measured);
  if (!collectives)
    return collectives.takeError();
  json::OStream out(os, /*IndentSize=*/1);
  out.object([&] {
    out.attribute("predicted", view.labels.costSources);
    out.attribute("measured", measured.source);
    out.attribute("steps", static_cast<int64_t>(measured.steps.size()));
    writeFigures(sumErrors(view, measured, blocks, *collectives), out);
    writeBlocks(blocks, out);
    writeCollectives(*collectives, out);
  });
  os << '\n';
  return llvm::Error::success();
}
