// Record reader: parses one line of JSONL, and explains why a line is malformed.
#include "data/documents/record.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <charconv>

#include "base/json/large_integers.h"
#include "base/json/text.h"
#include "base/text/nearest.h"
#include "base/text/utf8.h"
#include "huggingface/jinja/from_json.h"

namespace tidepool {

namespace json = boost::json;

namespace {

// A key that identifies a shape: no other shape has it.
struct ShapeKey {
  RecordShape shape;
  std::string_view name, key;
};
constexpr std::array<ShapeKey, 6> shapes = {{{RecordShape::text, "text", "text"},
                                             {RecordShape::messages, "messages", "messages"},
                                             {RecordShape::sharegpt, "sharegpt", "conversations"},
                                             {RecordShape::alpaca, "alpaca", "instruction"},
                                             {RecordShape::completion, "completion", "completion"},
                                             {RecordShape::tokens, "tokens", "input_ids"}}};

constexpr i64 token_max = 0x7fff'fffe;
constexpr i64 no_label = -100;

Error bad_record(const std::string& place, std::string_view text) {
  return {ErrorKind::bad_input, fmt::format("{}: {}", place, text)};
}

std::string_view kind_name(const json::value& v) {
  constexpr std::string_view names[] = {"null",     "true or false", "a number", "a number",
                                        "a number", "text",          "a list",   "an object"};
  return names[static_cast<size_t>(v.kind())];
}

class Reader {
 public:
  Reader(const ExactJson& line, const std::string& place)
      : object_(line.value.get_object()), large_(line.large), place_(place) {}

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
        TRY_ASSIGN(std::string prompt, needed("prompt"));
        TRY_ASSIGN(std::string completion, needed("completion"));
        return Record(CompletionRecord{std::move(prompt), std::move(completion)});
      }
      case RecordShape::tokens:
        return tokens();
    }
    return fault("no shape");
  }

 private:
  Error fault(std::string_view text) const { return bad_record(place_, text); }

  Result<std::string> text_of(const json::value& v, std::string_view what) const {
    if (!v.is_string()) return fault(fmt::format("{} must be text, not {}", what, kind_name(v)));
    return std::string(v.get_string());
  }
  Result<std::string> needed(std::string_view key) const {
    const json::value* v = object_.if_contains(key);
    if (v == nullptr) return fault(fmt::format("there is no \"{}\"", key));
    return text_of(*v, fmt::format("\"{}\"", key));
  }
  Result<std::string> optional(std::string_view key) const {
    const json::value* v = object_.if_contains(key);
    if (v == nullptr || v->is_null()) return std::string();
    return text_of(*v, fmt::format("\"{}\"", key));
  }
  Result<const json::array*> list(std::string_view key) const {
    const json::value* v = object_.if_contains(key);
    if (v == nullptr) return fault(fmt::format("there is no \"{}\"", key));
    if (!v->is_array()) return fault(fmt::format("\"{}\" must be a list, not {}", key, kind_name(*v)));
    if (v->get_array().empty()) return fault(fmt::format("\"{}\" is empty", key));
    return &v->get_array();
  }

  Result<Record> messages() const {
    TRY_ASSIGN(const json::array* all, list("messages"));
    return with_messages({}, "messages", *all);
  }

  Result<Record> with_messages(ChatRecord out, std::string_view key, const json::array& all) const {
    for (size_t i = 0; i < all.size(); ++i) {
      const std::string what = fmt::format("{}[{}]", key, i);
      TRY_ASSIGN(jinja::Value message, this->message(all[i], what));
      TRY_ASSIGN(const bool learned, is_learned(all[i].get_object(), what, is_answer(message)));
      if (!learned) out.not_learned.push_back(out.messages.size());
      out.messages.push_back(std::move(message));
    }
    if (const json::value* tools = object_.if_contains("tools"); tools && !tools->is_null()) {
      if (!tools->is_array())
        return fault(fmt::format("\"tools\" must be a list, not {}", kind_name(*tools)));
      if (!tools->get_array().empty()) out.tools = jinja::from_json(*tools, large_);
    }
    return Record(std::move(out));
  }

  // Reads `weight`, as OpenAI's records have it. Only answers may have a weight.
  Result<bool> is_learned(const json::object& message, const std::string& what, bool answer) const {
    const json::value* weight = message.if_contains("weight");
    if (!answer || weight == nullptr || weight->is_null()) return true;
    if (weight->is_bool()) return weight->get_bool();
    const double number = weight->is_number() ? weight->to_number<double>() : -1;
    if (number != 0 && number != 1)
      return fault(fmt::format("{}.weight must be 1, or 0 for an answer that is not learned", what));
    return number == 1;
  }

  Result<jinja::Value> message(const json::value& v, const std::string& what) const {
    if (!v.is_object()) return fault(fmt::format("{} must be an object, not {}", what, kind_name(v)));
    const json::value* role = v.get_object().if_contains("role");
    if (role == nullptr) return fault(fmt::format("{} has no \"role\"", what));
    TRY(text_of(*role, what + ".role"));
    const json::value* content = v.get_object().if_contains("content");
    const bool has_content = content && !content->is_null();
    if (has_content && !content->is_string() && !content->is_array())
      return fault(
          fmt::format("{}.content must be text, or a list of parts, not {}", what, kind_name(*content)));
    const json::value* calls = v.get_object().if_contains("tool_calls");
    if (!has_content && (calls == nullptr || calls->is_null()))
      return fault(fmt::format("{} has neither \"content\" nor \"tool_calls\"", what));
    jinja::Dict out;
    for (const auto& [key, field] : v.get_object()) {
      if (!field.is_null() || key == "content") out.set(key, jinja::from_json(field, large_));
    }
    return jinja::Value(std::move(out));
  }

  static jinja::Value message_of(std::string_view role, std::string content) {
    jinja::Dict out;
    out.set("role", jinja::Value(role));
    out.set("content", jinja::Value(std::move(content)));
    return jinja::Value(std::move(out));
  }

  // Role of a speaker; "" if unknown.
  static std::string_view role_of(std::string_view from) {
    if (from == "human" || from == "user") return "user";
    if (from == "gpt" || from == "assistant" || from == "model" || from == "chatgpt") return "assistant";
    if (from == "system") return "system";
    if (from == "tool" || from == "observation" || from == "function_response") return "tool";
    return "";
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
        return fault(fmt::format("{} must be an object, not {}", what, kind_name((*turns)[i])));
      const json::value *from = turn->if_contains("from"), *value = turn->if_contains("value");
      if (from == nullptr || value == nullptr)
        return fault(fmt::format("{} has no \"{}\"", what, from ? "value" : "from"));
      TRY_ASSIGN(const std::string speaker, text_of(*from, what + ".from"));
      TRY_ASSIGN(std::string content, text_of(*value, what + ".value"));
      if (role_of(speaker).empty())
        return fault(fmt::format(
            "{}.from is '{}'; known are human, user, gpt, assistant, model, chatgpt, system, tool", what,
            speaker));
      TRY_ASSIGN(const bool learned, is_learned(*turn, what, role_of(speaker) == "assistant"));
      if (!learned) out.not_learned.push_back(out.messages.size());
      out.messages.push_back(message_of(role_of(speaker), std::move(content)));
    }
    return Record(std::move(out));
  }

  Result<Record> alpaca() const {
    AlpacaRecord out;
    TRY_ASSIGN(out.instruction, needed("instruction"));
    TRY_ASSIGN(out.input, optional("input"));
    TRY_ASSIGN(out.output, needed("output"));
    return Record(std::move(out));
  }

  Result<i64> integer(const json::value& v, const std::string& what, i64 least) const {
    if (!v.is_int64()) return fault(fmt::format("{} must be an integer", what));
    if (v.get_int64() < least || v.get_int64() > token_max)
      return fault(fmt::format("{} is {}, which is not a token id", what, v.get_int64()));
    return v.get_int64();
  }

  Result<Record> tokens() const {
    TRY_ASSIGN(const json::array* ids, list("input_ids"));
    TokensRecord out;
    for (size_t i = 0; i < ids->size(); ++i) {
      TRY_ASSIGN(const i64 id, integer((*ids)[i], fmt::format("input_ids[{}]", i), 0));
      out.ids.push_back(static_cast<u32>(id));
    }
    out.learned.assign(out.ids.size(), true);
    const json::value* given = object_.if_contains("labels");
    if (given == nullptr || given->is_null()) return Record(std::move(out));
    TRY_ASSIGN(const json::array* labels, list("labels"));
    if (labels->size() != ids->size())
      return fault(fmt::format("{} labels for {} input_ids; there must be one label for each", labels->size(),
                               ids->size()));
    for (size_t i = 0; i < labels->size(); ++i) {
      const std::string what = fmt::format("labels[{}]", i);
      TRY_ASSIGN(const i64 label, integer((*labels)[i], what, no_label));
      if (label != no_label && label != static_cast<i64>(out.ids[i]))
        return fault(fmt::format("{} is {}, but must be input_ids[{}] = {}, or -100 for no loss", what, label,
                                 i, out.ids[i]));
      out.learned[i] = label != no_label;
    }
    return Record(std::move(out));
  }

  const json::object& object_;
  const std::vector<std::string>& large_;  // integers beyond 64 bits that occur in object_
  const std::string& place_;
};

u32 hex4(std::string_view digits) {
  u32 out = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), out, 16);
  return digits.size() == 4 && error == std::errc() && end == digits.data() + 4 ? out : 0;
}

// Finds "\\ud83d" without its other half, as written by programs that cut text between the two; empty: none.
std::string_view lone_surrogate(std::string_view line) {
  for (size_t at = line.find('\\'); at != line.npos; at = line.find('\\', at)) {
    const std::string_view escape = line.substr(at, 6);
    const u32 unit = escape.starts_with("\\u") ? hex4(escape.substr(2)) : 0;
    if (unit >= 0xdc00 && unit < 0xe000) return escape;
    if (unit >= 0xd800 && unit < 0xdc00) {
      const std::string_view next = line.substr(std::min(at + 6, line.size()), 6);
      const u32 other = next.starts_with("\\u") ? hex4(next.substr(2)) : 0;
      if (other < 0xdc00 || other >= 0xe000) return escape;
      at += 6;
    }
    at += unit != 0 ? 6 : 2;
  }
  return {};
}

// RETURNS: offset of the character that the byte at `at` breaks: its first byte announces more bytes than
// follow.
u64 begin_of_broken(std::string_view line, u64 at) {
  for (u64 back = 1; back <= std::min<u64>(at, 3); ++back) {
    const u8 byte = static_cast<u8>(line[at - back]);
    if ((byte & 0xc0) == 0x80) continue;
    const u64 bytes = byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
    return back < bytes ? at - back : at;
  }
  return at;
}

// Describes the encoding error of a line; empty: the line is UTF-8.
std::string wrong_encoding(std::string_view line) {
  Utf8Checker checker;
  std::optional<u64> at = checker.feed(std::as_bytes(std::span(line)));
  if (!at) at = checker.finish();
  if (!at) return {};
  at = begin_of_broken(line, *at);
  return fmt::format(
      "is not UTF-8 at byte {} of the line (0x{:02x}), perhaps Latin-1; convert the file, for example with  "
      "iconv -f LATIN1 -t UTF-8 FILE > OUT",
      *at, static_cast<u8>(line[*at]));
}

// Explains more precisely than the JSON parser why a line is invalid.
Error explain(const Error& error, std::string_view line, const std::string& place) {
  if (const std::string encoding = wrong_encoding(line); !encoding.empty())
    return bad_record(place, encoding);
  const std::string_view lone = lone_surrogate(line);
  if (lone.empty()) return error;
  return {ErrorKind::bad_input, fmt::format("{}: {} is half of a character without its other half; write the "
                                            "file again without it, or with \\ufffd in its place",
                                            error.message, lone)};
}

Result<ExactJson> parse_object(std::string_view line, const std::string& place) {
  Result<ExactJson> parsed = parse_exact_json(line, ErrorKind::bad_input, place);
  if (!parsed) return explain(parsed.error(), line, place);
  const json::value& v = parsed->value;
  if (v.is_object()) return parsed;
  const std::string_view advice =
      v.is_array() ? "; convert a file that is one list to lines with  jq -c '.[]'" : "";
  return bad_record(place,
                    fmt::format("every line must be a JSON object, but this is {}{}", kind_name(v), advice));
}

}  // namespace

bool is_answer(const jinja::Value& message) {
  const jinja::Value* role = message.dict()->find("role");
  return role && role->text() && *role->text() == "assistant";
}

std::string_view name_of(RecordShape shape) {
  return std::ranges::find(shapes, shape, &ShapeKey::shape)->name;
}

Result<RecordShape> recognise_record(std::string_view line, const std::string& place) {
  if (line.starts_with('[') && !line.ends_with(']'))
    return bad_record(
        place,
        "the file is one JSON list over several lines; convert it to lines of objects with  jq -c '.[]'");
  TRY_ASSIGN(const ExactJson parsed, parse_object(line, place));
  const json::object& object = parsed.value.get_object();
  std::vector<RecordShape> found;
  for (const ShapeKey& shape : shapes) {
    if (object.contains(shape.key)) found.push_back(shape.shape);
  }
  if (found.size() == 1) return found[0];
  std::vector<std::string_view> names;
  for (const RecordShape shape : found) names.push_back(name_of(shape));
  if (found.size() > 1)
    return bad_record(place, fmt::format("the record may be {}; set data.records", fmt::join(names, " or ")));
  std::vector<std::string_view> keys, known;
  for (const auto& [key, field] : object) keys.push_back(key);
  for (const ShapeKey& shape : shapes) known.push_back(shape.key);
  const std::string slip = keys.empty() ? "" : did_you_mean(keys[0], known);
  return bad_record(place, fmt::format("its keys ({}) fit no kind of record; there must be one of {}{}",
                                       fmt::join(keys, ", "), fmt::join(known, ", "), slip));
}

Result<Record> parse_record(std::string_view line, RecordShape shape, const std::string& place) {
  TRY_ASSIGN(const ExactJson parsed, parse_object(line, place));
  const Reader reader(parsed, place);
  const json::object& object = parsed.value.get_object();
  const auto& wanted = *std::ranges::find(shapes, shape, &ShapeKey::shape);
  if (object.contains(wanted.key)) return reader.read(shape);
  const auto other = std::ranges::find_if(shapes, [&](const ShapeKey& s) { return object.contains(s.key); });
  return bad_record(
      place,
      fmt::format(
          "this is not a {} record: there is no \"{}\"{}; all records of a source must have one shape",
          wanted.name, wanted.key, other == shapes.end() ? "" : fmt::format(", but \"{}\"", other->key)));
}

}  // namespace tidepool
