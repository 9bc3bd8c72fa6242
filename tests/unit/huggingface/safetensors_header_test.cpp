#include <fmt/format.h>
#include <gmock/gmock.h>

#include "huggingface/weights/safetensors.h"
#include "tests/support/checkpoint_fixture.h"

namespace tidepool::safetensors_header_test {

using ::testing::HasSubstr;

std::string refusal(std::string_view header, u64 buffer_bytes) {
  const auto parsed = parse_safetensors_header(header, buffer_bytes, ErrorKind::bad_input, "x.safetensors");
  if (parsed) return "accepted";
  EXPECT_EQ(parsed.error().kind, ErrorKind::bad_input);
  EXPECT_THAT(parsed.error().message, HasSubstr("x.safetensors"));
  return parsed.error().message;
}

TEST(SafetensorsHeader, WritesWhatItReads) {
  std::vector<StoredTensor> tensors = {{.name = "b\"\\\n", .dtype = Dtype::bf16, .shape = {2, 3}},
                                       {.name = "scalar", .dtype = Dtype::f64, .shape = {}},
                                       {.name = "empty", .dtype = Dtype::f32, .shape = {0, 5}},
                                       {.name = "a", .dtype = Dtype::f32, .shape = {7}}};
  assign_offsets(tensors);
  const std::string header = safetensors_header(tensors);
  EXPECT_EQ(header.size() % 8, 0u);
  const auto parsed = parse_safetensors_header(std::string_view(header).substr(8), tensors.back().end,
                                               ErrorKind::bad_input, "x.safetensors");
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  std::vector<StoredTensor> sorted = *parsed;
  // An empty tensor sorts before the tensor that starts at the same place.
  EXPECT_EQ(sorted.size(), tensors.size());
  for (const StoredTensor& t : tensors) EXPECT_THAT(sorted, ::testing::Contains(t));
}

TEST(SafetensorsHeader, AcceptsMetadataAndPadding) {
  EXPECT_EQ(
      refusal(
          R"({"__metadata__":{"format":"pt","x":"y"},"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}   )",
          4),
      "accepted");
  EXPECT_EQ(refusal("{}", 0), "accepted");
}

TEST(SafetensorsHeader, RefusesAMalformedHeaderAndSaysWhy) {
  const auto one = [](std::string_view fields) { return fmt::format("{{\"a\":{{{}}}}}", fields); };
  EXPECT_THAT(refusal(one(R"("dtype":"U8","shape":[4],"data_offsets":[0,4])"), 5),
              HasSubstr("followed by something"));
  EXPECT_THAT(refusal(one(R"("dtype":"U8","shape":[4],"data_offsets":[0,4])"), 3), HasSubstr("truncated"));
  EXPECT_THAT(refusal(one(R"("dtype":"U8","shape":[4],"data_offsets":[1,5])"), 5), HasSubstr("hole"));
  EXPECT_THAT(refusal(one(R"("dtype":"U8","shape":[4],"data_offsets":[0,5])"), 5),
              HasSubstr("needs 4 bytes"));
  EXPECT_THAT(refusal(one(R"("dtype":"U8","shape":[4],"data_offsets":[4,0])"), 4), HasSubstr("backwards"));
  EXPECT_THAT(refusal(one(R"("dtype":"Q7","shape":[4],"data_offsets":[0,4])"), 4),
              HasSubstr("unknown dtype \"Q7\""));
  EXPECT_THAT(refusal(one(R"("dtype":"U8","shape":[4])"), 4),
              HasSubstr("needs dtype, shape and data_offsets"));
  EXPECT_THAT(refusal(one(R"("dtype":"U8","shape":[-4],"data_offsets":[0,4])"), 4), HasSubstr("negative"));
  EXPECT_THAT(refusal(one(R"("dtype":"U8","shape":[4.5],"data_offsets":[0,4])"), 4),
              HasSubstr("whole number"));
  EXPECT_THAT(refusal(one(R"("dtype":"U8","shape":4,"data_offsets":[0,4])"), 4), HasSubstr("tensor a"));
  EXPECT_THAT(refusal(one(R"("dtype":"U8","shape":[4],"data_offsets":[0,4,4])"), 4),
              HasSubstr("two numbers"));
  EXPECT_THAT(refusal(one(R"("dtype":"U8","shape":[[4]],"data_offsets":[0,4])"), 4), HasSubstr("list"));
  EXPECT_THAT(refusal(one(R"("dtype":"U8","shape":{},"data_offsets":[0,4])"), 4), HasSubstr("object"));
  EXPECT_THAT(refusal(one(R"("dtype":"U8","shape":[4],"data_offsets":[0,4],"odd":1)"), 4),
              HasSubstr("\"odd\""));
  EXPECT_THAT(refusal(one(R"("dtype":"U8","dtype":"U8","shape":[4],"data_offsets":[0,4])"), 4),
              HasSubstr("twice"));
  EXPECT_THAT(refusal(one(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0])"), 0),
              HasSubstr("overflows"));
  EXPECT_THAT(
      refusal(
          R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
          1),
      HasSubstr("\"a\" appears twice"));
  EXPECT_THAT(
      refusal(
          R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
          3),
      HasSubstr("overlapping"));
  EXPECT_THAT(refusal("", 0), HasSubstr("JSON"));
  EXPECT_THAT(refusal("[]", 0), HasSubstr("list"));
  EXPECT_THAT(refusal("7", 0), HasSubstr("number"));
  EXPECT_THAT(refusal("{} x", 0), HasSubstr("JSON"));
  EXPECT_THAT(refusal("{}\n", 0), HasSubstr("blanks"));
  EXPECT_THAT(refusal(R"({"a":)", 0), HasSubstr("JSON"));
  EXPECT_THAT(refusal(R"({"a":null})", 0), HasSubstr("null"));
  EXPECT_THAT(refusal(R"({"__metadata__":{"n":1}})", 0), HasSubstr("number"));
}

TEST(SafetensorsFile, RefusesAnImpossibleLength) {
  const test::TemporaryDirectory dir;
  const std::string path = dir.path() + "/x.safetensors";
  for (const std::string& text :
       {std::string("abc"), std::string(8, '\xff') + "{}", std::string("\x10\0\0\0\0\0\0\0{}", 10)}) {
    test::write_text(path, text);
    EXPECT_FALSE(SafetensorsFile::open(path, ErrorKind::bad_input).has_value());
  }
  EXPECT_FALSE(SafetensorsFile::open(dir.path() + "/missing", ErrorKind::bad_input).has_value());
}

// Writes a shard that holds one U8 tensor per name.
void write_shard(const std::string& path, const std::vector<std::string>& names) {
  std::vector<StoredTensor> tensors;
  for (const std::string& n : names) tensors.push_back({.name = n, .dtype = Dtype::u8, .shape = {2}});
  assign_offsets(tensors);
  test::write_text(path, safetensors_header(tensors) + std::string(2 * names.size(), 'x'));
}

TEST(SafetensorsModel, FollowsTheIndex) {
  const test::TemporaryDirectory dir;
  write_shard(dir.path() + "/one.safetensors", {"a", "b"});
  write_shard(dir.path() + "/two.safetensors", {"c"});
  const std::string index = dir.path() + "/model.safetensors.index.json";
  const auto open = [&](const std::string& map) {
    test::write_text(index, "{\"metadata\":{\"total_size\":6},\"weight_map\":" + map + "}");
    return SafetensorsModel::open(dir.path(), ErrorKind::bad_input);
  };

  const auto good = open(R"({"a":"one.safetensors","b":"one.safetensors","c":"two.safetensors"})");
  ASSERT_TRUE(good.has_value()) << good.error().message;
  ASSERT_TRUE((*good)->find("c"));
  EXPECT_THAT((*good)->find("c").file->path(), HasSubstr("two.safetensors"));
  EXPECT_FALSE((*good)->find("d"));

  EXPECT_THAT(open(R"({"a":"one.safetensors","b":"one.safetensors","c":"one.safetensors"})").error().message,
              HasSubstr("tensor c is missing"));
  EXPECT_THAT(open(R"({"a":"one.safetensors","c":"two.safetensors"})").error().message,
              HasSubstr("tensor b is not listed"));
  EXPECT_THAT(open(R"({"a":"../one.safetensors"})").error().message, HasSubstr("tensor a"));
  EXPECT_THAT(open(R"([1])").error().message, HasSubstr("weight_map"));
  EXPECT_THAT(open(R"({"a":"three.safetensors"})").error().message, HasSubstr("three.safetensors"));
}

}  // namespace tidepool::safetensors_header_test
