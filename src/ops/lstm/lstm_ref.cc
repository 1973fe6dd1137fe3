// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "backend/reference/reference.h"

namespace snug {
namespace {

double lstm_sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

struct Activations {
  double i, f, g, o;
};
Activations activations_of(const double* gates, int64_t hidden, int64_t at) {
  return {lstm_sigmoid(gates[at]), lstm_sigmoid(gates[hidden + at]),
          std::tanh(gates[2 * hidden + at]), lstm_sigmoid(gates[3 * hidden + at])};
}

void run_lstm(const RefArgs& args) {
  const int64_t hidden = args.inputs[1].type.shape[1];
  for (int64_t at = 0; at < args.inputs[1].size(); ++at) {
    const int64_t row = at / hidden;
    const double c = args.inputs[1].data[at];
    const bool goes_on = args.inputs[3].data[row] != 0;
    const Activations a =
        activations_of(args.inputs[0].data + row * 4 * hidden, hidden, at % hidden);
    const double next = a.f * c + a.i * a.g;
    args.outputs[0].data[at] = goes_on ? a.o * std::tanh(next) : args.inputs[2].data[at];
    args.outputs[1].data[at] = goes_on ? next : c;
  }
}

void run_lstm_grad(const RefArgs& args) {
  const int64_t hidden = args.inputs[1].type.shape[1];
  for (int64_t at = 0; at < args.inputs[1].size(); ++at) {
    const int64_t row = at / hidden;
    const double c = args.inputs[1].data[at];
    const double dh = args.inputs[3].data != nullptr ? args.inputs[3].data[at] : 0;
    const double dc = args.inputs[4].data != nullptr ? args.inputs[4].data[at] : 0;
    double* dgates = args.outputs[0].data + row * 4 * hidden + at % hidden;
    if (args.inputs[2].data[row] == 0) {
      for (int64_t gate = 0; gate < 4; ++gate) dgates[gate * hidden] = 0;
      args.outputs[1].data[at] = dc;
      args.outputs[2].data[at] = dh;
      continue;
    }
    const Activations a =
        activations_of(args.inputs[0].data + row * 4 * hidden, hidden, at % hidden);
    const double squashed = std::tanh(a.f * c + a.i * a.g);
    const double e = dc + dh * a.o * (1 - squashed * squashed);
    dgates[0] = e * a.g * a.i * (1 - a.i);
    dgates[hidden] = e * c * a.f * (1 - a.f);
    dgates[2 * hidden] = e * a.i * (1 - a.g * a.g);
    dgates[3 * hidden] = dh * squashed * a.o * (1 - a.o);
    args.outputs[1].data[at] = e * a.f;
    args.outputs[2].data[at] = 0;
  }
}

}  // namespace

std::span<const RefKernelDef> lstm_ref_kernels() {
  static const RefKernelDef kernels[] = {{"lstm_cell", run_lstm},
                                         {"lstm_cell_grad", run_lstm_grad}};
  return kernels;
}

}  // namespace snug
