// SPDX-License-Identifier: Apache-2.0
// Two sessions in two threads, each with a network of its own: both plan, train, save as they go,
// are cancelled from a third thread, resume from what they saved under another budget, and read
// their weights by name. The weights must be those of a single session that nothing ever stopped.
//   ./two_sessions [threads of each session]
#include <snug/snug.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <map>
#include <random>
#include <stdexcept>
#include <thread>

namespace {

constexpr int64_t kRows = 24, kFeatures = 10, kClasses = 3;
constexpr int64_t kUpdatesAfter = 5;       // of a resumed session
constexpr int64_t kMostUpdates = 100'000;  // before somebody has cancelled them

using Tensors = std::map<std::string, std::vector<float>>;

void require(bool is_so, const std::string& what) {
  if (!is_so) throw std::runtime_error(what);
}

snug::Network network_of(int64_t width) {
  return {"blocks", [width](snug::NetworkBuilder& b) {
            snug::Tensor x = linear(b, "in", b.input("x", {kFeatures}), width);
            for (int i = 0; i < 4; ++i) {
              const snug::Scope scope(b, "block." + std::to_string(i));
              const snug::Tensor up = gelu(linear(b, "up", layer_norm(b, "norm", x), 2 * width));
              x = x + dropout(linear(b, "down", up, width), 0.1);
            }
            const snug::Tensor logits = linear(b, "out", x, kClasses);
            b.output("logits", logits);
            b.minimize(cross_entropy(b, logits, b.input("label", {}, snug::DType::i32)));
          }};
}

// The batch of an update: a function of its number, so that a resumed run sees the same rows.
struct Batch {
  std::vector<float> x;
  std::vector<int32_t> label;
  explicit Batch(int64_t update) {
    for (int64_t row = update * kRows; row < (update + 1) * kRows; ++row) {
      for (int64_t i = 0; i < kFeatures; ++i)
        x.push_back(static_cast<float>(std::sin(1.7 * static_cast<double>(row * kFeatures + i))));
      label.push_back(static_cast<int32_t>(row % kClasses));
    }
  }
  snug::Rows rows() const {
    snug::Rows rows(kRows);
    return rows.add("x", std::span(x)).add("label", std::span(label));
  }
};

void step(snug::Session& session) { (void)session.step(Batch(session.updates()).rows()); }

Tensors tensors_of(const snug::Session& session) {
  Tensors tensors;
  for (const snug::TensorInfo& tensor : session.tensors())
    tensors[tensor.name] = session.read(tensor.name);
  return tensors;
}

template <class Work>
bool is_cancelled(const Work& work) {
  try {
    work();
  } catch (const snug::Error& error) {
    if (error.code() != snug::ErrorCode::cancelled) throw;
    return true;
  }
  return false;
}

struct Learner {
  snug::Network network;
  std::string folder;
  snug::SessionOptions options;
  std::atomic<bool> stop{false};
  std::atomic<int64_t> updates{0};

  Learner(int64_t width, int64_t seed, int64_t threads, std::string saved)
      : network(network_of(width)), folder(std::move(saved)) {
    options = {.batch_rows = kRows,
               .memory = snug::parse_memory("1GiB"),
               .micro_batch_size = 8,
               .max_grad_norm = 1,
               .seed = seed,
               .threads = threads};
  }

  Tensors learn_and_be_stopped() {
    std::atomic<bool> enough{false};
    snug::SessionOptions own = options;
    own.cancel = &enough;
    own.on_planning = [&](int64_t, int64_t, const char*) { enough = true; };
    require(is_cancelled([&] { (void)plan_network(network, own); }), "planning was not cancelled");

    own = options;
    own.memory.bytes = plan_network(network, own).smallest_budget_bytes;
    own.cancel = &stop;
    int64_t saved = 0;
    {
      snug::Session session(network, own);
      const Tensors before = tensors_of(session);
      while (!is_cancelled([&] { step(session); })) {
        require(session.updates() < kMostUpdates, "nobody cancelled the updates");
        if (session.updates() % 2 == 1) session.save(folder), saved = session.updates();
        updates = session.updates();
      }
      require(tensors_of(session) != before, "the weights did not move");
    }
    stop = false;
    own.memory.bytes = options.memory.bytes;
    snug::Session session = snug::Session::resume(network, folder, own);
    require(session.updates() == saved, "another update was resumed than was saved");
    for (int64_t i = 0; i < kUpdatesAfter; ++i) step(session);
    require(std::isfinite(session.evaluate(Batch(0).rows()).loss), "the loss is not finite");
    updates = session.updates();
    return tensors_of(session);
  }

  Tensors learn_alone() const {
    snug::Session session(network, options);
    while (session.updates() < updates) step(session);
    return tensors_of(session);
  }
};

struct Folder {
  std::filesystem::path path = std::filesystem::temp_directory_path() /
                               ("snug-two-" + std::to_string(std::random_device{}()));
  Folder() { std::filesystem::create_directory(path); }
  ~Folder() { std::filesystem::remove_all(path); }
};

}  // namespace

int main(int argc, char** argv) try {
  const int64_t threads = argc > 1 ? std::atoi(argv[1]) : 1;
  const Folder folder;
  Learner learners[] = {{32, 1, threads, folder.path / "first"},
                        {48, 2, threads, folder.path / "second"}};
  std::future<Tensors> found[2];
  for (int i = 0; i < 2; ++i)
    found[i] = std::async(std::launch::async, &Learner::learn_and_be_stopped, &learners[i]);
  const auto is_done = [&](int i) {
    return learners[i].updates >= 3 ||
           found[i].wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  };
  while (!is_done(0) || !is_done(1)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  for (Learner& learner : learners) learner.stop = true;
  const Tensors resumed[] = {found[0].get(), found[1].get()};
  for (int i = 0; i < 2; ++i) {
    require(resumed[i] == learners[i].learn_alone(),
            "session " + std::to_string(i) + ": other bits than alone and unstopped");
    std::printf("session %d: %lld updates in two runs, %zu tensors equal those of a single run\n",
                i, static_cast<long long>(learners[i].updates), resumed[i].size());
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
