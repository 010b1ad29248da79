//===- WritersTest.cpp - Trace, page and text of one step -----------------===//

#include "TwoLayers.h"

#include "fsdp/Explain/DiffPage.h"
#include "fsdp/Explain/Page.h"
#include "fsdp/Explain/Quantities.h"
#include "fsdp/Explain/Trace.h"
#include "llvm/Support/JSON.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace fsdp::explain;
using namespace fsdp::explain::test;
using namespace fsdp::schedule;
using testing::HasSubstr;
namespace json = llvm::json;

namespace {

struct Writers : testing::Test {
  Problem problem = makeTwoLayers();
  Plan plan = makeTwoLayersPlan();
  ScheduleView view = makeTwoLayersView(problem, plan);
  Explanation explanation = explain(problem, plan, view);
  LowerBound bound = {75, BoundKind::Path, {}, {}};

  std::string write(auto function) {
    std::string text;
    llvm::raw_string_ostream os(text);
    function(os);
    return text;
  }
  ExplainedPlan getPlan() { return {problem, plan, view, explanation, bound}; }

  json::Array getTraceEvents() {
    json::Value trace = parse(write([&](auto &os) { writeTrace(view, os); }));
    return std::move(*trace.getAsObject()->getArray("traceEvents"));
  }
  json::Value parse(llvm::StringRef text) {
    llvm::Expected<json::Value> value = json::parse(text);
    EXPECT_TRUE(static_cast<bool>(value)) << llvm::toString(value.takeError());
    return value ? std::move(*value) : json::Value(nullptr);
  }
};

/// The page's data, as its script reads it.
llvm::StringRef getPageData(llvm::StringRef page) {
  llvm::StringRef rest = page.split("application/json\">").second;
  return rest.split("</script>").first;
}

} // namespace

TEST_F(Writers, TraceHasASlicePerOperationAndCollective) {
  size_t compute = 0, lanes = 0;
  for (const json::Value &value : getTraceEvents()) {
    const json::Object &event = *value.getAsObject();
    if (event.getString("ph") != "X")
      continue;
    compute += event.getInteger("tid") == 2;
    lanes += *event.getInteger("tid") > 2;
  }
  EXPECT_EQ(compute, 6u);
  EXPECT_EQ(lanes, 5u);
}

/// Microseconds, as the format wants them.
TEST_F(Writers, TraceNamesCollectivesAndTheirCosts) {
  for (const json::Value &value : getTraceEvents()) {
    const json::Object &event = *value.getAsObject();
    if (event.getString("name") != "reduce_scatter layers.0")
      continue;
    EXPECT_EQ(event.getNumber("ts"), 0.067);
    EXPECT_EQ(event.getNumber("dur"), 0.007);
    const json::Object &arguments = *event.getObject("args");
    EXPECT_EQ(arguments.getInteger("bytes"), 100);
    EXPECT_EQ(arguments.getNumber("exposed us"), 0.002);
    EXPECT_EQ(arguments.getString("cost from"), "roofline");
    return;
  }
  FAIL() << "no such slice";
}

TEST_F(Writers, TraceCountsMemory) {
  int64_t peak = 0;
  for (const json::Value &value : getTraceEvents()) {
    const json::Object &event = *value.getAsObject();
    if (event.getString("ph") == "C" && event.getString("name") == "memory")
      peak = std::max(peak, *event.getObject("args")->getInteger("bytes"));
  }
  EXPECT_EQ(peak, 500);
}

/// The page fetches nothing, and its template is filled in.
static void expectSelfContained(const std::string &page) {
  for (const char *word : {"http:", "https:", "src=", "@import", "url(", "@PAGE"})
    EXPECT_EQ(page.find(word), std::string::npos) << word;
}

TEST_F(Writers, PageHoldsItsDataAndFetchesNothing) {
  std::string page = write([&](auto &os) { writePage(getPlan(), os); });
  json::Value data = parse(getPageData(page));
  EXPECT_EQ(data.getAsObject()->getInteger("makespanNs"), 79);
  EXPECT_EQ(data.getAsObject()->getArray("collectives")->size(), 5u);
  EXPECT_EQ(data.getAsObject()->getObject("peak")->getInteger("bytes"), 500);
  expectSelfContained(page);
}

TEST_F(Writers, PageOfTwoHoldsBothAndFetchesNothing) {
  std::string page =
      write([&](auto &os) { writeDiffPage({"a", getPlan()}, {"</script>", getPlan()}, os); });
  expectSelfContained(page);
  json::Value data = parse(getPageData(page));
  const json::Array *steps = data.getAsObject()->getArray("steps");
  ASSERT_EQ(steps->size(), 2u);
  EXPECT_EQ((*steps)[1].getAsObject()->getString("name"), "</script>");
  EXPECT_EQ((*steps)[1].getAsObject()->getInteger("makespanNs"), 79);
  EXPECT_EQ(data.getAsObject()->getArray("pairs")->size(), 5u);
  EXPECT_TRUE(data.getAsObject()->getArray("differences")->empty());
}

/// A model's name cannot end the script that holds the data.
TEST_F(Writers, PageKeepsNamesFromBeingMarkup) {
  view.labels.model = "</script><b>";
  std::string page = write([&](auto &os) { writePage(getPlan(), os); });
  EXPECT_EQ(page.find("</script><b>"), std::string::npos);
  json::Value data = parse(getPageData(page));
  EXPECT_EQ(data.getAsObject()->getString("model"), "</script><b>");
}

TEST_F(Writers, TextSummarisesTheStep) {
  std::string text = write([&](auto &os) { printStep(getPlan(), os); });
  EXPECT_THAT(text, HasSubstr("tiny: predicted 79.0 ns, 1.0533 x the bound"));
  EXPECT_THAT(text, HasSubstr("35.0 ns, of which computation waits 9.00 ns (gathers 7.00 ns, "
                              "reductions 2.00 ns)"));
  EXPECT_THAT(text, HasSubstr("500 B, 27.0 ns into the step, at backward of layers.1.up"));
}

/// A path of few segments is shown whole: operations of one block together, collectives with their
/// reasons.
TEST_F(Writers, TextShowsTheCriticalPath) {
  view.criticalPath = findCriticalPath(problem, plan, makeTwoLayersTimeline());
  std::string text = write([&](auto &os) { printStep(getPlan(), os); });
  EXPECT_THAT(
      text, HasSubstr("critical path\n"
                      "  computation  65.0 ns  82.3 %  mostly mm.default (75.9 %), update (6.3 %)\n"
                      "  gathers      7.00 ns   8.9 %\n"
                      "  reductions   7.00 ns   8.9 %\n"));
  EXPECT_THAT(text, HasSubstr("17.0 ns  10.0 ns  12.7 %  forward of layers.1\n"));
  EXPECT_THAT(text, HasSubstr("67.0 ns  7.00 ns   8.9 %  reduce_scatter layers.0  as soon as its "
                              "gradients are there\n"));
}

/// Of a long one only what is not computation, and of that the longest.
TEST_F(Writers, TextShowsTheLongestOfALongCriticalPath) {
  for (uint32_t i = 0; i < 12; ++i) {
    const double startNs = 4 * i, middleNs = startNs + 1 + (i == 3);
    view.criticalPath.push_back({{PathKind::Gather, 0}, {startNs, middleNs}});
    view.criticalPath.push_back({{PathKind::Computation, 0}, {middleNs, startNs + 4}});
  }
  view.makespanNs = 48;
  std::string text = write([&](auto &os) { printStep(getPlan(), os); });
  EXPECT_THAT(text, HasSubstr("  gathers      13.0 ns  27.1 %\n"));
  EXPECT_THAT(text, HasSubstr("  12.0 ns  2.00 ns  4.2 %  all_gather layers.0"));
  EXPECT_THAT(text, HasSubstr("\n  and 2 shorter ones\n"));
  EXPECT_EQ(text.find("forward of layers.0"), std::string::npos);
}

TEST_F(Writers, JsonHasEverySegmentOfTheCriticalPath) {
  view.criticalPath = findCriticalPath(problem, plan, makeTwoLayersTimeline());
  json::Value report = parse(write([&](auto &os) { writeJson(getPlan(), {}, os); }));
  int64_t nowNs = 0;
  for (const json::Value &value : *report.getAsObject()->getArray("criticalPath")) {
    EXPECT_EQ(value.getAsObject()->getInteger("startNs"), nowNs);
    nowNs += *value.getAsObject()->getInteger("durationNs");
  }
  EXPECT_EQ(nowNs, 79);
}

TEST_F(Writers, TextHasALinePerCollectiveOfAGroup) {
  std::string text = write([&](auto &os) { printGroups(getPlan(), "layers.0", os); });
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4); // header, two gathers, a reduction
  EXPECT_THAT(text, HasSubstr("gathered again"));
  text = write([&](auto &os) { printGroups(getPlan(), "", os); });
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 7); // layers.1 is kept as well
  EXPECT_THAT(text, HasSubstr("stays gathered for the backward, saves 7.00 ns of gathering"));
}

TEST(Quantities, HaveThreeOrFourDigits) {
  EXPECT_EQ(formatBytes(0), "0 B");
  EXPECT_EQ(formatBytes(1023), "1023 B");
  EXPECT_EQ(formatBytes(416 << 20), "416.0 MiB");
  EXPECT_EQ(formatBytes(1023 << 20), "1.00 GiB");
  EXPECT_EQ(formatBytes(-2048), "-2.00 KiB");
  EXPECT_EQ(formatTime(0), "0 s");
  EXPECT_EQ(formatTime(2110000), "2.11 ms");
  EXPECT_EQ(formatTime(999960), "1.00 ms");
  EXPECT_EQ(formatTime(1.2044e9), "1.204 s");
  EXPECT_EQ(formatTime(12.04e9), "12.0 s");
  EXPECT_EQ(formatCount(-1204224), "-1,204,224");
  EXPECT_EQ(formatCount(17), "17");
  EXPECT_EQ(formatShare(0.875), "87.5 %");
}
