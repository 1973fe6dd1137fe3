// SPDX-License-Identifier: Apache-2.0
#include "base/mapped_block.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include "base/units.h"
#include "snug/error.h"

namespace snug {
namespace {

// The line of this field in the system's table, for the mapping that begins at `data`; empty: there
// is none.
std::string line_of(const std::byte* data, const std::string& field) {
  std::ostringstream begin;
  begin << std::hex << reinterpret_cast<uintptr_t>(data) << "-";
  std::ifstream table("/proc/self/smaps");
  bool is_there = false;
  for (std::string line; std::getline(table, line);) {
    if (line.find('-') < line.find(' ')) is_there = line.rfind(begin.str(), 0) == 0;
    if (is_there && line.rfind(field + ":", 0) == 0) return line.substr(field.size() + 1);
  }
  return {};
}
int64_t resident_bytes(const MappedBlock& block) {
  const std::string line = line_of(block.data(), "Rss");
  return line.empty() ? -1 : std::stoll(line) << 10;
}

bool has_large_pages() {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string modes;
  std::getline(file, modes);
  return modes.find("[madvise]") != std::string::npos ||
         modes.find("[always]") != std::string::npos;
}

TEST(MappedBlock, takes_its_bytes_rounded_up_to_a_page_and_no_more) {
  for (const int64_t bytes : {kLargePageBytes, 5 * kLargePageBytes + 3 * kPageBytes + 100}) {
    const MappedBlock block(bytes);
    EXPECT_EQ(resident_bytes(block), 0);
    EXPECT_EQ(block.data()[bytes - 1], std::byte{0});
    std::memset(block.data(), 1, static_cast<size_t>(bytes));
    EXPECT_EQ(resident_bytes(block), round_up(bytes, kPageBytes));
  }
}

TEST(MappedBlock, asks_for_large_pages_and_begins_at_one) {
  if (!has_large_pages()) GTEST_SKIP() << "the system has none";
  const MappedBlock block(8 * kLargePageBytes);
  EXPECT_EQ(reinterpret_cast<int64_t>(block.data()) % kLargePageBytes, 0);
  EXPECT_NE(line_of(block.data(), "VmFlags").find(" hg"), std::string::npos);
}

TEST(MappedBlock, what_the_system_refuses_is_an_error_with_the_bytes) {
  try {
    const MappedBlock block(int64_t{1} << 60);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_budget);
    EXPECT_NE(std::string(error.what()).find("refused to map"), std::string::npos);
  }
}

TEST(MappedBlockDeathTest, a_write_past_the_end_is_a_fault) {
  const MappedBlock block(kPageBytes);
  EXPECT_DEATH(block.data()[kPageBytes] = std::byte{1}, "");
}

}  // namespace
}  // namespace snug
