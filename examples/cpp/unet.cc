// SPDX-License-Identifier: Apache-2.0
// A U-Net that finds discs in noisy pictures, which this program draws: segmentation, pixel by
// pixel.
//   ./unet [memory [updates]]
#include <snug/snug.h>

#include <cstdio>
#include <cstdlib>
#include <random>

namespace {

constexpr int64_t kSide = 32;
constexpr int64_t kRows = 16;

snug::Tensor two_convolutions(snug::NetworkBuilder& b, const std::string& name,
                              const snug::Tensor& x, int64_t channels) {
  const snug::Scope scope(b, name);
  return relu(conv2d(b, "conv2", relu(conv2d(b, "conv1", x, channels)), channels));
}

void unet(snug::NetworkBuilder& b) {
  const snug::Tensor picture = b.input("picture", {kSide, kSide, 1});
  const snug::Tensor level1 = two_convolutions(b, "down.1", picture, 8);
  const snug::Tensor level2 = two_convolutions(b, "down.2", max_pool2d(level1), 16);
  const snug::Tensor bottom = two_convolutions(b, "bottom", max_pool2d(level2), 32);
  const snug::Tensor up2 =
      two_convolutions(b, "up.2", snug::concat({upsample_nearest(bottom, 2), level2}, 3), 16);
  const snug::Tensor up1 =
      two_convolutions(b, "up.1", snug::concat({upsample_nearest(up2, 2), level1}, 3), 8);
  const snug::Tensor logits = conv2d(b, "classes", up1, 2, {.kernel = 1, .padding = 0});
  b.output("logits", logits);
  b.minimize(cross_entropy(b, logits, b.input("class", {kSide, kSide}, snug::DType::i32)));
}

struct Pictures {
  std::vector<float> pixels;
  std::vector<int32_t> classes;
  explicit Pictures(std::mt19937& random) {
    const auto draw = [&](int below) {
      return static_cast<int>(random() % static_cast<unsigned>(below));
    };
    for (int64_t row = 0; row < kRows; ++row) {
      const int64_t x = 6 + draw(20), y = 6 + draw(20), radius = 3 + draw(6);
      for (int64_t i = 0; i < kSide * kSide; ++i) {
        const int64_t dx = i % kSide - x, dy = i / kSide - y;
        const bool is_disc = dx * dx + dy * dy <= radius * radius;
        pixels.push_back((is_disc ? 0.8F : 0.2F) + static_cast<float>(draw(1000)) * 0.0006F);
        classes.push_back(is_disc ? 1 : 0);
      }
    }
  }
  snug::Rows rows() const {
    snug::Rows rows(kRows);
    return rows.add("picture", std::span(pixels)).add("class", std::span(classes));
  }
};

}  // namespace

int main(int argc, char** argv) try {
  const int updates = argc > 2 ? std::atoi(argv[2]) : 120;
  snug::Session session({"unet", unet}, {.batch_rows = kRows,
                                         .memory = snug::parse_memory(argc > 1 ? argv[1] : "8MiB"),
                                         .micro_batch_size = 4,
                                         .learning_rate = 5e-3});
  std::printf("%s\n", session.plan().to_text().c_str());
  std::mt19937 random(1);
  for (int i = 0; i < updates; ++i) {
    const Pictures pictures(random);
    const snug::StepResult step = session.step(pictures.rows());
    if (step.update % 20 == 0)
      std::printf("update %lld: loss %.4f\n", static_cast<long long>(step.update), step.loss);
  }
  const Pictures unseen(random);
  int64_t right = 0, at = 0;
  const snug::Evaluation found = session.evaluate(unseen.rows(), [&](const snug::OutputRows& out) {
    const std::span<const float> logits = out.values.at("logits");
    for (size_t i = 0; i < logits.size(); i += 2, ++at)
      right += (logits[i + 1] > logits[i]) == (unseen.classes[static_cast<size_t>(at)] == 1);
  });
  std::printf("unseen pictures: loss %.9g, %.2f %% of the pixels are right\n", found.loss,
              100.0 * static_cast<double>(right) / static_cast<double>(at));
  std::printf("planned arena %lld, measured %lld bytes\n",
              static_cast<long long>(session.plan().arena_bytes),
              static_cast<long long>(session.measured_arena_bytes()));
  return argc > 2 || 100 * right > 97 * at ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
