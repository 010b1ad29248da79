//===- Report.cpp - Events and collectives of a step as JSON --------------===//

#include "fsdp/Export/Report.h"

#include "Prediction.h"
#include "fsdp/Analysis/GroupTable.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace fsdp;
using aten::Phase;
namespace json = llvm::json;

namespace {

/// Totals by kind and phase.
struct Totals {
  static constexpr llvm::StringLiteral kinds[] = {"all_gather", "reduce_scatter", "all_reduce"};
  int64_t values[std::size(kinds)][2] = {};

  void add(StringRef kind, Phase phase, int64_t value) {
    values[llvm::find(kinds, kind) - std::begin(kinds)][phase == Phase::Backward] += value;
  }
  void write(json::OStream &out) const {
    for (auto [kind, byPhase] : llvm::zip_equal(kinds, values))
      out.attributeObject(kind, [&] {
        out.attribute("forward", byPhase[0]);
        out.attribute("backward", byPhase[1]);
      });
  }
};

struct Event {
  StringRef event;
  std::string group;
  Phase phase;
};

struct Collective {
  StringRef kind, axis;
  const GroupInfo *group; // null for a tensor
  Phase phase;
  int64_t elements;
  Transport transport = Transport::Kernels;
  StringRef of = {}; // what the numbers of a tensor are
  Type tensorType = {};

  const GroupForm &form() const {
    return kind == "all_gather" ? group->gathered : group->gradients;
  }
  Type dtype() const { return group ? form().elementType : tensorType; }
  int64_t bytes() const { return elements * dtype().getIntOrFloatBitWidth() / 8; }
};

} // namespace

static StringRef getPhaseName(Phase phase) {
  return phase == Phase::Forward ? "forward" : "backward";
}

static std::string getDtypeName(Type type) { return llvm::formatv("{0}", type).str(); }

/// Writes no axes for null.
static void writeMesh(MeshOp mesh, json::OStream &out) {
  out.attributeObject("mesh", [&] {
    if (mesh)
      for (auto [axis, size] : llvm::zip_equal(mesh.getAxes(), mesh.getSizes()))
        out.attribute(cast<StringAttr>(axis).getValue(), size);
  });
}

/// By group: where the chunks lie that its gathers take. Groups without chunks are absent.
static llvm::StringMap<StringRef> getPlacesOfChunks(ModuleOp module) {
  llvm::StringMap<StringRef> places;
  module.walk([&](AllGatherStartOp start) {
    if (!start.getNeighbours())
      return;
    StringRef place = start.isFromHost() ? "host" : "device";
    auto [entry, isNew] = places.try_emplace(start.getGroup(), place);
    if (!isNew && entry->second != place)
      entry->second = "device and host";
  });
  return places;
}

static void writeDeclarations(ModuleOp module, const GroupTable &table, json::OStream &out) {
  if (auto model = module->getAttrOfType<StringAttr>(FsdpDialect::getModelAttrName()))
    out.attribute("model", model.getValue());
  if (auto phase = module->getAttrOfType<ModulePhaseAttr>(FsdpDialect::getPhaseAttrName()))
    out.attribute("phase", stringifyModulePhase(phase.getValue()));
  auto meshes = module.getOps<MeshOp>(); // the first mesh is the model's
  MeshOp model = meshes.empty() ? MeshOp() : *meshes.begin();
  writeMesh(model, out);
  if (auto said = module->getAttrOfType<RecomputeAttr>(FsdpDialect::getRecomputeAttrName()))
    out.attributeObject("recompute", [&] {
      out.attribute("policy", stringifyRecomputePolicy(said.getPolicy()));
      out.attribute("blocks", said.getBlocks());
      out.attribute("for", stringifyRecomputeReason(said.getReason()));
    });
  const llvm::StringMap<StringRef> placesOfChunks = getPlacesOfChunks(module);
  out.attributeArray("groups", [&] {
    for (const GroupInfo &group : table.getGroups())
      out.object([&] {
        GroupOp op = group.op;
        int64_t elements = 0;
        for (unsigned param = 0; param < group.params.size(); ++param)
          elements += group.getParamElements(param);
        out.attribute("group", op.getModuleName());
        out.attribute("parameters", group.params.size());
        out.attribute("elements", elements);
        out.attribute("dtype", getDtypeName(group.master.elementType));
        auto mesh = SymbolTable::lookupNearestSymbolFrom<MeshOp>(op, op.getMeshAttr());
        if (mesh != model)
          writeMesh(mesh, out);
        out.attribute("recompute",
                      stringifyRecomputePolicy(op.getRecomputed().value_or(RecomputePolicy::None)));
        out.attribute("offload_policy", op.areParametersOnHost() ? "cpu" : "none");
        if (std::optional<int64_t> ranks = op.getReshardRanks())
          out.attribute("chunk_ranks", *ranks);
        if (StringAttr reason = op.getReason(Subject::ReshardRanks))
          out.attribute("chunk_reason", reason.getValue());
        if (auto place = placesOfChunks.find(op.getSymName()); place != placesOfChunks.end())
          out.attribute("chunks", place->second);
        if (AllGatherExtensionAttr extension = op.getAllGatherExtensionAttr())
          out.attribute("all_gather_extension", extension.getName().getValue());
        if (op.getAllReduceHook())
          out.attribute("all_reduce_hook", *op.getAllReduceHook());
        out.attribute("optimizer_state", op.isStateOnHost() ? "host" : "device");
        out.attribute("activations", op.areActivationsOnHost() ? "host" : "device");
      });
  });
}

LogicalResult fsdp::writeReport(ModuleOp module, const cost::CostModel &costs,
                                const PredictionOptions &options, llvm::raw_ostream &os) {
  FailureOr<GroupTable> table = GroupTable::build(module);
  if (failed(table))
    return failure();
  SmallVector<Event> events;
  SmallVector<Collective> collectives;
  auto addEvent = [&](StringRef event, FlatSymbolRefAttr group, Phase phase) {
    GroupOp op = table->lookup(group).op;
    events.push_back({event, op.getModuleName(), phase});
  };
  auto addCollective = [&](CollectiveOpInterface start) {
    StringRef kind = start.getCollectiveKind();
    StringRef axis = cast<StringAttr>(start.getAxes()[0]).getValue();
    if (FlatSymbolRefAttr name = start.getCollectiveGroup()) {
      const GroupInfo &group = table->lookup(name);
      int64_t elements = kind == "reduce_scatter" ? group.trained.gatheredElements()
                         : kind == "all_reduce"   ? group.trained.shardElements
                         : start.getNeighbours()  ? group.chunk.shardElements
                                                  : group.gathered.shardElements;
      collectives.push_back({kind, axis, &group, start.getPhase(), elements, start.getTransport()});
      if (kind != "all_reduce")
        addEvent(kind == "all_gather" ? "unshard" : "post_backward", name, start.getPhase());
    } else {
      auto tensor = cast<RankedTensorType>(start.getPayload());
      const bool isAmax = start->getOperand(0).getDefiningOp<PartialAmaxOp>() != nullptr;
      collectives.push_back({kind, axis, nullptr, start.getPhase(), tensor.getNumElements(),
                             Transport::Kernels, isAmax ? "parameter amax" : "gradient norm",
                             tensor.getElementType()});
    }
  };
  for (auto step : module.getOps<func::FuncOp>())
    for (Operation &op : step.getOps()) {
      if (auto start = dyn_cast<CollectiveOpInterface>(op))
        addCollective(start);
      else if (auto reshard = dyn_cast<ReshardOp>(op))
        addEvent("reshard", reshard.getStart().getGroupAttr(), reshard.getPhase());
      else if (auto pack = dyn_cast<PackOp>(op);
               pack && table->lookup(pack.getGroupAttr()).replicas > 1)
        addEvent("post_backward", pack.getGroupAttr(), Phase::Backward);
    }

  FailureOr<StepMemory> memory =
      StepMemory::build(module, {ModulePhase::Scheduled, ModulePhase::Planned});
  if (failed(memory))
    return failure();
  LogicalResult result = success();
  json::OStream out(os, /*IndentSize=*/1);
  out.object([&] {
    writeDeclarations(module, *table, out);
    out.attributeArray("events", [&] {
      for (const Event &event : events)
        out.object([&] {
          out.attribute("event", event.event);
          out.attribute("group", event.group);
          out.attribute("phase", getPhaseName(event.phase));
        });
    });
    Totals counts, bytes;
    out.attributeArray("collectives", [&] {
      for (const Collective &collective : collectives)
        out.object([&] {
          const GroupInfo *group = collective.group;
          out.attribute("kind", collective.kind);
          if (group)
            out.attribute("group", GroupOp(group->op).getModuleName());
          else
            out.attribute("of", collective.of);
          out.attribute("phase", getPhaseName(collective.phase));
          out.attribute("dtype", getDtypeName(collective.dtype()));
          out.attribute("elements", collective.elements);
          out.attribute("axis", collective.axis);
          if (collective.transport != Transport::Kernels)
            out.attribute("transport", stringifyTransport(collective.transport));
          counts.add(collective.kind, collective.phase, 1);
          bytes.add(collective.kind, collective.phase, collective.bytes());
        });
    });
    out.attributeObject("counts", [&] { counts.write(out); });
    out.attributeObject("bytes", [&] { bytes.write(out); });
    out.attributeObject("prediction", [&] {
      result = writePrediction(module, *memory, costs, options.memoryCapBytes, out);
    });
  });
  os << '\n';
  return result;
}
