// SPDX-License-Identifier: Apache-2.0
// Optimizer states in 8 bits: bitsandbytes' codes and one update against the package
// (tests/golden/state_codes.safetensors, written by tools/golden/state_codes.py); the adaptive
// codec's vectors against its plain version, its precision, and that it rounds without a bias.
#include <gtest/gtest.h>

#include <algorithm>
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
  const KernelOutputs after = run_on_cpu(one.add_absent().add_absent(), 2);
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

// test_dynamic_blockwise_quantization of bitsandbytes, with its bounds.
TEST(Bnb_codes, round_trip) {
  struct Case {
    bool is_normal, is_signed;
    double absolute, relative;  // mean differences
  };
  for (const Case& each : {Case{true, true, 0.011, 0.018}, Case{false, true, 0.0036, 0.015},
                           Case{false, false, 0.0023, 0.012}}) {
    const StateForm form{StateCodec::bnb, !each.is_signed};
    PhiloxStream random(11);
    double absolute = 0;
    double relative = 0;
    constexpr int kBlocks = 1000;
    for (int block = 0; block < kBlocks; ++block) {
      std::array<float, kStateBlock> values{};
      for (float& value : values)
        value = static_cast<float>(each.is_normal ? random.normal() : random.uniform());
      std::array<uint8_t, kStateBlock> codes{};
      std::array<float, kStateBlock> back{};
      decode_states(form, encode_states(form, values, 0, codes.data()), codes, back.data());
      for (size_t i = 0; i < values.size(); ++i) {
        const auto off = static_cast<double>(std::fabs(back[i] - values[i]));
        absolute += off;
        relative += off / (static_cast<double>(std::fabs(values[i])) + 1e-8);
      }
    }
    EXPECT_LT(absolute / (kBlocks * kStateBlock), each.absolute);
    EXPECT_LT(relative / (kBlocks * kStateBlock), each.relative);
  }
}

// The numbers of a state that is the operand `codes` and its scales.
std::vector<float> decoded(const StateForm& form, const std::vector<double>& codes,
                           const std::vector<double>& scales) {
  std::vector<uint8_t> bytes(codes.size());
  std::transform(codes.begin(), codes.end(), bytes.begin(),
                 [](double code) { return static_cast<uint8_t>(code); });
  std::vector<float> values(codes.size());
  for (size_t begin = 0; begin < values.size(); begin += kStateBlock)
    decode_states(form, static_cast<float>(scales[begin / kStateBlock]),
                  std::span(bytes).subspan(begin, kStateBlock), &values[begin]);
  return values;
}

// One update of AdamW without decay: `plain` are the weights and states in f32, `coded` the weights
// and the codes and scales of both states.
void update_both(const Shape& shape, StateCodec codec, int step,
                 const std::vector<double>& gradient, KernelOutputs& plain, KernelOutputs& coded) {
  const Attrs attrs = {{"beta1", 0.9}, {"beta2", 0.999}, {"eps", 1e-8}, {"weight_decay", 0.0}};
  Attrs coded_attrs = attrs;
  coded_attrs.set("codec", std::string(to_string(codec)));
  const std::vector<double> hyper = {1e-3, 1 - std::pow(0.9, step), 1 - std::pow(0.999, step), 0};
  OneKernel one("adamw", attrs);
  one.add({DType::f32, shape}, plain[0]).add({DType::f32, shape}, gradient);
  one.add({DType::f32, shape}, plain[1]).add({DType::f32, shape}, plain[2]);
  plain = run_on_cpu(one.add_absent().add({DType::f32, {4}}, hyper).add_absent().add_absent(), 2);
  OneKernel other("adamw_8bit", coded_attrs);
  other.add({DType::f32, shape}, coded[0]).add({DType::f32, shape}, gradient);
  for (size_t i = 1; i < coded.size(); i += 2)
    other.add({DType::u8, shape}, coded[i])
        .add({DType::f32, {element_count(shape) / kStateBlock}}, coded[i + 1]);
  other.add({DType::i64, {3}}, {0.0, static_cast<double>(step - 1), 0.0});
  coded = run_on_cpu(other.add({DType::f32, {4}}, hyper).add_absent().add_absent(), 2);
}

// test_optimizer8bit of bitsandbytes for Adam, with its bounds: weights, and the states in f32, are
// brought together behind every update.
TEST(State_codes, optimizer8bit) {
  const Shape shape = {8, 1024};
  const auto count = static_cast<size_t>(element_count(shape));
  for (const StateCodec codec : {StateCodec::bnb, StateCodec::adaptive}) {
    PhiloxStream random(12);
    KernelOutputs plain(3, std::vector<double>(count));
    for (double& w : plain[0]) w = static_cast<double>(static_cast<float>(0.1 * random.normal()));
    const std::vector<double> no_scales(count / kStateBlock);
    KernelOutputs coded = {plain[0], plain[1], no_scales, plain[1], no_scales};
    double absolute = 0;
    double relative = 0;
    constexpr int kSteps = 50;
    for (int step = 1; step <= kSteps; ++step) {
      std::vector<double> gradient(count);
      for (double& g : gradient)
        g = static_cast<double>(static_cast<float>(0.01 * random.normal()));
      update_both(shape, codec, step, gradient, plain, coded);
      for (size_t i = 0; i < count; ++i) {
        const double off = std::abs(plain[0][i] - coded[0][i]);
        absolute += off;
        relative += off / (std::abs(plain[0][i]) + 1e-9);
      }
      for (size_t s = 1; s <= 2; ++s) {
        const std::vector<float> state = decoded({codec, s == 2}, coded[2 * s - 1], coded[2 * s]);
        int misfits = 0;
        for (size_t i = 0; i < count; ++i) {
          const double wanted = plain[s][i];
          const double off = std::abs(static_cast<double>(state[i]) - wanted);
          misfits += off > 3e-3 + 1e-3 * std::abs(wanted) ? 1 : 0;
        }
        EXPECT_LT(misfits, 20) << to_string(codec) << " state " << s << " step " << step;
        plain[s].assign(state.begin(), state.end());
      }
      coded[0] = plain[0];
    }
    EXPECT_LT(absolute / static_cast<double>(kSteps * count), 6e-5) << to_string(codec);
    EXPECT_LT(relative / static_cast<double>(kSteps * count), 6e-4) << to_string(codec);
  }
}

// A block with a scale that is not finite sends the blocks of its thread around the loop that codes
// states itself: they have the same bits in both.
TEST(State_codes, steps_have_the_same_bits_in_both_loops) {
  constexpr int64_t kRows = 6;
  const Shape shape = {kRows, kStateBlock};
  const auto count = static_cast<size_t>(element_count(shape));
  struct Step {
    const char* op;
    Attrs attrs;
    std::vector<bool> squares;
  };
  const std::vector<Step> steps = {
      {"adamw_8bit",
       {{"beta1", 0.9}, {"beta2", 0.999}, {"eps", 1e-8}, {"weight_decay", 0.1}},
       {false, true}},
      {"lion_8bit", {{"beta1", 0.9}, {"beta2", 0.99}, {"weight_decay", 0.1}}, {false}}};
  for_each_target([&](const std::string& target) {
    for (const Step& step : steps) {
      SCOPED_TRACE(target + " " + step.op);
      const auto run = [&](bool has_infinity) {
        PhiloxStream random(13);
        const auto normal = [&] {
          return static_cast<double>(static_cast<float>(random.normal()));
        };
        Attrs attrs = step.attrs;
        attrs.set("codec", std::string("adaptive"));
        OneKernel one(step.op, attrs);
        for (int operand = 0; operand < 2; ++operand) {  // w and g
          std::vector<double> values(count);
          for (double& value : values) value = normal();
          one.add({DType::f32, shape}, values);
        }
        for (const bool is_square : step.squares) {
          std::vector<double> codes;
          std::vector<double> scales;
          for (int64_t row = 0; row < kRows; ++row) {
            std::vector<float> values = block_of(static_cast<double>(row), kStateBlock, 14);
            if (row == 2) std::fill(values.begin(), values.end(), 0.0F);
            if (is_square)
              for (float& value : values) value *= value;
            std::array<uint8_t, kStateBlock> block{};
            scales.push_back(static_cast<double>(
                encode_states({StateCodec::adaptive, is_square}, values, 1, block.data())));
            codes.insert(codes.end(), block.begin(), block.end());
          }
          if (has_infinity) scales.back() = std::numeric_limits<double>::infinity();
          one.add({DType::u8, shape}, codes).add({DType::f32, {kRows}}, scales);
        }
        one.add({DType::i64, {3}}, {0.0, 4.0, 0.0});
        one.add({DType::f32, {4}}, {1e-2, 0.5, 0.25, 0});
        return run_on_cpu(one.add_absent().add_absent(), 1);
      };
      const KernelOutputs in_one = run(false);
      const KernelOutputs in_parts = run(true);
      ASSERT_EQ(in_one.size(), in_parts.size());
      for (size_t k = 0; k < in_one.size(); ++k) {
        const size_t finite = in_one[k].size() / kRows * (kRows - 1);
        for (size_t i = 0; i < finite; ++i)
          ASSERT_EQ(in_one[k][i], in_parts[k][i]) << "output " << k << " element " << i;
      }
    }
  });
}

// The changes of weights over 50 updates with states in f32 and in 8 bits, where the gradients of a
// block span four decades: where bitsandbytes' map loses the small ones.
TEST(State_codes, fifty_updates_correlate_with_those_of_f32) {
  const Shape shape = {32, 256};
  const auto count = static_cast<size_t>(element_count(shape));
  PhiloxStream random(10);
  std::vector<double> scales(count);
  for (double& scale : scales) scale = 0.01 * std::pow(10, -4 * random.uniform());
  KernelOutputs plain(3, std::vector<double>(count));
  KernelOutputs coded = {plain[0], plain[0], std::vector<double>(32), plain[0],
                         std::vector<double>(32)};
  for (int step = 1; step <= 50; ++step) {
    std::vector<double> gradient(count);
    for (size_t i = 0; i < count; ++i)
      gradient[i] = static_cast<double>(static_cast<float>(random.normal() * scales[i]));
    update_both(shape, StateCodec::adaptive, step, gradient, plain, coded);
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
