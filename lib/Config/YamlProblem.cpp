//===- YamlProblem.cpp - What a reader's error is about -------------------===//

#include "YamlProblem.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/YAMLParser.h"

#include <optional>

using namespace fsdp;
using llvm::StringRef;
namespace yaml = llvm::yaml;

namespace {

/// What is said of a value that is wrong.
struct Complaint {
  StringRef message; // as the reader says it
  StringRef expected;
};

constexpr Complaint kComplaints[] = {
    {"not a mapping", "a mapping of keys to values"},
    {"not a sequence", "a list"},
    {"unexpected scalar", "one word or number"},
    {"invalid boolean", "true or false"},
    {"invalid number", "a number"},
    {"out of range number", "a smaller number"},
    {"invalid floating point number", "a number"},
    {"unknown node kind", "a value; aliases are not read"},
};

struct FoundValue {
  std::string path, description;
};

/// Finds the value that a problem is about.
class ValueFinder {
public:
  explicit ValueFinder(const llvm::SMDiagnostic &problem)
      : place(problem.getLoc().getPointer()),
        hasLength(llvm::any_of(problem.getRanges(),
                               [](auto range) { return range.first < range.second; })) {}

  std::optional<FoundValue> find(yaml::Node *value, const std::string &path);

private:
  /// The parser says that a list begins where its first entry begins, and has no length.
  bool isMeant(const yaml::Node &value) const {
    return value.getSourceRange().Start.getPointer() == place &&
           (value.getType() != yaml::Node::NK_Sequence || !hasLength);
  }

  const char *place;
  bool hasLength;
};

} // namespace

static std::string describe(yaml::Node &value) {
  llvm::SmallString<32> storage;
  if (auto *scalar = llvm::dyn_cast<yaml::ScalarNode>(&value))
    return ("'" + scalar->getValue(storage) + "'").str();
  switch (value.getType()) {
  case yaml::Node::NK_BlockScalar:
    return "a text of lines";
  case yaml::Node::NK_Mapping:
    return "a mapping";
  case yaml::Node::NK_Sequence:
    return "a list";
  case yaml::Node::NK_Alias:
    return ("*" + llvm::cast<yaml::AliasNode>(value).getName()).str();
  default:
    return "empty";
  }
}

std::optional<FoundValue> ValueFinder::find(yaml::Node *value, const std::string &path) {
  if (!value)
    return std::nullopt;
  if (isMeant(*value))
    return FoundValue{path, describe(*value)};
  if (auto *mapping = llvm::dyn_cast<yaml::MappingNode>(value))
    for (yaml::KeyValueNode &entry : *mapping) {
      auto *key = llvm::dyn_cast_or_null<yaml::ScalarNode>(entry.getKey());
      llvm::SmallString<32> storage;
      std::string inner = (path.empty() ? "" : path + ".");
      inner += key ? key->getValue(storage) : "?";
      if (std::optional<FoundValue> found = find(entry.getValue(), inner))
        return found;
    }
  if (auto *list = llvm::dyn_cast<yaml::SequenceNode>(value))
    for (unsigned index = 0; yaml::Node &entry : *list)
      if (auto found = find(&entry, path + "[" + std::to_string(index++) + "]"))
        return found;
  return std::nullopt;
}

std::string fsdp::explainProblem(StringRef text, const llvm::SMDiagnostic &problem) {
  const StringRef message = problem.getMessage();
  const auto *complaint =
      llvm::find_if(kComplaints, [&](const Complaint &known) { return message == known.message; });
  const bool isKnown = complaint != std::end(kComplaints);
  if (!isKnown && !message.starts_with("expected "))
    return message.str();
  llvm::SourceMgr sources; // what this reading complains of is known
  sources.setDiagHandler([](const llvm::SMDiagnostic &, void *) {});
  yaml::Stream stream(text, sources);
  const std::string expected = isKnown ? ("expected " + complaint->expected).str() : message.str();
  std::optional<FoundValue> found = ValueFinder(problem).find(stream.begin()->getRoot(), "");
  if (!found)
    return expected;
  return (found->path.empty() ? "the file" : found->path) + " is " + found->description + ", " +
         expected;
}
