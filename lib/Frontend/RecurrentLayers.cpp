//===- RecurrentLayers.cpp - The form that recurrent layers have on a CPU -===//
//
// torch's composites check the tensors' device: on a CPU, oneDNN computes an LSTM in fp32, and
// other layers multiply all inputs by the input weights at once. On meta they take other paths,
// which round differently.
//
//===----------------------------------------------------------------------===//

#include "Overrides.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/ops/lstm_native.h>

#include <algorithm>
#include <array>

using namespace fsdp::frontend;
using at::Tensor;
using at::TensorList;
using Tensors3 = std::tuple<Tensor, Tensor, Tensor>;
using Cell = Tensor (*)(const Tensor &input, const Tensor &hidden, const Tensor &weight,
                        const Tensor &bias);

namespace {
/// The common options of all kinds of layers.
struct Layers {
  bool hasBiases;
  int64_t count;
  double dropout;
  bool train, isBidirectional;

  int64_t numDirections() const { return isBidirectional ? 2 : 1; }
  /// Weight or bias `place` (input, hidden, input's bias, hidden's bias) of a layer's direction.
  Tensor get(TensorList parameters, int64_t index, int64_t place) const {
    return parameters[index * (hasBiases ? 4 : 2) + place];
  }
};
} // namespace

/// Runs `direction(input, index)` for each layer and direction, with dropout between layers.
template <typename Direction>
static Tensor stackLayers(const Layers &layers, Tensor input, Direction &&direction) {
  for (int64_t layer = 0; layer < layers.count; ++layer) {
    std::vector<Tensor> outputs;
    for (int64_t i = 0; i < layers.numDirections(); ++i)
      outputs.push_back(direction(input, layer * layers.numDirections() + i));
    input = outputs.size() == 1 ? outputs[0] : at::cat(outputs, -1);
    if (layers.dropout != 0 && layers.train && layer < layers.count - 1)
      input = at::dropout(input, layers.dropout, true);
  }
  return input;
}

//===----------------------------------------------------------------------===//
// GRU and plain layers
//===----------------------------------------------------------------------===//

/// `input` is already multiplied by the input weights.
template <Tensor (*nonlinearity)(const Tensor &)>
static Tensor plainCell(const Tensor &input, const Tensor &hidden, const Tensor &weight,
                        const Tensor &bias) {
  return nonlinearity(at::linear(hidden, weight, bias).add_(input));
}

static Tensor gruCell(const Tensor &input, const Tensor &hidden, const Tensor &weight,
                      const Tensor &bias) {
  std::vector<Tensor> inputGates = input.unsafe_chunk(3, 1);
  std::vector<Tensor> hiddenGates = at::linear(hidden, weight, bias).unsafe_chunk(3, 1);
  Tensor reset = hiddenGates[0].add_(inputGates[0]).sigmoid_();
  Tensor update = hiddenGates[1].add_(inputGates[1]).sigmoid_();
  Tensor fresh = inputGates[2].add(hiddenGates[2].mul_(reset)).tanh_();
  return hidden.sub(fresh).mul_(update).add_(fresh);
}

template <Cell cell>
static std::tuple<Tensor, Tensor>
runLayers(const Tensor &x, const Tensor &hx, TensorList parameters, bool hasBiases, int64_t count,
          double dropout, bool train, bool isBidirectional, bool batchFirst) {
  Layers layers{hasBiases, count, dropout, train, isBidirectional};
  std::vector<Tensor> hiddens = hx.unbind(0), last;
  Tensor output = stackLayers(
      layers, batchFirst ? x.transpose(0, 1) : x, [&](const Tensor &input, int64_t index) {
        auto bias = [&](int64_t place) {
          return hasBiases ? layers.get(parameters, index, place) : Tensor();
        };
        bool isReverse = isBidirectional && index % 2 == 1;
        std::vector<Tensor> steps =
            at::linear(input, layers.get(parameters, index, 0), bias(2)).unbind(0);
        if (isReverse)
          std::reverse(steps.begin(), steps.end());
        Tensor hidden = hiddens[index];
        std::vector<Tensor> outputs;
        for (const Tensor &step : steps)
          outputs.push_back(hidden = cell(step, hidden, layers.get(parameters, index, 1), bias(3)));
        last.push_back(hidden);
        if (isReverse)
          std::reverse(outputs.begin(), outputs.end());
        return at::stack(outputs, 0);
      });
  return {batchFirst ? output.transpose(0, 1) : output, at::stack(last, 0)};
}

//===----------------------------------------------------------------------===//
// LSTM
//===----------------------------------------------------------------------===//

static Tensors3 lstm(const Tensor &x, TensorList hx, TensorList parameters, bool hasBiases,
                     int64_t count, double dropout, bool train, bool isBidirectional,
                     bool batchFirst) {
  Layers layers{hasBiases, count, dropout, train, isBidirectional};
  // A projection is one more weight per direction.
  auto expected = static_cast<size_t>(count * layers.numDirections() * (hasBiases ? 4 : 2));
  if (!at::globalContext().userEnabledMkldnn() || x.scalar_type() != at::kFloat ||
      parameters.size() != expected)
    return at::native::lstm(x, hx, parameters, hasBiases, count, dropout, train, isBidirectional,
                            batchFirst);
  constexpr int64_t lstmKind = 2;
  int64_t hiddenSize = hx[0].size(2);
  Tensor hidden = hx[0].contiguous(), cell = hx[1].contiguous();
  std::vector<Tensor> lastHidden, lastCell;
  Tensor input = (batchFirst ? x.transpose(0, 1) : x).contiguous();
  Tensor output = stackLayers(layers, input, [&](const Tensor &layerInput, int64_t index) {
    Tensor weight = layers.get(parameters, index, 0), recurrent = layers.get(parameters, index, 1);
    auto bias = [&](int64_t place, const Tensor &like) {
      return hasBiases ? layers.get(parameters, index, place)
                       : at::zeros(like.sizes(), like.options());
    };
    auto [result, hy, cy, workspace] = at::mkldnn_rnn_layer(
        layerInput, weight, recurrent, bias(2, weight), bias(3, recurrent), hidden[index],
        cell[index], /*reverse=*/isBidirectional && index % 2 == 1, /*batch_sizes=*/{}, lstmKind,
        hiddenSize, count, hasBiases, isBidirectional, batchFirst, train);
    lastHidden.push_back(hy);
    lastCell.push_back(cy);
    return result;
  });
  return {batchFirst ? output.transpose(0, 1) : output, at::stack(lastHidden, 0),
          at::stack(lastCell, 0)};
}

void Overrides::addRecurrentLayers() {
  library.impl("lstm.input", &lstm);
  library.impl("gru.input", &runLayers<gruCell>);
  library.impl("rnn_tanh.input", &runLayers<plainCell<&at::tanh>>);
  library.impl("rnn_relu.input", &runLayers<plainCell<&at::relu>>);
}
