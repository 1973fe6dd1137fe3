// SPDX-License-Identifier: Apache-2.0
// What the process around a session may do: fork, let floating-point exceptions trap, round
// otherwise.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cfenv>
#include <cstdlib>
#include <functional>

#include "session/testing.h"
#include "snug/explain.h"
#include "snug/layers.h"
#include "snug/ops.h"
#include "snug/session.h"

namespace snug::session {
namespace {

constexpr int64_t kRows = 16;
constexpr int64_t kWidth = 64;
constexpr unsigned kMostSeconds = 60;

Network network_of() {
  return {"hosted", [](NetworkBuilder& b) {
            Tensor x = linear(b, "in", b.input("x", {kWidth}), 4 * kWidth);
            x = linear(b, "down", dropout(gelu(layer_norm(b, "norm", x)), 0.1), kWidth);
            b.output("y", x);
            b.minimize(b.weighted_mean(x * x));
          }};
}

SessionOptions options_of(int64_t threads) {
  return {
      .batch_rows = kRows, .memory = parse_memory("16MiB"), .max_grad_norm = 1, .threads = threads};
}

struct Data {
  std::vector<float> x = std::vector<float>(kRows * kWidth, 0.5F);
  [[nodiscard]] Rows rows() const {
    Rows all(kRows);
    all.add("x", std::span(x));
    return all;
  }
};

/// How the call ends in a forked child: empty where it returns, what an Error says, or how the
/// child was killed.
std::string in_child(const std::function<void()>& call) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    alarm(kMostSeconds);
    std::string said;
    try {
      call();
    } catch (const Error& error) {
      said = std::string(to_string(error.code())) + " " + error.what();
    }
    const bool is_written = write(ends[1], said.data(), said.size()) == std::ssize(said);
    _exit(is_written ? 0 : 1);
  }
  close(ends[1]);
  std::string said;
  char buffer[512];
  for (ssize_t count = 0; (count = read(ends[0], buffer, sizeof buffer)) > 0;)
    said.append(buffer, static_cast<size_t>(count));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? said : "signal " + std::to_string(WTERMSIG(status));
}

TEST(Host, a_child_that_was_forked_behind_a_step_is_told_so_by_every_call_that_computes) {
  const Data data;
  SessionOptions options = options_of(2);
  Session session(network_of(), options);
  const SessionPlan plan(network_of(), options);
  options.only_gradients = true;
  Session of_gradients(network_of(), options);
  (void)session.step(data.rows());
  (void)of_gradients.gradients(data.rows());
  const std::vector<std::function<void()>> calls = {
      [&] { (void)session.step(data.rows()); },
      [&] { (void)session.evaluate(data.rows()); },
      [&] { session.predict(data.rows(), {}); },
      [&] { session.initialize("in.weight"); },
      [&] { (void)of_gradients.gradients(data.rows()); },
      [&] { const Session another(plan); },
      [&] {
        ::setenv("TMPDIR", "/proc", 1);  // no speeds are kept there, so they are measured
        const Machine measured(2, "/proc/no_folder");
      },
  };
  for (size_t i = 0; i < calls.size(); ++i) {
    const std::string said = in_child(calls[i]);
    EXPECT_TRUE(said.starts_with("unsupported [threads] this process was forked from one that"))
        << i << ": " << said;
    EXPECT_NE(said.find("\nhint: fork before anything is computed"), std::string::npos) << said;
  }
  // What needs no threads goes on.
  EXPECT_EQ(in_child([&] {
              (void)session.read("in.weight");
              (void)SessionPlan(network_of(), options_of(2));
              Session alone(network_of(), options_of(1));
              (void)alone.step(data.rows());
            }),
            "");
  EXPECT_EQ(session.step(data.rows()).update, 2);
}

#if defined(__GLIBC__) && defined(__x86_64__)

// All that a caller of the library asks of one network.
std::string work(const Data& data) {
  const SessionOptions options = options_of(2);
  Session session(network_of(), options);
  for (int i = 0; i < 2; ++i) (void)session.step(data.rows());
  (void)session.evaluate(data.rows());
  (void)plan_levers(network_of(), options);
  (void)explain_network(network_of(), options);
  return bytes_of(session);
}

TEST(Host, traps_and_another_rounding_change_nothing_and_are_there_again) {
  const Data data;
  const std::string wanted = work(data);
  constexpr int kTraps = FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW;
  feenableexcept(kTraps);
  std::fesetround(FE_TOWARDZERO);
  const std::string found = work(data);
  const int traps = fegetexcept();
  const int rounding = std::fegetround();
  std::fesetenv(FE_DFL_ENV);
  EXPECT_EQ(traps, kTraps);
  EXPECT_EQ(rounding, FE_TOWARDZERO);
  EXPECT_EQ(found, wanted);
}

TEST(Host, a_loss_that_is_not_finite_is_an_error_where_exceptions_trap) {
  Data data;
  data.x[0] = 3e38F;
  Session session(network_of(), options_of(2));
  feenableexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW);
  const std::string text = refusal([&] { (void)session.step(data.rows()); }, ErrorCode::numeric);
  std::fesetenv(FE_DFL_ENV);
  EXPECT_NE(text.find("not finite"), std::string::npos) << text;
}

#endif

}  // namespace
}  // namespace snug::session
