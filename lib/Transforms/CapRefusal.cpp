//===- CapRefusal.cpp - The figures of a refused memory cap ---------------===//

#include "fsdp/Transforms/CapRefusal.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace fsdp;

static constexpr llvm::StringLiteral kLeast = "fsdp.least_bytes", kEnough = "fsdp.enough_bytes",
                                     kPlace = "fsdp.place";

void fsdp::attachRefusal(Diagnostic &diag, const CapRefusal &refusal) {
  Builder builder(diag.getLocation().getContext());
  SmallVector<NamedAttribute> figures = {
      builder.getNamedAttr(kLeast, builder.getI64IntegerAttr(refusal.leastBytes)),
      builder.getNamedAttr(kPlace, builder.getStringAttr(refusal.place))};
  if (refusal.enoughBytes)
    figures.push_back(
        builder.getNamedAttr(kEnough, builder.getI64IntegerAttr(*refusal.enoughBytes)));
  diag.getMetadata().push_back(DiagnosticArgument(builder.getDictionaryAttr(figures)));
}

std::optional<CapRefusal> fsdp::getRefusal(Diagnostic &diag) {
  for (const DiagnosticArgument &argument : diag.getMetadata()) {
    if (argument.getKind() != DiagnosticArgument::DiagnosticArgumentKind::Attribute)
      continue;
    auto figures = dyn_cast<DictionaryAttr>(argument.getAsAttribute());
    if (!figures || !figures.contains(kLeast))
      continue;
    CapRefusal refusal{.leastBytes = cast<IntegerAttr>(figures.get(kLeast)).getInt(),
                       .place = cast<StringAttr>(figures.get(kPlace)).str()};
    if (auto enough = figures.getAs<IntegerAttr>(kEnough))
      refusal.enoughBytes = enough.getInt();
    return refusal;
  }
  return std::nullopt;
}
