// Reads report.json. The file may have been edited: values that no run can measure are refused, not printed.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <cmath>
#include <limits>

#include "base/json/text.h"
#include "report/metrics.h"
#include "report/run_report.h"
#include "tidepool/experts.h"

namespace tidepool {
namespace json = boost::json;
namespace {

// Limits that a run of years on the largest machine does not reach.
constexpr u64 count_most = u64{1} << 53, bytes_most = u64{1} << 62;
constexpr u64 layer_most = 1u << 20;
constexpr double seconds_most = 1e11, rate_most = 1e24, norm_most = 1e39;

// A JSON object with its path, for messages. Remembers the first fault.
class Object {
 public:
  Object(const json::value* value, std::string path, std::string& fault)
      : object_(value != nullptr && value->is_object() ? &value->get_object() : nullptr),
        path_(std::move(path)),
        fault_(fault) {
    if (object_ != nullptr || !fault_.empty()) return;
    if (path_.ends_with('.')) path_.pop_back();
    fault_ = value == nullptr
                 ? path_ + " is missing"
                 : fmt::format("{} must be an object in {{}}", path_.empty() ? "the whole" : path_);
  }

  Object object(std::string_view key) const { return {find(key), path_ + std::string(key) + ".", fault_}; }
  bool has(std::string_view key) const { return find(key) != nullptr; }

  u64 count(std::string_view key, u64 most = count_most) const { return whole(find(key), {key}, most); }
  Bytes bytes(std::string_view key) const { return Bytes{whole(find(key), {key}, bytes_most)}; }
  // A value with all bits set means no limit.
  Bytes budget(std::string_view key) const {
    const json::value* v = find(key);
    return v != nullptr && v->is_uint64() && v->get_uint64() == ~u64{0} ? Bytes{~u64{0}} : bytes(key);
  }
  // Value of a key that older files do not have.
  Bytes bytes_or_0(std::string_view key) const { return has(key) ? bytes(key) : Bytes{}; }
  double scale(std::string_view key) const { return number(find(key), {key}, 1e30); }
  double seconds(std::string_view key) const { return number(find(key), {key}, seconds_most); }
  double rate(std::string_view key) const { return number(find(key), {key}, rate_most); }
  std::string text(std::string_view key) const { return text(find(key), {key}); }
  double loss(std::string_view key) const {
    const json::value* v = find(key);
    return v != nullptr ? loss(*v, {key}) : (wrong(v, {key}, ""), 0);
  }

  std::vector<double> numbers(std::string_view key, double most) const {
    return list<double>(key, [&](const json::value& v, Place at) { return number(&v, at, most); });
  }
  std::vector<double> losses(std::string_view key) const {
    return list<double>(key, [&](const json::value& v, Place at) { return loss(v, at); });
  }
  std::vector<u64> counts(std::string_view key) const {
    return list<u64>(key, [&](const json::value& v, Place at) { return whole(&v, at, count_most); });
  }
  // Equal rows, one after another.
  std::vector<u64> rows(std::string_view key, u64 rows, u64 columns) const {
    std::vector<u64> out;
    const json::value* values = find(key);
    if (values == nullptr || !values->is_array() || values->get_array().size() != rows)
      return wrong(values, {key}, fmt::format("must be a list of {} lists", rows)), out;
    u64 number = 0;
    for (const json::value& row : values->get_array()) {
      if (!row.is_array() || row.get_array().size() != columns)
        return wrong(&row, {key, number}, fmt::format("must be a list of {} numbers", columns)), out;
      for (const json::value& v : row.get_array()) out.push_back(whole(&v, {key, number}, count_most));
      ++number;
    }
    return out;
  }
  std::map<std::string, std::string> texts(std::string_view key) const {
    std::map<std::string, std::string> out;
    const Object all = object(key);
    all.each_member([&](std::string_view k, const json::value&) { out[std::string(k)] = all.text(k); });
    return out;
  }
  template <class Fn>
  void each_member(Fn&& fn) const {
    if (object_ == nullptr) return;
    for (const auto& [key, value] : *object_) fn(std::string_view(key), value);
  }

 private:
  struct Place {
    std::string_view key;
    std::size_t element = ~std::size_t{0};  // index in a list
  };

  const json::value* find(std::string_view key) const {
    return object_ == nullptr ? nullptr : object_->if_contains(json::string_view(key.data(), key.size()));
  }
  template <class T, class Fn>
  std::vector<T> list(std::string_view key, Fn&& read) const {
    std::vector<T> out;
    const json::value* values = find(key);
    if (values == nullptr || !values->is_array()) return wrong(values, {key}, "must be a list"), out;
    for (const json::value& v : values->get_array()) out.push_back(read(v, Place{key, out.size()}));
    return out;
  }
  u64 whole(const json::value* v, Place at, u64 most) const {
    if (v != nullptr && v->is_int64() && v->get_int64() >= 0 && static_cast<u64>(v->get_int64()) <= most)
      return static_cast<u64>(v->get_int64());
    return wrong(v, at, fmt::format("must be a whole number from 0 to {}", most)), 0;
  }
  double number(const json::value* v, Place at, double most) const {
    if (v != nullptr && v->is_null()) return std::numeric_limits<double>::quiet_NaN();
    if (v != nullptr && v->is_number()) {
      const double d = v->to_number<double>();
      if (d >= 0 && d <= most) return d;
    }
    return wrong(v, at, fmt::format("must be a number from 0 to {:g}, or null", most)), 0;
  }
  double loss(const json::value& v, Place at) const {
    if (v.is_null()) return std::numeric_limits<double>::quiet_NaN();
    const double d = v.is_number() ? v.to_number<double>() : -std::numeric_limits<double>::max();
    if (may_be_loss(d)) return d;
    return wrong(&v, at, "cannot be a loss"), 0;
  }
  std::string text(const json::value* v, Place at) const {
    if (v != nullptr && v->is_string()) return std::string(std::string_view(v->get_string()));
    return wrong(v, at, "must be a text"), std::string();
  }

  void wrong(const json::value* v, Place at, std::string_view why) const {
    if (!fault_.empty()) return;
    fault_ = path_ + std::string(at.key);
    if (at.element != ~std::size_t{0}) fault_ += fmt::format("[{}]", at.element);
    fault_ += v == nullptr ? " is missing" : fmt::format(", {}, {}", shown(*v), why);
  }
  static std::string shown(const json::value& v) {
    constexpr std::size_t most = 40;
    std::string text = v.is_object() ? "{...}" : v.is_array() ? "[...]" : json_text(v, JsonStyle::line);
    if (text.size() <= most) return text;
    std::size_t end = most - 3;
    while ((text[end] & 0xc0) == 0x80) --end;  // not within a character
    return text.substr(0, end) + "...";
  }

  const json::object* object_;
  std::string path_;
  std::string& fault_;
};

ExpertUse read_experts(const Object& o) {
  ExpertUse use{.experts = static_cast<u32>(o.count("experts", experts_max)),
                .chosen = static_cast<u32>(o.count("experts_per_token", experts_max))};
  for (const u64 layer : o.counts("layers"))
    use.layers.push_back(static_cast<u32>(std::min(layer, layer_most)));
  use.steps = o.count("steps");
  use.tokens = o.rows("tokens", use.layers.size(), use.experts);
  use.last_steps = o.count("last_steps");
  use.last_tokens = o.rows("last_tokens", use.layers.size(), use.experts);
  use.dropped = o.count("dropped_tokens");
  for (const RouterMetric& of : router_metrics) {
    const std::vector<double> values = o.numbers(fmt::format("each_{}", name(of.metric)), rate_most);
    use.each_step.resize(std::max(use.each_step.size(), values.size()));
    for (u64 i = 0; i < values.size(); ++i) use.each_step[i].*of.value = values[i];
  }
  return use;
}

RunReport read_fields(const Object& o) {
  RunReport r;
  r.version = o.text("version");
  r.commit = o.text("commit");
  r.model = o.text("model");
  r.precision = o.text("precision");
  r.executor = o.text("executor");
  r.parameters = o.count("parameters");
  r.state = o.bytes("state_bytes");
  r.weights_xxh3 = o.text("weights_xxh3");
  r.steps = o.count("steps");
  r.resumed_from_step = o.count("resumed_from_step");
  r.tokens_per_step = o.count("tokens_per_step");
  if (o.has("sequences")) {
    const Object sequences = o.object("sequences");
    r.tile_tokens = sequences.count("tile_tokens");
    r.tiles = sequences.count("tiles"), r.pieces = sequences.count("pieces");
  }
  if (o.has("steps_per_epoch")) r.steps_per_epoch = o.count("steps_per_epoch");
  if (o.has("tokens")) r.tokens = o.count("tokens");
  r.losses = o.losses("losses");
  if (o.has("loss_scale")) r.loss_scale = o.scale("loss_scale"), r.skipped_steps = o.count("skipped_steps");
  r.eval_steps = o.counts("eval_steps");
  r.eval_losses = o.losses("eval_losses");
  if (o.has("eval_figure")) r.eval_figure = o.text("eval_figure"), r.eval_figures = o.losses("eval_figures");
  if (o.has("best_ranked_by")) r.best_ranked_by = o.text("best_ranked_by");
  if (o.has("best_step")) r.best_step = o.count("best_step"), r.best_eval_loss = o.loss("best_eval_loss");
  if (o.has("best_eval_step")) r.best_eval_step = o.count("best_eval_step");
  if (o.has("best_checkpoint")) r.best_checkpoint = o.text("best_checkpoint");
  if (o.has("stopped_early")) r.stopped_early = o.text("stopped_early");
  r.train_seconds = o.seconds("train_seconds");
  r.tokens_per_second = o.rate("tokens_per_second");
  r.step_seconds = o.seconds("step_seconds");
  r.predicted_step_seconds = o.seconds("predicted_step_seconds");
  if (o.has("predicted_step_seconds_least"))
    r.predicted_step_range = {o.seconds("predicted_step_seconds_least"),
                              o.seconds("predicted_step_seconds_most")};
  r.each_step_seconds = o.numbers("each_step_seconds", seconds_most);
  if (o.has("each_grad_norm")) r.each_grad_norm = o.numbers("each_grad_norm", norm_most);
  if (o.has("each_learning_rate")) r.each_learning_rate = o.numbers("each_learning_rate", rate_most);
  r.flops_per_second = o.rate("flops_per_second");
  r.peak_flops_per_second = o.rate("peak_flops_per_second");
  if (o.has("peak_flops_per_second_least"))
    r.peak_range = {o.rate("peak_flops_per_second_least"), o.rate("peak_flops_per_second_most")};
  if (o.has("speed_at_end")) r.speed_at_end = o.rate("speed_at_end");
  const auto use_of = [](const Object& link) -> LinkUse {
    return {link.bytes("planned_bytes"), link.bytes("measured_bytes"), link.bytes("lower_bound_bytes"),
            link.bytes_or_0("planned_steady_step_bytes")};
  };
  for (u32 i = 0; i < link_count; ++i)
    r.links[i] = use_of(o.object("links").object(name(static_cast<LinkKind>(i))));
  if (o.has("network")) {
    const Object network = o.object("network");
    r.nodes = static_cast<u32>(o.count("nodes"));
    r.network = {use_of(network.object("net_send")), use_of(network.object("net_receive"))};
  }
  if (o.has("comm")) {
    const Object comm = o.object("comm");
    r.comm = {comm.bytes("planned_bytes"), comm.bytes("measured_bytes"),
              comm.bytes_or_0("planned_steady_step_bytes")};
  }
  if (o.has("gpus")) {
    const Object gpus = o.object("gpus");
    gpus.each_member([&](std::string_view name, const json::value&) {
      const Object g = gpus.object(name);
      r.gpus.push_back({std::string(name), g.count("samples"), g.rate("watts_mean"), g.rate("watts_most"),
                        g.rate("mhz_mean"), g.rate("mhz_least"), g.rate("celsius_most")});
    });
  }
  for (u32 i = 0; i < tier_count; ++i) {
    const Object tier = o.object("tiers").object(name(static_cast<Tier>(i)));
    r.tiers[i] = {tier.budget("budget_bytes"), tier.bytes("planned_peak_bytes"),
                  tier.bytes("measured_peak_bytes")};
  }
  r.rss_peak = o.bytes("rss_peak_bytes");
  r.checkpoint_written = o.bytes("checkpoint_written_bytes");
  r.disk_endurance = o.bytes_or_0("disk_endurance_bytes");
  r.io_retries = o.count("io_retries");
  if (o.has("speculation")) {
    const Object speculation = o.object("speculation");
    r.speculated = true;
    r.redos = speculation.count("redos"), r.redone_steps = speculation.count("redone_steps");
  }
  const Object exposed = o.object("exposed_seconds");
  exposed.each_member([&](std::string_view cause, const json::value&) {
    r.exposed.push_back({std::string(cause), exposed.seconds(cause)});
  });
  const Object phases = o.object("phases");
  phases.each_member([&](std::string_view phase, const json::value&) {
    const Object p = phases.object(phase);
    r.phases.push_back({std::string(phase), p.seconds("seconds"), p.seconds("bound_seconds")});
  });
  if (o.has("phase_steps")) r.phase_steps = o.count("phase_steps");
  r.binds = o.text("binds");
  if (o.has("experts")) r.experts = read_experts(o.object("experts"));
  r.machine = o.texts("machine");
  r.config = o.texts("config");
  return r;
}

}  // namespace

bool may_be_loss(double loss) { return !std::isfinite(loss) || (loss >= -1 && loss <= 1e39); }

Result<RunReport> parse_report(std::string_view text, std::string_view file_name) {
  TRY_ASSIGN(const json::value root, parse_json(text, ErrorKind::bad_input, file_name));
  std::string fault;
  RunReport report = read_fields(Object(&root, "", fault));
  if (fault.empty() && report.eval_steps.size() != report.eval_losses.size())
    fault = fmt::format("'eval_steps' has {} entries, but 'eval_losses' {}: their numbers must be equal",
                        report.eval_steps.size(), report.eval_losses.size());
  if (fault.empty()) return report;
  return Error{ErrorKind::bad_input, fmt::format("{}: {}", file_name, fault)};
}

}  // namespace tidepool
