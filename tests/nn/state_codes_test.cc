// SPDX-License-Identifier: Apache-2.0
// Optimizer states in 8 bits: bitsandbytes' codes and one update against the package
// (tests/golden/state_codes.safetensors, written by tools/golden/state_codes.py); the adaptive
// codec's vectors against its plain version, its precision, and that it rounds without a bias.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "backend/cpu/one_kernel_test.h"
#include "base/philox.h"
#include "nn/golden.h"
#include "ops/optimizer/codec_cpu.h"
#include "ops/optimizer/optimizer_codec.h"
#include "ops/optimizer/optimizer_step.h"

namespace snug {
namespace {

const io::SafetensorsFile& golden_file() {
  static const io::SafetensorsFile file(SNUG_SOURCE_DIR "/tests/golden/state_codes.safetensors");
  return file;
}
std::vector<double> golden(const std::string& name) { return read_golden(golden_file(), name); }
// Codes, which are no floating-point tensors of the file.
std::vector<double> golden_codes(const std::string& name) {
  std::vector<std::byte> bytes(static_cast<size_t>(golden_file().find(name)->size_bytes()));
  golden_file().read(name, bytes.data(), static_cast<int64_t>(bytes.size()));
  std::vector<double> codes;
  for (const std::byte code : bytes) codes.push_back(static_cast<double>(code));
  return codes;
}

std::vector<float> floats(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

class Bnb_codes : public testing::TestWithParam<bool> {};

TEST_P(Bnb_codes, are_those_of_the_package) {
  const bool is_signed = GetParam();
  const std::string name = is_signed ? "signed/" : "unsigned/";
  const std::array<float, 256>& map = dynamic_map(is_signed);
  EXPECT_EQ(floats(golden(name + "map")), std::vector<float>(map.begin(), map.end()));
  const std::vector<float> values = floats(golden(name + "values"));
  const std::vector<float> scales = floats(golden(name + "scales"));
  const std::vector<float> decoded = floats(golden(name + "decoded"));
  const std::vector<double> wanted = golden_codes(name + "codes");
  const StateForm form{StateCodec::bnb, !is_signed};
  for (size_t begin = 0; begin < values.size(); begin += kStateBlock) {
    const size_t count = std::min<size_t>(kStateBlock, values.size() - begin);
    std::array<uint8_t, kStateBlock> codes{};
    const float scale =
        encode_states(form, std::span(values).subspan(begin, count), 0, codes.data());
    EXPECT_EQ(scale, scales[begin / kStateBlock]);
    std::array<float, kStateBlock> back{};
    decode_states(form, scale, std::span(codes).first(count), back.data());
    for (size_t i = 0; i < count; ++i) {
      ASSERT_EQ(codes[i], wanted[begin + i]) << "element " << begin + i;
      ASSERT_EQ(back[i], decoded[begin + i]) << "element " << begin + i;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Maps, Bnb_codes, testing::Bool());

TEST(Bnb_codes, one_update_from_equal_states_is_that_of_the_package) {
  const Shape shape = golden_file().find("update/w")->shape;
  const Shape blocks = golden_file().find("update/m.scales")->shape;
  OneKernel one("adamw_8bit", {{"beta1", 0.9},
                               {"beta2", 0.999},
                               {"eps", 1e-8},
                               {"weight_decay", 0.01},
                               {"codec", std::string("bnb")}});
  one.add({DType::f32, shape}, golden("update/w")).add({DType::f32, shape}, golden("update/g"));
  for (const std::string role : {"m", "v"})
    one.add({DType::u8, shape}, golden_codes("update/" + role + ".codes"))
        .add({DType::f32, blocks}, golden("update/" + role + ".scales"));
  constexpr double kStep = 3;
  one.add({DType::i64, {3}}, {0, kStep - 1, 0});
  one.add({DType::f32, {4}}, {1e-3, 1 - std::pow(0.9, kStep), 1 - std::pow(0.999, kStep), 0});
  const KernelOutputs after = run_on_cpu(one.add_absent(), 2);
  ASSERT_EQ(after.size(), 5u);
  const std::vector<double> weights = golden("update/after.w");
  for (size_t i = 0; i < weights.size(); ++i) ASSERT_NEAR(after[0][i], weights[i], 3e-7) << i;
  size_t output = 1;
  for (const std::string role : {"m", "v"}) {
    const std::vector<double> codes = golden_codes("update/after." + role + ".codes");
    const std::vector<double> scales = golden("update/after." + role + ".scales");
    size_t different = 0;
    for (size_t i = 0; i < codes.size(); ++i) {
      const double off = std::abs(after[output][i] - codes[i]);
      ASSERT_LE(off, 1) << role << " element " << i;
      different += off > 0 ? 1 : 0;
    }
    EXPECT_LE(static_cast<double>(different), 1e-4 * static_cast<double>(codes.size())) << role;
    for (size_t i = 0; i < scales.size(); ++i)
      EXPECT_NEAR(after[output + 1][i], scales[i], 1e-6 * scales[i]) << role;
    output += 2;
  }
}

// Numbers of a block: N(0, 1) times factors that span so many decades.
std::vector<float> block_of(double decades, size_t count, uint64_t seed) {
  PhiloxStream random(seed);
  std::vector<float> values(count);
  for (float& value : values)
    value = static_cast<float>(random.normal() * std::pow(10, -decades * random.uniform()));
  return values;
}

std::vector<std::vector<float>> odd_blocks() {
  std::vector<std::vector<float>> blocks;
  for (const double decades : {0.0, 0.5, 1.0, 2.0, 3.0, 5.0, 9.0})
    blocks.push_back(block_of(decades, kStateBlock, blocks.size()));
  blocks.push_back(block_of(1, 77, 20));
  blocks.push_back(block_of(2, 1, 21));
  blocks.emplace_back(kStateBlock, 0.0F);
  std::vector<float> sparse(kStateBlock, 0.0F);
  sparse[200] = -3e-5F;
  sparse[3] = 1.0F;
  blocks.push_back(sparse);
  for (const float factor : {1e-30F, 1e-38F, 1e30F}) {
    blocks.push_back(block_of(1, kStateBlock, 30));
    for (float& value : blocks.back()) value *= factor;
  }
  return blocks;
}

TEST(Adaptive_codes, of_vectors_are_those_of_the_plain_version) {
  for_each_target([](const std::string& target) {
    SCOPED_TRACE(target);
    for (const bool is_square : {false, true}) {
      const StateForm form{StateCodec::adaptive, is_square};
      const StateCoder coder = state_coder(form);
      for (std::vector<float> values : odd_blocks()) {
        const size_t count = values.size();
        if (is_square)
          for (float& value : values) value *= value;
        std::array<uint8_t, kStateBlock> wanted{};
        const float scale = encode_states(form, values, 12345, wanted.data());
        std::array<uint8_t, kStateBlock> codes{};
        std::array<float, kStateBlock> numbers{};
        std::copy(values.begin(), values.end(), numbers.begin());
        const auto elements = static_cast<int64_t>(count);
        EXPECT_EQ(coder.encode(numbers.data(), elements, 12345, codes.data()), scale);
        EXPECT_EQ(codes, wanted);
        std::array<float, kStateBlock> back{};
        std::array<float, kStateBlock> plain{};
        coder.decode(scale, codes.data(), elements, back.data());
        decode_states(form, scale, std::span(wanted).first(count), plain.data());
        for (size_t i = 0; i < count; ++i)
          ASSERT_EQ(std::bit_cast<uint32_t>(back[i]), std::bit_cast<uint32_t>(plain[i])) << i;
      }
    }
  });
}

// A step of the codes at the number, and more bits of exponent for what spans more.
TEST(Adaptive_codes, keep_the_relative_precision_of_what_is_far_below_the_largest) {
  for (const bool is_square : {false, true}) {
    int fraction_bits = 8;
    for (const double decades : {0.0, 2.0, 5.0}) {
      std::vector<float> values = block_of(decades, kStateBlock, 5);
      if (is_square)
        for (float& value : values) value = std::fabs(value);
      std::array<uint8_t, kStateBlock> codes{};
      const StateForm form{StateCodec::adaptive, is_square};
      const float scale = encode_states(form, values, 99, codes.data());
      const AdaptiveFormat format = adaptive_format(is_square, scale);
      EXPECT_LE(format.fraction_bits, fraction_bits) << decades;
      EXPECT_GE(format.fraction_bits, decades == 0 ? 5 : 3);
      fraction_bits = format.fraction_bits;
      std::array<float, kStateBlock> back{};
      decode_states(form, scale, codes, back.data());
      for (size_t i = 0; i < values.size(); ++i)
        EXPECT_LE(std::fabs(back[i] - values[i]),
                  std::ldexp(std::max(std::fabs(values[i]), format.subnormal), -fraction_bits))
            << is_square << " " << decades << " " << i;
    }
    EXPECT_EQ(fraction_bits, 3);
  }
}

TEST(Adaptive_codes, what_lies_on_the_grid_is_never_rounded_again) {
  const StateForm form{StateCodec::adaptive, false};
  std::vector<float> values = block_of(1, kStateBlock, 6);
  std::array<uint8_t, kStateBlock> codes{};
  float scale = encode_states(form, values, 7, codes.data());
  decode_states(form, scale, codes, values.data());
  std::array<uint8_t, kStateBlock> again{};
  for (const uint32_t dither : {0u, 0x80000000u, 0xFFFFFFFFu}) {
    EXPECT_EQ(encode_states(form, values, dither, again.data()), scale);
    EXPECT_EQ(again, codes);
  }
}

// A state that decays by a thousandth an update: rounding to the nearest would hold it still.
TEST(Adaptive_codes, move_on_the_average_by_what_a_state_moves) {
  const StateForm form{StateCodec::adaptive, true};
  std::vector<float> values(kStateBlock);
  PhiloxStream random(8);
  for (float& value : values) value = static_cast<float>(0.5 + random.uniform());
  const std::vector<float> begin = values;
  constexpr int kUpdates = 1000;
  constexpr float kKeep = 0.999F;
  for (int update = 0; update < kUpdates; ++update) {
    for (float& value : values) value *= kKeep;
    std::array<uint8_t, kStateBlock> codes{};
    const float scale = encode_states(form, values, state_dither(update, 1), codes.data());
    decode_states(form, scale, codes, values.data());
  }
  double ratio = 0;
  for (size_t i = 0; i < values.size(); ++i) ratio += static_cast<double>(values[i] / begin[i]);
  EXPECT_NEAR(ratio / kStateBlock, std::pow(0.999, kUpdates), 0.01);
}

TEST(State_codes, of_what_is_not_finite_show_it_in_the_scale) {
  for (const StateCodec codec : {StateCodec::adaptive, StateCodec::bnb}) {
    for (const float bad :
         {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
          std::numeric_limits<float>::quiet_NaN()}) {
      std::vector<float> values = block_of(1, kStateBlock, 9);
      values[100] = bad;
      std::array<uint8_t, kStateBlock> codes{};
      EXPECT_FALSE(std::isfinite(encode_states({codec, false}, values, 1, codes.data())));
      EXPECT_FALSE(std::isfinite(
          state_coder({codec, false}).encode(values.data(), kStateBlock, 1, codes.data())));
    }
  }
}

// The changes of weights over 50 updates with states in f32 and in 8 bits, where the gradients of a
// block span four decades: where bitsandbytes' map loses the small ones.
TEST(State_codes, fifty_updates_correlate_with_those_of_f32) {
  const Shape shape = {32, 256};
  const auto count = static_cast<size_t>(element_count(shape));
  PhiloxStream random(10);
  std::vector<double> scales(count);
  for (double& scale : scales) scale = 0.01 * std::pow(10, -4 * random.uniform());
  const Attrs attrs = {{"beta1", 0.9}, {"beta2", 0.999}, {"eps", 1e-8}, {"weight_decay", 0.0}};
  Attrs coded_attrs = attrs;
  coded_attrs.set("codec", std::string("adaptive"));
  KernelOutputs plain(3, std::vector<double>(count));
  KernelOutputs coded = {plain[0], plain[0], std::vector<double>(32), plain[0],
                         std::vector<double>(32)};
  for (int step = 1; step <= 50; ++step) {
    std::vector<double> gradient(count);
    for (size_t i = 0; i < count; ++i)
      gradient[i] = static_cast<double>(static_cast<float>(random.normal() * scales[i]));
    const std::vector<double> hyper = {1e-3, 1 - std::pow(0.9, step), 1 - std::pow(0.999, step), 0};
    OneKernel one("adamw", attrs);
    one.add({DType::f32, shape}, plain[0]).add({DType::f32, shape}, gradient);
    one.add({DType::f32, shape}, plain[1]).add({DType::f32, shape}, plain[2]);
    plain = run_on_cpu(one.add_absent().add({DType::f32, {4}}, hyper).add_absent(), 2);
    OneKernel other("adamw_8bit", coded_attrs);
    other.add({DType::f32, shape}, coded[0]).add({DType::f32, shape}, gradient);
    for (size_t i = 1; i < coded.size(); i += 2)
      other.add({DType::u8, shape}, coded[i]).add({DType::f32, {32}}, coded[i + 1]);
    other.add({DType::i64, {3}}, {0.0, static_cast<double>(step - 1), 0.0});
    coded = run_on_cpu(other.add({DType::f32, {4}}, hyper).add_absent(), 2);
  }
  double both = 0;
  double left = 0;
  double right = 0;
  for (size_t i = 0; i < count; ++i) {
    both += plain[0][i] * coded[0][i];
    left += plain[0][i] * plain[0][i];
    right += coded[0][i] * coded[0][i];
  }
  EXPECT_GE(both / std::sqrt(left * right), 0.995);
}

}  // namespace
}  // namespace snug
