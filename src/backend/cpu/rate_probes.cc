// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/rate_probes.h"

#include <cstdint>
#include <utility>

#include "ops/optimizer/optimizers.h"

namespace snug {
namespace {

using Operand = std::optional<TensorType>;
constexpr std::nullopt_t kAbsent = std::nullopt;

TensorType f32(Shape shape) { return {DType::f32, std::move(shape)}; }
TensorType i32(Shape shape) { return {DType::i32, std::move(shape)}; }
TensorType boolean(Shape shape) { return {DType::boolean, std::move(shape)}; }
TensorType rng() { return {DType::i64, {3}}; }

// The forms of an optimizer's step: its defaults, and each share that they switch off switched on.
std::vector<Settings> settings_of(const Optimizer& optimizer) {
  Settings defaults;
  for (const HyperParameter& each : *optimizer.parameters)
    defaults.set(each.name, each.default_value);
  std::vector<Settings> forms = {defaults};
  for (const HyperParameter& each : *optimizer.parameters) {
    if (each.range != HyperRange::share || each.default_value > 0) continue;
    forms.push_back(defaults);
    forms.back().set(each.name, 0.9);
  }
  return forms;
}

RateProbe step_probe(const Optimizer& optimizer, const Settings& settings, const TensorType& w) {
  std::vector<Operand> operands = {w, w};
  for (const StateSpec& state : (*optimizer.states)(settings, w.shape))
    operands.emplace_back(f32(state.shape));
  operands.emplace_back(f32({4}));
  operands.emplace_back(kAbsent);
  StepNode step = (*optimizer.step)(settings, {.shape = w.shape, .weight_decay = 0.01});
  return {std::move(step.op), std::move(operands), std::move(step.attrs)};
}

// Shapes of encoders and, with few rows, of recurrent nets.
void append_products(std::vector<RateProbe>& probes) {
  const auto add = [&](const char* op, const Attrs& attrs, std::vector<Operand> inputs) {
    probes.push_back({op, std::move(inputs), attrs, RateBasis::both});
  };
  const Attrs b_across = {{"transpose_b", true}};
  add("matmul", b_across, {f32({512, 768}), f32({768, 768}), f32({768})});
  add("matmul", b_across, {f32({512, 1024}), f32({256, 1024}), f32({256})});
  add("matmul", b_across, {f32({64, 768}), f32({768, 768}), kAbsent});
  add("matmul", b_across, {f32({32, 512}), f32({2048, 512}), f32({2048})});
  add("matmul", b_across, {f32({8, 256}), f32({256, 256}), kAbsent});
  add("matmul", {}, {f32({1024, 256}), f32({256, 1024}), kAbsent});
  add("matmul", {}, {f32({256, 768}), f32({768, 1536}), kAbsent});
  add("matmul", {}, {f32({512, 1024}), f32({1024, 512}), kAbsent});
  add("matmul", {}, {f32({32, 2048}), f32({2048, 512}), kAbsent});
  add("matmul", {}, {f32({8, 256}), f32({256, 256}), kAbsent});
  const Attrs a_across = {{"transpose_a", true}};
  add("matmul", a_across, {f32({512, 768}), f32({512, 768}), kAbsent});
  add("matmul", a_across, {f32({2048, 256}), f32({2048, 256}), kAbsent});
  add("matmul", a_across, {f32({512, 256}), f32({512, 1024}), kAbsent});
  add("matmul_accumulate", a_across, {f32({512, 2048}), f32({32, 512}), f32({32, 2048})});
  add("matmul", a_across, {f32({8, 256}), f32({8, 256}), kAbsent});
  // Of one row each, or few: as fast as the other operand can be read or written.
  add("matmul", {}, {f32({32, 1, 128}), f32({32, 128, 256}), kAbsent});
  add("matmul", a_across, {f32({32, 1, 128}), f32({32, 1, 256}), kAbsent});
  add("matmul", b_across, {f32({4, 2048}), f32({1024, 2048}), f32({1024})});
  add("matmul", {}, {f32({4, 1024}), f32({1024, 2048}), kAbsent});
  add("matmul", a_across, {f32({4, 1024}), f32({4, 2048}), kAbsent});
}

void append_convolutions(std::vector<RateProbe>& probes) {
  using Ints = std::vector<int64_t>;
  struct Layer {
    Shape x;
    Shape w;
    int64_t stride = 1;
  };
  for (const Layer& layer :
       {Layer{{1, 56, 56, 64}, {64, 64, 3, 3}}, Layer{{1, 56, 56, 64}, {128, 64, 1, 1}},
        Layer{{2, 28, 28, 128}, {128, 128, 3, 3}, 2}, Layer{{2, 14, 14, 512}, {256, 512, 1, 1}},
        Layer{{2, 14, 14, 192}, {192, 192, 3, 3}}, Layer{{1, 112, 112, 64}, {128, 64, 3, 3}},
        Layer{{16, 32, 32, 16}, {16, 16, 3, 3}}}) {
    const int64_t padding = layer.w[2] / 2;
    const int64_t side = (layer.x[1] - 1) / layer.stride + 1;
    const TensorType x = f32(layer.x);
    const TensorType w = f32(layer.w);
    const TensorType y = f32({layer.x[0], side, side, layer.w[0]});
    const Attrs attrs = {{"stride", Ints{layer.stride, layer.stride}},
                         {"padding", Ints{padding, padding}}};
    Attrs of_input = attrs;
    of_input.set("image", Ints{layer.x[1], layer.x[2]});
    Attrs of_weight = attrs;
    of_weight.set("kernel", Ints{layer.w[2], layer.w[3]});
    probes.push_back({"conv2d", {x, w, kAbsent}, attrs, RateBasis::both});
    probes.push_back({"conv2d_grad_input", {w, y}, of_input, RateBasis::both});
    probes.push_back({"conv2d_grad_weight", {x, y}, of_weight, RateBasis::both});
  }
}

void append_attention(std::vector<RateProbe>& probes) {
  const Attrs attrs = {{"heads", int64_t{4}}, {"rate", 0.1}, {"ordinal", int64_t{0}}};
  for (const int64_t batch : {1, 6}) {
    const TensorType x = f32({batch, 128, 256});
    const TensorType mask = boolean({batch, 128});
    const TensorType log_sums = f32({batch, 4, 128});
    probes.push_back({"attention", {x, x, x, mask, rng()}, attrs, RateBasis::flops});
    probes.push_back(
        {"attention_grad", {x, x, x, x, log_sums, x, mask, rng()}, attrs, RateBasis::flops});
  }
}

// Ops that read and write every element once, on a few rows and on many.
void append_streams(std::vector<RateProbe>& probes) {
  constexpr int64_t kWidth = 256;
  using Ints = std::vector<int64_t>;
  const auto both_sizes = [&probes](auto probe_of_rows) {
    for (const int64_t rows : {16, 1536}) probes.push_back(probe_of_rows(rows));
  };
  for (const char* op : {"add", "sub", "mul", "div"}) {
    both_sizes([op](int64_t rows) {
      return RateProbe{op, {f32({rows, kWidth}), f32({rows, kWidth})}};
    });
    both_sizes([op](int64_t rows) { return RateProbe{op, {f32({rows, kWidth}), f32({rows, 1})}}; });
    both_sizes([op](int64_t rows) { return RateProbe{op, {f32({rows, kWidth}), f32({kWidth})}}; });
  }
  for (const char* op :
       {"neg", "exp", "log", "sqrt", "rsqrt", "tanh", "erf", "sigmoid", "relu", "gelu"}) {
    both_sizes([op](int64_t rows) { return RateProbe{op, {f32({rows, kWidth})}}; });
  }
  const auto matrix = [](int64_t rows) { return f32({rows, kWidth}); };
  both_sizes([](int64_t r) {
    return RateProbe{"cast", {i32({r, kWidth})}, {{"to", std::string("f32")}}};
  });
  both_sizes([&](int64_t r) { return RateProbe{"relu_grad", {matrix(r), matrix(r)}}; });
  both_sizes([&](int64_t r) { return RateProbe{"gelu_grad", {matrix(r), matrix(r)}}; });
  both_sizes([&](int64_t r) { return RateProbe{"scale", {matrix(r)}, {{"factor", 0.5}}}; });
  both_sizes([&](int64_t r) {
    return RateProbe{"where", {boolean({r, kWidth}), matrix(r), matrix(r)}};
  });
  both_sizes([&](int64_t r) { return RateProbe{"greater", {matrix(r), matrix(r)}}; });
  both_sizes([&](int64_t r) {
    return RateProbe{"dropout", {matrix(r), rng()}, {{"rate", 0.1}, {"ordinal", int64_t{0}}}};
  });
  both_sizes([&](int64_t r) { return RateProbe{"softmax", {matrix(r)}}; });
  both_sizes([&](int64_t r) {
    return RateProbe{"masked_softmax", {matrix(r), boolean({r, kWidth})}};
  });
  both_sizes([&](int64_t r) { return RateProbe{"softmax_grad", {matrix(r), matrix(r)}}; });
  both_sizes([&](int64_t r) {
    return RateProbe{"layer_norm", {matrix(r), f32({kWidth}), f32({kWidth})}};
  });
  both_sizes([&](int64_t r) {
    return RateProbe{"layer_norm_grad", {matrix(r), f32({kWidth}), f32({r}), f32({r}), matrix(r)}};
  });
  both_sizes([&](int64_t r) {
    const TensorType state = f32({r / 4, kWidth});
    return RateProbe{"lstm_cell", {f32({r / 4, 4 * kWidth}), state, state, boolean({r / 4})}};
  });
  both_sizes([&](int64_t r) {
    const TensorType state = f32({r / 4, kWidth});
    return RateProbe{"lstm_cell_grad",
                     {f32({r / 4, 4 * kWidth}), state, boolean({r / 4}), state, state}};
  });
  const TensorType channels = f32({kWidth});
  both_sizes([&](int64_t r) { return RateProbe{"batch_norm", {matrix(r), channels, channels}}; });
  both_sizes([&](int64_t r) {
    return RateProbe{"batch_norm_grad", {matrix(r), channels, channels, channels, matrix(r)}};
  });
  both_sizes([&](int64_t r) {
    return RateProbe{"batch_norm_inference", {matrix(r), channels, channels, channels, channels}};
  });
  const Attrs halving = {{"kernel", Ints{3, 3}}, {"stride", Ints{2, 2}}, {"padding", Ints{1, 1}}};
  both_sizes([&](int64_t r) {
    return RateProbe{"max_pool2d", {f32({r / 16, 8, 8, kWidth / 4})}, halving};
  });
  both_sizes([&](int64_t r) {
    return RateProbe{"max_pool2d_grad",
                     {f32({r / 16, 8, 8, kWidth / 4}), f32({r / 16, 4, 4, kWidth / 4})},
                     halving};
  });
  const Attrs disjoint = {{"kernel", Ints{2, 2}}, {"stride", Ints{2, 2}}};
  both_sizes([&](int64_t r) {
    return RateProbe{"max_pool2d", {f32({r / 16, 8, 8, kWidth / 4})}, disjoint};
  });
  both_sizes([&](int64_t r) {
    return RateProbe{"max_pool2d_grad",
                     {f32({r / 16, 8, 8, kWidth / 4}), f32({r / 16, 4, 4, kWidth / 4})},
                     disjoint};
  });
  both_sizes([&](int64_t r) {
    return RateProbe{"transpose", {f32({r / 16, 16, 4, kWidth / 4})}, {{"perm", Ints{0, 2, 1, 3}}}};
  });
  both_sizes([&](int64_t r) {
    return RateProbe{"transpose", {f32({r / 16, 8, 8, kWidth / 4})}, {{"perm", Ints{0, 3, 1, 2}}}};
  });
  both_sizes([&](int64_t r) {
    return RateProbe{"slice",
                     {matrix(r)},
                     {{"axis", int64_t{1}}, {"start", int64_t{0}}, {"stop", kWidth / 2}},
                     RateBasis::both};
  });
  both_sizes([&](int64_t r) {
    return RateProbe{"slice",
                     {f32({8 * r, 32})},
                     {{"axis", int64_t{1}}, {"start", int64_t{0}}, {"stop", int64_t{16}}},
                     RateBasis::both};
  });
  both_sizes([&](int64_t r) {
    return RateProbe{
        "pad", {matrix(r)}, {{"axis", int64_t{1}}, {"before", int64_t{0}}, {"after", kWidth}}};
  });
  both_sizes([&](int64_t r) {
    return RateProbe{"concat", {matrix(r), matrix(r)}, {{"axis", int64_t{1}}}};
  });
  both_sizes([&](int64_t r) {
    return RateProbe{"broadcast_to", {f32({kWidth})}, {{"shape", Ints{r, kWidth}}}};
  });
  both_sizes([&](int64_t r) {
    return RateProbe{"sum_to", {matrix(r)}, {{"shape", Ints{kWidth}}}};
  });
  both_sizes([&](int64_t r) { return RateProbe{"reduce_sum", {matrix(r)}, {{"axes", Ints{0}}}}; });
  both_sizes([&](int64_t r) { return RateProbe{"sum_squares", {matrix(r)}}; });
  probes.push_back({"sum_squares", {matrix(12288)}});  // more than address translation caches hold
  constexpr int64_t kVocabulary = 8192;
  const TensorType table = f32({kVocabulary, kWidth});
  const auto two_sizes = [&probes](auto probe_of_rows) {
    for (const int64_t rows : {32, 1536}) probes.push_back(probe_of_rows(rows));
  };
  two_sizes([&](int64_t r) {
    return RateProbe{"embedding", {table, i32({r})}, {}, RateBasis::bytes, kVocabulary};
  });
  two_sizes([&](int64_t r) {
    return RateProbe{"embedding_grad",
                     {i32({r}), matrix(r)},
                     {{"rows", kVocabulary}},
                     RateBasis::both,
                     kVocabulary};
  });
  two_sizes([&](int64_t r) {
    return RateProbe{"embedding_grad_accumulate",
                     {table, i32({r}), matrix(r)},
                     {},
                     RateBasis::both,
                     kVocabulary};
  });
  for (const Optimizer* optimizer : optimizers()) {
    for (const Settings& settings : settings_of(*optimizer))
      both_sizes([&](int64_t r) { return step_probe(*optimizer, settings, matrix(r)); });
  }
  both_sizes([&](int64_t r) { return RateProbe{"accumulate", {matrix(r), matrix(r)}}; });
  both_sizes([&](int64_t r) { return RateProbe{"set_zero", {matrix(r)}}; });
  for (const size_t count : {size_t{8}, size_t{64}}) {
    probes.push_back({"global_norm", std::vector<Operand>(count, f32({})), {}, RateBasis::flops});
  }
  for (const int64_t classes : {int64_t{2}, kWidth}) {
    both_sizes([&](int64_t r) {
      return RateProbe{"softmax_cross_entropy",
                       {f32({r, classes}), i32({r}), f32({r}), f32({})},
                       {},
                       RateBasis::flops};
    });
    both_sizes([&](int64_t r) {
      return RateProbe{"softmax_cross_entropy_grad",
                       {f32({r, classes}), i32({r}), f32({r}), f32({}), f32({r}), f32({})},
                       {},
                       RateBasis::flops};
    });
  }
}

}  // namespace

std::vector<RateProbe> rate_probes() {
  std::vector<RateProbe> probes;
  append_products(probes);
  append_convolutions(probes);
  append_attention(probes);
  append_streams(probes);
  return probes;
}

}  // namespace snug
