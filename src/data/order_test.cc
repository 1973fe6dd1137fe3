// SPDX-License-Identifier: Apache-2.0
// Contracts of permutation, split, buckets and samplers.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "data/data_testing.h"
#include "data/permutation.h"
#include "data/sampler.h"
#include "data/split.h"

namespace snug::data {
namespace {

TEST(Permutation, small_sizes_are_exact_bijections_with_inverse) {
  for (int64_t n :
       {1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 63, 64, 65, 100, 1000, 1023, 4095, 4096, 5003}) {
    const Permutation order(n, 42, epoch_stream(n));
    std::vector<bool> seen(static_cast<size_t>(n), false);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t image = order(i);
      ASSERT_TRUE(image >= 0 && image < n);
      ASSERT_FALSE(seen[static_cast<size_t>(image)]) << n << " " << i;
      seen[static_cast<size_t>(image)] = true;
      ASSERT_EQ(order.inverse(image), i);
    }
  }
}

TEST(Permutation, images_together_are_those_one_by_one) {
  for (const int64_t n : {1, 7, 8, 9, 63, 1000, 1000003}) {
    const Permutation order(n, 42, epoch_stream(n));
    std::vector<int64_t> values;
    for (int64_t i = 0; i < std::min<int64_t>(n, 100); ++i) values.push_back(n - 1 - i);
    std::vector<int64_t> images = values;
    order.map(images);
    for (size_t i = 0; i < images.size(); ++i) EXPECT_EQ(images[i], order(values[i]));
    order.invert(images);
    EXPECT_EQ(images, values);
  }
}

TEST(Permutation, huge_sizes_invert_and_spread) {
  for (int64_t n : {int64_t{1'000'000'000}, int64_t{1} << 62}) {
    const Permutation order(n, 7, epoch_stream(0));
    std::set<int64_t> images;
    double mean = 0;
    for (int64_t i = 0; i < 4000; ++i) {
      const int64_t image = order(i);
      ASSERT_TRUE(image >= 0 && image < n);
      ASSERT_EQ(order.inverse(image), i);
      images.insert(image);
      mean += static_cast<double>(image) / static_cast<double>(n) / 4000;
    }
    EXPECT_EQ(images.size(), 4000u);
    EXPECT_NEAR(mean, 0.5, 5 * 0.2887 / std::sqrt(4000.0));  // five standard errors
  }
}

TEST(Permutation, all_orders_of_four_are_equally_likely_over_keys) {
  std::map<std::vector<int64_t>, int> count;
  constexpr int kKeys = 12000;
  for (uint64_t key = 0; key < kKeys; ++key) {
    const Permutation order(4, key, split_stream());
    ++count[{order(0), order(1), order(2), order(3)}];
  }
  ASSERT_EQ(count.size(), 24u);
  double chi_square = 0;
  for (const auto& [order, hits] : count)
    chi_square += (hits - kKeys / 24.0) * (hits - kKeys / 24.0) / (kKeys / 24.0);
  EXPECT_LT(chi_square, 58.0);  // 23 degrees of freedom: p < 1e-4
}

TEST(Permutation, seed_and_stream_both_matter) {
  const Permutation base(1000, 1, epoch_stream(0));
  for (const Permutation& other :
       {Permutation(1000, 2, epoch_stream(0)), Permutation(1000, 1, epoch_stream(1))}) {
    int equal = 0;
    for (int64_t i = 0; i < 1000; ++i) equal += base(i) == other(i) ? 1 : 0;
    EXPECT_LT(equal, 10);
  }
}

TEST(Row_marks, are_found_by_their_places) {
  for (const int64_t rows : {1, 63, 64, 65, 511, 512, 513, 5000}) {
    for (const int64_t every : {1, 3, 700}) {
      RowMarks marks(rows);
      std::vector<int64_t> members;
      std::vector<int64_t> others;
      for (int64_t row = 0; row < rows; ++row) {
        if (row % every == 0) marks.mark(row);
        (row % every == 0 ? members : others).push_back(row);
      }
      marks.finish();
      ASSERT_EQ(marks.marked(), std::ssize(members));
      for (int64_t k = 0; k < std::ssize(members); ++k)
        ASSERT_EQ(marks.find(k, true), members[static_cast<size_t>(k)]);
      for (int64_t k = 0; k < std::ssize(others); ++k)
        ASSERT_EQ(marks.find(k, false), others[static_cast<size_t>(k)]);
    }
  }
}

TEST(Split, by_label_keeps_the_shares_of_labels_and_a_row_of_each_to_train_on) {
  // 60 % of label 0, 39 % of label 1, two rows of label 2, one of label 3.
  const auto label_of = [](int64_t row) {
    return row == 100 || row == 300 ? 2 : row == 200 ? 3 : row % 5 < 3 ? 0 : 1;
  };
  for (const uint64_t seed : {1u, 11u}) {
    for (const double share : {0.05, 0.5, 0.9}) {
      const Split split = split_by_label(500, label_of, share, seed);
      std::map<int32_t, int64_t> held_out;
      std::map<int32_t, int64_t> trained;
      std::set<int64_t> seen;
      for (int64_t k = 0; k < split.validation.size(); ++k) {
        seen.insert(split.validation.row(k));
        ++held_out[label_of(split.validation.row(k))];
      }
      for (int64_t k = 0; k < split.train.size(); ++k) {
        seen.insert(split.train.row(k));
        ++trained[label_of(split.train.row(k))];
      }
      EXPECT_EQ(seen.size(), 500u);
      EXPECT_EQ(split.train.size() + split.validation.size(), 500);
      EXPECT_EQ(split.validation.size(), std::llround(500 * share));
      for (const int32_t label : {0, 1, 2, 3}) EXPECT_GE(trained[label], 1) << label;
      for (const int32_t label : {0, 1}) {
        const auto all = static_cast<double>(held_out[label] + trained[label]);
        EXPECT_NEAR(static_cast<double>(held_out[label]), share * all, 2) << label;
      }
    }
  }
  const Split one = split_by_label(500, label_of, 0.5, 1);
  const Split other = split_by_label(500, label_of, 0.5, 2);
  int64_t same = 0;
  for (int64_t k = 0; k < 250; ++k) same += one.validation.row(k) == other.validation.row(k);
  EXPECT_LT(same, 125);
  expect_error(
      [] {
        (void)split_by_label(
            4, [](int64_t row) { return static_cast<int32_t>(row); }, 0.5, 1);
      },
      ErrorCode::bad_data, "every label has one row");
  EXPECT_EQ(split_by_label(
                4, [](int64_t) { return 0; }, 0, 1)
                .train.size(),
            4);
}

TEST(Split, every_row_is_in_exactly_one_part_of_exact_size) {
  for (int64_t rows : {2, 3, 10, 999}) {
    for (double share : {0.001, 0.05, 0.5, 0.999}) {
      const Split split = split_rows(rows, share, 9);
      const auto expected =
          std::clamp<int64_t>(std::llround(static_cast<double>(rows) * share), 1, rows - 1);
      EXPECT_EQ(split.validation.size(), expected);
      std::set<int64_t> seen;
      for (int64_t k = 0; k < split.train.size(); ++k) seen.insert(split.train.row(k));
      for (int64_t k = 0; k < split.validation.size(); ++k) seen.insert(split.validation.row(k));
      EXPECT_EQ(static_cast<int64_t>(seen.size()), rows);
      EXPECT_EQ(*seen.begin(), 0);
      EXPECT_EQ(*seen.rbegin(), rows - 1);
      EXPECT_EQ(split.train.size() + split.validation.size(), rows);
    }
  }
}

TEST(Split, rows_of_many_members_are_those_one_by_one) {
  const auto label_of = [](int64_t row) { return static_cast<int32_t>(row % 3); };
  const Split halves = split_rows(99, 0.5, 4);
  const Split marked = split_by_label(99, label_of, 0.5, 4);
  for (const Subset& part : {Subset::all(50), halves.train, halves.validation, marked.train}) {
    std::vector<int64_t> members(static_cast<size_t>(part.size()));
    std::iota(members.begin(), members.end(), 0);
    part.rows(members);
    for (int64_t k = 0; k < part.size(); ++k)
      EXPECT_EQ(members[static_cast<size_t>(k)], part.row(k));
  }
}

TEST(Split, depends_on_the_seed_and_is_repeatable) {
  const Split a = split_rows(1000, 0.1, 1);
  const Split b = split_rows(1000, 0.1, 1);
  const Split c = split_rows(1000, 0.1, 2);
  int equal = 0;
  for (int64_t k = 0; k < 100; ++k) {
    EXPECT_EQ(a.validation.row(k), b.validation.row(k));
    equal += a.validation.row(k) == c.validation.row(k) ? 1 : 0;
  }
  EXPECT_LT(equal, 10);
}

TEST(Split, bad_shares_are_refused) {
  for (double share : {-0.1, 1.0, 1.5, std::nan("")}) {
    expect_error([&] { (void)split_rows(10, share, 0); }, ErrorCode::bad_config,
                 "[validation_split]");
  }
  expect_error([] { (void)split_rows(1, 0.1, 0); }, ErrorCode::bad_data, "cannot be split in two");
  EXPECT_EQ(split_rows(5, 0, 0).train.size(), 5);
  EXPECT_EQ(split_rows(5, 0, 0).validation.size(), 0);
}

TEST(Buckets, grow_by_steps_and_end_tight) {
  EXPECT_EQ(bucket_lengths(512, 512),
            (std::vector<int32_t>{8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 320, 384, 448, 512}));
  EXPECT_EQ(bucket_lengths(1024, 2000).back(), 1024);
  EXPECT_EQ(bucket_lengths(1024, 600), (std::vector<int32_t>{8, 16, 24, 32, 48, 64, 96, 128, 192,
                                                             256, 320, 384, 448, 512, 600}));
  EXPECT_EQ(bucket_lengths(128, 50), (std::vector<int32_t>{8, 16, 24, 32, 48, 56}));
  EXPECT_EQ(bucket_lengths(50, 50), (std::vector<int32_t>{8, 16, 24, 32, 48, 50}));
  EXPECT_EQ(bucket_lengths(3, 100), (std::vector<int32_t>{3}));
  const auto buckets = bucket_lengths(128, 50);
  EXPECT_EQ(bucket_of(buckets, 1), 8);
  EXPECT_EQ(bucket_of(buckets, 8), 8);
  EXPECT_EQ(bucket_of(buckets, 33), 48);
  EXPECT_EQ(bucket_of(buckets, 50), 56);
}

constexpr int32_t kMaxLength = 120;

void toy_lengths(std::span<const int64_t> rows, std::span<int32_t> lengths) {
  for (size_t i = 0; i < rows.size(); ++i)
    lengths[i] = 1 + static_cast<int32_t>(rows[i] * 7919 % kMaxLength);
}

int32_t toy_length(int64_t row) {
  int32_t length = 0;
  toy_lengths(std::span(&row, 1), std::span(&length, 1));
  return length;
}

TrainSampler train_sampler(int64_t rows, int64_t batch, uint64_t seed = 3) {
  return TrainSampler(
      Subset::all(rows), toy_lengths,
      {.batch_size = batch, .seed = seed, .buckets = bucket_lengths(kMaxLength, kMaxLength)});
}

TEST(TrainSampler, whole_batches_alone_leave_other_rows_out_each_epoch) {
  const SamplerOptions options{.batch_size = 8,
                               .seed = 3,
                               .buckets = bucket_lengths(kMaxLength, kMaxLength),
                               .drops_remainder = true};
  TrainSampler sampler(Subset::all(1501), toy_lengths, options);
  EXPECT_EQ(sampler.batches_per_epoch(), 187);
  std::vector<std::set<int64_t>> epochs(2);
  for (std::set<int64_t>& seen : epochs) {
    for (int64_t b = 0; b < sampler.batches_per_epoch(); ++b) {
      const BatchPlan plan = sampler.next();
      EXPECT_EQ(plan.rows.size(), 8u);
      seen.insert(plan.rows.begin(), plan.rows.end());
    }
    EXPECT_EQ(seen.size(), 187u * 8);
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_EQ(sampler.epoch(), 2);
  int64_t counted = 0;
  for (const BucketCount& bucket : sampler.bucket_histogram()) counted += bucket.batches;
  EXPECT_EQ(counted, 187);
  expect_error([&] { TrainSampler(Subset::all(7), toy_lengths, options); }, ErrorCode::bad_data,
               "fewer than one whole batch of 8");
}

// Every row once, each batch as it was drawn: about as many lengths in it as in all rows.
TEST(TrainSampler, batches_without_grouping_are_random_samples) {
  const auto spread_of = [](bool is_grouped) {
    TrainSampler sampler(Subset::all(1280), toy_lengths,
                         {.batch_size = 16,
                          .seed = 3,
                          .buckets = bucket_lengths(kMaxLength, kMaxLength),
                          .groups_by_length = is_grouped});
    std::set<int64_t> seen;
    double spread = 0;
    for (int64_t b = 0; b < sampler.batches_per_epoch(); ++b) {
      const BatchPlan plan = sampler.next();
      std::vector<int32_t> lengths(plan.rows.size());
      toy_lengths(plan.rows, lengths);
      EXPECT_TRUE(std::is_sorted(lengths.begin(), lengths.end()));
      EXPECT_EQ(lengths.back(), plan.max_length);
      EXPECT_EQ(std::accumulate(lengths.begin(), lengths.end(), int64_t{0}), plan.tokens);
      EXPECT_EQ(bucket_of(bucket_lengths(kMaxLength, kMaxLength), plan.max_length),
                plan.bucket_length);
      spread += lengths.back() - lengths.front();
      seen.insert(plan.rows.begin(), plan.rows.end());
    }
    EXPECT_EQ(seen.size(), 1280u);
    return spread / static_cast<double>(sampler.batches_per_epoch());
  };
  EXPECT_GT(spread_of(false), 0.7 * kMaxLength);
  EXPECT_LT(spread_of(true), 0.1 * kMaxLength);
}

struct Drawn {
  int64_t epoch;
  int64_t batch;
  std::vector<int64_t> rows;
  int32_t bucket_length;
  bool operator==(const Drawn&) const = default;
};

Drawn draw(TrainSampler& sampler) {
  const BatchPlan plan = sampler.next();
  return {plan.epoch, plan.batch, {plan.rows.begin(), plan.rows.end()}, plan.bucket_length};
}

// Sizes around a window (64 batches): below one batch, exact multiples, remainders, several
// windows.
constexpr std::pair<int64_t, int64_t> kShapes[] = {{1, 1},   {5, 8},   {8, 8},    {9, 8},  {512, 8},
                                                   {515, 8}, {517, 8}, {1500, 8}, {130, 1}};

TEST(TrainSampler, an_epoch_holds_every_row_once_and_full_batches_but_the_last) {
  for (const auto& [rows, batch] : kShapes) {
    TrainSampler sampler = train_sampler(rows, batch);
    for (int64_t epoch = 0; epoch < 2; ++epoch) {
      std::set<int64_t> seen;
      for (int64_t b = 0; b < sampler.batches_per_epoch(); ++b) {
        const BatchPlan plan = sampler.next();
        EXPECT_EQ(plan.epoch, epoch);
        EXPECT_EQ(plan.batch, b);
        const bool is_last = b + 1 == sampler.batches_per_epoch();
        EXPECT_EQ(static_cast<int64_t>(plan.rows.size()),
                  is_last && rows % batch != 0 ? rows % batch : batch);
        int32_t longest = 0;
        for (int64_t row : plan.rows) {
          EXPECT_TRUE(seen.insert(row).second) << row;
          EXPECT_GE(toy_length(row), longest);  // a batch ascends in length
          longest = toy_length(row);
        }
        EXPECT_EQ(plan.max_length, longest);
        EXPECT_GE(plan.bucket_length, longest);
      }
      EXPECT_EQ(static_cast<int64_t>(seen.size()), rows);
    }
  }
}

TEST(TrainSampler, seek_to_any_batch_equals_drawing_up_to_it) {
  for (const auto& [rows, batch] : kShapes) {
    TrainSampler sampler = train_sampler(rows, batch);
    std::vector<Drawn> all;
    for (int64_t i = 0; i < 2 * sampler.batches_per_epoch(); ++i) all.push_back(draw(sampler));
    TrainSampler other = train_sampler(rows, batch);
    for (size_t i = all.size(); i-- > 0;) {
      other.seek(all[i].epoch, all[i].batch);
      EXPECT_EQ(draw(other), all[i]);
    }
    other.seek(0, other.batches_per_epoch());  // the end of an epoch is the beginning of the next
    EXPECT_EQ(draw(other), all[all.size() / 2]);
  }
}

TEST(TrainSampler, seed_and_epoch_change_the_batches) {
  TrainSampler a = train_sampler(1500, 8, 1);
  TrainSampler b = train_sampler(1500, 8, 2);
  const Drawn first = draw(a);
  EXPECT_NE(first.rows, draw(b).rows);
  a.seek(1, 0);
  EXPECT_NE(first.rows, draw(a).rows);
}

TEST(TrainSampler, grouping_saves_padding_and_batches_come_shuffled) {
  TrainSampler sampler = train_sampler(4096, 8);
  int64_t padded = 0;
  int64_t tokens = 0;
  int ascents = 0;
  int32_t previous = 0;
  for (int64_t b = 0; b < sampler.batches_per_epoch(); ++b) {
    const BatchPlan plan = sampler.next();
    for (int64_t row : plan.rows) tokens += toy_length(row);
    padded += plan.bucket_length * static_cast<int64_t>(plan.rows.size());
    ascents += plan.max_length >= previous ? 1 : 0;
    previous = plan.max_length;
  }
  EXPECT_LT(static_cast<double>(padded),
            1.25 * static_cast<double>(tokens));  // in random batches it is 1.9
  EXPECT_GT(ascents, 200);
  EXPECT_LT(ascents, 312);
}

TEST(TrainSampler, histogram_equals_the_batches_drawn) {
  for (const auto& [rows, batch] : kShapes) {
    TrainSampler sampler = train_sampler(rows, batch);
    for (int64_t epoch = 0; epoch < 2; ++epoch) {
      std::map<int32_t, int64_t> drawn;
      const std::vector<BucketCount> histogram = sampler.bucket_histogram(epoch);
      for (int64_t b = 0; b < sampler.batches_per_epoch(); ++b)
        ++drawn[sampler.next().bucket_length];
      for (const BucketCount& bucket : histogram)
        EXPECT_EQ(bucket.batches, drawn[bucket.bucket_length]);
    }
  }
}

TEST(TrainSampler, next_allocates_nothing_after_the_first_call) {
  TrainSampler sampler = train_sampler(5000, 8);
  (void)sampler.next();
  const int64_t before = AllocationCounter::calls();
  for (int64_t b = 0; b < 2 * sampler.batches_per_epoch(); ++b) (void)sampler.next();
  EXPECT_EQ(AllocationCounter::calls(), before);
}

TEST(TrainSampler, bad_options_and_positions_are_refused) {
  expect_error([] { (void)train_sampler(10, 0); }, ErrorCode::bad_config, "[train_batch_size]");
  expect_error([] { (void)train_sampler(0, 4); }, ErrorCode::bad_data, "no row to draw from");
  TrainSampler sampler = train_sampler(10, 4);
  expect_error([&] { sampler.seek(0, 4); }, ErrorCode::bad_data, "an epoch has 3 batches");
  expect_error([&] { sampler.seek(-1, 0); }, ErrorCode::bad_data, "does not exist");
}

TEST(EvalSampler, every_row_once_with_its_id_and_again_after_rewind) {
  const Split split = split_rows(1200, 0.5, 4);
  EvalSampler sampler(split.validation, toy_lengths,
                      {.batch_size = 7, .seed = 0, .buckets = bucket_lengths(128, 128)});
  for (int round = 0; round < 2; ++round) {
    std::set<int64_t> seen;
    std::map<int32_t, int64_t> drawn;
    BatchPlan plan;
    int64_t batches = 0;
    while (sampler.next(plan)) {
      EXPECT_EQ(plan.batch, batches++);
      ++drawn[plan.bucket_length];
      for (int64_t row : plan.rows) EXPECT_TRUE(seen.insert(row).second);
    }
    EXPECT_EQ(batches, sampler.batches());
    std::set<int64_t> expected;
    for (int64_t k = 0; k < split.validation.size(); ++k) expected.insert(split.validation.row(k));
    EXPECT_EQ(seen, expected);
    for (const BucketCount& bucket : sampler.bucket_histogram())
      EXPECT_EQ(bucket.batches, drawn[bucket.bucket_length]);
    sampler.rewind();
  }
}

}  // namespace
}  // namespace snug::data
