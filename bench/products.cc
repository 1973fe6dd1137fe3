// SPDX-License-Identifier: Apache-2.0
// Times single products, one a line of standard input, one line of JSON each on standard
// output. Reads on until the input ends, so that compare_products.py can let programs take turns.
//
//   echo 'nt 1 2048 1024 256 new 0.3' | snug_bench_products snug --threads 2
//
// A line: layout (nn, nt, tn, tt: is the first, is the second operand stored across), batch, m, n,
// k, "new", "add" (onto what is there) or "own" (new, in the operands' type and not in f32),
// seconds to measure for. An answer has the seconds of a call, and those of all threads' computing.
// Sides:
//   snug      the kernel that the CPU backend selects; snug-bf16: of operands in bf16
//   snug-own  our own product, where another kernel is selected, too
//   snug-panels  our own product, of a b that was packed before; of one batch
//   openblas  libopenblas.so.0 as the system has it, loaded when asked for; a batch is divided
//             among the threads, for it has no call for batches
//   limit     multiply-adds on registers only; a line is ISA SECONDS, of avx2, avx512 or amx
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/half_rows.h"
#include "backend/cpu/product/panels.h"
#include "backend/cpu/product/product.h"
#include "base/threads.h"
#include "bound_node.h"
#include "fma_limit.h"
#include "snug/error.h"
#include "snug/instruction_set.h"

namespace snug {
namespace {

struct ProductShape {
  bool transpose_a = false;
  bool transpose_b = false;
  int64_t batch = 1, m = 0, n = 0, k = 0;
  bool accumulates = false;
  bool is_narrow = false;  // dst is of the operands' type, else f32
};

// One side's product with operands of its own.
class Bound {
 public:
  Bound() = default;
  Bound(const Bound&) = delete;
  Bound& operator=(const Bound&) = delete;
  virtual ~Bound() = default;
  virtual void run() = 0;
  [[nodiscard]] virtual float result(int64_t index) const = 0;
  [[nodiscard]] virtual std::string kernel() const = 0;
};

class SnugProduct final : public Bound {
 public:
  SnugProduct(const Backend& backend, const ProductShape& p, DType operands)
      : dst_(p.is_narrow ? operands : DType::f32), node_(backend, spec_of_product(p, operands)) {}
  void run() override {
    if (node_.run() != ErrorCode::ok)
      throw Error(ErrorCode::internal, "product", "the kernel refused its data");
  }
  [[nodiscard]] float result(int64_t index) const override {
    float value = 0;
    const auto* data = reinterpret_cast<const std::byte*>(node_.output(0));
    return *FloatRows(dst_).read(data, index, 1, &value);
  }
  [[nodiscard]] std::string kernel() const override { return node_.choice.kernel; }

 private:
  static BenchSpec spec_of_product(const ProductShape& p, DType operands) {
    const auto matrix = [&](int64_t rows, int64_t columns, bool is_across) {
      if (is_across) std::swap(rows, columns);
      return p.batch == 1 ? Shape{rows, columns} : Shape{p.batch, rows, columns};
    };
    const TensorType a{operands, matrix(p.m, p.k, p.transpose_a)};
    const TensorType b{operands, matrix(p.k, p.n, p.transpose_b)};
    Attrs attrs = {{"transpose_a", p.transpose_a}, {"transpose_b", p.transpose_b}};
    if (p.accumulates) {
      const TensorType sum{DType::f32, matrix(p.m, p.n, false)};
      return {"product", "matmul_accumulate", {sum, a, b}, attrs};
    }
    if (!p.is_narrow) attrs.set("to", std::string("f32"));
    return {"product", "matmul", {a, b, std::nullopt}, attrs};
  }
  DType dst_;
  BoundNode node_;
};

class Floats {
 public:
  explicit Floats(int64_t count) : block_(count * 4) {
    fill_f32({data(), static_cast<size_t>(count)});
  }
  [[nodiscard]] float* data() const { return reinterpret_cast<float*>(block_.data()); }

 private:
  MappedBlock block_;
};

struct Matrices {
  explicit Matrices(const ProductShape& p)
      : a(p.batch * p.m * p.k), b(p.batch * p.k * p.n), c(p.batch * p.m * p.n) {}
  Floats a, b, c;
};

class OwnProduct final : public Bound {
 public:
  OwnProduct(const ProductShape& p, int threads)
      : memory_(p),
        product_({.batches = p.batch,
                  .m = p.m,
                  .n = p.n,
                  .k = p.k,
                  .transpose_a = p.transpose_a,
                  .transpose_b = p.transpose_b,
                  .accumulates = p.accumulates},
                 threads),
        scratch_(std::max<int64_t>(product_.scratch_bytes(), 1)),
        launch_{.a = {memory_.a.data(), p.transpose_a ? p.m : p.k},
                .b = {memory_.b.data(), p.transpose_b ? p.k : p.n},
                .dst = memory_.c.data(),
                .dst_stride = p.n,
                .scratch = reinterpret_cast<std::byte*>(scratch_.data())} {}
  void run() override { product_.run(launch_); }
  [[nodiscard]] float result(int64_t index) const override { return launch_.dst[index]; }
  [[nodiscard]] std::string kernel() const override { return "simd:matmul"; }

 private:
  Matrices memory_;
  Product product_;
  MappedBlock scratch_;
  ProductLaunch launch_;
};

class PanelProduct final : public Bound {
 public:
  PanelProduct(const ProductShape& p, int threads)
      : memory_(p),
        panels_(panel_count(p.n, panel_columns()) * panel_columns() * p.k),
        product_({.m = p.m,
                  .n = p.n,
                  .k = p.k,
                  .transpose_a = p.transpose_a,
                  .accumulates = p.accumulates,
                  .panel_columns = panel_columns()},
                 threads),
        scratch_(std::max<int64_t>(product_.scratch_bytes(), 1)),
        launch_{.a = {memory_.a.data(), p.transpose_a ? p.m : p.k},
                .b = {panels_.data()},
                .dst = memory_.c.data(),
                .dst_stride = p.n,
                .scratch = reinterpret_cast<std::byte*>(scratch_.data())} {
    if (p.batch != 1) throw Error(ErrorCode::unsupported, "product", "panels are of one batch");
    pack_panels({.n = p.n, .k = p.k, .transposed = p.transpose_b, .columns = panel_columns()},
                threads, memory_.b.data(), panels_.data());
  }
  void run() override { product_.run(launch_); }
  [[nodiscard]] float result(int64_t index) const override { return launch_.dst[index]; }
  [[nodiscard]] std::string kernel() const override { return "simd:packed_matmul"; }

 private:
  Matrices memory_;
  Floats panels_;
  Product product_;
  MappedBlock scratch_;
  ProductLaunch launch_;
};

// What OpenBLAS exports, found by name: the benchmark builds and runs without it.
class OpenBlas {
 public:
  explicit OpenBlas(int threads) : threads_(threads) {
    void* library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr)
      throw Error(ErrorCode::unsupported, "openblas", dlerror(),
                  "apt-get install libopenblas0-pthread");
    gemm_ = find<decltype(gemm_)>(library, "cblas_sgemm");
    set_threads_ = find<decltype(set_threads_)>(library, "openblas_set_num_threads");
    core_name_ = find<const char* (*)()>(library, "openblas_get_corename")();
  }
  [[nodiscard]] std::string core_name() const { return core_name_; }

  void multiply(const ProductShape& p, const float* a, const float* b, float* c) const {
    // One product: OpenBLAS's own threads. Several: ours, each with products of its own.
    set_threads_(p.batch == 1 ? threads_ : 1);
    parallel_for(p.batch == 1 ? 1 : threads_, p.batch, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        constexpr int kRowMajor = 101, kAsStored = 111, kAcross = 112;
        gemm_(kRowMajor, p.transpose_a ? kAcross : kAsStored, p.transpose_b ? kAcross : kAsStored,
              static_cast<int>(p.m), static_cast<int>(p.n), static_cast<int>(p.k), 1.0F,
              a + i * p.m * p.k, static_cast<int>(p.transpose_a ? p.m : p.k), b + i * p.k * p.n,
              static_cast<int>(p.transpose_b ? p.k : p.n), p.accumulates ? 1.0F : 0.0F,
              c + i * p.m * p.n, static_cast<int>(p.n));
      }
    });
  }

 private:
  template <class Function>
  static Function find(void* library, const char* name) {
    void* symbol = dlsym(library, name);
    if (symbol == nullptr)
      throw Error(ErrorCode::unsupported, "openblas", std::string("it exports no ") + name);
    return reinterpret_cast<Function>(symbol);
  }
  int threads_;
  void (*gemm_)(int, int, int, int, int, int, float, const float*, int, const float*, int, float,
                float*, int);
  void (*set_threads_)(int);
  std::string core_name_;
};

class OpenBlasProduct final : public Bound {
 public:
  OpenBlasProduct(const OpenBlas& blas, const ProductShape& p) : blas_(blas), p_(p), memory_(p) {}
  void run() override { blas_.multiply(p_, memory_.a.data(), memory_.b.data(), memory_.c.data()); }
  [[nodiscard]] float result(int64_t index) const override { return memory_.c.data()[index]; }
  [[nodiscard]] std::string kernel() const override { return "OpenBLAS " + blas_.core_name(); }

 private:
  const OpenBlas& blas_;
  ProductShape p_;
  Matrices memory_;
};

// Seconds that passed, and those that all threads together computed for, which other programs on
// the same cores lengthen less. Of one thread these are its own; several wait for one another.
struct Seconds {
  double wall = 0;
  double cpu = 0;
};

Seconds seconds_of(Bound& bound, int64_t calls) {
  const auto cpu = std::clock();
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < calls; ++i) bound.run();
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
          static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC};
}

double median(std::vector<double> samples) {
  const auto middle = samples.begin() + static_cast<int64_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

// Of a call: the medians of samples of 5 ms or one call, for so many seconds.
Seconds median_seconds(Bound& bound, double seconds) {
  const double first = std::min(seconds_of(bound, 1).wall, seconds_of(bound, 1).wall);
  const auto calls = static_cast<int64_t>(std::max(1.0, std::ceil(5e-3 / first)));
  std::vector<double> wall, cpu;
  double spent = 0;
  while (wall.empty() || spent < seconds) {
    const Seconds took = seconds_of(bound, calls);
    spent += took.wall;
    wall.push_back(took.wall / static_cast<double>(calls));
    cpu.push_back(took.cpu / static_cast<double>(calls));
  }
  return {median(std::move(wall)), median(std::move(cpu))};
}

// Elements spread over the result, after one run: what the sides are compared by.
constexpr int64_t kSamples = 16;

void answer(Bound& bound, const ProductShape& p, bool is_first, double seconds) {
  std::ostringstream out;
  out.precision(9);
  if (is_first) {
    bound.run();
    out << "\"sample\": [";
    const int64_t count = p.batch * p.m * p.n;
    for (int64_t i = 0; i < kSamples; ++i)
      out << (i > 0 ? ", " : "") << bound.result(i * (count - 1) / (kSamples - 1));
    out << "], ";
  }
  const Seconds took = median_seconds(bound, seconds);
  out << "\"seconds\": " << took.wall << ", \"cpu_seconds\": " << took.cpu << ", \"kernel\": \""
      << bound.kernel() << "\"";
  std::cout << '{' << out.str() << '}' << std::endl;
}

ProductShape product_of(std::istream& words, double& seconds) {
  ProductShape p;
  std::string layout, onto;
  words >> layout >> p.batch >> p.m >> p.n >> p.k >> onto >> seconds;
  const bool is_layout = layout == "nn" || layout == "nt" || layout == "tn" || layout == "tt";
  if (!words || !is_layout || (onto != "new" && onto != "add" && onto != "own"))
    throw Error(ErrorCode::bad_config, "input",
                "a line is: nn|nt|tn|tt BATCH M N K new|add|own SECONDS");
  p.transpose_a = layout[0] == 't';
  p.transpose_b = layout[1] == 't';
  p.accumulates = onto == "add";
  p.is_narrow = onto == "own";
  return p;
}

void serve_limit(int threads) {
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string isa;
    double seconds = 0;
    if (!(words >> isa >> seconds))
      throw Error(ErrorCode::bad_config, "input", "a line is: ISA SECONDS");
    const std::optional<double> limit = fma_limit(isa, threads, seconds);
    std::cout << "{\"flops_per_second\": ";
    if (limit)
      std::cout << *limit;
    else
      std::cout << "null";
    std::cout << '}' << std::endl;
  }
}

template <class Bind>
void serve(Bind bind) {
  std::unique_ptr<Bound> bound;
  std::string last;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    double seconds = 0;
    const ProductShape p = product_of(words, seconds);
    const std::string shape = line.substr(0, line.rfind(' '));
    const bool is_first = shape != last;
    if (is_first) bound = nullptr, bound = bind(p);
    last = shape;
    answer(*bound, p, is_first, seconds);
  }
}

int run(std::string_view side, int threads) {
  if (side == "limit") {
    serve_limit(threads);
  } else if (side == "openblas") {
    const OpenBlas blas(threads);
    serve([&](const ProductShape& p) { return std::make_unique<OpenBlasProduct>(blas, p); });
  } else if (side == "snug" || side == "snug-bf16") {
    const DType operands = side == "snug" ? DType::f32 : DType::bf16;
    const auto backend = make_cpu_backend({.threads = threads, .profile = default_profile()});
    serve([&](const ProductShape& p) {
      return std::make_unique<SnugProduct>(*backend, p, operands);
    });
  } else if (side == "snug-own") {
    (void)instruction_set();  // held to its limit, as a backend does
    serve([&](const ProductShape& p) { return std::make_unique<OwnProduct>(p, threads); });
  } else if (side == "snug-panels") {
    (void)instruction_set();
    serve([&](const ProductShape& p) { return std::make_unique<PanelProduct>(p, threads); });
  } else {
    std::fprintf(stderr,
                 "usage: snug_bench_products snug|snug-bf16|snug-own|snug-panels|openblas|limit"
                 " [--threads N]\n");
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace snug

int main(int argc, char** argv) try {
  int threads = snug::available_threads();
  const bool has_threads = argc == 4 && std::string_view(argv[2]) == "--threads";
  if (has_threads) threads = std::max(1, std::atoi(argv[3]));
  return snug::run(argc == 2 || has_threads ? argv[1] : "", threads);
} catch (const std::exception& error) {
  std::fprintf(stderr, "snug_bench_products: %s\n", error.what());
  return 1;
}
