// Reads and writes trainer_state.json. Doubles are stored as hexadecimal text, because Boost 1.81 reads
// decimals inexactly.
#include "checkpoint/trainer_state.h"

#include <fmt/format.h>

#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <charconv>
#include <cmath>

#include "base/check.h"
#include "base/json/text.h"
#include "base/read_file.h"

namespace tidepool {
namespace json = boost::json;
namespace {

constexpr u64 trainer_state_bytes_max = 4 * gib;  // about 25 bytes per step

std::string exact(double d) {
  if (std::isnan(d)) return "nan";
  if (std::isinf(d)) return d < 0 ? "-inf" : "inf";
  std::array<char, 40> text;
  const bool negative = std::signbit(d);
  const auto [end, ec] =
      std::to_chars(text.data(), text.data() + text.size(), std::fabs(d), std::chars_format::hex);
  CHECK(ec == std::errc());
  return std::string(negative ? "-0x" : "0x").append(text.data(), end);
}

bool parse_exact(std::string_view text, double& out) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  if (text.starts_with("0x")) text.remove_prefix(2);
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), out, std::chars_format::hex);
  if (negative) out = -out;
  return ec == std::errc() && end == text.data() + text.size();
}

// Reads fields one by one and remembers the first that is missing or invalid.
class Fields {
 public:
  explicit Fields(const json::object& object) : object_(object) {}

  u64 count(std::string_view key) { return count_of(find(key), key); }
  double number(std::string_view key) { return number_of(find(key), key); }
  std::string text(std::string_view key) { return text_of(find(key), key); }

  template <class Fn>
  void each(std::string_view key, Fn&& fn) {
    const json::value* list = find(key);
    if (list == nullptr || !list->is_array()) return wrong(key);
    for (const json::value& v : list->get_array()) fn(v);
  }

  static const json::value* member(const json::value& v, std::string_view key) {
    return v.is_object() ? v.get_object().if_contains(json::string_view(key.data(), key.size())) : nullptr;
  }
  u64 count_of(const json::value* v, std::string_view key) {
    if (v != nullptr && v->is_uint64()) return v->get_uint64();
    if (v != nullptr && v->is_int64() && v->get_int64() >= 0) return static_cast<u64>(v->get_int64());
    wrong(key);
    return 0;
  }
  double number_of(const json::value* v, std::string_view key) {
    double out = 0;
    if (v == nullptr || !v->is_string() || !parse_exact(v->get_string(), out)) wrong(key);
    return out;
  }
  std::string text_of(const json::value* v, std::string_view key) {
    if (v != nullptr && v->is_string()) return std::string(std::string_view(v->get_string()));
    wrong(key);
    return {};
  }
  std::optional<Origin> origin_of(const json::value& v) {
    std::optional<Origin> out = parse_origin(v);
    if (!out) wrong(origin_key);
    return out;
  }
  void wrong(std::string_view key) {
    if (fault.empty()) fault = std::string(key);
  }

  std::string fault;  // a key; empty: no fault

 private:
  const json::value* find(std::string_view key) {
    return object_.if_contains(json::string_view(key.data(), key.size()));
  }
  const json::object& object_;
};

}  // namespace

std::span<const EvalLoss> comparable_evaluations(std::span<const EvalLoss> evaluations) {
  size_t first = 0;
  u64 tokens = 0;
  for (size_t i = 0; i < evaluations.size(); ++i) {
    if (!evaluations[i].same_ranking(evaluations[first])) first = i;
    if (evaluations[i].tokens == 0) continue;
    if (tokens != 0 && evaluations[i].tokens != tokens) first = i;
    tokens = evaluations[i].tokens;
  }
  return evaluations.subspan(first);
}

const EvalLoss* best_evaluation(std::span<const EvalLoss> evaluations) {
  const EvalLoss* best = nullptr;
  for (const EvalLoss& e : comparable_evaluations(evaluations))
    if (best == nullptr || e.rank() < best->rank() || std::isnan(best->rank())) best = &e;
  return best;
}

std::string to_text(const TrainerState& s) {
  json::object o;
  o["global_step"] = s.step;
  o["seed"] = s.seed;
  o["data_fingerprint"] = s.data_fingerprint;
  if (!s.base_fingerprint.empty()) o["base_fingerprint"] = s.base_fingerprint;
  if (!s.base_xxh3.empty()) o["base_xxh3"] = s.base_xxh3;
  if (s.origin) o[origin_key] = origin_json(*s.origin);
  o["tokens"] = s.tokens;
  o["seconds"] = exact(s.seconds);
  o["best_step"] = s.best_step;
  // Derived from eval_losses for people who read the file; parse_trainer_state ignores these keys.
  const EvalLoss* best = best_evaluation(s.eval_losses);
  o["best_eval_loss"] = exact(best == nullptr ? 0 : best->loss);
  if (best != nullptr) o["best_eval_step"] = best->step;
  if (s.loss_scale)
    o["loss_scale"] = json::object{{"scale", json::string(exact(s.loss_scale->scale))},
                                   {"good_steps", s.loss_scale->good_steps},
                                   {"skipped_steps", s.loss_scale->skipped_steps}};
  json::object settings;
  for (const auto& [key, value] : s.settings) settings[key] = value;
  o["settings"] = std::move(settings);
  if (!s.optimizers.empty()) o["optimizers"] = s.optimizers;
  if (!s.eval_figure.empty()) o["eval_figure"] = s.eval_figure;
  json::array evals;
  for (const EvalLoss& e : s.eval_losses) {
    json::object eval = {{"step", e.step}, {"eval_loss", json::string(exact(e.loss))}};
    if (e.tokens > 0) eval["tokens"] = e.tokens;
    if (!s.eval_figure.empty()) eval[s.eval_figure] = exact(e.figure);
    if (!e.ranked_by.empty()) {
      eval["ranked_by"] = e.ranked_by;
      eval["value"] = exact(e.value);
      eval["greater_is_better"] = e.greater_is_better;
    }
    evals.push_back(std::move(eval));
  }
  o["eval_losses"] = std::move(evals);
  json::array losses;
  for (const double loss : s.losses) losses.push_back(json::string(exact(loss)));
  o["losses"] = std::move(losses);
  return json_text(o, JsonStyle::pretty);
}

Result<TrainerState> parse_trainer_state(std::string_view text, std::string_view file_name) {
  TRY_ASSIGN(const json::value root, parse_json(text, ErrorKind::corrupt_checkpoint, file_name));
  if (!root.is_object()) {
    return Error{ErrorKind::corrupt_checkpoint, fmt::format("{}: is not a JSON object", file_name)};
  }
  Fields f(root.get_object());
  TrainerState s;
  s.step = f.count("global_step");
  s.seed = f.count("seed");
  s.data_fingerprint = f.text("data_fingerprint");
  if (const json::value* base = Fields::member(root, "base_fingerprint"))
    s.base_fingerprint = f.text_of(base, "base_fingerprint");
  if (const json::value* base = Fields::member(root, "base_xxh3")) s.base_xxh3 = f.text_of(base, "base_xxh3");
  if (const json::value* origin = Fields::member(root, origin_key)) s.origin = f.origin_of(*origin);
  s.tokens = f.count("tokens");
  s.seconds = f.number("seconds");
  s.best_step = f.count("best_step");
  if (const json::value* scale = Fields::member(root, "loss_scale"))
    s.loss_scale = {.scale = f.number_of(Fields::member(*scale, "scale"), "loss_scale"),
                    .good_steps = f.count_of(Fields::member(*scale, "good_steps"), "loss_scale"),
                    .skipped_steps = f.count_of(Fields::member(*scale, "skipped_steps"), "loss_scale")};
  if (const json::value* optimizers = Fields::member(root, "optimizers"))
    s.optimizers = f.text_of(optimizers, "optimizers");
  if (const json::value* figure = Fields::member(root, "eval_figure"))
    s.eval_figure = f.text_of(figure, "eval_figure");
  f.each("eval_losses", [&](const json::value& v) {
    const json::value* tokens = Fields::member(v, "tokens");
    s.eval_losses.push_back({.step = f.count_of(Fields::member(v, "step"), "eval_losses"),
                             .loss = f.number_of(Fields::member(v, "eval_loss"), "eval_losses"),
                             .tokens = tokens == nullptr ? 0 : f.count_of(tokens, "eval_losses")});
    if (!s.eval_figure.empty())
      s.eval_losses.back().figure = f.number_of(Fields::member(v, s.eval_figure), "eval_losses");
    if (const json::value* by = Fields::member(v, "ranked_by")) {
      s.eval_losses.back().ranked_by = f.text_of(by, "eval_losses");
      s.eval_losses.back().value = f.number_of(Fields::member(v, "value"), "eval_losses");
      const json::value* greater = Fields::member(v, "greater_is_better");
      if (greater == nullptr || !greater->is_bool())
        f.wrong("eval_losses");
      else
        s.eval_losses.back().greater_is_better = greater->get_bool();
    }
  });
  f.each("losses", [&](const json::value& v) { s.losses.push_back(f.number_of(&v, "losses")); });
  const json::value* settings = root.get_object().if_contains("settings");
  if (settings == nullptr || !settings->is_object()) {
    f.wrong("settings");
  } else {
    for (const auto& [key, value] : settings->get_object()) s.settings[key] = f.text_of(&value, "settings");
  }
  if (f.fault.empty()) return s;
  return Error{ErrorKind::corrupt_checkpoint,
               fmt::format("{}: {} is missing or invalid", file_name, f.fault)};
}

Result<TrainerState> read_trainer_state(const std::string& directory) {
  const std::string path = directory + "/" + trainer_state_file;
  TRY_ASSIGN(const std::string text,
             read_small_file(path, trainer_state_bytes_max, ErrorKind::corrupt_checkpoint));
  return parse_trainer_state(text, path);
}

std::vector<std::string> changed_settings(const TrainerState& then,
                                          const std::map<std::string, std::string>& now) {
  std::vector<std::string> out;
  for (const auto& [key, value] : now) {
    const auto at = then.settings.find(key);
    if (at != then.settings.end() && at->second != value) {
      out.push_back(fmt::format("{}: {} then, {} now", key, at->second, value));
    }
  }
  return out;
}

}  // namespace tidepool
