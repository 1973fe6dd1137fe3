// SPDX-License-Identifier: Apache-2.0
// A session: a network of your own (snug/network.h) planned within a number of bytes, and trained
// in them on rows that you hold. Nothing is global and nothing is printed; every failure is a
// snug::Error. Sessions in different threads do not disturb each other; one session is used from
// one thread at a time. Work is done by the threads of the process's OpenMP, which a forked child
// does not have: calls that compute are Error{unsupported} there, if the parent computed before.
//
//   snug::Session session(network, {.batch_rows = 64, .memory = snug::parse_memory("32MiB")});
//   snug::Rows rows(64);
//   rows.add("x", pixels).add("label", labels);  // std::span of your own memory
//   const double loss = session.step(rows).loss;
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "snug/config.h"
#include "snug/lengths.h"
#include "snug/levers.h"
#include "snug/loss_scale.h"
#include "snug/network.h"
#include "snug/plan_report.h"
#include "snug/train_spec.h"

namespace snug {

/// What work is done on: this machine's cores and their measured speed. Opened once, it may serve
/// any number of plans and sessions, which keep it. Copies are the same machine.
class Machine {
 public:
  /// `threads` 0: every core this process may use; throws Error{bad_config} beyond 1024. Measures
  /// the machine's speed on first use and keeps it in a file of `profile_folder`; empty:
  /// $XDG_CACHE_HOME/snug, else ~/.cache/snug. Where that cannot be written, a folder snug-UID in
  /// $TMPDIR has the file, which `on_message` is told with the reason. `before_measuring` is called
  /// where there is no such file: it takes up to half a minute, and 24 MiB. With less than that as
  /// `room_bytes` nothing is measured, and seconds are predicted as for an ordinary machine.
  explicit Machine(int64_t threads = 0, const std::string& profile_folder = {},
                   const std::function<void()>& before_measuring = {},
                   const std::function<void(const std::string&)>& on_message = {},
                   int64_t room_bytes = INT64_MAX);
  [[nodiscard]] int threads() const;
  [[nodiscard]] const std::string& backend() const;  // its name

  struct Impl;
  explicit Machine(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  [[nodiscard]] const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

/// Names, meanings and defaults are those of the run configuration's keys (docs/configuration.md)
/// where it has them.
struct SessionOptions {
  // What is trained and what that costs: batch_rows, memory, optim, learning_rate, ..., threads, in
  // the order of snug/train_fields.inc, which says what each of them means.
#define SNUG_TRAIN_FIELD(type, name, value, ...) type name = value;
#define SNUG_TRAIN_KEY(type, name, value, key, run_value, ...) type name = value;
#include "snug/train_fields.inc"

  /// A machine that this process opened before; threads and profile_folder are its own then.
  std::optional<Machine> machine = {};
  /// Written by SessionPlan::save for this network and these options: replayed instead of planning.
  std::string plan_file = {};
  /// Your own memory for everything that the session holds, page-aligned; empty: it maps its own.
  std::span<std::byte> block = {};
  /// Set it from any thread to stop planning, or the next step before it changes anything:
  /// Error{cancelled}.
  const std::atomic<bool>* cancel = nullptr;
  /// `phase` is what is being done: "building the graph", "placement"; it may be empty.
  std::function<void(int64_t done, int64_t total, const char* phase)> on_planning = {};
  /// Sentences for people: Session::resume says that the instruction set is another one, a plan
  /// that the machine's speeds cannot be kept where they belong, or were measured while other work
  /// had the processors.
  std::function<void(const std::string&)> on_message = {};
  /// Where measured speeds of this machine are kept; empty: $XDG_CACHE_HOME/snug or ~/.cache/snug.
  std::string profile_folder = {};
  /// For tests of ops of your own: each runs twice on the same operands, and is Error{bad_config}
  /// by name where that gives other bytes (a counter, a clock), with which results would follow the
  /// budget. The copies are beyond the budget.
  bool repeats_own_ops = false;
  /// Fills PlanReport::curves and PlanReport::placed, for PlanReport::to_html.
  bool wants_picture = false;
};

/// A place to fill: `rows` rows of one input, one after the other, each of `row_shape` (padded to
/// the length of the program).
struct RowSlot {
  const std::string& input;
  DType dtype = DType::f32;
  const Shape& row_shape;
  /// The name of the length that is its first axis; nothing where that is none.
  const std::optional<std::string>& length;
  /// What shorter rows are filled up with: 0, or -100 for labels of cross_entropy, which then do
  /// not count.
  int32_t padding = 0;
  int64_t first_row = 0;  // of the batch
  int64_t rows = 0;
  std::span<std::byte> bytes;

  /// T must be float for f32, int32_t for i32, bool or uint8_t for boolean.
  template <class T>
  [[nodiscard]] std::span<T> values() const {
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
};

/// The rows of one batch, wherever they come from.
class RowSource {
 public:
  RowSource() = default;
  RowSource(const RowSource&) = default;
  RowSource& operator=(const RowSource&) = default;
  virtual ~RowSource() = default;

  [[nodiscard]] virtual int64_t rows() const = 0;
  /// The lengths of the longest row, by each length that rows have; none where they have none.
  [[nodiscard]] virtual Lengths length() const { return {}; }
  /// False where the source has no values for this input: it is zero in prediction, if no output
  /// depends on it, and an error everywhere else.
  [[nodiscard]] virtual bool has(const std::string& /*input*/) const { return true; }
  /// Every input that it has values for, where it can say so: one that the network does not have is
  /// an error.
  [[nodiscard]] virtual std::vector<std::string> columns() const { return {}; }
  /// Writes all of the slot. May be called more than once for the same rows: inputs that say what a
  /// row weighs are read ahead.
  virtual void fill(const RowSlot& slot) const = 0;
  /// The inputs of a micro-batch, all of the same rows. Override it where reading them together is
  /// cheaper.
  virtual void fill_all(std::span<const RowSlot> slots) const {
    for (const RowSlot& slot : slots) fill(slot);
  }
  /// What all rows weigh together in a mean that is weighed by this input, where the source knows
  /// it; otherwise the input is read ahead.
  [[nodiscard]] virtual std::optional<double> total_weight(const std::string& /*input*/) const {
    return std::nullopt;
  }
  /// The inputs whose total weight it knows, where it can say so: one that weighs no mean is an
  /// error.
  [[nodiscard]] virtual std::vector<std::string> total_weight_inputs() const { return {}; }
};

/// Rows in your own memory, column by column. Refers to it.
class Rows : public RowSource {
 public:
  /// `length`: of every row, where they have any; shorter than the program's, they are filled up
  /// at their end (RowSlot::padding).
  explicit Rows(int64_t rows, Lengths length = {}) : rows_(rows), length_(std::move(length)) {}
  /// rows x the values of a row, row after row. Throws Error{bad_data} where they do not divide.
  Rows& add(const std::string& input, std::span<const float> values);
  Rows& add(const std::string& input, std::span<const int32_t> values);
  Rows& add(const std::string& input, std::span<const uint8_t> values);  // of a boolean input

  [[nodiscard]] int64_t rows() const override { return rows_; }
  [[nodiscard]] Lengths length() const override { return length_; }
  [[nodiscard]] bool has(const std::string& input) const override {
    return columns_.count(input) != 0;
  }
  [[nodiscard]] std::vector<std::string> columns() const override;
  void fill(const RowSlot& slot) const override;

 private:
  struct Column {
    DType dtype = DType::f32;
    std::span<const std::byte> bytes;
  };
  Rows& add(const std::string& input, DType dtype, std::span<const std::byte> bytes);
  int64_t rows_;
  Lengths length_;
  std::map<std::string, Column> columns_;
};

/// How far the updates are. The three differ where an update was skipped: drawn - optimizer were.
struct UpdateCounts {
  int64_t drawn = 0;      // batches, which random numbers follow
  int64_t schedule = 0;   // steps of the learning rate's schedule
  int64_t optimizer = 0;  // steps of the optimizer, which its corrections follow
};

struct StepOptions {
  /// The rate of every weight, instead of the schedule's and of what groups of weights have.
  std::optional<double> learning_rate = {};
  /// Measures loss and norm of the gradients as a step has them; weights, states and counts stay
  /// (running statistics of batch norm may move).
  bool is_skipped = false;
};

struct StepResult {
  int64_t update = 0;  // counted from 1
  double loss = 0;     // of the batch, before the update
  double grad_norm = 0;
  double learning_rate = 0;
  double loss_scale = 1;  // with which gradients were made; loss and norm are without it
  /// Gradients overflowed under a dynamic loss_scale: nothing moved but that. The norm is not
  /// finite, and the loss need not be.
  bool is_skipped = false;
};

/// The loss of a batch, and the gradients of its mean.
struct GradientResult {
  double loss = 0;
  std::map<std::string, std::vector<float>> of;  // by weight; those that nothing freezes
};

struct Evaluation {
  int64_t rows = 0;
  double loss = 0;  // 0 where the network minimizes nothing in evaluation
};

/// What the outputs of some rows are: name -> rows x values, row after row. Valid during the call.
struct OutputRows {
  int64_t first_row = 0;
  int64_t rows = 0;
  const std::map<std::string, std::span<const float>>& values;
  const std::map<std::string, Shape>& row_shapes;
};
using OutputSink = std::function<void(const OutputRows&)>;

/// scales: of a frozen weight in 8 bits, whose name stands before ".scales".
enum class TensorKind : uint8_t { parameter, buffer, optimizer_state, scales };
struct TensorInfo {
  std::string name;  // states are called ROLE.PARAMETER, in 8 bits with .codes and .scales behind
  Shape shape;
  DType dtype = DType::f32;  // u8 of codes, bf16 and bf16x8 of weights in 16 and 24 bits
  TensorKind kind = TensorKind::parameter;
  bool is_trained = false;  // a parameter that no pattern freezes
  [[nodiscard]] bool is_weight() const { return kind != TensorKind::optimizer_state; }  // or buffer
  /// A weight that is stored in fewer bits than f32.
  [[nodiscard]] bool is_coded() const {
    return kind == TensorKind::parameter && dtype != DType::f32;
  }
  [[nodiscard]] bool is_frozen_code() const { return is_coded() && !is_trained; }
};

/// Plans without training: the report, with its price list. Throws Error{out_of_budget} with the
/// proof, the smallest budget and the cheapest ways to fit.
[[nodiscard]] PlanReport plan_network(const Network& network, const SessionOptions& options = {});

/// What levers (docs/levers.md) would change: first the run as it is asked for, then each lever
/// alone, then together those that lead to other weights; of them those that `allow` names, where
/// it names any.
[[nodiscard]] std::vector<LeverPlan> plan_levers(const Network& network,
                                                 const SessionOptions& options = {},
                                                 const std::vector<std::string>& allow = {});
/// Every combination of these levers (kLeverWords), planned, fewest levers first: the first is
/// none.
[[nodiscard]] std::vector<LeverPlan> plan_allowed_levers(const Network& network,
                                                         const SessionOptions& options,
                                                         const std::vector<std::string>& allow);
/// The keys of the fastest combination of these levers (kLeverWords) that fits, fewest levers first
/// where times are equal. Empty where no lever is faster, and where nothing fits.
[[nodiscard]] LeverKeys fastest_levers(const Network& network, const SessionOptions& options,
                                       const std::vector<std::string>& allow);

/// Weights, buffers and whether they are trained, in the order of the network, without a plan.
/// Throws Error{bad_config} for a pattern of `freeze`, `lora` or `param_groups` that matches
/// nothing.
[[nodiscard]] std::vector<TensorInfo> tensors_of(const Network& network,
                                                 const SessionOptions& options = {});

/// The numbers of rows that a batch may be split into, largest first. Throws Error{bad_config}
/// where it has none, or 2^31 and more.
[[nodiscard]] std::vector<int64_t> splits_of(int64_t batch_rows);

/// A plan, made once, of which any number of sessions may be opened. Copies are the same plan.
class SessionPlan {
 public:
  /// Throws Error{out_of_budget} with the proof, the smallest budget and the cheapest ways to fit.
  explicit SessionPlan(const Network& network, const SessionOptions& options = {});

  [[nodiscard]] const PlanReport& report() const;
  /// A file for SessionOptions::plan_file.
  void save(const std::string& file) const;
  /// The training program of the longest rows as a problem for `snug solve`, and its planned
  /// schedule (docs/solve.md).
  void save_problem(const std::string& file) const;
  void save_schedule(const std::string& file) const;

  /// Over all ops of the training program for rows of this length, how many numbers an element of
  /// the output is the sum of: bounds of rounding errors follow from it.
  [[nodiscard]] double summands(const Lengths& length) const;

  struct Impl;
  explicit SessionPlan(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  [[nodiscard]] const std::shared_ptr<const Impl>& impl() const { return impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

class Session {
 public:
  /// Plans, takes the memory, binds every program and gives the weights their initial values.
  explicit Session(const Network& network, const SessionOptions& options = {});
  explicit Session(const SessionPlan& plan);
  /// Goes on where save() was called, to the same bits: weights, optimizer states and counts. The
  /// micro-batch stays; memory, threads and recompute may differ, options that decide the result
  /// and the weights' names and shapes may not: Error{bad_config} names them. So it is with what
  /// the network's function computes (a changed dropout rate, say). With only_evaluation a session
  /// that trained is opened for evaluate and predict, in less.
  [[nodiscard]] static Session resume(const Network& network, const std::string& folder,
                                      const SessionOptions& options = {});
  /// A session that was moved from may be destroyed or assigned to, and nothing else.
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  [[nodiscard]] const PlanReport& plan() const;
  /// Whether rows have to give it, or may.
  [[nodiscard]] bool has_input(const std::string& name) const;
  /// What RowSource::fill is asked for of a training batch of this length, with neither rows nor
  /// bytes, so that a source can read rows before they are asked for. Refers to the session.
  [[nodiscard]] std::vector<RowSlot> row_slots(const Lengths& length) const;
  /// Updates so far.
  [[nodiscard]] int64_t updates() const;
  [[nodiscard]] const UpdateCounts& counts() const;
  /// To go on from a checkpoint of your own, with its weights and states, which are written before.
  void set_counts(const UpdateCounts& counts);
  /// The scale of the next update.
  [[nodiscard]] const LossScale& loss_scale() const;
  [[nodiscard]] bool has_dynamic_loss_scale() const;
  /// As set_counts, where loss_scale is dynamic.
  void set_loss_scale(const LossScale& scale);

  /// One update on at most batch_rows rows. Rows that cannot be (a label or an id out of range) are
  /// Error{bad_data}; weights and optimizer states are then as before, but running statistics of
  /// batch norm may have moved. So they are where an op of your own fails (CustomOp::run), unless
  /// some weights had moved by then: of a session without max_grad_norm that trains the batch in
  /// one piece each weight moves as soon as its gradient is there. Steps, evaluation and save() are
  /// then Error{bad_config} until set_counts. Throws Error{numeric} where the loss or the gradients
  /// are not finite, unless a dynamic loss_scale has room to fall (StepResult::is_skipped): the
  /// weights are then lost as well, go back to what you saved.
  StepResult step(const RowSource& batch, const StepOptions& options = {});
  /// The gradients of the mean loss of at most batch_rows rows. For sessions with
  /// SessionOptions::only_gradients. Throws Error{numeric} where the loss or a gradient is not
  /// finite; a dynamic loss_scale falls until gradients are, and grows as that of updates does.
  /// Nothing else changes.
  GradientResult gradients(const RowSource& batch);
  /// The loss over all rows, and their outputs, in order. Any number of rows; they run in pieces of
  /// plan().micro_batch, in the program of their length, so rows of several lengths are cheapest
  /// piece by piece.
  Evaluation evaluate(const RowSource& rows, const OutputSink& sink = {});
  /// Outputs alone: inputs that only the loss reads may be absent.
  void predict(const RowSource& rows, const OutputSink& sink);

  /// Weights, buffers and optimizer states, in order of name.
  [[nodiscard]] std::vector<TensorInfo> tensors() const;
  /// Codes of states in 8 bits are whole numbers from 0 to 255. Weights that are stored in fewer
  /// bits are decoded, and coded where they are written (rounded to the nearest).
  /// Throw Error{bad_config} for a name that there is not or another number of elements, write()
  /// also for values that are not finite.
  void read(const std::string& name, std::span<float> values) const;
  [[nodiscard]] std::vector<float> read(const std::string& name) const;
  void write(const std::string& name, std::span<const float> values);
  /// Whole rows of a weight or buffer from this one, for weights that are not in memory as f32.
  void read_rows(const std::string& name, int64_t first_row, std::span<float> values) const;
  void write_rows(const std::string& name, int64_t first_row, std::span<const float> values);
  /// The tensor's own elements, without a copy; valid until the next call that changes the session.
  /// What is written through edit() is not checked. Throw Error{unsupported} on a machine whose
  /// backend has memory that this process cannot look into; read and write copy everywhere.
  [[nodiscard]] std::span<const float> view(const std::string& name) const;
  [[nodiscard]] std::span<float> edit(const std::string& name);
  /// The bytes of tensors of any type.
  [[nodiscard]] std::span<const std::byte> view_bytes(const std::string& name) const;
  [[nodiscard]] std::span<std::byte> edit_bytes(const std::string& name);
  /// All bytes of a tensor of any type, on any machine, in order: at once without a copy where
  /// view_bytes would give them, else in parts that cut no element of f32, bf16 or u8. `fill`
  /// writes all of its bytes, which are the tensor's from its byte `first`.
  void read_bytes(const std::string& name,
                  const std::function<void(std::span<const std::byte> bytes)>& use) const;
  void write_bytes(const std::string& name,
                   const std::function<void(int64_t first, std::span<std::byte> bytes)>& fill);
  /// Gives a weight or buffer its initial values: a function of the network's rule, seed and name.
  void initialize(const std::string& name);
  /// Names the first weight, buffer or state with a value that is not finite: "'out.bias' is nan at
  /// element 2". Empty where all are.
  [[nodiscard]] std::string find_not_finite() const;
  /// Throws Error{numeric} where find_not_finite() finds one, at `where`, such as the folder that
  /// weights were read from.
  void require_finite(const std::string& where) const;

  /// A folder that appears whole or not at all: model.safetensors, optimizer.safetensors,
  /// session.json. Never of values that are not finite.
  void save(const std::string& folder);

  /// The arena's bytes that were really touched, as plan().arena_bytes counts them (gradients that
  /// wait for the clip left out) and equal to it once every program ran. Throws Error{internal}
  /// where a byte was written that belongs to nothing.
  [[nodiscard]] int64_t measured_arena_bytes();
  /// For tests: from now on every byte that is dead before an op is NaN, so that a read of one
  /// shows, and ops of your own run twice (SessionOptions::repeats_own_ops). The measured arena has
  /// no meaning then.
  void set_poisoning(bool is_on);

 private:
  class Impl;
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace snug
