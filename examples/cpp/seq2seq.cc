// SPDX-License-Identifier: Apache-2.0
// An encoder and a decoder with cross-attention that learn to write a row of digits backwards.
//   ./seq2seq [memory [updates]]
#include <snug/snug.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>

namespace {

constexpr int64_t kRows = 32, kLength = 8, kWidth = 32, kHeads = 4;
constexpr int32_t kStart = 10, kWords = 11;

// Queries of one sequence over keys of another, head by head. `mask` broadcasts to (T, S).
snug::Tensor attend(snug::NetworkBuilder& b, const std::string& name, const snug::Tensor& x,
                    const snug::Tensor& memory, const snug::Tensor& mask) {
  const snug::Scope scope(b, name);
  const auto heads = [&](const snug::Tensor& y) {
    return transpose(reshape(y, {b.rows(), y.dim(1), kHeads, kWidth / kHeads}), {0, 2, 1, 3});
  };
  const snug::Tensor q = heads(linear(b, "query", x, kWidth));
  const snug::Tensor k = heads(linear(b, "key", memory, kWidth));
  const snug::Tensor v = heads(linear(b, "value", memory, kWidth));
  const snug::Tensor scores =
      (1 / std::sqrt(kWidth / kHeads)) * matmul(q, k, {.transpose_b = true});
  const snug::Tensor weights = mask ? masked_softmax(scores, mask) : softmax(scores);
  const snug::Tensor mixed = transpose(matmul(weights, v), {0, 2, 1, 3});
  return linear(b, "out", reshape(mixed, {b.rows(), x.dim(1), kWidth}), kWidth);
}

snug::Tensor feed_forward(snug::NetworkBuilder& b, const snug::Tensor& x) {
  const snug::Tensor inner = gelu(linear(b, "up", layer_norm(b, "norm3", x), 4 * kWidth));
  return x + dropout(linear(b, "down", inner, kWidth), 0.05);
}

snug::Tensor embed(snug::NetworkBuilder& b, const std::string& name, const snug::Tensor& ids) {
  const snug::Scope scope(b, name);
  const snug::Tensor places =
      b.parameter("places", {1, kLength, kWidth}, snug::InitRule::normal(0.1));
  return embedding(b, "words", ids, kWords, kWidth) + places;
}

void sequence_to_sequence(snug::NetworkBuilder& b) {
  const snug::Tensor everywhere;
  // Position t sees what was written before: the mask is part of the rows, the same for all.
  const snug::Tensor before = reshape(b.input("before", {kLength, kLength}, snug::DType::boolean),
                                      {b.rows(), 1, kLength, kLength});
  snug::Tensor x = embed(b, "source", b.input("digits", {kLength}, snug::DType::i32));
  for (int i = 0; i < 2; ++i) {
    const snug::Scope scope(b, "encoder." + std::to_string(i));
    const snug::Tensor y = layer_norm(b, "norm1", x);
    x = feed_forward(b, x + attend(b, "self", y, y, everywhere));
  }
  const snug::Tensor memory = layer_norm(b, "memory", x);
  snug::Tensor y = embed(b, "target", b.input("written", {kLength}, snug::DType::i32));
  for (int i = 0; i < 2; ++i) {
    const snug::Scope scope(b, "decoder." + std::to_string(i));
    const snug::Tensor own = layer_norm(b, "norm1", y);
    y = y + attend(b, "self", own, own, before);
    y = feed_forward(b, y + attend(b, "cross", layer_norm(b, "norm2", y), memory, everywhere));
  }
  const snug::Tensor logits = linear(b, "digit", layer_norm(b, "last", y), kWords);
  b.output("logits", logits);
  b.minimize(cross_entropy(b, logits, b.input("next", {kLength}, snug::DType::i32)));
}

struct Digits {
  std::vector<int32_t> digits, written, next;
  std::vector<uint8_t> before;
  explicit Digits(std::mt19937& random) {
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t t = 0; t < kLength; ++t) digits.push_back(static_cast<int32_t>(random() % 10));
      for (int64_t t = 0; t < kLength; ++t) {
        next.push_back(digits[static_cast<size_t>((row + 1) * kLength - 1 - t)]);
        written.push_back(t == 0 ? kStart : next[next.size() - 2]);
        for (int64_t s = 0; s < kLength; ++s) before.push_back(s <= t ? 1 : 0);
      }
    }
  }
  snug::Rows rows() const {
    snug::Rows rows(kRows);
    rows.add("digits", std::span(digits)).add("written", std::span(written));
    return rows.add("next", std::span(next)).add("before", std::span(before));
  }
};

}  // namespace

int main(int argc, char** argv) try {
  const int updates = argc > 2 ? std::atoi(argv[2]) : 200;
  snug::Session session({"seq2seq", sequence_to_sequence},
                        {.batch_rows = kRows,
                         .memory = snug::parse_memory(argc > 1 ? argv[1] : "8MiB"),
                         .micro_batch_size = 8,
                         .learning_rate = 3e-3,
                         .max_grad_norm = 1});
  std::printf("%s\n", session.plan().to_text().c_str());
  std::mt19937 random(1);
  for (int i = 0; i < updates; ++i) {
    const snug::StepResult step = session.step(Digits(random).rows());
    if (step.update % 50 == 0)
      std::printf("update %lld: loss %.4f\n", static_cast<long long>(step.update), step.loss);
  }
  const Digits unseen(random);
  const snug::Evaluation found = session.evaluate(unseen.rows());
  std::printf("unseen digits: loss %.9g\n", found.loss);
  std::printf("planned arena %lld, measured %lld bytes\n",
              static_cast<long long>(session.plan().arena_bytes),
              static_cast<long long>(session.measured_arena_bytes()));
  return argc > 2 || found.loss < 0.5 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
