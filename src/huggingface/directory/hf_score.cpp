#include "huggingface/directory/hf_score.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>

#include "tidepool/model_wrappers.h"

namespace tidepool {

namespace json = boost::json;

namespace {

constexpr std::string_view classifier = "ForSequenceClassification",
                           token_classifier = "ForTokenClassification";

// "LlamaForSequenceClassification" of "LlamaForCausalLM".
std::string classifier_of(Family family, bool of_tokens) {
  const std::string_view model = traits(family).architecture;
  const std::string_view classifier = of_tokens ? token_classifier : tidepool::classifier;
  for (const std::string_view head : {"ForCausalLM", "LMHeadModel"})
    if (model.ends_with(head))
      // The text model of a wrapper has a class of its own.
      return fmt::format("{}{}{}", model.substr(0, model.size() - head.size()),
                         has_wrapper(family) ? "Text" : "", classifier);
  return std::string(classifier);
}

bool is_class(const json::object& config, std::string_view classifier) {
  const json::value* names = config.if_contains("architectures");
  if (names == nullptr || !names->is_array() || names->get_array().empty()) return false;
  const json::value& name = names->get_array()[0];
  return name.is_string() && std::string_view(name.get_string()).ends_with(classifier);
}

// As transformers' classifiers of tokens find it.
double dropout_of_tokens(const json::object& config) {
  for (const char* key : {"classifier_dropout", "hidden_dropout"})
    if (const json::value* p = config.if_contains(key); p != nullptr && p->is_number())
      return p->to_number<double>();
  return token_classifier_dropout;
}

}  // namespace

std::optional<ModelFault> read_score(const json::object& config, ScoreHead& score) {
  score.of_tokens = is_class(config, token_classifier);
  if (!score.of_tokens && !is_class(config, classifier)) return std::nullopt;
  constexpr u32 labels_of_transformers = 2;
  const json::value *labels = config.if_contains("id2label"), *count = config.if_contains("num_labels");
  score.labels = labels_of_transformers;
  if (labels != nullptr && labels->is_object())
    score.labels = static_cast<u32>(labels->get_object().size());
  else if (count != nullptr && count->is_int64())
    score.labels = static_cast<u32>(count->get_int64());
  if (score.labels == 0) return ModelFault{"id2label", "names no label; a head has one or more"};
  if (score.of_tokens) score.dropout = dropout_of_tokens(config);
  if (const json::value* bias = config.if_contains("token_classification_bias");
      score.of_tokens && bias != nullptr && *bias == false)
    return ModelFault{"token_classification_bias", "is false; only heads with a bias are trained here"};
  const std::string_view expected = score.labels == 1 ? "regression" : "single_label_classification";
  if (const json::value* type = config.if_contains("problem_type");
      !score.of_tokens && type != nullptr && type->is_string() && type->get_string() != expected)
    return ModelFault{
        "problem_type",
        "the model predicts several labels or numbers of a text; only models that choose one of "
        "two or more labels, or give a text one score, are trained here"};
  for (u32 label = 0; labels != nullptr && labels->is_object() && label < score.labels; ++label) {
    const json::value* name = labels->get_object().if_contains(std::to_string(label));
    if (name == nullptr || !name->is_string())
      return ModelFault{"id2label", fmt::format("must name the labels 0 to {}", score.labels - 1)};
    score.names.emplace_back(name->get_string());
  }
  const ScoreHead unnamed{.labels = score.labels};
  bool named = false;
  for (u32 label = 0; label < score.labels; ++label)
    named = named || score.name(label) != unnamed.name(label);
  if (!named) score.names.clear();
  return std::nullopt;
}

void write_score(const ModelConfig& config, json::object& out) {
  json::object names, numbers;
  for (u32 label = 0; label < config.score.labels; ++label) {
    const std::string name = config.score.name(label);
    names[std::to_string(label)] = name;
    numbers[name] = label;
  }
  out["architectures"] = json::array{json::string(classifier_of(config.family, config.score.of_tokens))};
  if (config.score.of_tokens) out["classifier_dropout"] = config.score.dropout;
  // A reward model's is left open, as TRL does: its loss is none of transformers'.
  if (config.score.labels > 1 && !config.score.of_tokens)
    out["problem_type"] = "single_label_classification";
  else
    out.erase("problem_type");
  out["id2label"] = std::move(names);
  out["label2id"] = std::move(numbers);
  const u32 usual_end = traits(config.family).end_of_text;  // of a config that leaves it out
  const bool has_usual_end = usual_end != 0 && usual_end < config.vocab_size;
  const json::value* const given_end = out.if_contains("eos_token_id");
  const json::value end = given_end != nullptr ? *given_end
                          : has_usual_end      ? json::value(usual_end)
                                               : json::value(nullptr);
  const json::value* const padding = out.if_contains("pad_token_id");
  if (padding == nullptr || padding->is_null())
    out["pad_token_id"] = end.is_array() && !end.get_array().empty() ? end.get_array()[0] : end;
}

}  // namespace tidepool
