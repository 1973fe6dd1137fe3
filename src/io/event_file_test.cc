// SPDX-License-Identifier: Apache-2.0
// Event files byte by byte as TensorBoard writes them: tools/golden/event_file.py.
#include "io/event_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "io/test_folder.h"
#include "snug/error.h"

namespace snug::io {
namespace {

TEST(Event_file, crc_is_that_of_castagnoli) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);  // RFC 3720, B.4
  EXPECT_EQ(crc32c(""), 0U);
}

TEST(Event_file, bytes_are_those_of_tensorboard) {
  const TestFolder folder;
  const std::string path = folder.path() + "/events";
  EventFile file(path, {1.5, 301});
  const std::vector<Scalar> scalars = {{"train/loss", 0.625},
                                       {"train/left_out", std::numeric_limits<double>::quiet_NaN()},
                                       {"train/grad_norm", 0.0},
                                       {"memory/rss_bytes", 3.5e9}};
  file.write({2.25, 301}, scalars);
  std::string text;
  for (int i = 0; i < 40; ++i) text += "plan \u00fc\n";
  file.write({3.0, 300}, "plan/text_summary", text);
  const std::vector<Scalar> last = {{"eval/loss", -1e-3}};
  file.write({4.0, int64_t{1} << 40}, last);
  file.sync();
  EXPECT_EQ(read_all(path, 1 << 20),
            read_all(SNUG_SOURCE_DIR "/tests/golden/events.tfevents", 1 << 20));
}

TEST(Event_file, a_new_file_sorts_behind_the_others) {
  const TestFolder folder;
  const std::string runs = folder.path() + "/runs";
  const std::string first = next_event_file(runs, 1000);
  EXPECT_EQ(first, runs + "/events.out.tfevents.1000.snug");
  write_file(first, "");
  const std::string second = next_event_file(runs, 1000);
  EXPECT_GT(second, first);
  write_file(second, "");
  write_file(runs + "/events.out.tfevents.99999999999999999999.other", "");
  write_file(runs + "/events.out.tfevents.x", "");
  EXPECT_EQ(next_event_file(runs, 1000), runs + "/events.out.tfevents.1002.snug");
  EXPECT_EQ(next_event_file(runs, 5000), runs + "/events.out.tfevents.5000.snug");
}

}  // namespace
}  // namespace snug::io
