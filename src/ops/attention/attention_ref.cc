// SPDX-License-Identifier: Apache-2.0
#include "ops/attention/attention_ref.h"

namespace snug {
namespace {

void run_attention(const RefArgs& args) {
  for_each_query<AttentionHead>(args, 3, [&](const AttentionHead& head, int64_t query) {
    attention_query(args, head, query);
  });
}

void run_attention_grad(const RefArgs& args) {
  for (const RefTensor& output : args.outputs) std::fill_n(output.data, output.size(), 0.0);
  for_each_query<AttentionHead>(args, 6, [&](const AttentionHead& head, int64_t query) {
    attention_grad_query(args, head, query, [](int64_t, double) {});
  });
}

}  // namespace

std::span<const RefKernelDef> attention_ref_kernels() {
  static const RefKernelDef kernels[] = {{"attention", run_attention},
                                         {"attention_grad", run_attention_grad}};
  return kernels;
}

}  // namespace snug
