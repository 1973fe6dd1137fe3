// SPDX-License-Identifier: Apache-2.0
// Row programs taken from the models, on operands that no cache of a core holds: time by themselves
// and together, beside two limits, in turns: the time in which this machine copies as many bytes as
// the program reads and writes, and the time that its arithmetic takes, which is that of as many
// rows whose operands are in the caches. Bits are compared, too.
//
//   snug_bench_row_programs [--rows 8192] [--columns 768] [--threads 2] [--rounds 9] [--share 0.85]
//
// With --share it ends with 1 where a program has less of its limit, the longer time of both, or so
// much more that the machine was busy.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/measure_profile.h"
#include "base/mapped_block.h"
#include "base/philox.h"
#include "base/threads.h"
#include "base/units.h"
#include "graph/op_def.h"
#include "ops/registry.h"

namespace snug {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int64_t kIds = 64;  // labels and ids are below that
using Place = RowOperand::Place;

double seconds_of(const std::function<void()>& body) {
  const auto start = Clock::now();
  body();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// A copy on all threads, of more than the caches hold.
class Copy {
 public:
  explicit Copy(int threads) : threads_(threads), from_(kBytes), to_(kBytes) {
    std::memset(from_.data(), 1, static_cast<size_t>(kBytes));
  }
  // Seconds for each byte that is read or written.
  double seconds_per_byte() {
    const double seconds = seconds_of([&] {
      parallel_for(threads_, kBytes, int64_t{1} << 20, [&](int64_t begin, int64_t end) {
        std::memcpy(to_.data() + begin, from_.data() + begin, static_cast<size_t>(end - begin));
      });
    });
    return seconds / (2.0 * static_cast<double>(kBytes));
  }

 private:
  static constexpr int64_t kBytes = int64_t{256} << 20;
  int threads_;
  MappedBlock from_;
  MappedBlock to_;
};

// Nodes of one program and the memory of all values; what is not kept has memory only for the nodes
// by themselves.
class Chain {
 public:
  Chain(std::string name, const Backend& backend) : name_(std::move(name)), backend_(backend) {}

  int32_t input(const TensorType& type) { return add(type, Place::input); }
  std::vector<int32_t> op(const std::string& name, const std::vector<int32_t>& inputs,
                          const std::string& kept, Attrs attrs = {}) {
    const OpDef& def = *op_registry().find(name);
    NodeSpec spec{.op = &def,
                  .inputs = {},
                  .outputs = {},
                  .attrs = complete_attrs(def, std::move(attrs), name)};
    for (const int32_t each : inputs) spec.inputs.add(at(each).type);
    spec.outputs = infer_types(def, spec.inputs, spec.attrs, name);
    std::vector<int32_t> outputs;
    for (size_t i = 0; i < spec.outputs.size(); ++i)
      outputs.push_back(add(spec.outputs[i], kept[i] == 'k' ? Place::output : Place::buffer));
    nodes_.push_back({std::move(spec), inputs, outputs});
    return outputs;
  }

  struct Times {
    double apart = 0;
    double together = 0;
    double copied = 0;    // the bytes that the program reads and writes
    double computed = 0;  // with operands in the caches
    bool are_equal = true;
  };
  // `near` is the same of so many times fewer rows.
  Times run(int rounds, Copy& copy, Chain& near, double times_fewer) {
    prepare();
    near.prepare();
    std::vector<double> apart;
    std::vector<double> together;
    std::vector<double> per_byte;
    std::vector<double> computed;
    Times times;
    for (int round = 0; round <= rounds; ++round) {
      const double alone = seconds_of_run(false);
      const std::vector<std::vector<std::byte>> want = kept();
      const double fused = seconds_of_run(true);
      if (round == 0) {
        times.are_equal = want == kept();
        continue;
      }
      apart.push_back(alone);
      together.push_back(fused);
      per_byte.push_back(copy.seconds_per_byte());
      computed.push_back(near.fastest_run(static_cast<int64_t>(times_fewer)) * times_fewer);
    }
    times.apart = median(apart);
    times.together = median(together);
    int64_t bytes = 0;
    for (const Value& value : values_) {
      if (value.place != Place::buffer) bytes += byte_count(value.type);
    }
    times.copied = static_cast<double>(bytes) * median(per_byte);
    times.computed = median(computed);
    return times;
  }
  // Whether there are rows enough for all threads.
  [[nodiscard]] bool is_program() const {
    RowProgram program;
    return std::all_of(nodes_.begin(), nodes_.end(),
                       [&](const Made& node) { return is_added(node, program); });
  }
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  struct Value {
    TensorType type;
    Place place;
    std::unique_ptr<MappedBlock> memory;
    int32_t number = 0;
  };
  struct Made {
    NodeSpec spec;
    std::vector<int32_t> inputs;
    std::vector<int32_t> outputs;
  };
  double seconds_of_run(bool is_together) {
    return seconds_of([&] {
      if (is_together) (void)program_->run(launch_);
      for (size_t i = 0; !is_together && i < nodes_.size(); ++i)
        (void)kernels_[i]->run(launches_[i]);
    });
  }
  // A short run may wait for a thread longer than it takes.
  double fastest_run(int64_t runs) {
    double fastest = seconds_of_run(true);
    for (int64_t run = 0; run < runs; ++run)
      fastest = std::min({fastest, seconds_of_run(true), seconds_of_run(false)});
    return fastest;
  }
  bool is_added(const Made& node, RowProgram& program) const {
    const std::vector<int64_t> read(node.inputs.begin(), node.inputs.end());
    const std::vector<int64_t> written(node.outputs.begin(), node.outputs.end());
    return program.add(backend_.select(node.spec).row_form, read, written);
  }
  Value& at(int32_t id) { return values_[static_cast<size_t>(id)]; }
  int32_t add(const TensorType& type, Place place) {
    values_.push_back({type, place,
                       std::make_unique<MappedBlock>(round_up(byte_count(type), kPageBytes)),
                       counts_[place]++});
    std::byte* data = values_.back().memory->data();
    if (type.dtype == DType::i64) {
      auto* keys = reinterpret_cast<int64_t*>(data);
      keys[0] = 11;
      keys[1] = 5;
      keys[2] = 40;
    } else if (type.dtype == DType::i32) {
      auto* ids = reinterpret_cast<int32_t*>(data);
      for (int64_t i = 0; i < element_count(type); ++i)
        ids[i] = static_cast<int32_t>(i * 7919 % kIds);
    } else {
      // Half, in f32 and, as two of them, in bf16.
      const uint32_t bits = type.dtype == DType::f32 ? 0x3F000000U : 0x3F003F00U;
      auto* words = reinterpret_cast<uint32_t*>(data);
      for (int64_t i = 0; i < byte_count(type) / 4; ++i)
        words[i] = bits + static_cast<uint32_t>(i * 2654435761U) % 0x4000U;
    }
    return static_cast<int32_t>(values_.size()) - 1;
  }

  void prepare() {
    int64_t most_scratch = 64;
    RowProgram program;
    int64_t scratch = 0;
    std::vector<RowNode> rows;
    for (const Made& node : nodes_) {
      RowNode row{.spec = node.spec, .inputs = {}, .outputs = {}};
      for (const int32_t id : node.inputs) row.inputs.push_back({at(id).place, at(id).number});
      for (const int32_t id : node.outputs) row.outputs.push_back({at(id).place, at(id).number});
      rows.push_back(std::move(row));
      const KernelChoice choice = backend_.select(node.spec);
      most_scratch = std::max(most_scratch, choice.scratch_bytes);
      if (!is_added(node, program)) {
        std::fprintf(stderr, "too few rows for so many threads: give more --rows\n");
        std::exit(2);
      }
      scratch += round_up(choice.row_form.scratch_bytes, RowProgram::kAlignment);
      kernels_.push_back(backend_.create(node.spec));
    }
    for (size_t i = 0; i < values_.size(); ++i) {
      if (values_[i].place == Place::buffer)
        scratch += program.buffer_bytes(static_cast<int64_t>(i));
    }
    scratch_ = std::make_unique<MappedBlock>(round_up(std::max(scratch, most_scratch), kPageBytes));
    for (const Made& node : nodes_) {
      std::vector<const std::byte*>& inputs = inputs_.emplace_back();
      std::vector<std::byte*>& outputs = outputs_.emplace_back();
      for (const int32_t id : node.inputs) inputs.push_back(at(id).memory->data());
      for (const int32_t id : node.outputs) outputs.push_back(at(id).memory->data());
    }
    for (size_t i = 0; i < nodes_.size(); ++i)
      launches_.push_back({inputs_[i], outputs_[i], scratch_->data()});
    for (const Value& value : values_) {
      if (value.place == Place::input) of_program_.push_back(value.memory->data());
      if (value.place == Place::output) made_.push_back(value.memory->data());
    }
    launch_ = {of_program_, made_, scratch_->data()};
    program_ = backend_.create_row_program(rows);
  }
  [[nodiscard]] std::vector<std::vector<std::byte>> kept() const {
    std::vector<std::vector<std::byte>> found;
    for (const Value& value : values_) {
      if (value.place == Place::output)
        found.emplace_back(
            value.memory->data(),
            value.memory->data() + std::min<int64_t>(byte_count(value.type), 1 << 16));
    }
    return found;
  }

  std::string name_;
  const Backend& backend_;
  std::map<Place, int32_t> counts_;
  std::vector<Value> values_;
  std::vector<Made> nodes_;
  std::vector<std::unique_ptr<Kernel>> kernels_;
  std::unique_ptr<Kernel> program_;
  std::unique_ptr<MappedBlock> scratch_;
  std::vector<std::vector<const std::byte*>> inputs_;
  std::vector<std::vector<std::byte*>> outputs_;
  std::vector<Launch> launches_;
  std::vector<const std::byte*> of_program_;
  std::vector<std::byte*> made_;
  Launch launch_;
};

struct Sizes {
  int64_t rows = 8192;
  int64_t columns = 768;
};
// A program is not faster than its limit but by what the measurement is worth.
constexpr double kMostOfLimit = 1.2;
// What statistics by 128 rows are whole for.
constexpr int64_t kRowsOfStatistics = 128;

// As few rows as keep all threads at work, so that they lie in the caches.
template <class Build>
std::pair<std::unique_ptr<Chain>, double> near_chain(const Sizes& sizes, const Build& build) {
  for (int64_t rows = kRowsOfStatistics;; rows *= 2) {
    const Sizes few{.rows = std::min(rows, sizes.rows), .columns = sizes.columns};
    std::unique_ptr<Chain> chain = build(few);
    if (few.rows == sizes.rows || chain->is_program())
      return {std::move(chain), static_cast<double>(sizes.rows) / static_cast<double>(few.rows)};
  }
}

const Attrs kDrop = {{"rate", 0.1}, {"ordinal", int64_t{2}}};
const Attrs kOverRows = {{"axes", std::vector<int64_t>{0, 1}}};

struct Program {
  const char* name;
  std::function<void(Chain&, DType, const Sizes&)> build;
  bool is_in_f32_only = false;
};

std::vector<Program> programs() {
  const auto wide = [](DType type, const Sizes& sizes, int64_t times = 1) {
    return TensorType{type, {sizes.rows / 128, 128, sizes.columns * times}};
  };
  const auto of_row = [](const Sizes& sizes) {
    return TensorType{DType::f32, {sizes.rows / 128, 128}};
  };
  const auto of_column = [](const Sizes& sizes) { return TensorType{DType::f32, {sizes.columns}}; };
  const TensorType keys{DType::i64, {3}};
  return {
      {"dropout, add, layer_norm",
       [=](Chain& c, DType t, const Sizes& s) {
         const int32_t x = c.input(wide(t, s));
         const int32_t r = c.input(wide(t, s));
         const int32_t rng = c.input(keys);
         const int32_t d = c.op("dropout", {x, rng}, "-", kDrop)[0];
         const int32_t sum = c.op("add", {d, r}, "k")[0];
         c.op("layer_norm", {sum, c.input(of_column(s)), c.input(of_column(s))}, "kkk");
       }},
      {"add, layer_norm",
       [=](Chain& c, DType t, const Sizes& s) {
         const int32_t sum = c.op("add", {c.input(wide(t, s)), c.input(wide(t, s))}, "k")[0];
         c.op("layer_norm", {sum, c.input(of_column(s)), c.input(of_column(s))}, "kkk");
       }},
      {"add, layer_norm_grad, dropout, reduce_sum",
       [=](Chain& c, DType t, const Sizes& s) {
         const int32_t dy = c.op("add", {c.input(wide(t, s)), c.input(wide(t, s))}, "-")[0];
         const auto g = c.op("layer_norm_grad",
                             {c.input(wide(t, s)), c.input(of_column(s)), c.input(of_row(s)),
                              c.input(of_row(s)), dy},
                             "kkk");
         const int32_t d = c.op("dropout", {g[0], c.input(keys)}, "k", kDrop)[0];
         c.op("reduce_sum", {d}, "k", kOverRows);
       }},
      {"layer_norm_grad, reduce_sum",
       [=](Chain& c, DType t, const Sizes& s) {
         const auto g = c.op("layer_norm_grad",
                             {c.input(wide(t, s)), c.input(of_column(s)), c.input(of_row(s)),
                              c.input(of_row(s)), c.input(wide(t, s))},
                             "kkk");
         c.op("reduce_sum", {g[0]}, "k", kOverRows);
       }},
      {"gelu_grad, reduce_sum",
       [=](Chain& c, DType t, const Sizes& s) {
         const int32_t d =
             c.op("gelu_grad", {c.input(wide(t, s, 4)), c.input(wide(t, s, 4))}, "k")[0];
         c.op("reduce_sum", {d}, "k", kOverRows);
       }},
      {"relu_grad, reduce_sum",
       [=](Chain& c, DType t, const Sizes& s) {
         const int32_t d =
             c.op("relu_grad", {c.input(wide(t, s, 4)), c.input(wide(t, s, 4))}, "k")[0];
         c.op("reduce_sum", {d}, "k", kOverRows);
       }},
      {"geglu, dropout",
       [=](Chain& c, DType t, const Sizes& s) {
         const int32_t y = c.op("geglu", {c.input(wide(t, s, 4))}, "-")[0];
         c.op("dropout", {y, c.input(keys)}, "k", kDrop);
       }},
      {"add, add, layer_norm_grad",
       [=](Chain& c, DType t, const Sizes& s) {
         const int32_t a = c.op("add", {c.input(wide(t, s)), c.input(wide(t, s))}, "-")[0];
         const int32_t dy = c.op("add", {a, c.input(wide(t, s))}, "-")[0];
         c.op("layer_norm_grad",
              {c.input(wide(t, s)), c.input(of_column(s)), c.input(of_row(s)), c.input(of_row(s)),
               dy},
              "kkk");
       }},
      {"sigmoid, mul, add",
       [=](Chain& c, DType t, const Sizes& s) {
         const int32_t x = c.input(wide(t, s));
         const int32_t gate = c.op("sigmoid", {x}, "-")[0];
         const int32_t y = c.op("mul", {gate, x}, "-")[0];
         c.op("add", {y, c.input(wide(t, s))}, "k");
       }},
      {"dropout, reduce_sum",
       [=](Chain& c, DType t, const Sizes& s) {
         const int32_t d = c.op("dropout", {c.input(wide(t, s)), c.input(keys)}, "k", kDrop)[0];
         c.op("reduce_sum", {d}, "k", kOverRows);
       }},
      {"mul, masked_softmax, dropout",
       [=](Chain& c, DType t, const Sizes& s) {
         const int32_t x = c.op("mul", {c.input(wide(t, s)), c.input({t, {1}})}, "-")[0];
         const int32_t mask = c.input({DType::boolean, {1, 1, s.columns}});
         const int32_t y = c.op("masked_softmax", {x, mask}, "k")[0];
         c.op("dropout", {y, c.input(keys)}, "k", kDrop);
       },
       true},
      {"dropout, softmax_grad, mul",
       [=](Chain& c, DType t, const Sizes& s) {
         const int32_t d = c.op("dropout", {c.input(wide(t, s)), c.input(keys)}, "-", kDrop)[0];
         const int32_t dx = c.op("softmax_grad", {c.input(wide(t, s)), d}, "-")[0];
         c.op("mul", {dx, c.input({t, {1}})}, "k");
       },
       true},
      {"embedding, add, layer_norm",
       [=](Chain& c, DType t, const Sizes& s) {
         const int32_t ids = c.input({DType::i32, {s.rows / 128, 128}});
         const int32_t x = c.op("embedding", {c.input({t, {kIds, s.columns}}), ids}, "-")[0];
         const int32_t sum = c.op("add", {x, c.input(wide(t, s))}, "k")[0];
         c.op("layer_norm", {sum, c.input(of_column(s)), c.input(of_column(s))}, "kkk");
       },
       true},
      {"softmax_cross_entropy, its gradient, reduce_sum",
       [=](Chain& c, DType t, const Sizes& s) {
         const int32_t z = c.input({t, {s.rows, s.columns}});
         const int32_t labels = c.input({DType::i32, {s.rows}});
         const int32_t weights = c.input({t, {s.rows}});
         const int32_t total = c.input({t, {}});
         const auto loss = c.op("softmax_cross_entropy", {z, labels, weights, total}, "k-");
         const int32_t d = c.op("softmax_cross_entropy_grad",
                                {z, labels, weights, total, loss[1], c.input({t, {}})}, "k")[0];
         c.op("reduce_sum", {d}, "k", {{"axes", std::vector<int64_t>{0}}});
       },
       true},
  };
}

int run(const std::vector<std::string>& words) {
  Sizes sizes;
  int threads = available_threads();
  int rounds = 9;
  double share = 0;
  for (size_t i = 0; i + 1 < words.size(); i += 2) {
    const int64_t value = std::atoll(words[i + 1].c_str());
    if (words[i] == "--rows")
      sizes.rows = value;
    else if (words[i] == "--columns")
      sizes.columns = value;
    else if (words[i] == "--threads")
      threads = static_cast<int>(value);
    else if (words[i] == "--rounds")
      rounds = static_cast<int>(value);
    else if (words[i] == "--share")
      share = std::atof(words[i + 1].c_str());
    else
      return std::fprintf(stderr, "unknown option %s\n", words[i].c_str()), 2;
  }
  if (sizes.rows < kRowsOfStatistics || sizes.rows % kRowsOfStatistics != 0)
    return std::fprintf(stderr, "--rows is a multiple of 128\n"), 2;
  const auto backend = make_cpu_backend({.threads = threads, .profile = default_profile()});
  Copy copy(threads);
  (void)copy.seconds_per_byte();  // its memory is there now
  std::printf("%lld rows of %lld, %d threads; a copy: %.1f GB/s\n\n",
              static_cast<long long>(sizes.rows), static_cast<long long>(sizes.columns), threads,
              1e-9 / copy.seconds_per_byte());
  std::printf(
      "| program | type | apart ms | together ms | speed-up | copy ms | arithmetic ms | of limit "
      "|\n|---|---|---|---|---|---|---|---|\n");
  bool are_equal = true;
  int slower = 0;
  int unclear = 0;
  for (const DType type : {DType::f32, DType::bf16}) {
    for (const Program& program : programs()) {
      if (program.is_in_f32_only && type != DType::f32) continue;
      Chain chain(program.name, *backend);
      program.build(chain, type, sizes);
      const auto [near, times_fewer] = near_chain(sizes, [&](const Sizes& few) {
        auto made = std::make_unique<Chain>(program.name, *backend);
        program.build(*made, type, few);
        return made;
      });
      const Chain::Times times = chain.run(rounds, copy, *near, times_fewer);
      are_equal = are_equal && times.are_equal;
      const double reached = std::max(times.copied, times.computed) / times.together;
      slower += reached < share ? 1 : 0;
      unclear += reached > kMostOfLimit ? 1 : 0;
      std::printf("| %s | %s | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f |%s\n", program.name,
                  to_string(type), times.apart * 1e3, times.together * 1e3,
                  times.apart / times.together, times.copied * 1e3, times.computed * 1e3, reached,
                  times.are_equal ? "" : " OTHER BITS");
    }
  }
  if (share == 0) return are_equal ? 0 : 1;
  std::printf("\n%d programs below %.2f of their limit\n", slower, share);
  if (unclear > 0)
    std::printf("%d above it: something else runs on this machine, so nothing is shown\n", unclear);
  return are_equal && slower == 0 && unclear == 0 ? 0 : 1;
}

}  // namespace
}  // namespace snug

int main(int argc, char** argv) { return snug::run({argv + 1, argv + argc}); }
