// Fuzzes tokenizer_config.json, special_tokens_map.json and chat_template.jinja of a directory; each may be
// absent. An accepted config is the same after it is written to one tokenizer_config.json and read.
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include "base/check.h"
#include "base/json/text.h"
#include "data/documents/chat_template.h"
#include "data/documents/tokenizer_config.h"
#include "tests/fuzz/fuzz.h"

namespace tidepool::fuzz {
namespace {

std::string text_of(const TokenizerConfig& config) {
  boost::json::object out;
  for (const auto& [name, token] : config.special_tokens) out[name] = token;
  boost::json::array templates;
  for (const auto& [name, source] : config.templates)
    templates.push_back(
        {{"name", boost::json::string(name)}, {"template", boost::json::string(source.text)}});
  out["chat_template"] = std::move(templates);
  return json_text(out, JsonStyle::pretty);
}

}  // namespace

void tokenizer_config(std::string_view input) {
  const std::string directory = folder("tokenizer");
  const auto files = parts(input, 3);
  file_if_any("tokenizer/tokenizer_config.json", files[0]);
  file_if_any("tokenizer/special_tokens_map.json", files[1]);
  file_if_any("tokenizer/chat_template.jinja", files[2]);
  const Result<TokenizerConfig> config = read_tokenizer_config(directory);
  if (!config) return check_refusal(config.error());
  // A template that is not UTF-8 is refused here, because JSON cannot hold it.
  if (const auto opened = ChatTemplate::open(*config, {}); !opened) return check_refusal(opened.error());

  const std::string text = text_of(*config);
  file("tokenizer/tokenizer_config.json", text);
  file_if_any("tokenizer/special_tokens_map.json", "");
  file_if_any("tokenizer/chat_template.jinja", "");
  const Result<TokenizerConfig> again = read_tokenizer_config(directory);
  CHECK(again.has_value(), again.error().message, text);
  CHECK(text_of(*again) == text, text);
}

}  // namespace tidepool::fuzz
