// SPDX-License-Identifier: Apache-2.0
// A refusal looks for ways to fit: it says so, and hears a request to stop.
#include <atomic>
#include <ctime>
#include <string>

#include "session/testing.h"
#include "snug/layers.h"
#include "snug/session.h"

namespace snug::session {
namespace {

constexpr int64_t kWidth = 16;
constexpr const char* kLooking = "looking for ways to fit";

Network deep(int64_t linears) {
  return {"deep", [linears](NetworkBuilder& b) {
            Tensor x = b.input("x", {kWidth});
            for (int64_t i = 0; i < linears; ++i)
              x = tanh(linear(b, "net." + std::to_string(i), x, kWidth));
            b.minimize(cross_entropy(b, linear(b, "out", x, 3), b.input("label", {}, DType::i32)));
          }};
}

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

SessionOptions refused(int64_t bytes) {
  return {.batch_rows = 8, .memory = parse_memory(std::to_string(bytes)), .max_grad_norm = 1};
}

TEST(Refusal, says_what_it_is_at_and_stops_there_on_request) {
  const Network network = deep(200);
  const int64_t smallest = plan_network(network, refused(int64_t{1} << 32)).smallest_budget_bytes;
  int64_t last_share = 0;
  for (const int64_t share : {0, 30, 60}) {
    std::atomic<bool> stop = false;
    double stopped = 0;
    SessionOptions options = refused(smallest - 4096);
    options.cancel = &stop;
    options.on_planning = [&](int64_t done, int64_t total, const std::string& phase) {
      if (stop || phase != kLooking || 100 * done < share * total) return;
      last_share = share;
      stop = true;
      stopped = processor_seconds();
    };
    (void)refusal([&] { (void)plan_network(network, options); }, ErrorCode::cancelled);
    EXPECT_LT(processor_seconds() - stopped, 0.2) << share;
  }
  EXPECT_EQ(last_share, 60);
}

}  // namespace
}  // namespace snug::session
