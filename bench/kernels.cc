// SPDX-License-Identifier: Apache-2.0
// Speed of the CPU kernels by op and shape: GFLOP/s and GB/s from the op's own cost, and the share
// of what this machine can do (its best matrix product for products, else a threaded copy; a
// convolution by tiles needs fewer operations than are counted, so its share may be 2). One
// line of the table below a benchmark. of_tiles: the share of what AMX can do, where attention's
// products are of bf16.
//
//   snug_bench_kernels --benchmark_filter='matmul.*2048' --threads=2
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "backend/cpu/cpu_backend.h"
#include "base/threads.h"
#include "base/units.h"
#include "bound_node.h"
#include "fma_limit.h"

namespace snug {
namespace {

TensorType f32(Shape shape) { return {DType::f32, std::move(shape)}; }
TensorType i32(Shape shape) { return {DType::i32, std::move(shape)}; }
constexpr std::nullopt_t kAbsent = std::nullopt;

// The products of a dense layer y = x w^T + bias over T rows.
void append_layer(std::vector<BenchSpec>& specs, int64_t T, int64_t in, int64_t out,
                  DType dtype = DType::f32) {
  const std::string size = std::string(to_string(dtype)) + "/" + std::to_string(T) + "x" +
                           std::to_string(in) + "->" + std::to_string(out);
  const auto matrix = [&](int64_t rows, int64_t columns) {
    return TensorType{dtype, {rows, columns}};
  };
  specs.push_back({"forward/" + size,
                   "matmul",
                   {matrix(T, in), matrix(out, in), f32({out})},
                   {{"transpose_b", true}}});
  specs.push_back({"dx/" + size, "matmul", {matrix(T, out), matrix(out, in), kAbsent}});
  specs.push_back({"dw/" + size,
                   "matmul",
                   {matrix(T, out), matrix(T, in), kAbsent},
                   {{"transpose_a", true}, {"to", std::string("f32")}}});
  specs.push_back({"dw_accumulate/" + size,
                   "matmul_accumulate",
                   {f32({out, in}), matrix(T, out), matrix(T, in)},
                   {{"transpose_a", true}}});
}

// What stands between the products of an encoder's layer: rows in memory.
void append_rows(std::vector<BenchSpec>& specs, DType dtype) {
  using Ints = std::vector<int64_t>;
  const std::string type = to_string(dtype);
  const TensorType hidden{dtype, {2048, 3072}};
  const TensorType states{dtype, {2048, 768}};
  const TensorType rng{DType::i64, {3}};
  const Attrs drawn = {{"rate", 0.1}, {"ordinal", int64_t{0}}};
  specs.push_back({"bias_gradient/" + type, "reduce_sum", {hidden}, {{"axes", Ints{0}}}});
  specs.push_back({"ffn/" + type, "gelu", {hidden}});
  specs.push_back({"ffn/" + type, "gelu_grad", {hidden, hidden}});
  specs.push_back({"residual/" + type, "add", {states, states}});
  specs.push_back({"states/" + type, "dropout", {states, rng}, drawn});
  specs.push_back({"states/" + type, "layer_norm", {states, f32({768}), f32({768})}});
  specs.push_back({"states/" + type,
                   "layer_norm_grad",
                   {states, f32({768}), f32({2048}), f32({2048}), states}});
}

// BERT-base's attention: 16 x 128 tokens and 4 x 512, in training and without dropout.
void append_attention(std::vector<BenchSpec>& specs, DType dtype) {
  for (const int64_t tokens : {128, 512}) {
    const int64_t batch = 2048 / tokens;
    const TensorType heads{dtype, {batch, tokens, 768}};
    const TensorType log_sums = f32({batch, 12, tokens});
    const TensorType mask{DType::boolean, {batch, tokens}};
    for (const double rate : {0.1, 0.0}) {
      const std::string name =
          std::string(rate > 0 ? "heads/" : "heads_without_dropout/") + to_string(dtype);
      const InputTypes::Given rng =
          rate > 0 ? InputTypes::Given(TensorType{DType::i64, {3}}) : kAbsent;
      const Attrs attrs = {{"heads", int64_t{12}}, {"rate", rate}, {"ordinal", int64_t{0}}};
      specs.push_back({name, "attention", {heads, heads, heads, mask, rng}, attrs});
      specs.push_back({name,
                       "attention_grad",
                       {heads, heads, heads, heads, log_sums, heads, mask, rng},
                       attrs});
    }
  }
}

// DeBERTa-v3-base at its full length.
void append_relative(std::vector<BenchSpec>& specs, DType dtype) {
  const std::string name = std::string("deberta/") + to_string(dtype);
  const TensorType heads{dtype, {8, 512, 768}};
  const TensorType table{dtype, {512, 768}};
  const TensorType mask{DType::boolean, {8, 512}};
  const TensorType rng{DType::i64, {3}};
  const Attrs attrs = {{"heads", int64_t{12}},
                       {"rate", 0.1},
                       {"ordinal", int64_t{0}},
                       {"buckets", int64_t{256}},
                       {"max_distance", int64_t{512}}};
  specs.push_back(
      {name, "disentangled_attention", {heads, heads, heads, table, table, mask, rng}, attrs});
  specs.push_back({name,
                   "disentangled_attention_grad",
                   {heads, heads, heads, heads, f32({8, 12, 512}), heads, table, table, mask, rng},
                   attrs});
}

// Windows of 3 x 3 over square images, and their gradients.
void append_convolution(std::vector<BenchSpec>& specs, const std::string& model, int64_t images,
                        int64_t side, int64_t in, int64_t out) {
  using Ints = std::vector<int64_t>;
  const std::string name = model + "/" + std::to_string(images) + "x" + std::to_string(side) + "x" +
                           std::to_string(in) + "->" + std::to_string(out);
  const TensorType x = f32({images, side, side, in});
  const TensorType w = f32({out, in, 3, 3});
  const TensorType y = f32({images, side, side, out});
  Attrs attrs = {{"padding", Ints{1, 1}}};
  specs.push_back({name, "conv2d", {x, w, kAbsent}, attrs});
  attrs.set("image", Ints{side, side});
  specs.push_back({name, "conv2d_grad_input", {w, y}, attrs});
  attrs = {{"padding", Ints{1, 1}}};
  attrs.set("kernel", Ints{3, 3});
  specs.push_back({name, "conv2d_grad_weight", {x, y}, attrs});
}

void append_convolutions(std::vector<BenchSpec>& specs) {
  append_convolution(specs, "resnet-56", 64, 32, 16, 16);
  append_convolution(specs, "resnet-56", 64, 16, 32, 32);
  append_convolution(specs, "resnet-56", 64, 8, 64, 64);
  append_convolution(specs, "vgg-16", 32, 32, 64, 64);
  append_convolution(specs, "vgg-16", 32, 16, 64, 128);
  append_convolution(specs, "vgg-16", 32, 16, 128, 128);
  append_convolution(specs, "vgg-16", 32, 8, 256, 256);
  append_convolution(specs, "vgg-16", 32, 4, 512, 512);
  append_convolution(specs, "vgg-16", 32, 2, 512, 512);
  append_convolution(specs, "vgg-16", 2, 4, 512, 512);
  append_convolution(specs, "resnet-50", 8, 56, 64, 64);
  append_convolution(specs, "resnet-50", 8, 28, 128, 128);
  append_convolution(specs, "resnet-50", 8, 14, 256, 256);
  append_convolution(specs, "resnet-50", 8, 7, 512, 512);
}

void append_batch_norms(std::vector<BenchSpec>& specs) {
  const Attrs eps = {{"eps", 1e-5}};
  for (const int64_t channels : {16, 32, 64, 256}) {
    const int64_t side = 512 / channels;
    const TensorType x = f32({64, side, side, channels});
    const TensorType c = f32({channels});
    specs.push_back({"images", "batch_norm", {x, c, c}, eps});
    specs.push_back({"images", "batch_norm_grad", {x, c, c, c, x}, eps});
  }
}

std::vector<BenchSpec> all_specs() {
  std::vector<BenchSpec> specs;
  append_convolutions(specs);
  append_batch_norms(specs);
  // BERT-base at batch 16 x 128 and a small micro-batch, BERT-mini at 64 x 128.
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const int64_t T : {4096, 2048, 128}) {
      append_layer(specs, T, 768, 768, dtype);
      append_layer(specs, T, 768, 3072, dtype);
      append_layer(specs, T, 3072, 768, dtype);
    }
    append_layer(specs, 8192, 256, 256, dtype);
    append_layer(specs, 8192, 256, 1024, dtype);
    append_layer(specs, 8192, 1024, 256, dtype);
    append_rows(specs, dtype);
    append_attention(specs, dtype);
    append_relative(specs, dtype);
  }

  using Ints = std::vector<int64_t>;
  specs.push_back({"bias_gradient", "reduce_sum", {f32({8192, 256})}, {{"axes", Ints{0}}}});
  specs.push_back({"rows", "reduce_sum", {f32({8192, 1024})}, {{"axes", Ints{1}}}});
  specs.push_back({"clip", "sum_squares", {f32({3072, 768})}});
  specs.push_back({"matrix", "transpose", {f32({2048, 3072})}, {{"perm", Ints{1, 0}}}});
  specs.push_back({"heads", "transpose", {f32({16, 128, 12, 64})}, {{"perm", Ints{0, 2, 1, 3}}}});
  specs.push_back({"rows",
                   "slice",
                   {f32({2048, 3072})},
                   {{"axis", int64_t{1}}, {"start", int64_t{0}}, {"stop", int64_t{768}}}});
  specs.push_back({"bias", "broadcast_to", {f32({3072})}, {{"shape", Ints{2048, 3072}}}});
  specs.push_back({"words", "embedding", {f32({30522, 768}), i32({2048})}, {}, 30522});
  specs.push_back({"words",
                   "embedding_grad",
                   {i32({2048}), f32({2048, 768})},
                   {{"rows", int64_t{30522}}},
                   30522});
  specs.push_back({"words",
                   "embedding_grad_rows",
                   {i32({2048}), f32({2048, 768})},
                   {{"rows", int64_t{30522}}},
                   30522});
  specs.push_back({"words",
                   "embedding_grad_accumulate",
                   {f32({30522, 768}), i32({2048}), f32({2048, 768})},
                   {},
                   30522});
  specs.push_back(
      {"types", "embedding_grad", {i32({2048}), f32({2048, 768})}, {{"rows", int64_t{2}}}, 2});
  const TensorType w = f32({3072, 768});
  specs.push_back({"ffn",
                   "adamw",
                   {w, w, w, w, kAbsent, f32({4}), f32({}), kAbsent},
                   {{"beta1", 0.9}, {"beta2", 0.999}, {"eps", 1e-8}, {"weight_decay", 0.01}}});
  // Several times a last cache: what updates of a whole model run at.
  const Attrs adamw = {{"beta1", 0.9}, {"beta2", 0.999}, {"eps", 1e-8}, {"weight_decay", 0.01}};
  const TensorType large = f32({24576, 1024});
  // Of a table: each row has one of 2048 rows.
  specs.push_back({"sparse",
                   "adamw",
                   {large,
                    f32({2048, 1024}),
                    large,
                    large,
                    kAbsent,
                    f32({4}),
                    f32({}),
                    {{DType::i32, {24576}}}},
                   adamw,
                   2048});
  const TensorType codes = {DType::u8, large.shape};
  const TensorType scales = f32({element_count(large) / 256});
  specs.push_back(
      {"large", "adamw", {large, large, large, large, kAbsent, f32({4}), f32({}), kAbsent}, adamw});
  for (const char* codec : {"adaptive", "bnb"}) {
    Attrs coded = adamw;
    coded.set("codec", std::string(codec));
    specs.push_back({std::string("large_") + codec,
                     "adamw_8bit",
                     {large,
                      large,
                      codes,
                      scales,
                      codes,
                      scales,
                      {{DType::i64, {3}}},
                      f32({4}),
                      f32({}),
                      kAbsent},
                     coded});
  }
  specs.push_back({"ffn",
                   "sgd_momentum",
                   {w, w, w, kAbsent, f32({4}), kAbsent, kAbsent},
                   {{"momentum", 0.9}, {"weight_decay", 0.0}}});
  specs.push_back({"ffn", "accumulate", {w, w}});
  specs.push_back({"ffn", "set_zero", {w}});
  specs.push_back({"scores", "softmax", {f32({24576, 128})}});
  return specs;
}

template <class Run>
double best_seconds(Run run) {
  double best = 1e30;
  for (int i = 0; i < 12; ++i) {
    const auto start = std::chrono::steady_clock::now();
    run();
    best = std::min(
        best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

struct Peak {
  double flops_per_second = 0;  // of f32
  double bf16_flops_per_second = 0;
  double bytes_per_second = 0;  // read and written
  std::optional<double> tile_flops_per_second;
};
Peak measure_peak(const Backend& backend, int threads) {
  const auto product_rate = [&](DType dtype) {
    double best = 0;
    for (const int64_t width : {768, 1024, 3072}) {
      const BoundNode product(
          backend, {"peak", "matmul", {{{dtype, {4096, 768}}}, {{dtype, {768, width}}}, kAbsent}});
      best = std::max(best, product.cost.flops / best_seconds([&] { (void)product.run(); }));
    }
    return best;
  };
  constexpr int64_t kBytes = int64_t{64} << 20;
  const MappedBlock from(kBytes), to(kBytes);
  std::memset(from.data(), 1, kBytes);
  std::memset(to.data(), 1, kBytes);
  const double copy = best_seconds([&] {
    parallel_for(threads, kBytes, 4096, [&](int64_t begin, int64_t end) {
      std::memcpy(to.data() + begin, from.data() + begin, static_cast<size_t>(end - begin));
    });
  });
  return {.flops_per_second = product_rate(DType::f32),
          .bf16_flops_per_second = product_rate(DType::bf16),
          .bytes_per_second = 2.0 * kBytes / copy,
          .tile_flops_per_second = fma_limit("amx", threads, 0.2)};
}

// Of attention without a window or its gradient: what its products have of node.cost.flops.
double attention_product_flops(const BenchSpec& bench) {
  const Shape& q = bench.inputs[0].shape;
  const double one = 2.0 * static_cast<double>(q[0] * q[1] * q[1] * q[2]);
  return (bench.op == "attention" ? 2 : 5) * one;
}

void run_benchmark(benchmark::State& state, const Backend& backend, const BenchSpec& bench,
                   const Peak& peak) try {
  const BoundNode node(backend, bench);
  for (auto _ : state) {
    if (node.run() != ErrorCode::ok) state.SkipWithError("the kernel refused its data");
  }
  const auto runs = static_cast<double>(state.iterations());
  const double bytes = node.cost.bytes_read + node.cost.bytes_written;
  const bool is_product = bench.op.rfind("matmul", 0) == 0 || bench.op.rfind("conv2d", 0) == 0;
  const bool is_bf16 = bench.inputs.has(1) && bench.inputs[1].dtype == DType::bf16;
  const double product_peak = is_bf16 ? peak.bf16_flops_per_second : peak.flops_per_second;
  using benchmark::Counter;
  state.counters["GFLOP/s"] = Counter(node.cost.flops * runs * 1e-9, Counter::kIsRate);
  state.counters["GB/s"] = Counter(bytes * runs * 1e-9, Counter::kIsRate);
  state.counters["of_peak"] = is_product
                                  ? Counter(node.cost.flops * runs / product_peak, Counter::kIsRate)
                                  : Counter(bytes * runs / peak.bytes_per_second, Counter::kIsRate);
  if (bench.op.rfind("attention", 0) == 0 && is_bf16 && peak.tile_flops_per_second)
    state.counters["of_tiles"] = Counter(
        attention_product_flops(bench) * runs / *peak.tile_flops_per_second, Counter::kIsRate);
  state.SetLabel(node.choice.kernel + ", scratch " + format_bytes(node.choice.scratch_bytes));
} catch (const Error& error) {
  state.SkipWithError(error.what());
}

}  // namespace
}  // namespace snug

int main(int argc, char** argv) {
  using namespace snug;
  int threads = available_threads();
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]).rfind("--threads=", 0) == 0) {
      threads = std::max(1, std::atoi(argv[i] + 10));
      std::rotate(argv + i, argv + i + 1, argv + argc);
      --argc;
    }
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  const auto backend = make_cpu_backend({.threads = threads, .profile = default_profile()});
  const Peak peak = measure_peak(*backend, threads);
  std::fprintf(stderr, "%d threads: matrix product %.0f GFLOP/s, of bf16 %.0f, copy %.1f GB/s\n",
               threads, peak.flops_per_second * 1e-9, peak.bf16_flops_per_second * 1e-9,
               peak.bytes_per_second * 1e-9);
  if (peak.tile_flops_per_second)
    std::fprintf(stderr, "tiles: %.0f GFLOP/s of bf16\n", *peak.tile_flops_per_second * 1e-9);
  const std::vector<BenchSpec> specs = all_specs();
  for (const BenchSpec& spec : specs) {
    std::string shape;
    for (const TensorType& type : spec.inputs.given()) shape += to_string(type.shape);
    benchmark::RegisterBenchmark(
        (spec.op + "/" + spec.name + "/" + shape).c_str(),
        [&](benchmark::State& state) { run_benchmark(state, *backend, spec, peak); })
        ->Unit(benchmark::kMillisecond)
        ->UseRealTime();
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
