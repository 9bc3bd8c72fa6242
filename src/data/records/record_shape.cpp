#include "data/records/record_shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <boost/json/value.hpp>

#include "base/text/nearest.h"
#include "data/records/explain_line.h"
#include "data/records/known_keys.h"
#include "data/records/record_fields.h"

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

}  // namespace

Error bad_record(const std::string& place, std::string_view text) {
  return {ErrorKind::bad_input, fmt::format("{}: {}", place, text)};
}

Result<ExactJson> parse_object(std::string_view line, const std::string& place) {
  Result<ExactJson> parsed = parse_exact_json(line, ErrorKind::bad_input, place);
  if (!parsed) return explain_line(parsed.error(), line, place);
  const json::value& v = parsed->value;
  if (v.is_object()) return parsed;
  const std::string_view advice =
      v.is_array() ? "; convert a file that is one list to lines with  jq -c '.[]'" : "";
  return bad_record(
      place, fmt::format("every line must be a JSON object, but this is {}{}", json_kind_name(v), advice));
}

std::string_view key_of(RecordShape shape) {
  if (shape == RecordShape::message_completion) shape = RecordShape::completion;
  if (shape == RecordShape::labelled) return "label";
  if (shape == RecordShape::preference || shape == RecordShape::message_preference) return "rejected";
  if (shape == RecordShape::judged) return "label";
  if (shape == RecordShape::rollouts || shape == RecordShape::token_labels) return "";  // one of several
  if (shape == RecordShape::distributions) return "teacher_topk_ids";
  return std::ranges::find(shapes, shape, &ShapeKey::shape)->key;
}

RecordShape completion_of(const json::object& object) {
  const json::value *prompt = field_of(object, "prompt"), *completion = field_of(object, "completion");
  const bool lists = prompt && completion && prompt->is_array() && completion->is_array();
  return lists ? RecordShape::message_completion : RecordShape::completion;
}

RecordShape preference_of(const json::object& object) {
  const json::value *chosen = field_of(object, "chosen"), *rejected = field_of(object, "rejected");
  const bool lists = chosen && rejected && chosen->is_array() && rejected->is_array();
  return lists ? RecordShape::message_preference : RecordShape::preference;
}

std::string_view key_of_other_shape(const json::object& object) {
  const auto other = std::ranges::find_if(shapes, [&](const ShapeKey& s) { return object.contains(s.key); });
  return other == shapes.end() ? std::string_view() : other->key;
}

std::string_view name_of(RecordShape shape) {
  if (shape == RecordShape::message_completion) return "completion of messages";
  if (shape == RecordShape::labelled) return "labelled";
  if (shape == RecordShape::preference) return "preference";
  if (shape == RecordShape::message_preference) return "preference of messages";
  if (shape == RecordShape::judged) return "judged";
  if (shape == RecordShape::rollouts) return "rollouts";
  if (shape == RecordShape::token_labels) return "token labels";
  if (shape == RecordShape::distributions) return "distributions";
  return std::ranges::find(shapes, shape, &ShapeKey::shape)->name;
}

std::optional<RecordShape> shape_named(std::string_view name) {
  const auto at = std::ranges::find(shapes, name, &ShapeKey::name);
  return at == shapes.end() ? std::nullopt : std::optional(at->shape);
}

Result<RecordShape> recognise_record(std::string_view line, const std::string& place,
                                     std::optional<RecordShape> named) {
  if (named && !leaves_form_open(*named)) return *named;
  TRY_ASSIGN(const ExactJson parsed, parse_object(line, place));
  const json::object& object = parsed.value.get_object();
  if (named == RecordShape::preference) return preference_of(object);
  std::vector<RecordShape> found;
  for (const ShapeKey& shape : shapes) {
    if (object.contains(shape.key)) found.push_back(shape.shape);
  }
  if (named) found = {*named};
  if (found.size() == 1) return found[0] == RecordShape::completion ? completion_of(object) : found[0];
  std::vector<std::string_view> names;
  for (const RecordShape shape : found) names.push_back(name_of(shape));
  if (found.size() > 1)
    return bad_record(place, fmt::format("the record may be {}; set data.records", fmt::join(names, " or ")));
  if (const std::string_view about = about_foreign_record(object); !about.empty())
    return bad_record(place, about);
  std::vector<std::string_view> keys, known;
  for (const auto& [key, field] : object) keys.push_back(key);
  for (const ShapeKey& shape : shapes) known.push_back(shape.key);
  const std::string slip = keys.empty() ? "" : did_you_mean(keys[0], known);
  return bad_record(place, fmt::format("its keys ({}) fit no kind of record; there must be one of {}{}",
                                       fmt::join(keys, ", "), fmt::join(known, ", "), slip));
}

}  // namespace tidepool
