// SPDX-License-Identifier: Apache-2.0
// Sessions on a backend whose memory nobody may touch but its kernels and its copies
// (backend/guarded_testing.h): the same bits as on the host's memory, from the first step through a
// saved session, and a fault where anything follows an address of it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "backend/cpu/cpu_backend.h"
#include "backend/guarded_testing.h"
#include "session/machine.h"
#include "session/testing.h"
#include "snug/custom_op.h"
#include "snug/explain.h"
#include "snug/layers.h"
#include "snug/ops.h"
#include "snug/session.h"

namespace snug::session {
namespace {

constexpr int64_t kRows = 11;
constexpr int64_t kBatch = 8;
constexpr int64_t kWidth = 64;
constexpr int64_t kWords = 70;
constexpr int kThreads = 2;

Machine machine(bool is_guarded) {
  std::unique_ptr<Backend> backend =
      make_cpu_backend({.threads = kThreads, .profile = default_profile()});
  if (is_guarded) backend = std::make_unique<GuardedBackend>(std::move(backend), kThreads);
  return Machine(std::make_shared<const Machine::Impl>(
      Machine::Impl{.threads = kThreads, .name = "cpu", .backend = std::move(backend)}));
}

// A table, maps, norms and draws of two kinds, with outputs.
Network words() {
  return {"words", [](NetworkBuilder& b) {
            Tensor x = b.op1("embedding",
                             {b.parameter("words.weight", {kWords, kWidth}, InitRule::normal(1)),
                              b.input("ids", {}, DType::i32)},
                             {{"to", "f32"}});
            for (const char* name : {"first", "second"}) {
              const Scope scope(b, name);
              x = x + dropout(linear(b, "up", gelu(layer_norm(b, "norm", x)), kWidth), 0.1);
            }
            const Tensor logits = linear(b, "classes", x + b.input("x", {kWidth}), 3);
            b.output("logits", logits);
            b.minimize(cross_entropy(b, logits, b.input("label", {}, DType::i32)));
          }};
}

Network statistics() {
  return {"statistics", [](NetworkBuilder& b) {
            Tensor x = b.input("x", {kWidth});
            for (const char* layer : {"a", "b"}) {
              const Scope scope(b, layer);
              x = relu(batch_norm(b, "norm", linear(b, "linear", x, kWidth)));
            }
            const Tensor logits = linear(b, "out", x, 3);
            b.output("logits", logits);
            b.minimize(cross_entropy(b, logits, b.input("label", {}, DType::i32)));
          }};
}

// Rows with a length, of which a mask says what is there, and a weight for each.
Network sequences() {
  return {"sequences", [](NetworkBuilder& b) {
            b.counts_padding("both kinds of memory have the same programs");
            const Length length = b.length("length");
            const Tensor x = b.input("steps", {length, 4});
            const Tensor mask = b.input("mask", {length}, DType::boolean);
            const Tensor here = where(mask, reduce_sum(x * x, {2}), fill(b, 0, mask.shape()));
            const Tensor y = linear(b, "out", reduce_sum(linear(b, "in", x, kWidth), {1}), 1);
            b.output("y", y);
            b.minimize(b.weighted_mean(reduce_sum(y * y, {1}) + reduce_sum(here, {1})));
          }};
}

CustomOp doubled() {
  return {
      .name = "doubled",
      .inputs = {"x"},
      .infer = [](auto inputs, const Attrs&) { return std::vector<TensorType>{inputs[0]}; },
      .run =
          [](const OpCall& call) {
            for (size_t i = 0; i < call.input<float>(0).size(); ++i)
              call.output<float>()[i] = 2 * call.input<float>(0)[i];
          },
      .gradient =
          [](const GradientCall& call) { return std::vector<Tensor>{2.0 * call.gradients[0]}; }};
}

Network with_own_op() {
  Network network("own", [](NetworkBuilder& b) {
    const Tensor x = linear(b, "in", b.input("x", {kWidth}), kWidth);
    const Tensor y = linear(b, "out", b.op1("doubled", {x}), 3);
    b.output("y", y);
    b.minimize(cross_entropy(b, y, b.input("label", {}, DType::i32)));
  });
  network.add(std::make_shared<CustomOp>(doubled()));
  return network;
}

struct Data {
  std::vector<float> x, steps;
  std::vector<int32_t> ids, label;
  std::vector<uint8_t> mask;
  explicit Data(int seed = 0) {
    const auto wave = [&](int64_t i) {
      return static_cast<float>(std::sin(1.3 * static_cast<double>(i + 1000 * seed)));
    };
    for (int64_t i = 0; i < kRows * kWidth; ++i) x.push_back(wave(i));
    for (int64_t i = 0; i < kRows * 3 * 4; ++i) steps.push_back(wave(i));
    for (int32_t row = 0; row < kRows; ++row) {
      ids.push_back((row + seed) * 7 % static_cast<int32_t>(kWords));
      label.push_back(row % 4 == 3 ? -100 : row % 3);  // some count for nothing
      for (int step = 0; step < 3; ++step) mask.push_back(step <= row % 3 ? 1 : 0);
    }
  }
  [[nodiscard]] Rows rows(const Session& session, int64_t count) const {
    Rows rows(count, session.has_input("steps") ? Lengths{{"length", 3}} : Lengths{});
    const auto add = [&](const char* name, const auto& values) {
      const auto all = std::span(values);
      if (session.has_input(name))
        rows.add(name, all.first(all.size() / kRows * static_cast<size_t>(count)));
    };
    add("x", x), add("ids", ids), add("label", label), add("steps", steps), add("mask", mask);
    return rows;
  }
};

struct Case {
  const char* name;
  Network (*network)();
  void (*set)(SessionOptions&);
  int64_t rows = kBatch;
};

const Case kCases[] = {
    {"pieces", words, [](SessionOptions& o) { o.micro_batch_size = 3; }},
    {"an_update_of_its_own", words, [](SessionOptions& o) { o.max_grad_norm = 0; }},
    {"fewer_rows", words, [](SessionOptions& o) { o.micro_batch_size = 4; }, 5},
    {"states_in_8_bits", words, [](SessionOptions& o) { o.optim_bits = 8; }},
    {"weights_in_24_bits", words, [](SessionOptions& o) { o.weight_dtype = "bf16x8"; }},
    {"weights_in_16_bits", words, [](SessionOptions& o) { o.weight_dtype = "bfloat16"; }},
    {"frozen_in_8_bits", words,
     [](SessionOptions& o) {
       o.freeze = {"first.*", "words.*"};
       o.frozen_dtype = "int8";
     }},
    {"adapters", words,
     [](SessionOptions& o) {
       o.lora.match = {"*.up.weight"};
       o.frozen_dtype = "bfloat16";
     }},
    {"mixed_precision", words,
     [](SessionOptions& o) {
       o.bf16 = true;
       o.micro_batch_size = 4;
     }},
    {"a_dynamic_scale", statistics,
     [](SessionOptions& o) {
       o.fp16 = true;
       o.micro_batch_size = kBatch;
     }},
    {"two_passes", statistics,
     [](SessionOptions& o) {
       o.micro_batch_size = kBatch;
       o.two_pass_clip = true;
     }},
    {"lengths", sequences,
     [](SessionOptions& o) {
       o.lengths = {{{"length", 4}}, {{"length", 9}}};
       o.micro_batch_size = 4;
     }},
    {"an_op_of_the_callers", with_own_op,
     [](SessionOptions& o) {
       o.repeats_own_ops = true;
       o.micro_batch_size = 4;
     }},
};

SessionOptions options_of(const Case& it, bool is_guarded) {
  SessionOptions options{.batch_rows = kBatch,
                         .memory = parse_memory("1GiB"),
                         .learning_rate = 0.01,
                         .weight_decay = 0.01,
                         .max_grad_norm = 0.5,
                         .machine = machine(is_guarded)};
  it.set(options);
  return options;
}

class Folder {
 public:
  Folder() { path = mkdtemp(path.data()); }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string path = (std::filesystem::temp_directory_path() / "snug_guarded_XXXXXX").string();
};

std::string file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Everything that a session does and holds, to be compared.
class Log {
 public:
  std::ostringstream text;
  Log() { text << std::hexfloat; }

  void step(Session& session, const Data& data, int64_t rows) {
    const StepResult result = session.step(data.rows(session, rows));
    text << "step " << result.loss << " " << result.grad_norm << " " << result.loss_scale << "\n";
  }
  void evaluate(Session& session, const Data& data, int64_t rows) {
    const OutputSink sink = [&](const OutputRows& outputs) {
      for (const auto& [name, values] : outputs.values) {
        text << name << " from " << outputs.first_row;
        for (const float value : values) text << " " << value;
      }
    };
    const Rows given = data.rows(session, rows);
    text << "loss " << session.evaluate(given, sink).loss << "\n";
    session.predict(given, sink);
  }
  void tensors(Session& session) {
    for (const TensorInfo& tensor : session.tensors()) {
      text << tensor.name;
      session.read_bytes(tensor.name, [&](std::span<const std::byte> bytes) {
        for (const std::byte each : bytes) text << " " << std::to_integer<int>(each);
      });
      for (const float value : session.read(tensor.name)) text << " " << value;
    }
    text << session.find_not_finite() << session.measured_arena_bytes() << "\n";
  }
};

// Values of every tensor are written as they were read, whole and by rows.
void write_all(Session& session) {
  for (const TensorInfo& tensor : session.tensors()) {
    const std::vector<float> values = session.read(tensor.name);
    session.write(tensor.name, values);
    if (tensor.kind == TensorKind::optimizer_state || tensor.kind == TensorKind::scales) continue;
    if (tensor.shape.empty()) continue;
    const auto columns = static_cast<int64_t>(values.size()) / tensor.shape[0];
    std::vector<float> last(static_cast<size_t>(columns));
    session.read_rows(tensor.name, tensor.shape[0] - 1, last);
    EXPECT_TRUE(std::equal(last.begin(), last.end(), values.end() - columns)) << tensor.name;
    session.write_rows(tensor.name, tensor.shape[0] - 1, last);
  }
}

std::string trained(const Case& it, bool is_guarded) {
  const SessionOptions options = options_of(it, is_guarded);
  const Folder folder;
  Log log;
  {
    Session session(it.network(), options);
    log.tensors(session);
    for (int i = 0; i < 2; ++i) log.step(session, Data(i), it.rows);
    log.evaluate(session, Data(), it.network == statistics ? kBatch : kRows);
    log.step(session, Data(2), it.rows);
    log.tensors(session);
    session.save(folder.path + "/saved");
  }
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "session.json"})
    log.text << file(folder.path + "/saved/" + name);
  Session session = Session::resume(it.network(), folder.path + "/saved", options);
  session.set_poisoning(true);
  log.step(session, Data(3), it.rows);
  write_all(session);
  log.evaluate(session, Data(), kBatch);
  const std::vector<TensorInfo> tensors = session.tensors();
  session.initialize(std::ranges::find(tensors, TensorKind::parameter, &TensorInfo::kind)->name);
  log.step(session, Data(4), it.rows);
  for (const TensorInfo& tensor : session.tensors()) {
    session.read_bytes(tensor.name, [&](std::span<const std::byte> bytes) {
      log.text.write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
    });
  }
  return log.text.str();
}

class Guarded : public testing::TestWithParam<Case> {};

TEST_P(Guarded, trains_evaluates_saves_and_resumes_to_the_bits_of_the_hosts_memory) {
  const std::string wanted = trained(GetParam(), false);
  const std::string found = trained(GetParam(), true);
  EXPECT_GT(wanted.size(), 10000u);
  const auto [first, second] = std::ranges::mismatch(wanted, found);
  EXPECT_TRUE(wanted == found) << "they differ from here: "
                               << std::string(first, std::min(first + 200, wanted.end()))
                               << "\nwhich is: "
                               << std::string(second, std::min(second + 200, found.end()));
}

INSTANTIATE_TEST_SUITE_P(Sessions, Guarded, testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Guarded, gives_the_gradients_of_the_hosts_memory) {
  std::map<std::string, std::vector<float>> found[2];
  for (const bool is_guarded : {false, true}) {
    SessionOptions options = options_of(kCases[0], is_guarded);
    options.max_grad_norm = 0;
    options.only_gradients = true;
    Session session(words(), options);
    (void)session.gradients(Data().rows(session, kBatch));
    found[is_guarded ? 1 : 0] = session.gradients(Data(1).rows(session, kBatch)).of;
  }
  EXPECT_EQ(found[0], found[1]);
  EXPECT_EQ(found[0].size(), 11u);
}

TEST(Guarded, a_bad_row_moves_nothing_and_names_the_op) {
  std::string said[2];
  for (const bool is_guarded : {false, true}) {
    Session session(words(), options_of(kCases[0], is_guarded));
    Data bad;
    bad.ids[6] = static_cast<int32_t>(kWords);
    const std::vector<float> before = session.read("words.weight");
    said[is_guarded ? 1 : 0] =
        refusal([&] { (void)session.step(bad.rows(session, kBatch)); }, ErrorCode::bad_data);
    EXPECT_EQ(session.read("words.weight"), before);
    (void)session.step(Data().rows(session, kBatch));
    EXPECT_NE(session.read("words.weight"), before);
  }
  EXPECT_EQ(said[0], said[1]);
  EXPECT_NE(said[0].find("'ids'"), std::string::npos) << said[0];
}

TEST(Guarded, what_cannot_be_had_without_a_copy_is_refused_by_name) {
  Session session(words(), options_of(kCases[0], true));
  const std::string name = "classes.bias";
  for (const std::function<void()>& call : std::vector<std::function<void()>>{
           [&] { (void)session.view(name); }, [&] { (void)session.edit(name); },
           [&] { (void)session.view_bytes(name); }, [&] { (void)session.edit_bytes(name); }}) {
    const std::string said = refusal(call, ErrorCode::unsupported);
    EXPECT_NE(said.find("[classes.bias] its elements are in memory of the backend 'guarded'"),
              std::string::npos)
        << said;
    EXPECT_NE(said.find("hint: read and write copy them"), std::string::npos) << said;
  }
  EXPECT_EQ(session.read(name), std::vector<float>(3));
  alignas(4096) static std::byte block[4096];
  SessionOptions options = options_of(kCases[0], true);
  options.block = block;
  EXPECT_NE(refusal([&] { const Session other(words(), options); }, ErrorCode::unsupported)
                .find("leave block empty"),
            std::string::npos);
}

}  // namespace
}  // namespace snug::session
