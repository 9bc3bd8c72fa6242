// Writes a small model directory: config.json, random weights, and the files that tools expect beside them.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include "checkpoint/state_tensors.h"
#include "huggingface/directory/hf_config.h"
#include "huggingface/weights/convert.h"
#include "huggingface/weights/safetensors.h"
#include "model/blocks.h"

namespace tidepool::test {

inline void write_file(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}
inline std::vector<StoredTensor> tensors_of(const ModelConfig& model, Precision dtype) {
  const ModelGraph graph = build_model(model, dtype, {.sequences = 1, .tokens = 8}, Precision::fp32).value();
  return stored_tensors(graph, model_parts());
}

// Written as by transformers: config.json has token ids that Tidepool does not know itself.
inline void write_model_directory(const std::string& dir, const ModelConfig& model, Precision dtype) {
  std::filesystem::create_directories(dir);
  std::string config = hf_config_text(model, dtype);
  for (const char* key : {"bos", "eos"}) {
    const std::string null = std::string("\"") + key + "_token_id\": null";
    config.replace(config.find(null), null.size(),
                   std::string("\"") + key + "_token_id\": " + (key[0] == 'b' ? "1" : "2"));
  }
  write_file(dir + "/config.json", config);
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, 0.05f);
  std::string bytes;
  const std::vector<StoredTensor> tensors = tensors_of(model, dtype);
  for (const StoredTensor& t : tensors) {
    std::vector<float> values(t.bytes() / dtype_bytes(t.dtype));
    for (float& v : values) v = normal(random);
    std::vector<std::byte> stored(t.bytes());
    from_floats(values, t.dtype, stored);
    bytes.append(reinterpret_cast<const char*>(stored.data()), stored.size());
  }
  write_file(dir + "/model.safetensors", safetensors_header(tensors) + bytes);
}

// Writes a tokenizer in Hugging Face's format: every byte below 256 is a token, "<s>" and "</s>" are 256 and
// 257.
inline void write_byte_tokenizer(const std::string& dir) {
  std::string vocab, template_text =
                         "{% for m in messages %}[{{ m['role'] }}] {{ m['content'] }}\\n{% endfor %}"
                         "{% if add_generation_prompt %}[assistant] {% endif %}";
  const auto letter = [](u32 byte) {  // GPT-2's alphabet for bytes, in JSON
    const bool plain = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    static const std::vector<u32> others = [] {
      std::vector<u32> out;
      for (u32 b = 0; b < 256; ++b)
        if (!((b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174)) out.push_back(b);
      return out;
    }();
    const u32 code = plain ? byte : 256 + static_cast<u32>(std::ranges::find(others, byte) - others.begin());
    return fmt::format("\\u{:04x}", code);
  };
  for (u32 b = 0; b < 256; ++b) vocab += fmt::format("{}\"{}\": {}", b == 0 ? "" : ", ", letter(b), b);
  const char* added =
      R"({"id": %, "content": "@", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true})";
  const auto token = [&](const char* id, const char* content) {
    std::string text = added;
    text.replace(text.find('%'), 1, id);
    return text.replace(text.find('@'), 1, content);
  };
  write_file(
      dir + "/tokenizer.json",
      R"({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [)" + token("256", "<s>") +
          ", " + token("257", "</s>") +
          R"(], "normalizer": null, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}, )"
          R"("post_processor": null, "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true}, )"
          R"("model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null, "end_of_word_suffix": null, )"
          R"("fuse_unk": false, "byte_fallback": false, "ignore_merges": false, "vocab": {)" +
          vocab + R"(}, "merges": []}})");
  write_file(dir + "/tokenizer_config.json",
             R"({"bos_token": "<s>", "eos_token": "</s>", "chat_template": ")" + template_text + "\"}");
  write_file(dir + "/generation_config.json", R"({"eos_token_id": [257], "temperature": 0.6})");
}

}  // namespace tidepool::test
