// SPDX-License-Identifier: Apache-2.0
// An encoder and a decoder with cross-attention that learn to write the odd digits of a row
// backwards. What is read and what is written have lengths of their own.
//   ./seq2seq [memory [updates]]
#include <snug/snug.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>

namespace {

constexpr int64_t kRows = 32, kLongest = 8, kWidth = 32, kHeads = 4;
constexpr int32_t kStart = 10, kEnd = 11, kWords = 12, kNothing = -100;

// Queries of one sequence over keys of another, head by head, where `mask` (rows, 1, T or 1, S)
// lets them look.
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
  const snug::Tensor mixed = transpose(matmul(masked_softmax(scores, mask), v), {0, 2, 1, 3});
  return linear(b, "out", reshape(mixed, {b.rows(), x.dim(1), kWidth}), kWidth);
}

snug::Tensor feed_forward(snug::NetworkBuilder& b, const snug::Tensor& x) {
  const snug::Tensor inner = gelu(linear(b, "up", layer_norm(b, "norm3", x), 4 * kWidth));
  return x + dropout(linear(b, "down", inner, kWidth), 0.05);
}

snug::Tensor embed(snug::NetworkBuilder& b, const std::string& name, const snug::Tensor& ids) {
  const snug::Scope scope(b, name);
  const snug::Tensor places =
      b.parameter("places", {1, kLongest + 1, kWidth}, snug::InitRule::normal(0.1));
  return embedding(b, "words", ids, kWords, kWidth) + slice(places, 1, 0, ids.dim(1));
}

void sequence_to_sequence(snug::NetworkBuilder& b) {
  const snug::Length source = b.length("source"), target = b.length("target");
  const snug::Tensor is_digit =
      reshape(b.input("is_digit", {source}, snug::DType::boolean), {b.rows(), 1, 1, source});
  // A place sees what was written before it. Places are below 0: what fills a row up is behind all.
  const snug::Tensor place = b.input("place", {target}, snug::DType::i32);
  const snug::Tensor before = greater_equal(reshape(place, {b.rows(), 1, target, 1}),
                                            reshape(place, {b.rows(), 1, 1, target}));
  snug::Tensor x = embed(b, "source", b.input("digits", {source}, snug::DType::i32));
  for (int i = 0; i < 2; ++i) {
    const snug::Scope scope(b, "encoder." + std::to_string(i));
    const snug::Tensor y = layer_norm(b, "norm1", x);
    x = feed_forward(b, x + attend(b, "self", y, y, is_digit));
  }
  const snug::Tensor memory = layer_norm(b, "memory", x);
  snug::Tensor y = embed(b, "target", b.input("written", {target}, snug::DType::i32));
  for (int i = 0; i < 2; ++i) {
    const snug::Scope scope(b, "decoder." + std::to_string(i));
    const snug::Tensor own = layer_norm(b, "norm1", y);
    y = y + attend(b, "self", own, own, before);
    y = feed_forward(b, y + attend(b, "cross", layer_norm(b, "norm2", y), memory, is_digit));
  }
  const snug::Tensor logits = linear(b, "digit", layer_norm(b, "last", y), kWords);
  b.output("logits", logits);
  b.minimize(cross_entropy(b, logits, b.input("next", {target}, snug::DType::i32)));
}

// Rows of different lengths, filled up to the longest of them.
struct Digits {
  int64_t source = 1, target = 1;  // the longest
  std::vector<int32_t> digits, written, next, place;
  std::vector<uint8_t> is_digit;
  explicit Digits(std::mt19937& random) {
    std::vector<std::vector<int32_t>> read(kRows), odd(kRows);
    const auto longest = static_cast<int64_t>(2 + random() % (kLongest - 1));
    for (size_t row = 0; row < read.size(); ++row) {
      read[row].resize(1 + random() % static_cast<size_t>(longest));
      for (int32_t& digit : read[row]) digit = static_cast<int32_t>(random() % 10);
      std::copy_if(read[row].rbegin(), read[row].rend(), std::back_inserter(odd[row]),
                   [](int32_t digit) { return digit % 2 == 1; });
      odd[row].push_back(kEnd);
      source = std::max(source, static_cast<int64_t>(read[row].size()));
      target = std::max(target, static_cast<int64_t>(odd[row].size()));
    }
    for (size_t row = 0; row < read.size(); ++row) {
      for (size_t t = 0; t < static_cast<size_t>(source); ++t) {
        is_digit.push_back(t < read[row].size() ? 1 : 0);
        digits.push_back(t < read[row].size() ? read[row][t] : 0);
      }
      for (size_t t = 0; t < static_cast<size_t>(target); ++t) {
        written.push_back(t == 0 ? kStart : t <= odd[row].size() ? odd[row][t - 1] : kEnd);
        next.push_back(t < odd[row].size() ? odd[row][t] : kNothing);
        place.push_back(static_cast<int32_t>(t) - static_cast<int32_t>(kLongest) - 1);
      }
    }
  }
  snug::Rows rows() const {
    snug::Rows rows(kRows, {{"source", source}, {"target", target}});
    rows.add("digits", std::span(digits)).add("is_digit", std::span(is_digit));
    rows.add("written", std::span(written)).add("place", std::span(place));
    return rows.add("next", std::span(next));
  }
};

}  // namespace

int main(int argc, char** argv) try {
  const int updates = argc > 2 ? std::atoi(argv[2]) : 400;
  snug::Session session(
      {"seq2seq", sequence_to_sequence},
      {.batch_rows = kRows,
       .memory = snug::parse_memory(argc > 1 ? argv[1] : "8MiB"),
       .micro_batch_size = 8,
       .lengths = snug::every_combination({{"source", {4, 8}}, {"target", {4, kLongest + 1}}}),
       .learning_rate = 3e-3,
       .max_grad_norm = 1});
  std::printf("%s\n", session.plan().to_text().c_str());
  std::mt19937 random(1);
  for (int i = 0; i < updates; ++i) {
    const Digits digits(random);
    const snug::StepResult step = session.step(digits.rows());
    if (step.update % 50 == 0)
      std::printf("update %lld: loss %.4f, %lld digits read, %lld written\n",
                  static_cast<long long>(step.update), step.loss,
                  static_cast<long long>(digits.source), static_cast<long long>(digits.target));
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
