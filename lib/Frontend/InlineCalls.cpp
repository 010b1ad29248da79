//===- InlineCalls.cpp - A TorchScript method without calls ---------------===//
//
// Inlines call by call to find each node's qualified module name: torch's own inlining keeps only
// the last component, and does not tell which ModuleList a block is in. The interpreter identifies
// the current node by its source range only, so each node's range is replaced by one that encodes
// an index into a table of places.
//
//===----------------------------------------------------------------------===//

#include "InlineCalls.h"

#include <torch/csrc/jit/api/function_impl.h>

#include <algorithm>
#include <unordered_map>

using namespace fsdp::frontend;
namespace jit = torch::jit;

namespace {

/// Inlines all calls of a method and assigns each node's place.
class Inliner {
public:
  Inliner(jit::Graph &graph, std::vector<Place> &places) : graph(graph), places(places) {}

  void run() {
    inlineBlock(graph.block());
    // The ranges in the new source are place indices; its text is long enough for all of them.
    source = std::make_shared<jit::Source>(std::string(places.size() + placeOfNode.size() + 1, ' '),
                                           std::string("places"));
    markBlock(graph.block());
  }

  std::shared_ptr<jit::Source> source;

private:
  struct NodePlace {
    std::string module;
    std::vector<int64_t> calls;
    jit::SourceRange range; // in the user's code if possible
  };

  static bool isLibraryCode(const jit::SourceRange &range) {
    auto where = getFileLine(range);
    return !where || std::get<0>(*where).find("/torch/") != std::string::npos ||
           std::get<0>(*where).rfind("torch/", 0) == 0;
  }

  static std::optional<std::tuple<std::string, size_t, size_t>>
  getFileLine(const jit::SourceRange &range) {
    if (!range.source())
      return std::nullopt;
    if (auto original = range.findSourceRangeThatGenerated())
      return original->file_line_col();
    return range.file_line_col();
  }

  /// The qualified name of the module `self`.
  static std::string getModuleName(jit::Value *self) {
    std::string name;
    for (; self->node()->kind() == c10::prim::GetAttr; self = self->node()->input(0))
      name = self->node()->s(c10::attr::name) + (name.empty() ? "" : ".") + name;
    return name;
  }

  /// Changes the place of a call to that of its callee: another module, or a method of the same
  /// one.
  void enterModule(NodePlace &place, const std::string &module) {
    if (place.module == module)
      return;
    // A callee inside the caller's module belongs to the same call of that module.
    bool isInside = place.module.empty() || module.rfind(place.module + '.', 0) == 0;
    place.calls.resize(isInside ? place.calls.size() : 0);
    place.calls.resize(module.empty() ? 0 : 1 + std::count(module.begin(), module.end(), '.'));
    if (!place.calls.empty())
      place.calls.back() = numCalls[module]++;
    place.module = module;
  }

  void inlineBlock(jit::Block *block) {
    for (auto it = block->nodes().begin(); it != block->nodes().end();) {
      jit::Node *node = *it++;
      if (jit::GraphFunction *callee = getCallee(node)) {
        jit::Node *previous = node->prev();
        NodePlace caller = getPlace(node);
        if (node->kind() == c10::prim::CallMethod)
          enterModule(caller, getModuleName(node->input(0)));
        if (node->kind() == c10::prim::CallFunction) {
          jit::Node *function = node->input(0)->node();
          node->removeInput(0);
          if (!function->hasUses()) {
            if (function == previous)
              previous = function->prev();
            function->destroy();
          }
        }
        std::shared_ptr<jit::Graph> body = callee->graph();
        jit::inlineCallTo(node, callee, body.get());
        // Continue with the first of the nodes that replace the call.
        jit::Node *end = *it;
        it = jit::graph_node_list_iterator(previous->next(), jit::kNextDirection);
        for (jit::Node *n = previous->next(); n != end; n = n->next())
          setPlaces(n, caller);
        continue;
      }
      for (jit::Block *inner : node->blocks())
        inlineBlock(inner);
    }
  }

  static jit::GraphFunction *getCallee(jit::Node *node) {
    torch::jit::Function *function = nullptr;
    if (node->kind() == c10::prim::CallFunction) {
      auto constant = node->input(0)->node();
      if (constant->kind() != c10::prim::Constant)
        return nullptr;
      function = node->input(0)->type()->expect<c10::FunctionType>()->function();
    } else if (node->kind() == c10::prim::CallMethod) {
      auto type = node->input(0)->type()->cast<c10::ClassType>();
      if (!type)
        return nullptr;
      function = &type->getMethod(node->s(c10::attr::name));
    }
    return function ? jit::tryToGraphFunction(*function) : nullptr;
  }

  NodePlace getPlace(jit::Node *node) const {
    auto found = placeOfNode.find(node);
    return found == placeOfNode.end() ? NodePlace{"", {}, node->sourceRange()} : found->second;
  }

  /// Sets the places of nodes that come from a callee: the nearest line of the user's code.
  void setPlaces(jit::Node *node, const NodePlace &caller) {
    bool useCaller = isLibraryCode(node->sourceRange()) && !isLibraryCode(caller.range);
    placeOfNode[node] = {caller.module, caller.calls,
                         useCaller ? caller.range : node->sourceRange()};
    for (jit::Block *block : node->blocks())
      for (jit::Node *inner : block->nodes())
        setPlaces(inner, caller);
  }

  void markBlock(jit::Block *block) {
    for (jit::Node *node : block->nodes()) {
      NodePlace place = getPlace(node);
      Place entry{.module = place.module, .file = {}};
      if (std::any_of(place.calls.begin(), place.calls.end(), [](int64_t call) { return call; }))
        entry.calls = place.calls;
      if (auto where = getFileLine(place.range)) {
        entry.file = std::get<0>(*where);
        entry.line = static_cast<unsigned>(std::get<1>(*where));
        entry.column = static_cast<unsigned>(std::get<2>(*where)) + 1;
      }
      node->setSourceRange(jit::SourceRange(source, places.size(), places.size() + 1));
      places.push_back(std::move(entry));
      for (jit::Block *inner : node->blocks())
        markBlock(inner);
    }
  }

  jit::Graph &graph;
  std::vector<Place> &places;
  std::unordered_map<jit::Node *, NodePlace> placeOfNode;
  std::unordered_map<std::string, int64_t> numCalls; // by module, so far
};

} // namespace

std::shared_ptr<jit::Source> fsdp::frontend::inlineCalls(jit::Graph &graph,
                                                         std::vector<Place> &places) {
  Inliner inliner(graph, places);
  inliner.run();
  return inliner.source;
}
