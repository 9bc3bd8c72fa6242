// Record reader: parses one line of JSONL, and explains why a line is malformed.
#include "data/records/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include "base/json/large_integers.h"
#include "data/records/known_keys.h"
#include "data/records/message_fields.h"
#include "data/records/objective_records.h"
#include "data/records/record_fields.h"
#include "data/records/record_shape.h"
#include "data/records/sharegpt.h"
#include "data/records/token_row.h"
#include "huggingface/jinja/from_json.h"

namespace tidepool {

namespace json = boost::json;

namespace {

// Parameters of apply_chat_template that are no variables of the template.
constexpr std::array<std::string_view, 14> no_variables = {"messages",
                                                           "conversation",
                                                           "chat_template",
                                                           "add_generation_prompt",
                                                           "continue_final_message",
                                                           "tokenize",
                                                           "padding",
                                                           "truncation",
                                                           "max_length",
                                                           "return_tensors",
                                                           "return_dict",
                                                           "return_assistant_tokens_mask",
                                                           "tokenizer_kwargs",
                                                           "sanitize_control_tokens"};

class Reader : private MessageFields {
 public:
  Reader(const ExactJson& line, const std::string& place) : MessageFields(line, place), line_(line) {}

  Result<Record> read(RecordShape shape) const {
    switch (shape) {
      case RecordShape::text: {
        TRY_ASSIGN(std::string text, needed("text"));
        return Record(TextRecord{std::move(text)});
      }
      case RecordShape::messages:
        return messages();
      case RecordShape::sharegpt:
        return sharegpt();
      case RecordShape::alpaca:
        return alpaca();
      case RecordShape::completion: {
        const json::value *before = field("prompt"), *behind = field("completion");
        if (before && behind && before->is_array() != behind->is_array())
          return fault("\"prompt\" and \"completion\" must both be text, or both lists of messages");
        TRY_ASSIGN(std::string prompt, needed("prompt"));
        TRY_ASSIGN(std::string completion, needed("completion"));
        return Record(CompletionRecord{std::move(prompt), std::move(completion)});
      }
      case RecordShape::tokens: {
        TRY_ASSIGN(TokensRecord tokens, TokenRow(line_, place_).read());
        return Record(std::move(tokens));
      }
      case RecordShape::distributions: {
        TRY_ASSIGN(TokensRecord tokens, TokenRow(line_, place_).read_with_distributions());
        return Record(std::move(tokens));
      }
      case RecordShape::token_labels: {
        TRY_ASSIGN(TokenLabelsRecord labels, LabelledTokens(line_, place_).read());
        return Record(std::move(labels));
      }
      case RecordShape::message_completion:
        return message_completion();
      case RecordShape::labelled: {
        TRY_ASSIGN(LabelledRecord labelled, LabelledText(line_, place_).read());
        return Record(std::move(labelled));
      }
      case RecordShape::preference: {
        TRY_ASSIGN(PreferenceRecord pair, PreferenceTexts(line_, place_).read());
        return Record(std::move(pair));
      }
      case RecordShape::message_preference:
        return message_preference();
      case RecordShape::judged:
        return judged();
      case RecordShape::rollouts:
        return rollouts();
    }
    return fault("no shape");
  }

 private:
  Result<Record> messages() const {
    TRY_ASSIGN(const json::array* all, list("messages"));
    return with_messages({}, "messages", *all);
  }

  Result<Record> with_messages(ChatRecord out, std::string_view key, const json::array& all) const {
    TRY(add_messages(out, key, all));
    return with_extras(std::move(out));
  }

  Result<void> add_messages(ChatRecord& out, std::string_view key, const json::array& all) const {
    for (size_t i = 0; i < all.size(); ++i) {
      const std::string what = fmt::format("{}[{}]", key, i);
      TRY_ASSIGN(jinja::Value message, this->message(all[i], what));
      TRY_ASSIGN(const bool learned, is_learned(all[i].get_object(), what, is_answer(message)));
      if (!learned) out.not_learned.push_back(out.messages.size());
      out.messages.push_back(std::move(message));
    }
    return {};
  }

  // Adds everything beside the messages that the template gets.
  Result<Record> with_extras(ChatRecord out) const {
    if (const json::value* tools = field("tools")) TRY(read_tools(*tools, out));
    TRY(read_variables(out.variables, &out));
    return Record(std::move(out));
  }

  // Reads `weight`, as OpenAI's records have it, and its other names. Only an answer's may be 1.
  Result<bool> is_learned(const json::object& message, const std::string& what, bool answer) const {
    bool learned = true;
    for (const std::string_view key : {"weight", "train", "training", "loss"}) {
      const json::value* v = field_of(message, key);
      if (v == nullptr) continue;
      const double number = v->is_bool() ? v->get_bool() : v->is_number() ? v->to_number<double>() : -1;
      if (!answer) {
        if (number != 1) continue;
        return fault(fmt::format(
            "{}.{} asks to learn it, but answers alone are learned. Remove the key; to learn every "
            "message set data.loss=all",
            what, key));
      }
      if (number != 0 && number != 1)
        return fault(fmt::format("{}.{} must be 1, or 0 for an answer that is not learned", what, key));
      learned = learned && number == 1;
    }
    return learned;
  }

  // Reads a row's chat_template_kwargs. `chat` gets its tools; null: the record has none.
  Result<void> read_variables(jinja::Dict& out, ChatRecord* chat) const {
    const json::value* given = field("chat_template_kwargs");
    if (given == nullptr) return {};
    if (!given->is_object())
      return fault(fmt::format("\"chat_template_kwargs\" must be an object, not {}", json_kind_name(*given)));
    for (const auto& [key, v] : given->get_object()) {
      if (std::ranges::find(no_variables, std::string_view(key)) != no_variables.end()) {
        if (v.is_null()) continue;
        return fault(
            fmt::format("chat_template_kwargs has {}, which is no variable of a template but an argument of "
                        "transformers; "
                        "remove it",
                        std::string_view(key)));
      }
      if (key == "tools" && chat != nullptr) {
        TRY(read_tools(v, *chat));
      } else {
        out.set(key, jinja::from_json(v, large_));
      }
    }
    return {};
  }

  Result<void> read_tools(const json::value& tools, ChatRecord& out) const {
    if (tools.is_string() && !tools.get_string().empty()) {
      const Result<jinja::Value> read = tools_in(tools.get_string());
      if (!read) return fault(fmt::format("\"tools\" {}", read.error().message));
      if (!read->list()->empty()) out.tools = *read;
    } else if (tools.is_array() && !tools.get_array().empty()) {
      out.tools = jinja::from_json(tools, large_);
    } else if (!tools.is_array() && !tools.is_null() && !tools.is_string()) {
      return fault(
          fmt::format("\"tools\" must be a list, or JSON text of a list, not {}", json_kind_name(tools)));
    }
    return {};
  }

  // Reads the messages of a prompt, and then those of its completion.
  Result<Record> message_completion() const {
    TRY_ASSIGN(const json::array* prompt, list("prompt"));
    TRY_ASSIGN(const json::array* completion, list("completion"));
    ChatRecord out;
    TRY(add_messages(out, "prompt", *prompt));
    out.completion = out.messages.size();
    out.not_learned.clear();
    for (size_t i = 0; i < out.messages.size(); ++i)
      if (is_answer(out.messages[i])) out.not_learned.push_back(i);
    ChatRecord end;
    TRY(add_messages(end, "completion", *completion));
    if (!end.not_learned.empty())
      return fault(fmt::format(
          "completion[{}] has a weight of 0, but a completion is learned as a whole; write the record "
          "as messages",
          end.not_learned.front()));
    for (jinja::Value& message : end.messages) out.messages.push_back(std::move(message));
    return with_extras(std::move(out));
  }

  // Reads two answers as messages. Without a prompt, it is what both begin with.
  Result<Record> message_preference() const {
    PreferenceRecord out;
    TRY_ASSIGN(out.margin, margin_of(*this));
    ChatRecord prompt, chosen, rejected;
    if (const json::value* before = field("prompt"); before != nullptr) {
      TRY_ASSIGN(const json::array* messages, list("prompt"));
      TRY(add_messages(prompt, "prompt", *messages));
    }
    TRY_ASSIGN(const json::array* of_chosen, list("chosen"));
    TRY_ASSIGN(const json::array* of_rejected, list("rejected"));
    TRY(add_messages(chosen, "chosen", *of_chosen));
    TRY(add_messages(rejected, "rejected", *of_rejected));
    size_t same = 0;
    while (same < std::min(of_chosen->size(), of_rejected->size()) &&
           (*of_chosen)[same] == (*of_rejected)[same])
      ++same;
    if (same == of_chosen->size() || same == of_rejected->size()) return same_answers(*this);
    if (!prompt.messages.empty()) same = 0;
    const size_t begin = prompt.messages.size() + same;
    for (const auto& [answer, to] : {std::pair{&chosen, &out.chosen}, {&rejected, &out.rejected}}) {
      ChatRecord whole = prompt;
      for (jinja::Value& message : answer->messages) whole.messages.push_back(std::move(message));
      whole.completion = begin;
      whole.not_learned.clear();
      for (size_t i = 0; i < begin; ++i)
        if (is_answer(whole.messages[i])) whole.not_learned.push_back(i);
      TRY_ASSIGN(Record read, with_extras(std::move(whole)));
      *to = std::get<ChatRecord>(std::move(read));
    }
    return Record(std::move(out));
  }

  // Reads the answer of one prompt and one completion.
  static Result<Answer> answer_of(const ExactJson& one, const std::string& place) {
    TRY_ASSIGN(Record read, Reader(one, place).read(completion_of(one.value.get_object())));
    if (auto* chat = std::get_if<ChatRecord>(&read)) return Answer(std::move(*chat));
    return Answer(std::get<CompletionRecord>(std::move(read)));
  }

  Result<Record> judged() const {
    JudgedRecord out;
    TRY_ASSIGN(out.desirable, desirable_of(*this));
    TRY_ASSIGN(out.answer, answer_of(line_, place_));
    if (const auto* text = std::get_if<CompletionRecord>(&out.answer); text && text->completion.empty())
      return fault("the completion is empty; remove the record, or write an answer");
    return Record(std::move(out));
  }

  Result<Record> rollouts() const {
    const GroupOfRollouts group(line_, place_);
    TRY_ASSIGN(RolloutsRecord out, group.read_numbers());
    for (size_t i = 0; i < out.completions.size(); ++i) {
      if (group.has_ids()) {
        TRY_ASSIGN(out.completions[i].answer, group.read_ids(i));
        continue;
      }
      TRY_ASSIGN(const ExactJson one, group.record_of(i));
      TRY_ASSIGN(out.completions[i].answer, answer_of(one, fmt::format("{}: completions[{}]", place_, i)));
    }
    return Record(std::move(out));
  }

  static jinja::Value message_of(std::string_view role, std::string content) {
    jinja::Dict out;
    out.set("role", jinja::Value(role));
    out.set("content", jinja::Value(std::move(content)));
    return jinja::Value(std::move(out));
  }

  // True if the turns are in the format of `messages`: some files use this key for them.
  static bool are_messages(const json::array& turns) {
    const json::object* first = turns[0].if_object();
    return first && first->contains("role") && !first->contains("from");
  }

  Result<Record> sharegpt() const {
    TRY_ASSIGN(const json::array* turns, list("conversations"));
    ChatRecord out;
    TRY_ASSIGN(std::string system, optional("system"));
    if (!system.empty()) out.messages.push_back(message_of("system", std::move(system)));
    if (are_messages(*turns)) return with_messages(std::move(out), "conversations", *turns);
    for (size_t i = 0; i < turns->size(); ++i) {
      const std::string what = fmt::format("conversations[{}]", i);
      const json::object* turn = (*turns)[i].if_object();
      if (turn == nullptr)
        return fault(fmt::format("{} must be an object, not {}", what, json_kind_name((*turns)[i])));
      const json::value *from = turn->if_contains("from"), *value = turn->if_contains("value");
      if (from == nullptr || value == nullptr)
        return fault(fmt::format("{} has no \"{}\"", what, from ? "value" : "from"));
      TRY_ASSIGN(const std::string speaker, text_of(*from, what + ".from"));
      TRY_ASSIGN(std::string content, text_of(*value, what + ".value"));
      const std::string_view role = role_of_speaker(speaker);
      if (role.empty())
        return fault(fmt::format("{}.from is '{}'; known are {}", what, speaker, known_speakers));
      TRY_ASSIGN(const bool learned, is_learned(*turn, what, role == "assistant"));
      if (!learned) out.not_learned.push_back(out.messages.size());
      if (!makes_calls(speaker)) {
        out.messages.push_back(message_of(role, std::move(content)));
        continue;
      }
      const Result<jinja::Value> calls = calls_in(content);
      if (!calls) return fault(fmt::format("{}.value {}", what, calls.error().message));
      jinja::Dict message = *message_of(role, "").dict();
      message.set("tool_calls", *calls);
      out.messages.push_back(jinja::Value(std::move(message)));
    }
    TRY_ASSIGN(Record read, with_extras(std::move(out)));
    if (auto* chat = std::get_if<ChatRecord>(&read); chat && !chat->tools.is_undefined())
      chat->tools = as_functions(chat->tools);
    return read;
  }

  Result<Record> alpaca() const {
    AlpacaRecord out;
    TRY_ASSIGN(out.instruction, needed("instruction"));
    TRY_ASSIGN(out.input, optional("input"));
    TRY_ASSIGN(out.output, needed("output"));
    TRY_ASSIGN(out.system, optional("system"));
    TRY(read_history(out));
    TRY(read_variables(out.variables, nullptr));
    return Record(std::move(out));
  }

  // Reads LLaMA-Factory's history: pairs of an instruction and its output.
  Result<void> read_history(AlpacaRecord& out) const {
    const json::value* given = field("history");
    if (given == nullptr || (given->is_array() && given->get_array().empty())) return {};
    TRY_ASSIGN(const json::array* pairs, list("history"));
    for (size_t i = 0; i < pairs->size(); ++i) {
      const json::array* pair = (*pairs)[i].if_array();
      if (pair == nullptr || pair->size() != 2 || !(*pair)[0].is_string() || !(*pair)[1].is_string())
        return fault(fmt::format("history[{}] must be a list of an instruction and its output", i));
      out.history.emplace_back((*pair)[0].get_string(), (*pair)[1].get_string());
    }
    return {};
  }

  const ExactJson& line_;

  friend Result<Answer> tidepool::parse_mismatched(std::string_view, std::string_view, const std::string&);
};

}  // namespace

bool is_answer(const jinja::Value& message) {
  const jinja::Value* role = message.dict()->find("role");
  return role && role->text() && *role->text() == "assistant";
}

Result<Record> parse_record(std::string_view line, RecordShape shape, const std::string& place) {
  TRY_ASSIGN(const ExactJson parsed, parse_object(line, place));
  const Reader reader(parsed, place);
  const json::object& object = parsed.value.get_object();
  const std::string_view wanted = key_of(shape);
  if (!wanted.empty() && !object.contains(wanted)) {
    if (shape == RecordShape::distributions)
      return bad_record(
          place,
          "there is no \"teacher_topk_ids\"; name a teacher with objective.teacher, or write these "
          "lines with  tidepool score TEACHER data=FILE --top-k K");
    const std::string_view other = key_of_other_shape(object);
    return bad_record(
        place,
        fmt::format(
            "this is not a {} record: there is no \"{}\"{}; all records of a source must have one shape",
            name_of(shape), wanted, other.empty() ? "" : fmt::format(", but \"{}\"", other)));
  }
  const bool messages = shape == RecordShape::message_completion;
  if (wanted == key_of(RecordShape::completion) && completion_of(object) != shape)
    return bad_record(place,
                      fmt::format("prompt and completion must both be {}, as in the first record of the "
                                  "source; all records of a source must have one shape",
                                  messages ? "lists of messages" : "text"));
  if (wanted == key_of(RecordShape::preference) && preference_of(object) != shape)
    return bad_record(place,
                      fmt::format("chosen and rejected must both be {}, as in the first record of the "
                                  "source; all records of a source must have one shape",
                                  shape == RecordShape::message_preference ? "lists of messages" : "text"));
  TRY(check_known_keys(object, shape, place));
  return reader.read(shape);
}

Result<Answer> parse_mismatched(std::string_view line, std::string_view other, const std::string& place) {
  TRY_ASSIGN(ExactJson own, parse_object(line, place));
  const Result<ExactJson> theirs = parse_object(other, place);
  const json::value* completion = theirs ? field_of(theirs->value.get_object(), "completion") : nullptr;
  // A whole number beyond 64 bits stands in a list of its own line.
  if (completion != nullptr && theirs->large.empty()) {
    ExactJson mixed = own;
    mixed.value.get_object()["completion"] = *completion;
    Result<Answer> answer = Reader::answer_of(mixed, place);
    if (answer) return answer;
  }
  return Reader::answer_of(own, place);
}

}  // namespace tidepool
