// SPDX-License-Identifier: Apache-2.0
#include "io/torch_file.h"

#include <gtest/gtest.h>

#include <fstream>

#include "io/safetensors.h"
#include "io/test_folder.h"
#include "io/test_zip.h"
#include "io/torch_pickle.h"

namespace snug::io {
namespace {

const std::string kGolden = SNUG_SOURCE_DIR "/tests/golden/torch_files/";
constexpr const char* kDict = "\x80\x02}(";
constexpr const char* kEnd = "u.";

std::string bytes_of_tensor(const TensorFile& file, const std::string& name) {
  const StoredTensor& tensor = *file.find(name);
  std::string bytes(static_cast<size_t>(tensor.size_bytes()), '\0');
  file.read(name, reinterpret_cast<std::byte*>(bytes.data()), tensor.size_bytes());
  return bytes;
}

/// BINUNICODE.
std::string text_op(const std::string& text) {
  std::string op = "X";
  put_number<uint32_t>(op, static_cast<uint32_t>(text.size()));
  return op + text;
}
std::string number_op(int64_t value) {
  std::string op = "\x8a\x08";
  put_number<int64_t>(op, value);
  return op;
}
std::string tuple_op(const std::vector<int64_t>& values) {
  std::string op = "(";
  for (const int64_t value : values) op += number_op(value);
  return op + "t";
}

struct Written {
  std::string type = "FloatStorage";
  std::string key = "0";
  int64_t elements = 6;
  int64_t offset = 0;
  std::vector<int64_t> shape = {2, 3};
  std::vector<int64_t> strides = {3, 1};
  std::string hooks = "ccollections\nOrderedDict\n)R";
  std::string more = {};  // a seventh argument
};
std::string tensor_op(const Written& tensor) {
  return "ctorch._utils\n_rebuild_tensor_v2\n((" + text_op("storage") + "ctorch\n" + tensor.type +
         "\n" + text_op(tensor.key) + text_op("cpu") + number_op(tensor.elements) + "tQ" +
         number_op(tensor.offset) + tuple_op(tensor.shape) + tuple_op(tensor.strides) + "\x89" +
         tensor.hooks + tensor.more + "tR";
}

class TorchFiles : public testing::Test {
 protected:
  // Not forced to the disk: there are a thousand of them.
  void put(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
  }
  std::string write(const ZipToMake& zip) {
    put(make_zip(zip));
    return path_;
  }
  ZipToMake archive(const std::string& pickle) {
    return {.entries = {{"a/data.pkl", pickle}, {"a/data/0", std::string(24, '\1')}}};
  }
  void refused(const std::string& pickle, const std::string& words) {
    (void)write(archive(pickle));
    EXPECT_ERROR(TorchFile{path_}, "bad_data: [" + path_ + "] ");
    EXPECT_ERROR(TorchFile{path_}, words);
  }
  void tensor_refused(const Written& tensor, const std::string& words) {
    refused(kDict + text_op("w") + tensor_op(tensor) + kEnd, words);
  }

  TestFolder folder_;
  std::string path_ = folder_ / "pytorch_model.bin";
};

TEST_F(TorchFiles, every_protocol_is_read_as_torch_reads_it) {
  const SafetensorsFile read(kGolden + "read.safetensors");
  for (const char* name : {"protocol2.bin", "protocol3.bin", "protocol4.bin", "protocol5.bin"}) {
    const TorchFile file(kGolden + name);
    EXPECT_EQ(file.tensors().size(), read.tensors().size());
    EXPECT_EQ(file.tensors()[0].name, "weight");
    for (const StoredTensor& wanted : read.tensors()) {
      const StoredTensor* found = file.find(wanted.name);
      ASSERT_NE(found, nullptr) << wanted.name;
      EXPECT_EQ(found->dtype, wanted.dtype) << wanted.name;
      EXPECT_EQ(found->shape, wanted.shape) << wanted.name;
      EXPECT_EQ(bytes_of_tensor(file, wanted.name), bytes_of_tensor(read, wanted.name))
          << wanted.name;
    }
    EXPECT_EQ(file.find("tied")->begin, file.find("weight")->begin);
    EXPECT_EQ(file.find("rows")->strides, std::vector<int64_t>());
    EXPECT_EQ(file.find("turned")->strides, (std::vector<int64_t>{1, 5}));
    std::vector<float> whole(15);
    std::vector<float> part(7);
    file.read_f32("turned", whole);
    file.read_f32("turned", 4, part);
    EXPECT_EQ(part, std::vector<float>(whole.begin() + 4, whole.begin() + 11));
  }
}

TEST_F(TorchFiles, older_forms_are_refused_with_the_line_that_converts) {
  EXPECT_ERROR(TorchFile(kGolden + "legacy.bin"),
               "the form that torch.save had before PyTorch 1.6");
  EXPECT_ERROR(TorchFile(kGolden + "legacy.bin"),
               "hint: python3 -c \"import torch; f='" + kGolden +
                   "legacy.bin'; torch.save(torch.load(f, map_location='cpu', weights_only=True)");
  put(std::string(257, 'x') + "ustar" + std::string(300, '\0'));
  EXPECT_ERROR(TorchFile{path_}, "it is a tar file");
  EXPECT_ERROR(TorchFile{path_}, "only where you trust it");
  put("version https://git-lfs.github.com/spec/v1\n");
  EXPECT_ERROR(TorchFile{path_}, "git lfs pull");
  put(std::string("\x02\0\0\0\0\0\0\0{}", 10));
  EXPECT_ERROR(TorchFile{path_}, "call it model.safetensors");
  put("");
  EXPECT_ERROR(TorchFile{path_}, "it does not begin as one");
}

TEST_F(TorchFiles, archives_of_either_width_without_byte_order_are_read) {
  ZipToMake zip = archive(kDict + text_op("w") + tensor_op({}) + kEnd);
  for (const bool has_64_bit_end : {false, true}) {
    for (const bool has_64_bit_entries : {false, true}) {
      zip.has_64_bit_end = has_64_bit_end;
      zip.has_64_bit_entries = has_64_bit_entries;
      const TorchFile file(write(zip));
      EXPECT_EQ(bytes_of_tensor(file, "w"), std::string(24, '\1'));
      EXPECT_GT(file.table_bytes(), 0);
    }
  }
  zip.entries.push_back({"a/byteorder", "little"});
  EXPECT_EQ(TorchFile(write(zip)).tensors().size(), 1u);
  zip.entries.back().second = "big";
  EXPECT_ERROR(TorchFile(write(zip)), "the highest byte first");
}

TEST_F(TorchFiles, archives_that_are_more_than_that_are_refused) {
  const ZipToMake good = archive(kDict + text_op("w") + tensor_op({}) + kEnd);
  const auto expect = [&](const std::function<void(ZipToMake&)>& change, const char* words) {
    ZipToMake zip = good;
    change(zip);
    EXPECT_ERROR(TorchFile(write(zip)), words);
  };
  expect([](ZipToMake& zip) { zip.method = 8; }, "is compressed (method 8)");
  expect([](ZipToMake& zip) { zip.flags |= 1; }, "is encrypted");
  expect([](ZipToMake& zip) { zip.entries.push_back(zip.entries[1]); },
         "\"a/data/0\" stands twice");
  expect(
      [](ZipToMake& zip) {
        zip.entries.push_back({"b/data.pkl", ""});
      },
      "more than one data.pkl");
  expect([](ZipToMake& zip) { zip.entries.push_back({"a/constants.pkl", ""}); }, "TorchScript");
  expect([](ZipToMake& zip) { zip.entries.erase(zip.entries.begin()); }, "no data.pkl");
  expect([](ZipToMake& zip) { zip.entries.pop_back(); }, "\"0\", which is missing");
  expect([](ZipToMake& zip) { zip.entries[0].first = "a/\xff"; }, "no UTF-8");
  const std::string text = make_zip(good);
  for (size_t bytes = 0; bytes < text.size(); ++bytes) {  // nothing but the whole is taken
    put(text.substr(0, bytes));
    EXPECT_ERROR(TorchFile{path_}, "not a readable archive of torch.save");
  }
  for (const size_t at : {text.find("PK\3\4", 4), text.find("PK\1\2"), text.find("PK\6\6")}) {
    std::string broken = text;
    broken[at + 2] = '\x55';
    put(broken);
    EXPECT_ERROR(TorchFile{path_}, "not a readable archive of torch.save");
  }
  std::string renamed = text;
  renamed[text.find("a/data/0")] = 'b';
  put(renamed);
  EXPECT_ERROR(TorchFile{path_}, "has another header than the directory says");
  std::string moved = text;  // both entries at one place
  const size_t second = text.find("PK\1\2", text.find("PK\1\2") + 4);
  moved.replace(second + 42, 4, std::string(4, '\0'));
  moved.replace(second + 46, 8, "a/data.p");
  put(moved);
  EXPECT_ERROR(TorchFile{path_}, "has another header than the directory says");
}

TEST_F(TorchFiles, what_is_no_tensor_is_refused_by_name_and_byte) {
  refused(
      "\x80\x02"
      "cos\nsystem\n" +
          text_op("echo") + "\x85R.",
      "data.pkl, byte 2: the pickle names \"os.system\"");
  refused(
      "\x80\x04\x8c\x08"
      "builtins\x8c\x04"
      "eval\x93.",
      "data.pkl, byte 18: the pickle names \"builtins.eval\"");
  refused(
      "\x80\x02"
      "ctorch\nComplexFloatStorage\n.",
      "torch.ComplexFloatStorage");
  refused(kDict + text_op("losses") + "]" + kEnd, "the pickle holds a list");
  refused(kDict + text_op("model") + "}" + kEnd, "\"model\" is a dict, no tensor");
  refused(kDict + text_op("epoch") + "K\1" + kEnd, "\"epoch\" is a number, no tensor");
  refused(tensor_op({}) + ".", "the file holds a tensor, no dict of tensors");
  refused(std::string(kDict) + "K\1" + tensor_op({}) + kEnd, "a key is a number, not a text");
  refused(kDict + text_op("w") + tensor_op({}) + text_op("w") + tensor_op({}) + kEnd,
          "\"w\" stands twice");
  refused("\x80\x02}}" + text_op("hook") + "K\1sb.", "the attribute \"hook\" is not understood");
  refused("\x80\x02)}b.", "what gets attributes is a tuple, not a dict");
  refused("\x80\x06}.", "protocol 6 of pickle");
  refused("i.", "an object of a class");
  refused("\xfe", "the operation 254 of pickle is not understood");
  refused("(.", "the stack of the pickle is empty");
  refused("t.", "a mark is missing");
  refused("h\7.", "memo 7 is empty");
  refused("}r\xff\xff\xff\x7f.", "memo 2147483647 is out of order");
  refused("}(K\1u.", "a key has no value");
  refused("}", "the pickle ends within an operation");
  refused("X\xff\xff\xff\xff", "the pickle ends within an operation");
  refused("ctorch", "the pickle ends within a name");
  refused(std::string("X\2\0\0\0\xff\xff.", 8), "a text is no UTF-8");
  refused(std::string("\x8a\x09") + std::string(9, '\1') + ".", "beyond 64 bits");
  refused(std::string(1000, ')') + ".", "more values than a file of tensors needs");
  std::string names = "\x80\x02}";
  names += tensor_op({}) + "q\1" + "0(";
  for (int i = 0; i < 1000; ++i) names += text_op(std::to_string(i)) + "h\1";
  refused(names + kEnd, "more names for its tensors than a file needs");
}

TEST_F(TorchFiles, tensors_that_cannot_be_are_refused_by_name) {
  const TorchFile good(write(archive(kDict + text_op("w") + tensor_op({}) + kEnd)));
  EXPECT_EQ(good.find("w")->shape, (std::vector<int64_t>{2, 3}));
  tensor_refused({.key = "1"}, "tensor \"w\" lies in the storage \"1\", which is missing");
  tensor_refused({.elements = 7}, "has 24 bytes, not 7 elements of 4");
  tensor_refused({.type = "LongStorage"}, "has 24 bytes, not 6 elements of 8");
  tensor_refused({.elements = -1}, "not -1 elements");
  for (const int64_t offset : {int64_t{1}, int64_t{-1}, INT64_MAX})
    tensor_refused({.offset = offset}, "tensor \"w\" does not lie in its storage of 6 elements");
  tensor_refused({.strides = {4, 1}}, "does not lie in its storage");
  tensor_refused({.strides = {-3, 1}}, "does not lie in its storage");
  tensor_refused({.strides = {INT64_MAX, 1}}, "does not lie in its storage");
  tensor_refused({.shape = {2, INT64_MAX}}, "has a size that cannot be");
  tensor_refused({.shape = {-2, 3}}, "has a size that cannot be");
  tensor_refused({.shape = {1 << 20, 3}, .strides = {0, 1}}, "repeats elements of its storage");
  tensor_refused({.shape = {6}}, "a shape of 1 and strides of 2 dimensions");
  tensor_refused({.shape = std::vector<int64_t>(9, 1), .strides = std::vector<int64_t>(9, 1)},
                 "a shape of 9");
  tensor_refused({.hooks = "}K\1K\1s"}, "a tensor has hooks");
  tensor_refused({.more = "}K\1K\1s"}, "conjugated");
  tensor_refused({.type = "QInt8Storage"}, "torch.QInt8Storage");
  const TorchFile empty(write(archive(
      kDict + text_op("w") + tensor_op({.offset = 6, .shape = {0, 1000}, .more = "N"}) + kEnd)));
  EXPECT_EQ(empty.find("w")->size_bytes(), 0);
}

}  // namespace
}  // namespace snug::io
