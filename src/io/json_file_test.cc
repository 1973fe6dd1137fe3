// SPDX-License-Identifier: Apache-2.0
#include "io/json_file.h"

#include <gtest/gtest.h>

#include <cmath>

#include "io/test_folder.h"

namespace snug::io {
namespace {

TEST(JsonFile, typed_getters_read_and_fall_back) {
  const TestFolder folder;
  write_file(
      folder / "config.json",
      R"({"z":1,"a":{"list":["x","y"],"f":0.5,"big":3.0},"on":true,"none":null,"s":"tëxt\n","u":18446744073709551615})");
  const JsonValue root = load_json(folder / "config.json");
  EXPECT_EQ(root.keys(), (std::vector<std::string>{"z", "a", "on", "none", "s", "u"}));
  EXPECT_EQ(root.get_int("z"), 1);
  EXPECT_EQ(root.get_positive("z"), 1);
  EXPECT_EQ(root.get_int("missing", 7), 7);
  EXPECT_EQ(root.get_int("none", 7), 7);
  EXPECT_FALSE(root.has("none"));
  EXPECT_TRUE(root.get_bool("on"));
  EXPECT_EQ(root.get_string("s"), "tëxt\n");
  EXPECT_EQ(root.at("a").get_double("f"), 0.5);
  EXPECT_EQ(root.at("a").get_int("big"), 3);
  EXPECT_EQ(root.at("a").at("list").as_strings(), (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(root.at("a").at("list").at(1).path(), "a.list[1]");
  EXPECT_EQ(
      root.dump(),
      R"({"z":1,"a":{"list":["x","y"],"f":0.5,"big":3.0},"on":true,"none":null,"s":"tëxt\n","u":1.8446744073709552e+19})");
}

TEST(JsonFile, wrong_fields_are_one_clear_error) {
  const JsonValue root = parse_json(R"({"hidden_size":"abc","layers":[{"n":0}],"p":3.5,"long":")" +
                                        std::string(200, 'x') + R"("})",
                                    "config.json");
  EXPECT_ERROR((void)root.get_positive("hidden_size"),
               "bad_data: [config.json] \"hidden_size\" must be a positive integer, found \"abc\"");
  EXPECT_ERROR((void)root.at("layers").at(0).get_positive("n"),
               "\"layers[0].n\" must be a positive integer, found 0");
  EXPECT_ERROR((void)root.get_int("p"), "must be an integer, found 3.5");
  EXPECT_ERROR((void)root.at("p").as_int(0, 9), "must be an integer from 0 to 9, found 3.5");
  EXPECT_ERROR((void)root.get_bool("p"), "must be true or false, found 3.5");
  EXPECT_ERROR((void)root.get_string("layers"), "must be a text, found a list of 1");
  EXPECT_ERROR((void)root.get_double("hidden_size"), "must be a number");
  EXPECT_ERROR((void)root.get_int("hiden_size"),
               "the document lacks the field \"hiden_size\"\nhint: there is \"hidden_size\"");
  EXPECT_ERROR((void)root.at("layers").at(1), "has 1 elements; element 1 was wanted");
  EXPECT_ERROR((void)root.at("layers").at("n"), "must be an object, found a list of 1");
  EXPECT_ERROR((void)root.get_int("long"), "xxx...");
}

TEST(JsonFile, broken_documents_are_refused_with_the_place) {
  EXPECT_ERROR((void)parse_json("{\"a\":1,\n\"b\":}", "f"), "bad_data: [f] broken JSON: at line 2");
  EXPECT_ERROR((void)parse_json("", "f"), "broken JSON");
  EXPECT_ERROR((void)parse_json("{} x", "f"), "broken JSON");
  EXPECT_ERROR((void)parse_json("\"\xff\"", "f"), "broken JSON");
  EXPECT_ERROR((void)parse_json("NaN", "f"), "broken JSON");
  EXPECT_ERROR((void)parse_json("1e999", "f"), "broken JSON");
  EXPECT_ERROR((void)parse_json(R"({"a":1,"b":2,"a":3})", "f"),
               "the key \"a\" stands twice in one object");
  EXPECT_ERROR((void)parse_json(std::string(100000, '['), "f"), "nested deeper than 64 levels");
  EXPECT_EQ(parse_json(std::string(64, '[') + std::string(64, ']'), "f").size(), 1);
  std::string many = "[0";
  for (int i = 0; i < 1'000'000; ++i) many += ",0";
  EXPECT_ERROR((void)parse_json(many + "]", "f"),
               "bad_data: [f] the document has more than 1000000 values, and so many are read");
  const TestFolder folder;
  write_file(folder / "big", std::string(100, ' ') + "1");
  EXPECT_ERROR((void)load_json(folder / "big", 100), "bad_data");
  EXPECT_EQ(load_json(folder / "big", 101).as_int(), 1);
  EXPECT_ERROR((void)load_json(folder / "none"), "io: ");
}

}  // namespace
}  // namespace snug::io
