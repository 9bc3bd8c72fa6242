#include "data/records/known_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace tidepool {

namespace json = boost::json;

namespace {

// Sets of shapes, as bits.
using Shapes = u32;
constexpr Shapes only(RecordShape shape) { return 1u << static_cast<u32>(shape); }
constexpr Shapes in_text = only(RecordShape::text), in_messages = only(RecordShape::messages),
                 in_sharegpt = only(RecordShape::sharegpt), in_chats = in_messages | in_sharegpt,
                 in_alpaca = only(RecordShape::alpaca),
                 in_tokens = only(RecordShape::tokens) | only(RecordShape::distributions),
                 in_message_completion = only(RecordShape::message_completion),
                 in_labelled = only(RecordShape::labelled), in_token_labels = only(RecordShape::token_labels),
                 in_distributions = only(RecordShape::distributions),
                 in_completions = only(RecordShape::completion) | in_message_completion,
                 in_message_preference = only(RecordShape::message_preference),
                 in_preferences = only(RecordShape::preference) | in_message_preference,
                 in_judged = only(RecordShape::judged), in_rollouts = only(RecordShape::rollouts),
                 in_all = in_text | in_labelled | in_chats | in_alpaca | in_completions | in_tokens |
                          in_preferences | in_judged | in_rollouts | in_token_labels;

enum class KeyUse : u8 {
  read,
  no_effect,    // changes no result of training
  if_nothing,   // refused, unless empty
  if_zeros,     // refused, unless empty or all zeros
  if_not_false  // refused if it is false
};

struct KnownKey {
  std::string_view key;
  Shapes shapes;  // in which a tool gives the key a meaning
  KeyUse use;
  std::string_view tools;   // that know the key
  std::string_view advice;  // of a refusal: what it means, and what to do
};

constexpr std::string_view media =
    "belongs to a model that takes more than text, which Tidepool does not train; remove it";
constexpr std::string_view preference =
    "is preference data, and this objective trains on one answer; set objective.type to dpo, orpo, cpo, "
    "simpo or reward, or write the answer to learn as the answer or completion, and remove both keys";
constexpr std::string_view sampled =
    "says which tokens were sampled, and all of a completion count as sampled here; leave out completions "
    "with "
    "others";
constexpr std::string_view packed = "divides a row; write position_ids or seq_lengths instead";

constexpr KnownKey known_keys[] = {
    // Texts and conversations.
    {"text", in_text | in_labelled, KeyUse::read, "TRL, axolotl", ""},
    {"messages", in_messages, KeyUse::read, "TRL, axolotl, LLaMA-Factory", ""},
    {"conversations", in_sharegpt, KeyUse::read, "TRL, axolotl, LLaMA-Factory", ""},
    {"prompt", in_completions | in_preferences | in_judged | in_rollouts, KeyUse::read, "TRL", ""},
    {"chosen", in_preferences, KeyUse::read, "TRL", ""},
    {"rejected", in_preferences, KeyUse::read, "TRL", ""},
    {"margin", in_preferences, KeyUse::read, "TRL", ""},
    {"score_chosen", in_preferences, KeyUse::no_effect, "data sets for TRL", ""},
    {"score_rejected", in_preferences, KeyUse::no_effect, "data sets for TRL", ""},
    {"completion", in_completions | in_judged, KeyUse::read, "TRL", ""},
    {"completions", in_rollouts, KeyUse::read, "TRL", ""},
    {"prompt_ids", in_rollouts, KeyUse::read, "TRL", ""},
    {"completion_ids", in_rollouts, KeyUse::read, "TRL", ""},
    {"rewards", in_rollouts, KeyUse::read, "TRL", ""},
    {"advantages", in_rollouts, KeyUse::read, "TRL", ""},
    {"logprobs", in_rollouts, KeyUse::read, "TRL", ""},
    {"instruction", in_alpaca, KeyUse::read, "axolotl, LLaMA-Factory", ""},
    {"input", in_alpaca, KeyUse::read, "axolotl, LLaMA-Factory", ""},
    {"output", in_alpaca, KeyUse::read, "axolotl, LLaMA-Factory", ""},
    {"tools", in_chats | in_message_completion | in_message_preference | in_judged | in_rollouts,
     KeyUse::read, "TRL, axolotl, LLaMA-Factory", ""},
    {"tools", in_alpaca, KeyUse::if_nothing, "LLaMA-Factory",
     "goes with chats; write the record as messages, or remove it"},
    {"chat_template_kwargs",
     in_chats | in_alpaca | in_message_completion | in_message_preference | in_judged | in_rollouts,
     KeyUse::read, "TRL, axolotl", ""},
    {"system", in_sharegpt | in_alpaca, KeyUse::read, "axolotl, LLaMA-Factory", ""},
    {"system", in_messages | in_message_completion, KeyUse::if_nothing, "LLaMA-Factory",
     "is not read beside messages; write it as the first message"},
    {"history", in_alpaca, KeyUse::read, "LLaMA-Factory", ""},
    {"functions", in_chats | in_message_completion, KeyUse::if_nothing, "older tools",
     "is the older form of tools; write \"tools\""},
    {"parallel_tool_calls", in_chats, KeyUse::no_effect, "OpenAI", ""},
    {"label", in_labelled, KeyUse::read, "transformers", ""},
    {"label", in_judged, KeyUse::read, "TRL", ""},
    {"tokens", in_token_labels, KeyUse::read, "transformers", ""},
    {"words", in_token_labels, KeyUse::read, "transformers", ""},
    {"ner_tags", in_token_labels, KeyUse::read, "transformers", ""},
    {"tags", in_token_labels, KeyUse::read, "transformers", ""},
    {"label", in_completions, KeyUse::if_not_false, "TRL",
     "is false, so people rejected this answer, and it would be learned; remove the record"},
    {"kto_tag", in_chats | in_alpaca, KeyUse::if_not_false, "LLaMA-Factory",
     "is false, so people rejected this answer, and it would be learned; remove the record"},
    {"chosen", in_chats | in_alpaca | in_completions, KeyUse::if_nothing, "TRL, LLaMA-Factory", preference},
    {"rejected", in_chats | in_alpaca | in_completions, KeyUse::if_nothing, "TRL, LLaMA-Factory", preference},
    {"image", in_all, KeyUse::if_nothing, "TRL", media},
    {"images", in_all, KeyUse::if_nothing, "TRL, LLaMA-Factory", media},
    {"video", in_all, KeyUse::if_nothing, "TRL", media},
    {"videos", in_all, KeyUse::if_nothing, "LLaMA-Factory", media},
    {"audio", in_all, KeyUse::if_nothing, "TRL", media},
    {"audios", in_all, KeyUse::if_nothing, "LLaMA-Factory", media},
    {"completion_mask", in_rollouts, KeyUse::if_nothing, "TRL", sampled},
    {"tool_mask", in_rollouts, KeyUse::if_nothing, "TRL", sampled},
    // Rows of token ids.
    {"teacher_topk_ids", in_distributions, KeyUse::read, "tidepool score", ""},
    {"teacher_topk_logps", in_distributions, KeyUse::read, "tidepool score", ""},
    {"teacher_temperature", in_distributions, KeyUse::read, "tidepool score", ""},
    {"input_ids", in_tokens | in_token_labels, KeyUse::read, "transformers, TRL, axolotl", ""},
    {"labels", in_tokens | in_token_labels, KeyUse::read, "transformers, TRL, axolotl", ""},
    {"assistant_masks", in_tokens, KeyUse::read, "transformers, TRL", ""},
    {"completion_mask", in_tokens, KeyUse::read, "TRL", ""},
    {"loss_mask", in_tokens, KeyUse::read, "others", ""},
    {"attention_mask", in_tokens, KeyUse::read, "transformers, TRL, axolotl, LLaMA-Factory", ""},
    {"position_ids", in_tokens, KeyUse::read, "transformers, TRL, axolotl", ""},
    {"seq_lengths", in_tokens, KeyUse::read, "TRL", ""},
    {"token_type_ids", in_tokens, KeyUse::if_zeros, "transformers",
     "tells kinds of tokens apart, which the families of Tidepool do not; remove it"},
    {"mm_token_type_ids", in_tokens, KeyUse::if_zeros, "transformers", media},
    {"seq_idx", in_tokens, KeyUse::if_zeros, "transformers", packed},
    {"sequence_ids", in_tokens, KeyUse::if_zeros, "others", packed},
    {"cu_seqlens", in_tokens, KeyUse::if_nothing, "transformers", packed},
    {"cu_seq_lens_q", in_tokens, KeyUse::if_nothing, "transformers", packed},
    {"cu_seq_lens_k", in_tokens, KeyUse::if_nothing, "transformers", packed},
    {"pixel_values", in_tokens, KeyUse::if_nothing, "transformers", media},
    {"input_features", in_tokens, KeyUse::if_nothing, "transformers", media},
    {"inputs_embeds", in_tokens, KeyUse::if_nothing, "transformers",
     "replaces the embedding, which Tidepool does not; remove it"},
    {"decoder_input_ids", in_tokens, KeyUse::if_nothing, "transformers",
     "belongs to a model with an encoder, which Tidepool does not train"},
    {"special_tokens_mask", in_tokens, KeyUse::no_effect, "transformers", ""},
    {"offset_mapping", in_tokens, KeyUse::no_effect, "transformers", ""},
    {"length", in_tokens, KeyUse::no_effect, "transformers, axolotl", ""},
};

// Records that other tools know and Tidepool does not train on, by a key that they have.
struct ForeignRecord {
  std::string_view key, about;
};
constexpr std::string_view foreign_preference =
    "this is preference data; set objective.type to dpo, orpo, cpo, simpo or reward, or write the chosen "
    "answer as \"completion\"";
constexpr ForeignRecord foreign_records[] = {
    {"chosen", foreign_preference},
    {"rejected", foreign_preference},
    {"segments",
     "these are axolotl's segments; write \"prompt\" and \"completion\", or token ids and labels"},
    {"prompt", "this is a prompt alone; there is nothing to learn without a \"completion\""},
};

bool is_zero(const json::value& v) {
  if (v.is_bool()) return !v.get_bool();
  return v.is_number() && v.to_number<double>() == 0;
}

bool is_nothing(const json::value& v) {
  if (v.is_string()) return v.get_string().empty();
  if (v.is_array()) return std::ranges::all_of(v.get_array(), &is_nothing);
  if (v.is_object()) return v.get_object().empty();
  return v.is_null();
}

bool says_nothing_else(const json::value& v, KeyUse use) {
  switch (use) {
    case KeyUse::read:
    case KeyUse::no_effect:
      return true;
    case KeyUse::if_nothing:
      return is_nothing(v);
    case KeyUse::if_zeros:
      return is_nothing(v) || is_zero(v) || (v.is_array() && std::ranges::all_of(v.get_array(), &is_zero));
    case KeyUse::if_not_false:
      return !v.is_bool() || v.get_bool();
  }
  return true;
}

}  // namespace

Result<void> check_known_keys(const json::object& record, RecordShape shape, const std::string& place) {
  for (const KnownKey& known : known_keys) {
    if ((known.shapes & only(shape)) == 0) continue;
    const json::value* v = record.if_contains(known.key);
    if (v != nullptr && !says_nothing_else(*v, known.use))
      return Error{ErrorKind::bad_input,
                   fmt::format("{}: \"{}\" (as in {}) {}", place, known.key, known.tools, known.advice)};
  }
  return {};
}

std::string_view about_foreign_record(const json::object& record) {
  const auto found =
      std::ranges::find_if(foreign_records, [&](const ForeignRecord& f) { return record.contains(f.key); });
  return found == std::end(foreign_records) ? std::string_view() : found->about;
}

bool is_unknown_mask(std::string_view key, const json::value& v, size_t of_tokens) {
  constexpr std::array<std::string_view, 4> ends = {"mask", "masks", "weight", "weights"};
  const bool named = std::ranges::any_of(ends, [&](std::string_view end) { return key.ends_with(end); });
  const bool known = std::ranges::find(known_keys, key, &KnownKey::key) != std::end(known_keys);
  return named && !known && v.is_array() && v.get_array().size() == of_tokens;
}

}  // namespace tidepool
