// SPDX-License-Identifier: Apache-2.0
#include "fma_limit.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "backend/cpu/amx.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace snug {
namespace {

#if defined(__x86_64__)
constexpr int64_t kRounds = 100'000;
// Two units with a latency of four cycles (five on older processors) want ten sums under way.
constexpr int kSums = 12;

// Sums that converge on 1: neither infinities nor subnormal numbers. They are named one by one,
// since an array of them would go through memory.
#define SNUG_BENCH_FMA_LOOP(NAME, TARGET, VECTOR, SET, FMA)                                     \
  __attribute__((target(TARGET), noinline)) float NAME() {                                      \
    const VECTOR half = SET(0.5F);                                                              \
    VECTOR a = SET(0.0F), b = a, c = a, d = a, e = a, f = a, g = a, h = a, i = a, j = a, k = a, \
           l = a;                                                                               \
    for (int64_t round = 0; round < kRounds; ++round) {                                         \
      a = FMA(a, half, half), b = FMA(b, half, half), c = FMA(c, half, half);                   \
      d = FMA(d, half, half), e = FMA(e, half, half), f = FMA(f, half, half);                   \
      g = FMA(g, half, half), h = FMA(h, half, half), i = FMA(i, half, half);                   \
      j = FMA(j, half, half), k = FMA(k, half, half), l = FMA(l, half, half);                   \
      /* Else equal chains become one. */                                                       \
      asm volatile("" : "+x"(a), "+x"(b), "+x"(c), "+x"(d), "+x"(e), "+x"(f));                  \
      asm volatile("" : "+x"(g), "+x"(h), "+x"(i), "+x"(j), "+x"(k), "+x"(l));                  \
    }                                                                                           \
    return a[0] + b[0] + c[0] + d[0] + e[0] + f[0] + g[0] + h[0] + i[0] + j[0] + k[0] + l[0];   \
  }
SNUG_BENCH_FMA_LOOP(avx2_loop, "avx2,fma", __m256, _mm256_set1_ps, _mm256_fmadd_ps)
SNUG_BENCH_FMA_LOOP(avx512_loop, "avx512f", __m512, _mm512_set1_ps, _mm512_fmadd_ps)
#undef SNUG_BENCH_FMA_LOOP

// Six tiles of sums: an instruction ends 52 cycles after it began, and one begins every 16. Zeros
// take as long as other numbers.
constexpr int64_t kTileRounds = 20'000;
__attribute__((target("amx-tile,amx-bf16"), noinline)) float amx_loop() {
  const TileConfig tiles;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  _tile_zero(6);
  _tile_zero(7);
  for (int64_t round = 0; round < kTileRounds; ++round) {
    _tile_dpbf16ps(0, 6, 7);
    _tile_dpbf16ps(1, 6, 7);
    _tile_dpbf16ps(2, 6, 7);
    _tile_dpbf16ps(3, 6, 7);
    _tile_dpbf16ps(4, 6, 7);
    _tile_dpbf16ps(5, 6, 7);
  }
  return 0;
}

double flops_of_vectors(int64_t lanes) {
  return 2.0 * kRounds * kSums * static_cast<double>(lanes);
}
constexpr double kFlopsOfTiles = 2.0 * kTileRounds * 6 * 16 * 16 * 32;

// The best of the rates at which all threads together ran, each measured while all run.
double rate_on(int threads, double seconds, float (*loop)(), double flops_of_a_loop) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  std::atomic<int> waiting{threads};
  std::vector<double> best(static_cast<size_t>(threads), 0.0);
  std::vector<std::thread> team;
  for (double& rate : best) {
    team.emplace_back([&] {
      --waiting;
      while (waiting > 0) std::this_thread::yield();
      volatile float sink = 0;
      while (Clock::now() < end) {
        const auto start = Clock::now();
        for (int i = 0; i < 10; ++i) sink = loop();
        const double took = std::chrono::duration<double>(Clock::now() - start).count();
        rate = std::max(rate, 10 * flops_of_a_loop / took);
      }
      (void)sink;
    });
  }
  double sum = 0;
  for (std::thread& thread : team) thread.join();
  for (const double rate : best) sum += rate;
  return sum;
}
#endif

}  // namespace

std::optional<double> fma_limit(std::string_view isa, int threads, double seconds) {
#if defined(__x86_64__)
  if (isa == "avx2" && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return rate_on(threads, seconds, avx2_loop, flops_of_vectors(8));
  if (isa == "avx512" && __builtin_cpu_supports("avx512f"))
    return rate_on(threads, seconds, avx512_loop, flops_of_vectors(16));
  if (isa == "amx" && has_amx()) return rate_on(threads, seconds, amx_loop, kFlopsOfTiles);
#else
  (void)isa, (void)threads, (void)seconds;
#endif
  return std::nullopt;
}

}  // namespace snug
