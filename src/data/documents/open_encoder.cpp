#include "data/documents/open_encoder.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <filesystem>

#include "base/read_file.h"
#include "base/text/path_text.h"
#include "data/documents/tokenizer_encoder.h"
#include "huggingface/directory/hf_config.h"

namespace tidepool {

namespace fs = std::filesystem;

namespace {

constexpr u64 tokenizer_bytes_max = 1 * gib;

// Path of the tokenizer.json to use; empty: none.
std::string tokenizer_file(const DataConfig& config, const std::string& model_directory) {
  std::error_code unused;
  if (!config.tokenizer.empty())
    return fs::is_directory(config.tokenizer, unused) ? config.tokenizer + "/tokenizer.json"
                                                      : config.tokenizer;
  const std::string file = model_directory + "/tokenizer.json";
  return !model_directory.empty() && is_named(file) ? file : "";
}

// Directory of the tokenizer, which also has the names of special tokens and the chat template.
std::string directory_of(const std::string& file, const std::string& model_directory) {
  if (file.empty()) return model_directory;
  const std::string parent = fs::path(file).parent_path().string();
  return parent.empty() ? "." : parent;
}

Result<void> open_text_encoder(const std::string& file, bool named, const TokenizerConfig& beside,
                               OpenedEncoder& out) {
  if (file.empty()) {
    out.text = create_byte_encoder();
    out.name = out.identity = "bytes";
    return {};
  }
  const Result<std::string> read = read_small_file(file, tokenizer_bytes_max, ErrorKind::bad_input);
  if (!read)
    return Error{read.error().kind,
                 fmt::format("{}; this file is the tokenizer{}", read.error().message,
                             named ? ": correct data.tokenizer, which names a model directory or its "
                                     "tokenizer.json"
                                   : " of the model directory; name another tokenizer with data.tokenizer")};
  const std::string& content = *read;
  TRY_ASSIGN(out.text, open_tokenizer_encoder(file, beside));
  out.name = file;
  out.identity = fmt::format("tokenizer {:016x}", XXH3_64bits(content.data(), content.size()));
  return {};
}

Result<std::unique_ptr<const ChatTemplate>> open_chat_template(const DataConfig& config,
                                                               const TokenizerConfig& beside) {
  auto opened =
      ChatTemplate::open(beside, {.file = config.chat_template, .arguments = config.chat_template_arguments});
  if (opened || opened.error().kind != ErrorKind::bad_input) return opened;
  return Error{opened.error().kind,
               fmt::format("{}; {}, or use the built-in template with data.chat_template: chatml",
                           opened.error().message,
                           config.chat_template.empty() ? "name another template with data.chat_template"
                                                        : "correct data.chat_template, which names a file")};
}

// End token of the tokenizer in `file`: the eos_token of the files beside it, else the first of their end
// ids.
Result<std::optional<u32>> end_token_of(const TextEncoder& text, const TokenizerConfig& beside,
                                        const std::string& file, const std::string& directory, bool needed) {
  const auto named = beside.special_tokens.find("eos_token");
  if (named != beside.special_tokens.end()) return text.id_of(named->second);
  if (!needed || file.empty()) return std::optional<u32>();
  TRY_ASSIGN(const std::vector<u32> ids, end_token_ids(directory));
  if (ids.empty()) return std::optional<u32>();
  if (ids.front() >= text.vocab_size())
    return Error{ErrorKind::bad_input,
                 fmt::format("{}: has no token {}, which config.json or generation_config.json beside it "
                             "gives as eos_token_id; correct eos_token_id, or set data.end_token: false",
                             file, ids.front())};
  return std::optional<u32>(ids.front());
}

}  // namespace

bool has_tokenizer(const DataConfig& config, const std::string& model_directory) {
  return !tokenizer_file(config, model_directory).empty();
}

Result<void> check_no_other_tokenizer(const std::string& model_directory) {
  if (model_directory.empty()) return {};
  for (const char* name : {"tokenizer.model", "spiece.model", "vocab.json", "vocab.txt", "tekken.json"}) {
    const std::string file = model_directory + "/" + name;
    if (!is_named(file)) continue;
    return Error{
        ErrorKind::bad_input,
        fmt::format(
            "{}: this tokenizer format is not supported; make a tokenizer.json with transformers, "
            "AutoTokenizer.from_pretrained(DIR).save_pretrained(OUT), and name it with data.tokenizer",
            file)};
  }
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"}) {
    if (is_named(model_directory + "/" + name))
      return Error{
          ErrorKind::bad_input,
          fmt::format("{}/{}: exists, but no tokenizer.json beside it; fetch tokenizer.json too, or name "
                      "a tokenizer with data.tokenizer",
                      model_directory, name)};
  }
  return {};
}

Result<OpenedEncoder> open_encoder(const DataConfig& config, const std::string& model_directory,
                                   ChatTemplateUse use) {
  OpenedEncoder out;
  const std::string file = tokenizer_file(config, model_directory),
                    directory = directory_of(file, model_directory);
  TokenizerConfig beside;
  if (!directory.empty()) {
    TRY_ASSIGN(beside, read_tokenizer_config(directory));
  }
  TRY(open_text_encoder(file, !config.tokenizer.empty(), beside, out));
  if (use == ChatTemplateUse::yes) {
    TRY_ASSIGN(out.chat, open_chat_template(config, beside));
    if (auto note = note_of_other_ids(*out.text, file, beside)) out.notes.push_back(std::move(*note));
  }
  TRY_ASSIGN(out.end_token, end_token_of(*out.text, beside, file, directory, config.end_token));
  return out;
}

}  // namespace tidepool
