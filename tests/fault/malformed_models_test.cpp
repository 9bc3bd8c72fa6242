// Model directories that are damaged or of unsupported models: weights, index, config.json, tokenizer.json.
#include <fmt/format.h>

#include "tests/support/file_text.h"
#include "tests/support/malformed.h"

namespace tidepool::malformed_models_test {

using test::BadFile;
using test::BadPlace;
using test::file_text;
using test::little_endian;

std::string with_length(const std::string& header, const std::string& buffer = "") {
  return little_endian(header.size(), 8) + header + buffer;
}

// Describes a tensor of four bytes, with some values replaced.
std::string tensor(const std::string& shape, const std::string& offsets, const std::string& dtype = "U8") {
  return fmt::format(R"("a":{{"dtype":"{}","shape":{},"data_offsets":{}}})", dtype, shape, offsets);
}
std::string one(const std::string& shape, const std::string& offsets, const std::string& dtype = "U8") {
  return with_length("{" + tensor(shape, offsets, dtype) + "}", "1234");
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}
std::string weights() { return file_text(test::family_directory("llama_tied/model.safetensors")); }
std::string weights_with(const std::string& from, const std::string& to) {
  return replaced(weights(), from, to);
}
std::string config_with(const std::string& from, const std::string& to) {
  return replaced(file_text(test::family_directory("llama_tied/config.json")), from, to);
}

const std::string lfs_pointer =
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 4976698672\n";

constexpr const char* st = "model/model.safetensors";
const BadFile safetensors_files[] = {
    {"empty", st, "", "0 bytes", "too short"},
    {"half_a_length", st, "1234567", "7 bytes", "too short"},
    {"header_longer_than_the_file", st, little_endian(u64{1} << 40, 8) + "{}", "1099511627776 bytes",
     "does not fit in 10 bytes"},
    {"header_above_the_limit", st, little_endian(200'000'000, 8) + "{}", "200000000 bytes",
     "limit 100000000"},
    {"header_of_nothing", st, with_length(""), "byte 0", "not valid JSON"},
    {"half_a_header", st, with_length("{\"a\":"), "byte 5", "incomplete"},
    {"list_for_a_header", st, with_length("[]"), "byte", "an unexpected list"},
    {"depth", st, with_length(std::string(100'000, '[')), "byte", "an unexpected list"},
    {"name_not_utf8", st, with_length("{\"\xff\":1}"), "byte 2", "not valid JSON"},
    {"number_in_metadata", st, with_length(R"({"__metadata__":{"a":1}})"), "byte", "an unexpected number"},
    {"twice", st, with_length("{" + tensor("[4]", "[0,4]") + "," + tensor("[4]", "[0,4]") + "}", "1234"),
     "\"a\"", "appears twice"},
    {"no_dtype", st, with_length(R"({"a":{"shape":[4],"data_offsets":[0,4]}})", "1234"), "tensor a",
     "needs dtype"},
    {"unknown_dtype", st, one("[4]", "[0,4]", "Q7"), "tensor a", "unknown dtype \"Q7\""},
    {"negative_shape", st, one("[-4]", "[0,4]"), "tensor a", "negative"},
    {"shape_not_whole", st, one("[4.5]", "[0,4]"), "tensor a", "whole number"},
    {"shape_overflows", st, one("[4294967296,4294967296]", "[0,4]", "F32"), "tensor a", "overflows"},
    {"shape_and_bytes", st, one("[5]", "[0,4]"), "tensor a", "needs 5 bytes"},
    {"backwards", st, one("[4]", "[4,0]"), "tensor a", "run backwards"},
    {"three_offsets", st, one("[4]", "[0,2,4]"), "tensor a", "two numbers"},
    {"hole", st, one("[3]", "[1,4]"), "byte 1", "leaving a hole"},
    {"overlap", st,
     with_length("{" + tensor("[4]", "[0,4]") + R"(,"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
                 "123456"),
     "tensor b", "overlapping"},
    {"truncated", st, weights().substr(0, weights().size() - 5), "42432 bytes", "truncated"},
    {"followed_by_more", st, weights() + "x", "42432 bytes", "followed by something else"},
    {"tensor_missing", st, weights_with("model.norm.weight", "model.nurm.weight"), "tensor model.norm.weight",
     "has no tensor"},
    {"other_shape", st, weights_with("[53,24]", "[24,53]"), "model.embed_tokens.weight", "needs [53, 24]"},
    {"integers", st, weights_with("\"F32\"", "\"I32\""), "tensor", "must be F32, BF16, F16 or F64"},
    {"git_lfs_pointer", st, lfs_pointer, "of 135 bytes", "is a Git LFS pointer"},
    {"not_a_number", st, weights().substr(0, weights().size() - 4) + std::string("\0\0\xc0\x7f", 4), "tensor",
     "is NaN or infinite at element"},
    {"something_zipped", st, "PK\3\4" + std::string(100, '\0'), "header", "not a safetensors file"},
};

constexpr const char* index_file = "model/model.safetensors.index.json";
const BadFile index_files[] = {
    {"index_empty", index_file, "", "byte 0", "not valid JSON"},
    {"index_half", index_file, "{", "byte 1", "incomplete"},
    {"index_list", index_file, "[]", "weight_map", "has no weight_map"},
    {"index_without_map", index_file, "{\"metadata\":{}}", "weight_map", "has no weight_map"},
    {"index_map_of_nothing", index_file, "{\"weight_map\":{}}", "weight_map", "names no tensor"},
    {"index_map_list", index_file, "{\"weight_map\":[]}", "weight_map", "has no weight_map"},
    {"index_number", index_file, "{\"weight_map\":{\"a\":1}}", "tensor a", "name of a file"},
    {"index_leads_out", index_file, "{\"weight_map\":{\"a\":\"../shard.safetensors\"}}", "tensor a",
     "in this directory"},
    {"index_absolute", index_file, "{\"weight_map\":{\"a\":\"/etc/passwd\"}}", "tensor a",
     "in this directory"},
    {"index_long_name", index_file, "{\"weight_map\":{\"a\":\"" + std::string(300, 'x') + "\"}}", "tensor a",
     "name of a file"},
    {"index_shard_missing", index_file, "{\"weight_map\":{\"a\":\"none.safetensors\"}}", "none.safetensors",
     "cannot open"},
    {"index_tensor_elsewhere", index_file, "{\"weight_map\":{\"zzz\":\"shard.safetensors\"}}", "tensor zzz",
     "is missing"},
    {"index_leaves_out", index_file, "{\"weight_map\":{\"model.norm.weight\":\"shard.safetensors\"}}",
     "tensor", "not listed"},
};

constexpr const char* cfg = "model/config.json";
const BadFile config_files[] = {
    {"config_empty", cfg, "", "byte 0", "not valid JSON"},
    {"config_half", cfg, "{\"model_type\"", "byte 13", "incomplete"},
    {"config_list", cfg, "[]", "config.json", "is not a JSON object"},
    {"config_nan", cfg, R"({"model_type":"llama","rms_norm_eps":NaN})", "byte 37", "not valid JSON"},
    {"config_utf16", cfg, std::string("\xff\xfe{\0}\0", 6), "byte 0", "not valid JSON"},
    {"config_followed_by_more", cfg, config_with("{", "{") + "}", "byte", "extra data"},
    {"config_large", cfg, std::string(2 * mib, ' ') + "{}", "2097154 bytes", "at most 1048576"},
    {"config_without_type", cfg, config_with("\"model_type\"", "\"other_type\""), "model_type",
     "must name the family"},
    {"config_of_gemma", cfg, config_with("\"model_type\": \"llama\"", "\"model_type\": \"gemma3n\""),
     "model_type", "'gemma3n'"},
    {"config_of_experts", cfg, config_with("\"model_type\": \"llama\"", "\"model_type\": \"mixtral\""),
     "num_local_experts", "is missing"},
    {"config_of_other_experts", cfg, config_with("\"model_type\": \"llama\"", "\"model_type\": \"dbrx\""),
     "model_type", "mixture of experts"},
    {"config_without_size", cfg, config_with("\"hidden_size\"", "\"hidden_sise\""), "hidden_size",
     "is missing"},
    {"config_text", cfg, config_with("\"hidden_size\": 24", "\"hidden_size\": \"24\""), "hidden_size",
     "\"24\" is a text; it must be an integer"},
    {"config_fraction", cfg, config_with("\"hidden_size\": 24", "\"hidden_size\": 24.0"), "hidden_size",
     "24.0 is a float; it must be an integer"},
    {"config_list_value", cfg, config_with("\"hidden_size\": 24", "\"hidden_size\": [24]"), "hidden_size",
     "must be one value"},
    {"config_negative", cfg, config_with("\"num_hidden_layers\": 2", "\"num_hidden_layers\": -2"),
     "num_hidden_layers", "negative"},
    {"config_zero", cfg, config_with("\"num_attention_heads\": 4", "\"num_attention_heads\": 0"),
     "num_attention_heads", "out of range"},
    {"config_large_number", cfg, config_with("\"vocab_size\": 53", "\"vocab_size\": 1e30"), "vocab_size",
     "is a float; it must be an integer"},
    {"config_heads", cfg, config_with("\"num_key_value_heads\": 2", "\"num_key_value_heads\": 3"),
     "num_key_value_heads", "does not divide"},
    {"config_activation", cfg, config_with("\"silu\"", "\"gelu\""), "hidden_act", "'gelu' is not supported"},
    {"config_rope", cfg, config_with("\"rope_type\": \"default\"", "\"rope_type\": \"axial\""),
     "rope_parameters.rope_type", "'axial'"},
    {"config_rope_list", cfg, config_with("\"rope_parameters\": {", "\"rope_parameters\": [1], \"old\": {"),
     "rope_parameters", "must be an object"},
};

constexpr const char* tok = "model/tokenizer.json";
std::string tokenizer_with(const std::string& more, const std::string& vocab = R"({"a":0,"b":1,"ab":2})",
                           const std::string& merge = "a b") {
  return fmt::format(R"({{"version":"1.0",{}"model":{{"type":"BPE","vocab":{},"merges":["{}"]}}}})", more,
                     vocab, merge);
}
const BadFile tokenizer_files[] = {
    {"tokenizer_git_lfs_pointer", tok, lfs_pointer, "tokenizer.json", "is a Git LFS pointer"},
    {"tokenizer_empty", tok, "", "byte 0", "not valid JSON"},
    {"tokenizer_half", tok, "{", "byte 1", "incomplete"},
    {"tokenizer_list", tok, "[]", "tokenizer.json", "must be an object"},
    {"tokenizer_without_model", tok, "{\"version\":\"1.0\"}", "'model'", "has no 'model'"},
    {"tokenizer_not_utf8", tok, tokenizer_with("\"x\":\"\xff\","), "byte", "not valid JSON"},
    {"tokenizer_unigram", tok, R"({"version":"1.0","model":{"type":"Unigram","vocab":[]}})", "model",
     "type 'Unigram' is not supported"},
    {"tokenizer_merge", tok, tokenizer_with("", R"({"a":0,"b":1,"ab":2})", "a x"), "model.merges[0]",
     "'x' is not in model.vocab"},
    {"tokenizer_ids", tok, tokenizer_with("", R"({"a":0,"b":0,"ab":2})"), "model.vocab['b']",
     "ids must differ"},
    {"tokenizer_normalizer", tok, tokenizer_with(R"("normalizer":{"type":"Bert"},)"), "normalizer",
     "type 'Bert' is not supported"},
    {"tokenizer_pattern", tok,
     tokenizer_with(R"("pre_tokenizer":{"type":"Split","pattern":{"Regex":"(a"},"behavior":"Isolated"},)"),
     "pre_tokenizer.pattern.Regex", "does not compile"},
    {"tokenizer_decoder", tok, tokenizer_with(R"("decoder":{"type":"CTC"},)"), "decoder",
     "type 'CTC' is not supported"},
    {"tokenizer_added", tok, tokenizer_with(R"("added_tokens":[{"content":"x"}],)"), "added_tokens[0]",
     "has no 'id'"},
    {"tokenizer_surprise", tok, tokenizer_with(R"("surprise":1,)"), "surprise", "is not supported"},
};

class MalformedModel : public ::testing::TestWithParam<BadFile> {};

TEST_P(MalformedModel, IsRefused) {
  const BadPlace place;
  const BadFile& bad = GetParam();
  if (bad.file == std::string(index_file))
    std::filesystem::rename(place / st, place / "model/shard.safetensors");
  place.write(bad.file, bad.content);
  if (bad.file != std::string(tok)) return place.expect_refusal(bad, place.train_model());
  place.write("text.txt", "abab");
  place.expect_refusal(bad, {"tokenize", place / "model", place / "text.txt", "--show=1"});
}

// A separate head beside a config that ties it: either choice would be another model.
TEST(ModelDirectory, WithAHeadThatIsNotTheTiedOneIsRefused) {
  const BadPlace place;
  const std::string file = weights();
  u64 header = 0;
  std::memcpy(&header, file.data(), 8);
  std::string text = file.substr(8, header);
  text = text.substr(0, text.find_last_of('}'));
  const u64 at = file.size() - 8 - header, bytes = 53 * 24 * 4;
  text += fmt::format(R"(,"lm_head.weight":{{"dtype":"F32","shape":[53,24],"data_offsets":[{},{}]}}}})", at,
                      at + bytes);
  place.write(st, with_length(text, file.substr(8 + header) + std::string(bytes, '\0')));
  place.expect_refusal({"head", st, "", "lm_head.weight", "config.json ties the two"}, place.train_model());
}

TEST(ModelDirectory, WithMoreTokensThanRowsIsRefused) {
  const BadPlace place;
  place.write(tok, tokenizer_with("", R"({"a":0,"b":1,"ab":60})"));
  place.write("text.txt", "abababab");
  std::vector<std::string> words = place.train_model();
  words.push_back("data.train=" + (place / "text.txt"));
  place.expect_refusal({"rows", tok, "", "token ids up to 60", "config.json beside it says vocab_size 53"},
                       words);
  // If a key names the file, the key's value is wrong.
  words.push_back("data.tokenizer=" + (place / tok));
  test::Child named(words, place / "log");
  EXPECT_EQ(named.wait(), 2);
  EXPECT_THAT(named.output(), ::testing::HasSubstr("name the model's own tokenizer with data.tokenizer"));
}

TEST(ModelDirectory, WithoutSafetensorsIsRefusedBeforeAnythingIsMade) {
  const BadPlace place;
  std::filesystem::remove(place / st);
  place.expect_refusal({"none", "model", "", "model.safetensors.index.json", "holds neither"},
                       place.train_model());
  place.write("model/pytorch_model.bin", "PK");
  place.expect_refusal(
      {"pickled", "model", "", "pytorch_model.bin", "write them as safetensors with transformers"},
      place.train_model());
  EXPECT_FALSE(std::filesystem::exists(place / "run"));
}

const auto named = [](const auto& info) { return std::string(info.param.name); };
INSTANTIATE_TEST_SUITE_P(Weights, MalformedModel, ::testing::ValuesIn(safetensors_files), named);
INSTANTIATE_TEST_SUITE_P(Index, MalformedModel, ::testing::ValuesIn(index_files), named);
INSTANTIATE_TEST_SUITE_P(Config, MalformedModel, ::testing::ValuesIn(config_files), named);
INSTANTIATE_TEST_SUITE_P(Tokenizer, MalformedModel, ::testing::ValuesIn(tokenizer_files), named);

}  // namespace tidepool::malformed_models_test
