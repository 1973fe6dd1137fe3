// SPDX-License-Identifier: Apache-2.0
// Two towers and a contrastive loss: every question is to be nearer to its own answer than to the
// answers of all other rows of the batch. So the rows are coupled: the batch is not split.
//   ./two_towers [memory [updates]]
#include <snug/snug.h>

#include <cstdio>
#include <cstdlib>
#include <random>

namespace {

constexpr int64_t kRows = 32, kFeatures = 24, kWidth = 32;
constexpr double kSharpness = 10;

// Unit vectors.
snug::Tensor tower(snug::NetworkBuilder& b, const std::string& name, const snug::Tensor& x) {
  const snug::Scope scope(b, name);
  const snug::Tensor hidden = gelu(layer_norm(b, "norm", linear(b, "in", x, 4 * kWidth)));
  const snug::Tensor y = linear(b, "out", hidden, kWidth);
  return y * rsqrt(reduce_sum(y * y, {1}, true) + snug::fill(b, 1e-6, {}));
}

void two_towers(snug::NetworkBuilder& b) {
  const snug::Tensor question = tower(b, "question", b.input("question", {kFeatures}));
  const snug::Tensor answer = tower(b, "answer", b.input("answer", {kFeatures}));
  b.output("question_vector", question);
  b.output("answer_vector", answer);
  if (!b.training()) return;  // vectors of single rows are what is used afterwards
  b.couples_rows("compares every row with every other");
  const snug::Tensor all = kSharpness * matmul(question, answer, {.transpose_b = true});
  const snug::Tensor own = kSharpness * reduce_sum(question * answer, {1});
  b.minimize(b.weighted_mean(log(reduce_sum(exp(all), {1})) - own));
}

struct Pairs {
  std::vector<float> question, answer;
  explicit Pairs(std::mt19937& random) {
    const auto draw = [&] { return (static_cast<float>(random() % 2001) - 1000) * 0.0017F; };
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t i = 0; i < kFeatures; ++i) question.push_back(draw());
      const float* own = question.data() + row * kFeatures;
      for (int64_t i = 0; i < kFeatures; ++i)  // the same, turned around and mixed
        answer.push_back(own[kFeatures - 1 - i] - 0.5F * own[i] + 0.1F * draw());
    }
  }
  snug::Rows rows() const {
    snug::Rows rows(kRows);
    return rows.add("question", std::span(question)).add("answer", std::span(answer));
  }
};

}  // namespace

int main(int argc, char** argv) try {
  const int updates = argc > 2 ? std::atoi(argv[2]) : 300;
  snug::Session session({"two_towers", two_towers},
                        {.batch_rows = kRows,
                         .memory = snug::parse_memory(argc > 1 ? argv[1] : "8MiB"),
                         .learning_rate = 2e-3});
  std::printf("%s\n", session.plan().to_text().c_str());
  std::mt19937 random(1);
  for (int i = 0; i < updates; ++i) {
    const snug::StepResult step = session.step(Pairs(random).rows());
    if (step.update % 50 == 0)
      std::printf("update %lld: loss %.4f\n", static_cast<long long>(step.update), step.loss);
  }
  const Pairs unseen(random);
  std::vector<float> questions, answers;
  session.predict(unseen.rows(), [&](const snug::OutputRows& out) {
    const auto q = out.values.at("question_vector"), a = out.values.at("answer_vector");
    questions.insert(questions.end(), q.begin(), q.end());
    answers.insert(answers.end(), a.begin(), a.end());
  });
  int found = 0;
  for (int64_t row = 0; row < kRows; ++row) {
    int64_t best = 0;
    float nearest = -2;
    for (int64_t other = 0; other < kRows; ++other) {
      float product = 0;
      for (int64_t i = 0; i < kWidth; ++i)
        product += questions[static_cast<size_t>(row * kWidth + i)] *
                   answers[static_cast<size_t>(other * kWidth + i)];
      if (product > nearest) nearest = product, best = other;
    }
    found += best == row;
  }
  std::printf("unseen rows: %d of %lld questions find their answer, first value %.9g\n", found,
              static_cast<long long>(kRows), static_cast<double>(questions[0]));
  std::printf("planned arena %lld, measured %lld bytes\n",
              static_cast<long long>(session.plan().arena_bytes),
              static_cast<long long>(session.measured_arena_bytes()));
  return argc > 2 || found >= kRows * 3 / 4 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
