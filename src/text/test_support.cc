// SPDX-License-Identifier: Apache-2.0
#include "text/test_support.h"

#include <malloc.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <new>
#include <sstream>

namespace {
std::atomic<int64_t> live_bytes{0};
std::atomic<int64_t> allocations{0};

void* take(size_t size) {
  void* block = std::malloc(size == 0 ? 1 : size);
  if (block == nullptr) throw std::bad_alloc();
  live_bytes += static_cast<int64_t>(malloc_usable_size(block));
  ++allocations;
  return block;
}

void give(void* block) noexcept {
  if (block != nullptr) live_bytes -= static_cast<int64_t>(malloc_usable_size(block));
  std::free(block);
}
}  // namespace

void* operator new(size_t size) { return take(size); }
void* operator new[](size_t size) { return take(size); }
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  try {
    return take(size);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* block, const std::nothrow_t&) noexcept { give(block); }
void operator delete(void* block) noexcept { give(block); }
void operator delete[](void* block) noexcept { give(block); }
void operator delete(void* block, size_t) noexcept { give(block); }
void operator delete[](void* block, size_t) noexcept { give(block); }

namespace snug::text::test {

std::string data_file(const std::string& name) {
  return std::string(SNUG_SOURCE_DIR) + "/src/text/testdata/" + name;
}

std::string read_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

void write_file(const std::filesystem::path& file, const std::string& text) {
  std::ofstream(file, std::ios::binary) << text;
}

int64_t live_heap_bytes() { return live_bytes; }
int64_t heap_allocations() { return allocations; }

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "snug-text-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr)
    throw Error(ErrorCode::io, name, "cannot make a temporary folder");
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code status;
  std::filesystem::remove_all(path_, status);
}

}  // namespace snug::text::test
