// SPDX-License-Identifier: Apache-2.0
#include "io/safetensors.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/philox.h"
#include "io/file_hash.h"
#include "io/test_folder.h"
#include "io/weight_files.h"

namespace snug::io {
namespace {

template <class T>
const std::byte* bytes_in(const std::vector<T>& values) {
  return reinterpret_cast<const std::byte*>(values.data());
}

// A file from a header text and data; the length prefix is right unless given.
std::string file_text(const std::string& header, const std::string& data, int64_t claimed = -1) {
  const uint64_t length = claimed < 0 ? header.size() : static_cast<uint64_t>(claimed);
  std::string text(8, '\0');
  std::memcpy(text.data(), &length, 8);
  return text + header + data;
}

void expect_bad(const TestFolder& folder, const std::string& text, const std::string& words) {
  write_file(folder / "bad", text);
  EXPECT_ERROR(SafetensorsFile(folder / "bad"),
               "bad_data: [" + folder.path() + "/bad] not a valid safetensors file: ");
  EXPECT_ERROR(SafetensorsFile(folder / "bad"), words);
  EXPECT_ERROR(SafetensorsFile(folder / "bad"), "\nhint: ");
}

// As the Rust library's own reader takes it.
TEST(Safetensors, metadata_may_be_null) {
  const TestFolder folder;
  const std::string tensor = R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  for (const std::string& header :
       {R"({"__metadata__":null,)" + tensor + "}", "{" + tensor + R"(,"__metadata__":null})"}) {
    write_file(folder / "m", file_text(header, std::string(8, '\0')));
    const SafetensorsFile file(folder / "m");
    EXPECT_TRUE(file.metadata().empty());
    EXPECT_EQ(file.tensors().size(), 1u);
  }
  expect_bad(folder, file_text(R"({"a":null})", ""), "null is not allowed");
  expect_bad(folder, file_text(R"({"__metadata__":null,"__metadata__":{}})", ""), "stands twice");
}

TEST(Safetensors, what_is_written_is_read) {
  const TestFolder folder;
  const std::vector<float> weights = {1.5f, -2.0f, 3.25f, 0.0f, -0.0f, 1e-40f};
  const std::vector<int64_t> ids = {7};
  const std::vector<TensorToWrite> tensors = {
      {"z.weight", StoredType::f32, {2, 3}, bytes_in(weights)},
      {"a \"quoted\" näme", StoredType::i64, {}, bytes_in(ids)},
      {"empty", StoredType::f32, {0, 5}, nullptr}};
  const std::string hash = write_safetensors(folder / "m", tensors);
  EXPECT_EQ(hash, sha256_of_file(folder / "m"));
  EXPECT_EQ(hash, write_safetensors(folder / "again", tensors));
  const std::string text = read_all(folder / "m", 10000);
  EXPECT_EQ(static_cast<int64_t>(text.size()), safetensors_file_bytes(tensors));
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, text.data(), 8);
  EXPECT_EQ(header_bytes % 8, 0u);
  EXPECT_EQ(text.substr(8, 33), R"({"__metadata__":{"format":"pt"},")");

  const SafetensorsFile file(folder / "m");
  EXPECT_EQ(file.metadata().at("format"), "pt");
  ASSERT_EQ(file.tensors().size(), 3u);
  ASSERT_NE(file.find("z.weight"), nullptr);
  EXPECT_EQ(*file.find("z.weight"), (StoredTensor{"z.weight", StoredType::f32, {2, 3}, 0, 24}));
  EXPECT_EQ(file.find("a \"quoted\" näme")->elements(), 1);
  EXPECT_EQ(file.find("none"), nullptr);
  std::vector<float> back(6);
  file.read_f32("z.weight", back);
  EXPECT_EQ(std::memcmp(back.data(), weights.data(), 24), 0);
  std::vector<double> wide(6);
  file.read_f64("z.weight", wide);
  EXPECT_EQ(wide[5], static_cast<double>(1e-40f));
  std::byte id[8];
  file.read("a \"quoted\" näme", id, 8);
  EXPECT_EQ(static_cast<int>(id[0]), 7);
  file.read_f32("empty", {});
}

TEST(Safetensors, every_half_and_bfloat_converts_exactly) {
  const TestFolder folder;
  std::vector<uint16_t> bits(65536);
  for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<uint16_t>(i);
  const std::vector<double> doubles = {0.1, -1e300, 1e-320};
  const std::vector<TensorToWrite> tensors = {
      {"half", StoredType::f16, {65536}, bytes_in(bits)},
      {"bfloat", StoredType::bf16, {256, 256}, bytes_in(bits)},
      {"double", StoredType::f64, {3}, bytes_in(doubles)}};
  (void)write_safetensors(folder / "m", tensors);
  const SafetensorsFile file(folder / "m");
  std::vector<float> half(65536);
  std::vector<float> bfloat(65536);
  file.read_f32("half", half);
  file.read_f32("bfloat", bfloat);
  for (size_t i = 0; i < bits.size(); ++i) {
    EXPECT_EQ(std::bit_cast<uint32_t>(bfloat[i]), static_cast<uint32_t>(i) << 16);
    // The definition of binary16, term by term.
    const int exponent = static_cast<int>(i >> 10 & 31);
    const auto fraction = static_cast<double>(i & 1023);
    const double sign = i < 32768 ? 1.0 : -1.0;
    if (exponent == 31) {
      EXPECT_EQ(std::isnan(half[i]), fraction != 0);
      if (fraction == 0) {
        EXPECT_EQ(half[i], sign * std::numeric_limits<double>::infinity());
      }
    } else {
      const double want =
          exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
      EXPECT_EQ(static_cast<double>(half[i]), sign * want);
      EXPECT_EQ(std::signbit(half[i]), i >= 32768);
    }
  }
  std::vector<float> narrow(3);
  file.read_f32("double", narrow);
  EXPECT_EQ(narrow[0], 0.1f);
  EXPECT_EQ(narrow[1], -std::numeric_limits<float>::infinity());
  EXPECT_EQ(narrow[2], 0.0f);
}

TEST(Safetensors, wrong_requests_name_tensor_and_sizes) {
  const TestFolder folder;
  const std::vector<float> two = {1, 2};
  (void)write_safetensors(folder / "m", std::vector<TensorToWrite>{
                                            {"layer.weight", StoredType::f32, {2}, bytes_in(two)},
                                            {"ids", StoredType::i32, {2}, bytes_in(two)}});
  const SafetensorsFile file(folder / "m");
  std::vector<float> three(3);
  EXPECT_ERROR(file.read_f32("layer.weight", three), "has 2 elements; 3 are wanted");
  EXPECT_ERROR(file.read_f32("layer.wieght", three),
               "bad_data: [" + folder.path() +
                   "/m] there is no tensor \"layer.wieght\"\nhint: there is \"layer.weight\"");
  EXPECT_ERROR(file.read_f32("ids", {}), "is I32; F32, F16, BF16 or F64 is wanted");
  EXPECT_ERROR(file.read("ids", nullptr, 4), "has 8 bytes; 4 are wanted");
  EXPECT_ERROR(SafetensorsFile(folder / "none"), "io: ");
}

TEST(Safetensors, hostile_headers_are_refused_by_reason) {
  const TestFolder folder;
  const std::string one = R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  const std::string data(8, 'd');
  write_file(folder / "good", file_text("{" + one + "}  ", data));
  EXPECT_EQ(SafetensorsFile(folder / "good").tensors().size(), 1u);

  write_file(folder / "pointer", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n");
  EXPECT_ERROR(SafetensorsFile(folder / "pointer"), "hint: run git lfs pull");
  write_file(folder / "zip", "PK\x03\x04 and more");
  EXPECT_ERROR(SafetensorsFile(folder / "zip"), "a zip archive, as torch.save writes");
  EXPECT_ERROR(SafetensorsFile(folder / "zip"), "/pytorch_model.bin (Snug reads that, too)");
  expect_bad(folder, "", "it has only 0 bytes");
  expect_bad(folder, "1234567", "it has only 7 bytes");
  expect_bad(folder, file_text("{" + one + "}", data, 1'000'000),
             "claims a header of 1000000 bytes");
  expect_bad(folder, file_text("{}", "", std::numeric_limits<int64_t>::max()),
             "claims a header of");
  expect_bad(folder, file_text("", ""), "does not begin with '{'");
  expect_bad(folder, file_text("[1]", ""), "does not begin with '{'");
  expect_bad(folder, file_text("{" + one, data), "broken JSON");
  expect_bad(folder, file_text("{" + one + "}}", data), "broken JSON");
  expect_bad(folder, file_text("{\"a\xff\":1}", data), "broken JSON");
  expect_bad(folder, file_text("{" + one + "," + one + "}", data), "tensor \"a\" stands twice");
  expect_bad(folder, file_text("{" + one + "}", data + "x"), "end at byte 8 of 9");
  expect_bad(folder, file_text("{" + one + "}", "1234567"), "lie outside the data of 7 bytes");
  const auto tensor = [](const std::string& dtype, const std::string& shape,
                         const std::string& offsets) {
    return R"({"a":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" +
           offsets + "}}";
  };
  expect_bad(folder, file_text(tensor("F33", "[2]", "[0,8]"), data),
             "the dtype \"F33\" is unknown");
  expect_bad(folder, file_text(tensor("F32", "[3]", "[0,8]"), data),
             "another number of bytes than the 8");
  expect_bad(folder, file_text(tensor("F32", "[-2]", "[0,8]"), data), "a number is negative");
  expect_bad(folder, file_text(tensor("F32", "[2.0]", "[0,8]"), data), "is no integer");
  expect_bad(folder, file_text(tensor("F32", "[18446744073709551615]", "[0,8]"), data),
             "is no integer");
  // 2^62 * 2^62 * 0 and 2^32 * 2^32 * ... wrap to something small in careless arithmetic.
  expect_bad(folder,
             file_text(tensor("F32", "[4611686018427387904,4611686018427387904,0]", "[0,8]"), data),
             "another number");
  expect_bad(folder, file_text(tensor("F32", "[4294967296,4294967296,2]", "[0,8]"), data),
             "another number");
  expect_bad(folder, file_text(tensor("F32", "[2]", "[8,0]"), data), "lie outside");
  expect_bad(folder, file_text(tensor("F32", "[1]", "[4,8]"), data), "leave a gap");
  expect_bad(folder, file_text(tensor("F32", "[2]", "[0]"), data), "must hold two numbers");
  expect_bad(folder, file_text(tensor("F32", "[2]", "[0,8,9]"), data), "must hold two numbers");
  expect_bad(folder, file_text(tensor("F32", "[[2]]", "[0,8]"), data),
             "a list stands where none belongs");
  expect_bad(folder, file_text(tensor("F32", "{\"x\":1}", "[0,8]"), data),
             "an object stands where none belongs");
  expect_bad(folder, file_text(tensor("F32", "\"2\"", "[0,8]"), data),
             "a text stands where none belongs");
  expect_bad(folder, file_text(tensor("F32", "null", "[0,8]"), data), "null is not allowed");
  expect_bad(folder, file_text(tensor("F32", "3", "[0,8]"), data),
             "a number stands where none belongs");
  expect_bad(folder, file_text(R"({"a":{"dtype":"F32","shape":[2]}})", data),
             "the field data_offsets is missing");
  expect_bad(folder, file_text(R"({"a":{"dtype":"F32","dtype":"F32"}})", data),
             "unknown or stands twice");
  expect_bad(folder, file_text(R"({"a":{"extra":1}})", data), "the field \"extra\" is unknown");
  expect_bad(folder, file_text(R"({"a":[1]})", data), "a list stands where none belongs");
  expect_bad(folder, file_text(R"({"a":1})", data), "a number stands where none belongs");
  expect_bad(folder, file_text(R"({"__metadata__":{"a":1},)" + one + "}", data),
             "a number stands where none belongs");
  expect_bad(folder, file_text(R"({"__metadata__":{"a":"1","a":"2"},)" + one + "}", data),
             "stands twice");
  expect_bad(
      folder,
      file_text("{" + one + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", data),
      "overlap the tensor before");
  expect_bad(folder, file_text("{\"a\":" + std::string(100000, '['), ""),
             "a list stands where none belongs");
  expect_bad(folder, file_text("{\"a\":" + std::string(100000, '{'), ""), "");
  std::string dims = "1";
  for (int i = 0; i < 100; ++i) dims += ",1";
  expect_bad(folder, file_text(tensor("F32", "[" + dims + "]", "[0,8]"), data),
             "more than 64 dimensions");
}

// Property: whatever stands in the file, it is refused with one error, or every tensor can be read
// within bounds (buffers are exactly as large as the header says, so an overread is seen under
// AddressSanitizer).
bool survives(const std::string& path) {
  try {
    const SafetensorsFile file(path);
    for (const StoredTensor& tensor : file.tensors()) {
      std::vector<std::byte> bytes(static_cast<size_t>(tensor.size_bytes()));
      file.read(tensor.name, bytes.data(), tensor.size_bytes());
      std::vector<float> values(static_cast<size_t>(tensor.elements()));
      try {
        file.read_f32(tensor.name, values);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::bad_data);
      }
    }
    return true;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_data) << error.what();
    EXPECT_EQ(error.where(), path);
    EXPECT_FALSE(error.hint().empty());
    return false;
  }
}

TEST(Safetensors, truncations_are_refused_and_byte_flips_never_overread) {
  const TestFolder folder;
  const std::vector<float> weights = {1, 2, 3, 4, 5, 6};
  (void)write_safetensors(
      folder / "m", std::vector<TensorToWrite>{{"a", StoredType::f32, {2, 3}, bytes_in(weights)},
                                               {"b.c", StoredType::bf16, {4}, bytes_in(weights)},
                                               {"e", StoredType::f64, {0}, nullptr}});
  const std::string good = read_all(folder / "m", 10000);
  ASSERT_TRUE(survives(folder / "m"));
  for (size_t bytes = 0; bytes < good.size(); ++bytes) {
    File::create(folder / "t").write_all(good.substr(0, bytes));
    EXPECT_FALSE(survives(folder / "t")) << bytes;
  }
  PhiloxStream random(7);
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string bad = good;
    for (uint64_t flips = 1 + random.below(3); flips > 0; --flips) {
      // Mostly the prefix and the header; the data may be anything.
      bad[random.below(good.size() - 40)] = static_cast<char>(random.below(256));
    }
    File::create(folder / "t").write_all(bad);
    refused += survives(folder / "t") ? 0 : 1;
  }
  EXPECT_GT(refused, 1500);
}

TEST(WeightFiles, file_folder_and_shards_look_the_same) {
  const TestFolder folder;
  const std::vector<float> one = {1};
  const std::vector<float> two = {2};
  make_folders(folder / "sharded");
  (void)write_safetensors(folder / "sharded/s1.safetensors",
                          std::vector<TensorToWrite>{{"b", StoredType::f32, {1}, bytes_in(two)}});
  (void)write_safetensors(folder / "sharded/s2.safetensors",
                          std::vector<TensorToWrite>{{"a", StoredType::f32, {1}, bytes_in(one)}});
  const std::string index = folder / "sharded/model.safetensors.index.json";
  write_file(
      index,
      R"({"metadata":{"total_size":8},"weight_map":{"b":"s1.safetensors","a":"s2.safetensors"}})");
  make_folders(folder / "single");
  (void)write_safetensors(folder / "single/model.safetensors",
                          std::vector<TensorToWrite>{{"b", StoredType::f32, {1}, bytes_in(two)},
                                                     {"a", StoredType::f32, {1}, bytes_in(one)}});
  for (const std::string& path :
       {folder / "sharded", index, folder / "single", folder / "single/model.safetensors"}) {
    const WeightFiles model(path);
    ASSERT_EQ(model.tensors().size(), 2u);
    EXPECT_EQ(model.tensors()[0].name, "a");
    EXPECT_NE(model.find("b"), nullptr);
    EXPECT_EQ(model.find("c"), nullptr);
    float value = 0;
    model.read_f32("a", {&value, 1});
    EXPECT_EQ(value, 1);
    model.read_f32("b", {&value, 1});
    EXPECT_EQ(value, 2);
    EXPECT_ERROR((void)model.file_of("c"), "bad_data: ");
  }
  write_file(index, R"({"weight_map":{"b":"../single/model.safetensors"}})");
  EXPECT_ERROR(WeightFiles(folder / "sharded"), "must be the name of a file in the same folder");
  write_file(index, R"({"weight_map":{"b":"s2.safetensors"}})");
  EXPECT_ERROR(WeightFiles(folder / "sharded"),
               "\"weight_map.b\" names the shard \"s2.safetensors\", which lacks this tensor");
  write_file(index, R"({"weight_map":{"b":"s3.safetensors"}})");
  EXPECT_ERROR(WeightFiles(folder / "sharded"),
               "index.json] \"weight_map.b\" names the shard \"s3.safetensors\", which is not");
  write_file(index, R"({"weight_map":["b"]})");
  EXPECT_ERROR(WeightFiles(folder / "sharded"),
               "\"weight_map\" must be an object, found a list of 1");
  make_folders(folder / "none");
  EXPECT_ERROR(WeightFiles(folder / "none"), "holds no model.safetensors and no pytorch_model.bin");
}

}  // namespace
}  // namespace snug::io
