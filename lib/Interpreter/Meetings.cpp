//===- Meetings.cpp - Ranks that meet, and their reductions ---------------===//

#include "Meetings.h"

#include <ATen/ops/maximum.h>

#include <stdexcept>

using namespace mlir;
using namespace fsdp;

SmallVector<unsigned> fsdp::interpreter::findPeers(MeshOp mesh, ArrayRef<StringRef> axes,
                                                   unsigned rank) {
  ArrayRef<int64_t> sizes = mesh.getSizes();
  SmallVector<StringRef> names(mesh.getAxes().getAsValueRange<StringAttr>());
  SmallVector<int64_t> strides(sizes.size(), 1); // the last axis varies fastest
  for (size_t i = sizes.size() - 1; i-- > 0;)
    strides[i] = strides[i + 1] * sizes[i + 1];
  SmallVector<bool> isMet(sizes.size());
  for (StringRef axis : axes) {
    auto *found = llvm::find(names, axis);
    if (found == names.end())
      throw std::runtime_error("the mesh has no axis '" + axis.str() + "'");
    isMet[found - names.begin()] = true;
  }
  SmallVector<unsigned> peers;
  for (int64_t other = 0; other < strides[0] * sizes[0]; ++other) {
    bool agrees = true;
    for (auto [stride, size, met] : llvm::zip_equal(strides, sizes, isMet))
      agrees &= met || other / stride % size == rank / stride % size;
    if (agrees)
      peers.push_back(other);
  }
  return peers;
}

unsigned fsdp::interpreter::findPosition(ArrayRef<unsigned> peers, unsigned rank) {
  return llvm::find(peers, rank) - peers.begin();
}

at::Tensor fsdp::interpreter::reduceInOrder(ArrayRef<at::Tensor> tensors,
                                            const Reduction &reduction) {
  auto getInput = [&](const at::Tensor &tensor) {
    if (reduction.op == ReduceOp::PremulSum)
      return tensor.mul(1 / reduction.predivide);
    return reduction.predivide == 1 ? tensor.clone() : tensor.div(reduction.predivide);
  };
  at::Tensor sum = getInput(tensors.front());
  for (const at::Tensor &tensor : tensors.drop_front())
    if (reduction.op == ReduceOp::Max)
      sum = at::maximum(sum, getInput(tensor));
    else
      sum.add_(getInput(tensor));
  if (reduction.op == ReduceOp::Average && tensors.size() > 1)
    sum.div_(static_cast<double>(tensors.size()));
  return reduction.postdivide == 1 ? sum : sum.div_(reduction.postdivide);
}
