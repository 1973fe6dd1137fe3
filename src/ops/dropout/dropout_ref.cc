// SPDX-License-Identifier: Apache-2.0
#include "backend/reference/reference.h"
#include "ops/dropout/dropout.h"

namespace snug {
namespace {

void run_dropout(const RefArgs& args) {
  const RefTensor& x = args.inputs[0];
  const double* rng = args.inputs[1].data;
  const double rate = args.attrs.real("rate");
  const uint32_t threshold = dropout_threshold(rate);
  const bool has_samples = args.attrs.int64("sample_axis") == 0;
  const int64_t samples = has_samples ? x.type.shape[0] : 1;
  if (x.size() == 0) return;
  const int64_t sample_size = x.size() / samples;
  for (int64_t i = 0; i < x.size(); ++i) {
    const int64_t element = i % sample_size;
    const int64_t slot = has_samples ? static_cast<int64_t>(rng[2]) + i / sample_size : 0;
    const uint32_t word =
        dropout_words(element / 4, slot, static_cast<int64_t>(rng[1]), args.attrs.int64("ordinal"),
                      static_cast<int64_t>(rng[0]))[static_cast<size_t>(element % 4)];
    args.outputs[0].data[i] = word >= threshold ? x.data[i] / (1 - rate) : 0;
  }
}

}  // namespace

std::span<const RefKernelDef> dropout_ref_kernels() {
  static const RefKernelDef kernels[] = {{"dropout", run_dropout}};
  return kernels;
}

}  // namespace snug
