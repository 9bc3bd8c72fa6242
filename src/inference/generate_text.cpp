#include "inference/generate_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "huggingface/directory/carried.h"
#include "huggingface/directory/hf_config.h"

namespace tidepool {
namespace {

ChatRecord message_of_user(const std::string& text) {
  jinja::Dict message;
  message.set("role", jinja::Value("user"));
  message.set("content", jinja::Value(text));
  return {.messages = {jinja::Value(std::move(message))}, .tools = {}};
}

Result<void> encode_chat(Speech& speech, const std::string& prompt, const std::string& checkpoint) {
  if (!speech.encoder.chat)
    return Error{ErrorKind::usage,
                 fmt::format("--chat: {} has no chat template, neither {} nor a template in "
                             "tokenizer_config.json; leave --chat out",
                             checkpoint, chat_template_file)};
  TRY_ASSIGN(const std::string text, speech.encoder.chat->prompt(message_of_user(prompt)));
  return speech.encoder.text->encode(text, Around::nothing, speech.prompt);  // the template writes BOS itself
}

}  // namespace

Result<Speech> open_speech(const Config& config, const GenerateConfig& generate,
                           const std::string& checkpoint) {
  if (config.model.score.on())
    return Error{
        ErrorKind::usage,
        fmt::format("{} holds a classifier, which predicts labels and no tokens; see how well with  tidepool "
                    "eval {}",
                    checkpoint, checkpoint)};
  Speech out;
  DataConfig data = config.data;
  data.end_token = false;
  if (!has_tokenizer(data, checkpoint)) TRY(check_no_other_tokenizer(checkpoint));
  TRY_ASSIGN(out.encoder,
             open_encoder(data, checkpoint, generate.chat ? ChatTemplateUse::yes : ChatTemplateUse::no));
  if (out.encoder.name == "bytes" && config.model.vocab_size < 256)
    return Error{
        ErrorKind::usage,
        fmt::format("{} has no tokenizer.json, so text is read as bytes, but this model's vocabulary is "
                    "smaller than 256",
                    checkpoint)};
  if (out.encoder.text->vocab_size() > config.model.vocab_size)
    return Error{ErrorKind::bad_input,
                 fmt::format("{}: has token ids up to {}, but the model's vocab_size is {}; put the "
                             "model's own tokenizer there",
                             out.encoder.name, out.encoder.text->vocab_size() - 1, config.model.vocab_size)};
  TRY_ASSIGN(out.ends, end_token_ids(checkpoint));
  if (out.encoder.end_token) out.ends.push_back(*out.encoder.end_token);
  const std::string prompt = generate.prompt.empty() ? "\n" : generate.prompt;
  if (generate.chat) {
    TRY(encode_chat(out, prompt, checkpoint));
  } else {
    TRY(out.encoder.text->encode(prompt, Around::special, out.prompt));
    out.shown = prompt;
  }
  if (out.prompt.empty())
    return Error{
        ErrorKind::usage,
        fmt::format("the prompt encodes to zero tokens with {}: use a longer prompt", out.encoder.name)};
  return out;
}

}  // namespace tidepool
