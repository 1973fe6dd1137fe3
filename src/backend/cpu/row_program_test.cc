// SPDX-License-Identifier: Apache-2.0
// Kernels that are computed by rows: in pieces of any size and several together they have the bits
// that they have by themselves, in the scratch that is planned for them.
#include <algorithm>
#include <random>

#include "backend/cpu/one_kernel_test.h"
#include "backend/cpu/row_kernel.h"

namespace snug {
namespace {

constexpr size_t kSpare = 64;

// Bytes that begin at a cache line, NaN before they are written.
class Bytes {
 public:
  explicit Bytes(int64_t bytes) : memory_(static_cast<size_t>(bytes) + kSpare, std::byte{0xFF}) {
    void* at = memory_.data();
    size_t room = memory_.size();
    begin_ = static_cast<std::byte*>(std::align(kSpare, 1, at, room));
  }
  [[nodiscard]] std::byte* data() const { return begin_; }

 private:
  std::vector<std::byte> memory_;
  std::byte* begin_ = nullptr;
};

OneKernel with_type(OneKernel one, DType dtype) {
  InputTypes types;
  for (size_t i = 0; i < one.types.size(); ++i) {
    TensorType type = one.types[i];
    // Weights and statistics of a norm stay in f32.
    const bool stays = one.op.starts_with("layer_norm") && type.shape.size() <= 2;
    if (type.dtype == DType::f32 && !stays) type.dtype = dtype;
    types.add(type);
  }
  one.types = types;
  return one;
}

OneKernel& add_keys(OneKernel& one) { return one.add({DType::i64, {3}}, {11, 5, 40}); }

std::vector<OneKernel> cases() {
  std::vector<OneKernel> all;
  for (const int64_t columns : {int64_t{96}, int64_t{37}}) {
    const Shape x = {5, 130, columns};
    const Shape rows = {5, 130};
    for (const char* op : {"gelu", "relu", "tanh", "exp", "sigmoid", "neg"})
      all.push_back(OneKernel(op).add_normal(x));
    for (const char* op : {"gelu_grad", "relu_grad", "add", "sub", "mul"})
      all.push_back(OneKernel(op).add_normal(x).add_normal(x));
    OneKernel dropout("dropout", {{"rate", 0.25}, {"ordinal", int64_t{3}}});
    dropout.add_normal(x);
    all.push_back(add_keys(dropout));
    all.push_back(
        OneKernel("layer_norm").add_normal(x).add_normal({columns}).add_normal({columns}));
    std::vector<double> rstd(650, 1.5);
    all.push_back(OneKernel("layer_norm_grad")
                      .add_normal(x)
                      .add_normal({columns})
                      .add_normal(rows, 0.1)
                      .add({DType::f32, rows}, rstd)
                      .add_normal(x));
    all.push_back(OneKernel("reduce_sum", {{"axes", std::vector<int64_t>{0, 1}}}).add_normal(x));
    all.push_back(OneKernel("reduce_mean", {{"axes", std::vector<int64_t>{0, 1}}})
                      .add_normal({8, 256, columns}));
    const Shape wide = {5, 130, 2 * columns};
    all.push_back(OneKernel("geglu").add_normal(wide));
    all.push_back(OneKernel("geglu_grad").add_normal(wide).add_normal(x));
  }
  // A bias, a number, a number for each row.
  all.push_back(OneKernel("add").add_normal({5, 130, 96}).add_normal({96}));
  all.push_back(OneKernel("mul").add_normal({5, 130, 96}).add_normal({1}));
  all.push_back(OneKernel("mul").add_normal({1}).add_normal({5, 130, 96}));
  all.push_back(OneKernel("div").add_normal({5, 130, 96}).add_normal({5, 130, 1}));
  return all;
}

// Below `below`, and now and then what a loss ignores.
std::vector<double> labels_below(int64_t below, int64_t count, double ignored) {
  std::vector<double> labels;
  for (int64_t i = 0; i < count; ++i)
    labels.push_back(i % 9 == 4 ? ignored : static_cast<double>(i * 7 % below));
  return labels;
}

std::vector<double> every_third(int64_t count, double value, double third) {
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(i % 3 == 2 ? third : value);
  return values;
}

// Ops that are computed in f32 only, but for what they write.
std::vector<OneKernel> cases_in_f32() {
  constexpr int64_t kRows = 650;
  const TensorType ids = {DType::i32, {kRows}};
  const TensorType of_rows = {DType::f32, {kRows}};
  const TensorType number = {DType::f32, {}};
  std::vector<OneKernel> all;
  for (const int64_t columns : {int64_t{96}, int64_t{37}}) {
    const Shape x = {5, 130, columns};
    all.push_back(OneKernel("softmax").add_normal(x));
    all.push_back(OneKernel("softmax_grad").add_normal(x).add_normal(x));
    for (const Shape& mask : {Shape{5, 1, columns}, Shape{130, 1}, x}) {
      OneKernel masked("masked_softmax");
      masked.add_normal(x);
      const TensorType type = {DType::boolean, mask};
      all.push_back(masked.add(type, every_third(element_count(type), 1, 0)));
    }
    for (const char* op : {"softmax_cross_entropy", "softmax_cross_entropy_grad"}) {
      const bool is_grad = std::string(op).ends_with("_grad");
      for (const Attrs& attrs :
           {Attrs(), Attrs({{"label_smoothing", 0.1}}), Attrs({{"focal_gamma", 2.0}})}) {
        OneKernel loss(op, attrs);
        loss.add_normal({kRows, columns}).add(ids, labels_below(columns, kRows, -100));
        loss.add(of_rows, every_third(kRows, 1.5, 0)).add(number, {0.01});
        if (is_grad) loss.add(of_rows, std::vector<double>(kRows, 5.0)).add(number, {2});
        all.push_back(loss);
      }
    }
    for (const char* op : {"mean_squared_error", "smooth_l1", "binary_cross_entropy"}) {
      for (const bool is_grad : {false, true}) {
        OneKernel loss(std::string(op) + (is_grad ? "_grad" : ""));
        loss.add_normal({kRows, columns}).add_normal({kRows, columns}, 0.1);
        loss.add(of_rows, every_third(kRows, 0.5, 0)).add(number, {0.01});
        if (is_grad) loss.add(number, {2});
        all.push_back(loss);
      }
    }
    all.push_back(
        OneKernel("embedding").add_normal({40, columns}).add(ids, labels_below(40, kRows, 39)));
  }
  return all;
}

std::string name_of(const OneKernel& one) {
  return one.op + " of " + to_string(one.types[0]) +
         (one.types.size() > 1 ? " and " + to_string(one.types[1]) : "");
}

// The outputs where pieces of any size come one after the other, as they may.
std::vector<std::vector<std::byte>> run_in_pieces(const OneKernel& one, uint32_t seed) {
  const NodeSpec spec = one.spec();
  const auto backend = make_cpu_backend({.threads = 2, .profile = default_profile()});
  const auto made = backend->create(spec);
  const auto* kernel = dynamic_cast<const RowKernel*>(made.get());
  if (kernel == nullptr) return {};
  const RowwiseForm& form = kernel->form();
  std::vector<std::vector<std::byte>> memory;
  for (size_t i = 0; i < one.data.size(); ++i) memory.push_back(encode(one.types[i], one.data[i]));
  std::vector<Bytes> made_outputs;
  for (const TensorType& type : spec.outputs) made_outputs.emplace_back(byte_count(type));
  const Bytes scratch(form.scratch_bytes);
  std::mt19937 random(seed);
  // Grains in any order, as threads would take them.
  std::vector<int64_t> grains;
  for (int64_t at = 0; at < form.grid.rows; at += form.grid.grain) grains.push_back(at);
  if (form.grid.grain == 1) grains = {0};
  std::shuffle(grains.begin(), grains.end(), random);
  for (const int64_t first : grains) {
    const int64_t end =
        form.grid.grain == 1 ? form.grid.rows : std::min(form.grid.rows, first + form.grid.grain);
    for (int64_t at = first; at < end;) {
      const int64_t most = std::max<int64_t>(1, std::min<int64_t>(form.grid.rows / 7, 5000));
      const int64_t steps = 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(most));
      const int64_t next = std::min(end, at + steps * form.grid.step);
      std::vector<const std::byte*> inputs;
      std::vector<std::byte*> outputs;
      for (size_t i = 0; i < memory.size(); ++i)
        inputs.push_back(memory[i].data() + at * form.inputs[i]);
      for (size_t i = 0; i < made_outputs.size(); ++i)
        outputs.push_back(made_outputs[i].data() + at * form.outputs[i]);
      kernel->run_rows({.begin = at,
                        .end = next,
                        .part = static_cast<int>(random() % 2),
                        .inputs = inputs,
                        .outputs = outputs,
                        .scratch = scratch.data()});
      at = next;
    }
  }
  std::vector<const std::byte*> inputs;
  std::vector<std::byte*> outputs;
  for (const auto& each : memory) inputs.push_back(each.data());
  for (const Bytes& each : made_outputs) outputs.push_back(each.data());
  kernel->finish({inputs, outputs, scratch.data()});
  std::vector<std::vector<std::byte>> result;
  for (size_t i = 0; i < outputs.size(); ++i)
    result.emplace_back(outputs[i], outputs[i] + byte_count(spec.outputs[i]));
  return result;
}

void expect_same_in_pieces(const std::string& target, const OneKernel& one, uint32_t seed) {
  const auto want = run_on_cpu_to_bytes(one, 1);
  ASSERT_FALSE(want.empty()) << target << " " << name_of(one);
  EXPECT_TRUE(run_in_pieces(one, seed) == want) << target << " " << name_of(one);
  EXPECT_TRUE(run_on_cpu_to_bytes(one, 3) == want) << target << " " << name_of(one);
}

TEST(Row_kernels, have_the_same_bits_in_pieces_of_any_size) {
  for_each_target([](const std::string& target) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      uint32_t seed = 1;
      for (const OneKernel& plain : cases()) {
        const OneKernel one = with_type(plain, dtype);
        expect_same_in_pieces(target, one, ++seed);
      }
    }
  });
}

TEST(Row_kernels, in_f32_have_the_same_bits_in_pieces_of_any_size) {
  for_each_target([](const std::string& target) {
    uint32_t seed = 1;
    for (const OneKernel& one : cases_in_f32()) {
      expect_same_in_pieces(target, one, ++seed);
    }
  });
}

// Nodes that read what the ones before them made: operand i of the program is an input, a value
// that is kept or one that is not.
class Chain {
 public:
  explicit Chain(int threads)
      : backend_(make_cpu_backend({.threads = threads, .profile = default_profile()})) {}

  int32_t input(TensorType type, uint64_t stream) {
    PhiloxStream random(23, stream);
    std::vector<double> values(static_cast<size_t>(element_count(type)));
    for (double& value : values) value = random.normal();
    if (type.dtype == DType::i64) values = {11, 5, 40};
    if (type.dtype == DType::i32) values = labels_below(30, element_count(type), 0);
    if (type.dtype == DType::boolean) values = every_third(element_count(type), 1, 0);
    values_.push_back({type, RowOperand::Place::input, encode(type, values)});
    return static_cast<int32_t>(values_.size()) - 1;
  }
  std::vector<int32_t> op(const std::string& name, const std::vector<int32_t>& inputs,
                          const std::vector<bool>& are_kept, Attrs attrs = {}) {
    OneKernel one(name, std::move(attrs));
    for (const int32_t each : inputs) one.types.add(values_[static_cast<size_t>(each)].type);
    const NodeSpec spec = one.spec();
    std::vector<int32_t> outputs;
    for (size_t i = 0; i < spec.outputs.size(); ++i) {
      values_.push_back({spec.outputs[i],
                         are_kept[i] ? RowOperand::Place::output : RowOperand::Place::buffer,
                         std::vector<std::byte>(static_cast<size_t>(byte_count(spec.outputs[i])))});
      outputs.push_back(static_cast<int32_t>(values_.size()) - 1);
    }
    nodes_.push_back({spec, inputs, outputs});
    return outputs;
  }

  // What is kept, by each node's own kernel and by one for all.
  [[nodiscard]] std::vector<std::vector<std::byte>> apart() {
    for (const Made& node : nodes_) {
      std::vector<const std::byte*> inputs;
      std::vector<std::byte*> outputs;
      for (const int32_t each : node.inputs) inputs.push_back(bytes_of(each).data());
      for (const int32_t each : node.outputs) outputs.push_back(bytes_of(each).data());
      const Bytes scratch(backend_->select(node.spec).scratch_bytes);
      EXPECT_EQ(backend_->create(node.spec)->run({inputs, outputs, scratch.data()}), ErrorCode::ok);
    }
    return kept();
  }
  [[nodiscard]] std::vector<std::vector<std::byte>> together(ErrorCode want = ErrorCode::ok) {
    std::vector<int32_t> numbers;  // by value, among those of its place
    std::map<RowOperand::Place, int32_t> counts;
    std::vector<const std::byte*> inputs;
    std::vector<std::byte*> outputs;
    for (Value& value : values_) {
      numbers.push_back(counts[value.place]++);
      if (value.place == RowOperand::Place::input) inputs.push_back(value.bytes.data());
      std::vector<std::byte> empty(value.bytes.size(), std::byte{0xFF});
      if (value.place != RowOperand::Place::input) value.bytes = empty;
      if (value.place == RowOperand::Place::output) outputs.push_back(value.bytes.data());
    }
    RowProgram program;
    std::vector<RowNode> nodes;
    int64_t scratch_bytes = 0;
    for (const Made& node : nodes_) {
      RowNode row{.spec = node.spec, .inputs = {}, .outputs = {}};
      const auto refs = [&](const std::vector<int32_t>& ids, std::vector<RowOperand>& to) {
        for (const int32_t id : ids)
          to.push_back({values_[static_cast<size_t>(id)].place, numbers[static_cast<size_t>(id)]});
      };
      refs(node.inputs, row.inputs);
      refs(node.outputs, row.outputs);
      nodes.push_back(row);
      const RowwiseForm form = backend_->select(node.spec).row_form;
      const std::vector<int64_t> read(node.inputs.begin(), node.inputs.end());
      const std::vector<int64_t> written(node.outputs.begin(), node.outputs.end());
      EXPECT_TRUE(program.add(form, read, written)) << *node.spec.op->name;
      scratch_bytes += (form.scratch_bytes + 63) / 64 * 64;
    }
    for (size_t i = 0; i < values_.size(); ++i) {
      if (values_[i].place == RowOperand::Place::buffer)
        scratch_bytes += program.buffer_bytes(static_cast<int64_t>(i));
    }
    // What lies behind the scratch stays.
    const Bytes scratch(scratch_bytes + 64);
    EXPECT_EQ(backend_->create_row_program(nodes)->run({inputs, outputs, scratch.data()}), want);
    EXPECT_TRUE(std::all_of(scratch.data() + scratch_bytes, scratch.data() + scratch_bytes + 64,
                            [](std::byte each) { return each == std::byte{0xFF}; }));
    return kept();
  }

 private:
  struct Value {
    TensorType type;
    RowOperand::Place place;
    std::vector<std::byte> bytes;
  };
  struct Made {
    NodeSpec spec;
    std::vector<int32_t> inputs;
    std::vector<int32_t> outputs;
  };
  std::vector<std::byte>& bytes_of(int32_t id) { return values_[static_cast<size_t>(id)].bytes; }
  [[nodiscard]] std::vector<std::vector<std::byte>> kept() const {
    std::vector<std::vector<std::byte>> found;
    for (const Value& value : values_) {
      if (value.place == RowOperand::Place::output) found.push_back(value.bytes);
    }
    return found;
  }

  std::unique_ptr<Backend> backend_;
  std::vector<Value> values_;
  std::vector<Made> nodes_;
};

// A block of an encoder, forward and backward: residual sum, norm, its gradient, dropout, bias.
void build_block(Chain& chain, DType dtype, const Shape& shape) {
  const int64_t columns = shape.back();
  const Shape rows(shape.begin(), shape.end() - 1);
  const int32_t x = chain.input({dtype, shape}, 1);
  const int32_t residual = chain.input({dtype, shape}, 2);
  const int32_t rng = chain.input({DType::i64, {3}}, 3);
  const int32_t gamma = chain.input({DType::f32, {columns}}, 4);
  const int32_t beta = chain.input({DType::f32, {columns}}, 5);
  const Attrs drop = {{"rate", 0.1}, {"ordinal", int64_t{2}}};
  const int32_t dropped = chain.op("dropout", {x, rng}, {false}, drop)[0];
  const int32_t sum = chain.op("add", {dropped, residual}, {true})[0];
  const auto norm = chain.op("layer_norm", {sum, gamma, beta}, {false, false, true});
  const int32_t dy = chain.op("gelu", {norm[0]}, {false})[0];
  const auto grad =
      chain.op("layer_norm_grad", {sum, gamma, norm[1], norm[2], dy}, {true, true, true});
  const int32_t d = chain.op("dropout", {grad[0], rng}, {true}, drop)[0];
  chain.op("reduce_sum", {d}, {true}, {{"axes", std::vector<int64_t>{0, 1}}});
}

TEST(Row_programs, have_the_bits_of_their_nodes) {
  for_each_target([](const std::string& target) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      for (const Shape& shape : {Shape{8, 128, 96}, Shape{4, 128, 768}, Shape{16, 128, 36}}) {
        for (const int threads : {1, 2, 3}) {
          Chain chain(threads);
          build_block(chain, dtype, shape);
          EXPECT_TRUE(chain.apart() == chain.together())
              << target << " " << to_string(TensorType{dtype, shape}) << ", " << threads;
        }
      }
    }
  });
}

// Scores of an attention of a network's own: scaled, masked, dropped out, with a gradient.
void build_scores(Chain& chain, const Shape& shape) {
  const int32_t x = chain.input({DType::f32, shape}, 1);
  const int32_t mask = chain.input({DType::boolean, {shape[0], 1, shape.back()}}, 2);
  const int32_t rng = chain.input({DType::i64, {3}}, 3);
  const int32_t dy = chain.input({DType::f32, shape}, 4);
  const Attrs drop = {{"rate", 0.1}, {"ordinal", int64_t{2}}};
  const int32_t scaled = chain.op("mul", {x, x}, {false})[0];
  const int32_t y = chain.op("masked_softmax", {scaled, mask}, {true})[0];
  chain.op("dropout", {y, rng}, {true}, drop);
  const int32_t d = chain.op("dropout", {dy, rng}, {false}, drop)[0];
  const int32_t dx = chain.op("softmax_grad", {y, d}, {false})[0];
  chain.op("mul", {dx, x}, {true});
}

// From rows of a table to the gradient of a loss over them.
void build_loss(Chain& chain, int64_t rows, int64_t classes) {
  const int32_t table = chain.input({DType::f32, {40, classes}}, 1);
  const int32_t ids = chain.input({DType::i32, {rows}}, 2);
  const int32_t bias = chain.input({DType::f32, {classes}}, 3);
  const int32_t weights = chain.input({DType::f32, {rows}}, 4);
  const int32_t inv_total = chain.input({DType::f32, {}}, 5);
  const int32_t dloss = chain.input({DType::f32, {}}, 6);
  const int32_t found = chain.op("embedding", {table, ids}, {false})[0];
  const int32_t logits = chain.op("add", {found, bias}, {false})[0];
  const auto loss =
      chain.op("softmax_cross_entropy", {logits, ids, weights, inv_total}, {true, false});
  const int32_t d = chain.op("softmax_cross_entropy_grad",
                             {logits, ids, weights, inv_total, loss[1], dloss}, {true})[0];
  chain.op("reduce_sum", {d}, {true}, {{"axes", std::vector<int64_t>{0}}});
}

TEST(Row_programs, of_softmax_losses_and_tables_have_the_bits_of_their_nodes) {
  for_each_target([](const std::string& target) {
    for (const int threads : {1, 2, 3}) {
      for (const int64_t columns : {48, 37}) {
        Chain scores(threads);
        build_scores(scores, {8, 96, columns});
        EXPECT_TRUE(scores.apart() == scores.together()) << target << ", " << threads;
        Chain loss(threads);
        build_loss(loss, 512, columns);
        EXPECT_TRUE(loss.apart() == loss.together()) << target << ", " << threads;
      }
    }
  });
}

TEST(Row_programs, write_nothing_where_an_id_is_beyond_its_table) {
  Chain chain(2);
  const int32_t x = chain.input({DType::f32, {512, 20}}, 1);
  const int32_t labels = chain.input({DType::i32, {512}}, 2);  // up to 29
  const int32_t weights = chain.input({DType::f32, {512}}, 3);
  const int32_t inv_total = chain.input({DType::f32, {}}, 4);
  const int32_t logits = chain.op("tanh", {x}, {true})[0];
  chain.op("softmax_cross_entropy", {logits, labels, weights, inv_total}, {true, true});
  for (const auto& bytes : chain.together(ErrorCode::bad_data)) {
    EXPECT_TRUE(std::ranges::all_of(bytes, [](std::byte each) { return each == std::byte{0xFF}; }));
  }
}

RowwiseForm form(int64_t rows, std::vector<int64_t> inputs, std::vector<int64_t> outputs,
                 int64_t grain = 1, int64_t step = 1) {
  return {.grid = {.rows = rows, .step = step, .grain = grain},
          .inputs = std::move(inputs),
          .outputs = std::move(outputs)};
}

TEST(Row_programs, take_only_what_is_made_and_read_by_the_same_rows) {
  using Keys = std::vector<int64_t>;
  RowProgram program;
  EXPECT_FALSE(program.add({}, Keys{}, Keys{}));
  EXPECT_TRUE(program.add(form(64, {4}, {4}), Keys{0}, Keys{1}));
  // A row of the program is one that all have: here eight of the first.
  EXPECT_TRUE(program.add(form(8, {32}, {32, 0}), Keys{1}, Keys{2, 3}));
  EXPECT_EQ(program.grid(), (RowGrid{.rows = 8}));
  EXPECT_EQ(program.row_bytes(1), 32);
  EXPECT_EQ(program.buffer_bytes(1) % 64, 0);
  EXPECT_FALSE(program.add(form(8, {16}, {32}), Keys{2}, Keys{4})) << "rows of another size";
  EXPECT_FALSE(program.add(form(8, {0, 32}, {32}), Keys{2, 1}, Keys{4})) << "as a whole";
  EXPECT_FALSE(program.add(form(8, {32}, {32}), Keys{3}, Keys{4})) << "not there before the end";
  EXPECT_FALSE(program.add(form(8, {32}, {16}), Keys{2}, Keys{1})) << "another of that name";
  // Written over what all read by the same rows, but not over what is read as a whole.
  const std::vector<std::pair<int64_t, int64_t>> over = {{5, 0}};
  EXPECT_FALSE(program.add(form(8, {32}, {16}), Keys{0}, Keys{5}, over));
  EXPECT_TRUE(program.add(form(8, {32, 0}, {32}), Keys{0, 7}, Keys{5}, over));
  const std::vector<std::pair<int64_t, int64_t>> over_whole = {{8, 7}};
  EXPECT_FALSE(program.add(form(8, {32, 32}, {32}), Keys{0, 7}, Keys{8}, over_whole));
  // Too few threads would work.
  EXPECT_TRUE(RowProgram().add(form(64, {4}, {4}, 32), Keys{0}, Keys{1}));
  RowwiseForm three = form(64, {4}, {4}, 32);
  three.threads = 3;
  EXPECT_FALSE(RowProgram().add(three, Keys{0}, Keys{1}));
}

TEST(Row_programs, cut_where_every_op_permits) {
  using Keys = std::vector<int64_t>;
  RowProgram program;
  EXPECT_TRUE(program.add(form(4096, {64}, {64}, 128, 8), Keys{0}, Keys{1}));
  EXPECT_TRUE(program.add(form(4096 * 48, {4}, {4}, 96, 1), Keys{2}, Keys{3}));
  EXPECT_EQ(program.grid(), (RowGrid{.rows = 4096, .step = 8, .grain = 128}));
  EXPECT_EQ(program.piece_rows() % 8, 0);
  RowProgram odd;
  EXPECT_TRUE(odd.add(form(12, {4}, {4}, 3), Keys{0}, Keys{1}));
  EXPECT_TRUE(odd.add(form(8, {4}, {4}), Keys{2}, Keys{3}));
  EXPECT_EQ(odd.grid(), (RowGrid{.rows = 4, .step = 1, .grain = 1}));
}

}  // namespace
}  // namespace snug
