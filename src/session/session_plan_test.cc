// SPDX-License-Identifier: Apache-2.0
// One plan for several sessions, and what programs around a session ask for: a share of the
// budget, evaluation alone, weights and counts of their own, batches that are only measured.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <set>

#include "io/atomic_folder.h"
#include "io/file.h"
#include "io/test_folder.h"
#include "network/facts.h"
#include "session/run_session.h"
#include "session/testing.h"
#include "snug/error.h"
#include "snug/explain.h"
#include "snug/instruction_set.h"
#include "snug/layers.h"
#include "snug/session.h"

namespace snug::session {
namespace {

constexpr int64_t kRows = 12;
constexpr int64_t kWidth = 16;
constexpr int64_t kClasses = 3;

// `rounds`: the last weight is rounded to 16 bits in the prologue.
Network network_of(bool rounds = false) {
  return {"layers", [=](NetworkBuilder& b) {
            Tensor x = b.input("x", {kWidth});
            for (int i = 0; i < 4; ++i)
              x = dropout(relu(linear(b, "layer." + std::to_string(i), x, 64)), 0.1);
            Tensor weight = b.parameter("out.weight", {64, kClasses}, InitRule::normal(0.2));
            if (rounds) {
              const PhaseGuard guard(b.state().graph, Phase::prologue);
              weight = cast(cast(weight, DType::bf16), DType::f32);
            }
            const Tensor logits = matmul(x, weight);
            b.output("logits", logits);
            b.minimize(cross_entropy(b, logits, b.input("label", {}, DType::i32)));
          }};
}

// After so many calls it is built with one layer more, or with one op more.
Network growing_network(int calls_before_it_grows, bool grows_by_weights) {
  const auto calls = std::make_shared<int>(0);
  return {"growing", [=](NetworkBuilder& b) {
            const bool is_grown = ++*calls > calls_before_it_grows;
            Tensor x = relu(linear(b, "first", b.input("x", {kWidth}), 64));
            if (is_grown) x = grows_by_weights ? linear(b, "second", x, 64) : tanh(x);
            b.minimize(
                cross_entropy(b, linear(b, "out", x, kClasses), b.input("label", {}, DType::i32)));
          }};
}

struct Data {
  std::vector<float> x;
  std::vector<int32_t> label;
  explicit Data(int seed = 0) {
    for (int64_t i = 0; i < kRows * kWidth; ++i)
      x.push_back(static_cast<float>(std::sin(1.3 * static_cast<double>(i + 7 * seed))));
    for (int64_t row = 0; row < kRows; ++row)
      label.push_back(static_cast<int32_t>((row + seed) % kClasses));
  }
  [[nodiscard]] Rows rows() const {
    Rows all(kRows);
    all.add("x", std::span(x)).add("label", std::span(label));
    return all;
  }
};

SessionOptions options_of(int64_t micro_batch = 4) {
  return {.batch_rows = kRows,
          .memory = parse_memory("64MiB"),
          .micro_batch_size = micro_batch,
          .max_grad_norm = 1,
          .threads = 1};
}

std::vector<float> tensors_in(const Session& session) {
  std::vector<float> all;
  for (const TensorInfo& tensor : session.tensors()) {
    const std::span<const float> values = session.view(tensor.name);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

std::vector<float> logits_of(Session& session) {
  std::vector<float> all;
  const Data data;
  session.predict(data.rows(), [&](const OutputRows& found) {
    const auto logits = found.values.at("logits");
    all.insert(all.end(), logits.begin(), logits.end());
  });
  return all;
}

void train(Session& session, int updates) {
  for (int i = 0; i < updates; ++i)
    (void)session.step(Data(static_cast<int>(session.updates())).rows());
}

TEST(SessionPlan, opens_any_number_of_sessions_alike) {
  const SessionPlan plan(network_of(), options_of());
  Session once(network_of(), options_of());
  train(once, 3);
  for (int i = 0; i < 2; ++i) {
    Session session(plan);
    train(session, 3);
    EXPECT_EQ(tensors_in(session), tensors_in(once));
    EXPECT_EQ(session.measured_arena_bytes(), plan.report().arena_bytes);
  }
  ASSERT_EQ(plan.report().lengths.size(), 1u);
  EXPECT_NEAR(plan.report().lengths[0].update_seconds, plan.report().step_seconds,
              1e-6 * plan.report().step_seconds);
  // A micro-batch, the update, evaluation, and what packs weights.
  EXPECT_EQ(plan.report().programs, plan.report().packed_weights ? 4 : 3);
  EXPECT_GT(plan.summands(plan.report().lengths[0].length), 64.0);
}

TEST(SessionPlan, is_replayed_from_its_file) {
  const io::TestFolder folder;
  SessionOptions options = options_of();
  options.recompute = "every:2";  // a layer of one op has nothing to run again by itself
  const SessionPlan plan(network_of(), options);
  plan.save(folder / "plan.json");
  plan.save_problem(folder / "problem.json");
  plan.save_schedule(folder / "schedule.json");
  SessionOptions replayed = options_of();
  replayed.plan_file = folder / "plan.json";
  EXPECT_EQ(plan_network(network_of(), replayed).ops_run_again, plan.report().ops_run_again);
  EXPECT_GT(plan.report().ops_run_again, 0);
  Session session(network_of(), replayed);
  Session other(network_of(), options_of());
  train(session, 2);
  train(other, 2);
  EXPECT_EQ(tensors_in(session), tensors_in(other));
  replayed.micro_batch_size = 6;
  EXPECT_NE(refusal([&] { (void)plan_network(network_of(), replayed); }, ErrorCode::bad_config)
                .find("micro-batches of 4, this run needs 6"),
            std::string::npos);
}

TEST(SessionPlan, leaves_the_rest_of_the_process_its_share) {
  const SessionPlan alone(network_of(), options_of());
  SessionOptions options = options_of();
  options.process_bytes = 1 << 20;
  const PlanReport shared = plan_network(network_of(), options);
  EXPECT_EQ(shared.planned_peak_bytes, alone.report().planned_peak_bytes + options.process_bytes);
  EXPECT_EQ(shared.smallest_budget_bytes,
            alone.report().smallest_budget_bytes + options.process_bytes);
  options.memory.bytes = shared.smallest_budget_bytes - 4096;
  EXPECT_NE(refusal([&] { (void)plan_network(network_of(), options); }, ErrorCode::out_of_budget)
                .find("memory = "),
            std::string::npos);
  const RunSession run{.options = options, .has_command_line_hints = true};
  EXPECT_NE(refusal([&] { (void)plan_session(network_of(), run); }, ErrorCode::out_of_budget)
                .find("--memory "),
            std::string::npos);
  options = options_of();
  options.startup_bytes = 65 << 20;
  (void)refusal([&] { (void)plan_network(network_of(), options); }, ErrorCode::out_of_budget);
  options.startup_bytes = -1;
  (void)refusal([&] { (void)plan_network(network_of(), options); }, ErrorCode::bad_config);
}

TEST(SessionPlan, of_evaluation_alone_takes_less_and_gives_the_same) {
  SessionOptions options = options_of();
  Session whole(network_of(), options);
  options.only_evaluation = true;
  Session session(network_of(), options);
  EXPECT_LT(session.plan().planned_peak_bytes, whole.plan().planned_peak_bytes / 2);
  EXPECT_EQ(logits_of(session), logits_of(whole));
  EXPECT_EQ(session.evaluate(Data().rows()).rows, kRows);
  EXPECT_NE(refusal([&] { (void)session.step(Data().rows()); }, ErrorCode::bad_config)
                .find("only_evaluation"),
            std::string::npos);
  options.only_gradients = true;
  (void)refusal([&] { (void)plan_network(network_of(), options); }, ErrorCode::bad_config);
}

TEST(SessionPlan, one_machine_serves_several) {
  SessionOptions options = options_of();
  options.machine = Machine(1);
  EXPECT_EQ(options.machine->threads(), 1);
  EXPECT_EQ(options.machine->backend(), "cpu");
  Session session(network_of(), options);
  Session other(network_of(), options_of());
  train(session, 1);
  train(other, 1);
  EXPECT_EQ(tensors_in(session), tensors_in(other));
}

// session.json of a saved session as another version would have written it, with its marker.
void rewrite_state(const std::string& saved, const std::string& state) {
  io::AtomicFolder folder(saved);
  for (const char* name : {"model.safetensors", "optimizer.safetensors"})
    (void)io::copy_file(saved + "/" + name, folder.file(name));
  folder.write("session.json", state);
  folder.commit();
}

TEST(Session, does_not_go_on_from_a_file_that_is_not_what_was_written) {
  const io::TestFolder folder;
  const std::string saved = folder / "saved";
  Session session(network_of(), options_of());
  train(session, 3);
  session.save(saved);
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "session.json"}) {
    const std::string path = saved + "/" + name;
    const std::string text = io::read_all(path, 1 << 20);
    std::string other = text;
    const size_t place = text.find("\"updates\": 3");  // as many updates more
    other[place == std::string::npos ? text.size() / 2 : place + 11] ^= 4;
    io::replace_file(path, other);
    EXPECT_NE(refusal([&] { (void)Session::resume(network_of(), saved, options_of()); },
                      ErrorCode::bad_data)
                  .find("SHA-256"),
              std::string::npos)
        << name;
    io::replace_file(path, text);
  }
  (void)Session::resume(network_of(), saved, options_of());
  // An option is named before anything is held against it.
  SessionOptions fewer = options_of();
  fewer.batch_rows = 1;
  EXPECT_NE(
      refusal([&] { (void)Session::resume(network_of(), saved, fewer); }, ErrorCode::bad_config)
          .find("batch_rows"),
      std::string::npos);
}

TEST(Session, of_an_option_that_nobody_knows_does_not_go_on) {
  const io::TestFolder folder;
  const std::string saved = folder / "saved";
  Session(network_of(), options_of()).save(saved);
  (void)Session::resume(network_of(), saved, options_of());
  std::string state = io::read_all(saved + "/session.json", 1 << 20);
  const size_t place = state.find("\"batch_rows\"");
  ASSERT_NE(place, std::string::npos);
  rewrite_state(saved, state.insert(place, "\"batch_columns\": 3, "));
  EXPECT_NE(refusal([&] { (void)Session::resume(network_of(), saved, options_of()); },
                    ErrorCode::bad_data)
                .find("has 'batch_columns', which is no option"),
            std::string::npos);
}

TEST(Session, going_on_under_another_instruction_set_is_said) {
  const io::TestFolder folder;
  const std::string saved = folder / "saved";
  SessionOptions options = options_of();
  std::vector<std::string> said;
  options.on_message = [&](const std::string& text) { said.push_back(text); };
  Session first(network_of(), options);
  first.save(saved);
  const std::string own(to_string(instruction_set()));
  EXPECT_EQ(first.plan().instruction_set, own);
  const std::string state = io::read_all(saved + "/session.json", 1 << 20);
  const std::string field = "\"instruction_set\": \"" + own + "\"";
  ASSERT_NE(state.find(field), std::string::npos) << state;
  const auto resume_with = [&](const std::string& replacement) {
    rewrite_state(saved, std::string(state).replace(state.find(field), field.size(), replacement));
    said.clear();
    (void)Session::resume(network_of(), saved, options);
    return said;
  };
  EXPECT_TRUE(resume_with(field).empty());
  EXPECT_TRUE(resume_with("\"of an older version\": 0").empty());
  const InstructionSet other =
      instruction_set() == InstructionSet::amx ? InstructionSet::avx2 : InstructionSet::amx;
  EXPECT_EQ(resume_with("\"instruction_set\": \"" + std::string(to_string(other)) + "\""),
            std::vector{instruction_set_notice(other)});
  EXPECT_NE(refusal([&] { (void)resume_with(R"("instruction_set": "avx9")"); }, ErrorCode::bad_data)
                .find("avx9"),
            std::string::npos);
}

TEST(Session, goes_on_from_a_checkpoint_of_the_callers_own) {
  Session first(network_of(), options_of());
  train(first, 3);
  SessionOptions options = options_of();
  options.has_initial_values = false;
  Session second(network_of(), options);
  for (const TensorInfo& tensor : second.tensors()) {
    const std::span<const float> from = first.view(tensor.name);
    const std::span<float> to = second.edit(tensor.name);
    EXPECT_EQ(std::accumulate(to.begin(), to.end(), 0.0F), 0) << tensor.name;
    std::copy(from.begin(), from.end(), to.begin());
  }
  second.set_counts(first.counts());
  EXPECT_EQ(second.updates(), 3);
  train(first, 2);
  train(second, 2);
  EXPECT_EQ(tensors_in(second), tensors_in(first));
  for (const UpdateCounts& counts :
       {UpdateCounts{1, 2, 1}, UpdateCounts{1, 1, 2}, UpdateCounts{1, -1, 1}}) {
    (void)refusal([&] { second.set_counts(counts); }, ErrorCode::bad_config);
  }
}

TEST(Session, weights_are_initialized_one_by_one_as_all_at_once) {
  Session session(network_of(), options_of());
  const std::vector<float> wanted = tensors_in(session);
  SessionOptions options = options_of();
  options.has_initial_values = false;
  Session empty(network_of(), options);
  for (const TensorInfo& tensor : empty.tensors()) {
    if (tensor.is_weight()) empty.initialize(tensor.name);
  }
  EXPECT_EQ(tensors_in(empty), wanted);
  (void)refusal([&] { empty.initialize("m.out.weight"); }, ErrorCode::bad_config);
  (void)refusal([&] { empty.initialize("nobody"); }, ErrorCode::bad_config);
}

TEST(Session, a_step_may_be_measured_alone_or_have_a_rate_of_its_own) {
  for (const int64_t micro_batch : {int64_t{4}, kRows}) {
    Session session(network_of(), options_of(micro_batch));
    train(session, 1);
    const std::vector<float> before = tensors_in(session);
    const StepResult measured = session.step(Data(1).rows(), {.is_skipped = true});
    EXPECT_EQ(tensors_in(session), before);
    EXPECT_EQ(session.updates(), 1);
    const StepResult done = session.step(Data(1).rows());
    EXPECT_EQ(done.loss, measured.loss);
    EXPECT_EQ(done.grad_norm, measured.grad_norm);
    EXPECT_NE(tensors_in(session), before);
    const std::vector<float> weights = session.read("out.weight");
    EXPECT_EQ(session.step(Data(2).rows(), {.learning_rate = 0}).learning_rate, 0);
    EXPECT_EQ(session.read("out.weight"), weights);
  }
}

TEST(Session, values_that_are_not_finite_are_found_by_name) {
  Session session(network_of(), options_of());
  EXPECT_EQ(session.find_not_finite(), "");
  session.require_finite("folder");
  session.edit("v.layer.1.bias")[3] = INFINITY;
  EXPECT_EQ(session.find_not_finite(), "'v.layer.1.bias' is inf at element 3");
  EXPECT_NE(refusal([&] { session.require_finite("folder"); }, ErrorCode::numeric)
                .find("[folder] the weights are not finite: 'v.layer.1.bias'"),
            std::string::npos);
}

TEST(Session, poison_in_dead_bytes_changes_nothing) {
  Session plain(network_of(), options_of());
  Session poisoned(network_of(), options_of());
  poisoned.set_poisoning(true);
  train(plain, 2);
  train(poisoned, 2);
  EXPECT_EQ(tensors_in(poisoned), tensors_in(plain));
}

TEST(Session, what_is_made_of_weights_follows_every_change_of_them) {
  SessionOptions options = options_of();
  Session session(network_of(true), options);
  Session fresh(network_of(true), options);
  (void)logits_of(session);
  for (const char* change : {"step", "write", "edit", "initialize"}) {
    SCOPED_TRACE(change);
    const std::string how = change;
    const std::vector<float> before = logits_of(session);
    if (how == "step") train(session, 1);
    if (how == "write") session.write("out.weight", std::vector<float>(64 * kClasses, 0.5F));
    if (how == "edit") session.edit("out.weight")[0] = 2;
    if (how == "initialize") session.initialize("out.weight");
    const std::vector<float> found = logits_of(session);
    EXPECT_NE(found, before);
    for (const TensorInfo& tensor : session.tensors())
      fresh.write(tensor.name, session.view(tensor.name));
    EXPECT_EQ(found, logits_of(fresh));
  }
}

// Python's arrays stay where they are handed out.
TEST(Session, what_is_made_of_weights_follows_who_keeps_one) {
  SessionOptions options = options_of();
  Session session(network_of(true), options);
  const std::span<float> kept = session.edit("out.weight");
  const std::vector<float> before = logits_of(session);
  kept[0] = 2;
  const std::vector<float> found = logits_of(session);
  EXPECT_NE(found, before);
  Session fresh(network_of(true), options);
  for (const TensorInfo& tensor : session.tensors())
    fresh.write(tensor.name, session.view(tensor.name));
  EXPECT_EQ(found, logits_of(fresh));
}

// Reads its inputs together, and knows what its rows weigh.
class Together final : public RowSource {
 public:
  [[nodiscard]] int64_t rows() const override { return kRows; }
  void fill(const RowSlot& slot) const override { own_.fill(slot); }
  void fill_all(std::span<const RowSlot> slots) const override {
    ++calls;
    most = std::max(most, slots.size());
    RowSource::fill_all(slots);
  }
  [[nodiscard]] std::optional<double> total_weight(const std::string& input) const override {
    return input == "label" ? std::optional<double>(weight) : std::nullopt;
  }
  [[nodiscard]] std::vector<std::string> total_weight_inputs() const override { return weighed; }
  double weight = kRows;
  std::vector<std::string> weighed = {"label"};
  mutable int calls = 0;
  mutable size_t most = 0;

 private:
  Data data_;
  Rows own_ = data_.rows();
};

TEST(Session, sources_may_fill_all_inputs_at_once_and_know_their_weight) {
  Session session(network_of(), options_of());
  Session other(network_of(), options_of());
  Together rows;
  EXPECT_EQ(session.step(rows).loss, other.step(Data().rows()).loss);
  EXPECT_EQ(tensors_in(session), tensors_in(other));
  EXPECT_EQ(rows.calls, 3);
  EXPECT_EQ(rows.most, 2u);
  rows.weight = 0;
  (void)refusal([&] { (void)session.step(rows); }, ErrorCode::bad_data);
  rows.weight = kRows;
  rows.weighed = {"label", "x"};
  EXPECT_NE(refusal([&] { (void)session.step(rows); }, ErrorCode::bad_data).find("weighs no mean"),
            std::string::npos);
}

TEST(Session, tensors_are_known_without_a_plan) {
  const std::vector<TensorInfo> found = tensors_of(network_of(), {.freeze = {"layer.*"}});
  ASSERT_EQ(found.size(), 9u);
  EXPECT_EQ(found.front().name, "layer.0.weight");
  EXPECT_FALSE(found.front().is_trained);
  EXPECT_TRUE(found.back().is_trained);
  EXPECT_EQ(found.back().shape, (Shape{64, kClasses}));
  (void)refusal([&] { (void)tensors_of(network_of(), {.freeze = {"none"}}); },
                ErrorCode::bad_config);
  EXPECT_EQ(splits_of(8), (std::vector<int64_t>{8, 4, 3, 2, 1}));
  for (const int64_t rows : {int64_t{-1}, int64_t{0}, int64_t{1} << 62})
    (void)refusal([&] { (void)splits_of(rows); }, ErrorCode::bad_config);
  (void)refusal([] { (void)Machine(-1); }, ErrorCode::bad_config);
}

TEST(Explain, tells_the_stages_of_a_callers_network) {
  std::vector<std::string> names;
  const Explanation explained = explain_network(network_of(), options_of(), true);
  for (const Stage& stage : explained.stages) {
    names.push_back(stage.name);
    EXPECT_FALSE(stage.result.empty()) << stage.name;
    EXPECT_EQ(stage.text.empty(), stage.name == "memory") << stage.name;
  }
  ASSERT_GE(names.size(), 5u);
  EXPECT_EQ(names.front(), "trace");
  const auto forward = std::find(names.begin(), names.end(), "forward");
  ASSERT_NE(forward, names.end());
  EXPECT_EQ(*(forward + 1), "backward");
  EXPECT_EQ(names[names.size() - 3], "kernels");
  EXPECT_EQ(names[names.size() - 2], "plan");
  EXPECT_EQ(names.back(), "memory");
}

TEST(SessionPlan, a_network_that_is_another_each_time_is_refused) {
  for (const bool grows_by_weights : {true, false}) {
    std::set<std::string> errors;
    bool is_built = false;
    for (int calls = 1; calls < 100 && !is_built; ++calls) {
      try {
        Session session(growing_network(calls, grows_by_weights), options_of());
        session.step(Data().rows());
        // It was built no more often, or with the op in evaluation only.
        is_built = grows_by_weights;
      } catch (const Error& error) {
        EXPECT_NE(error.code(), ErrorCode::internal) << calls << ": " << error.what();
        errors.insert(error.message());
      }
    }
    const auto said = [&](const char* words) {
      return std::any_of(errors.begin(), errors.end(), [&](const std::string& error) {
        return error.find(words) != std::string::npos;
      });
    };
    EXPECT_TRUE(said(grows_by_weights ? "the weight 'second.bias' is new" : "it has "))
        << errors.size();
  }
}

TEST(SessionPlan, a_network_with_an_op_more_each_time_is_refused_whatever_the_split) {
  const auto built = std::make_shared<int>(0);
  const Network network("growing", [built](NetworkBuilder& b) {
    Tensor x = linear(b, "l", b.input("x", {kWidth}), 4);
    for (int i = 0; i < *built; ++i) x = relu(x);
    ++*built;
    b.minimize(b.weighted_mean(x * x));
  });
  for (const int64_t micro_batch : {0, 4}) {
    SessionOptions options = options_of();
    options.micro_batch_size = micro_batch;
    *built = 0;
    const std::string text =
        refusal([&] { (void)plan_network(network, options); }, ErrorCode::invalid_graph);
    EXPECT_NE(text.find("it is another network each time it is built: "), std::string::npos)
        << text;
    EXPECT_NE(text.find("no counters"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace snug::session
