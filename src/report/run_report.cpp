// report.json, both ways.
#include "report/run_report.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cmath>
#include <limits>

#include "json/text.h"
#include "report/text_file.h"
#include "tidepool/check.h"

namespace tidepool {
namespace json = boost::json;
namespace {

constexpr const char* report_file = "report.json";

json::string_view view(std::string_view s) { return {s.data(), s.size()}; }

template <class T>
json::array array_of(const std::vector<T>& values) {
  return json::array(values.begin(), values.end());
}

json::object object_of(const std::map<std::string, std::string>& values) {
  json::object o;
  for (const auto& [key, value] : values) o[key] = value;
  return o;
}

json::object links_of(const RunReport& r) {
  json::object out;
  for (u32 i = 0; i < link_count; ++i) {
    out[view(name(static_cast<LinkKind>(i)))] = {{"planned_bytes", r.links[i].planned.value},
                                                 {"measured_bytes", r.links[i].measured.value},
                                                 {"lower_bound_bytes", r.links[i].lower_bound.value},
                                                 {"planned_steady_step_bytes", r.links[i].planned_steady.value}};
  }
  return out;
}

json::object tiers_of(const RunReport& r) {
  json::object out;
  for (u32 i = 0; i < tier_count; ++i) {
    out[view(name(static_cast<Tier>(i)))] = {{"budget_bytes", r.tiers[i].budget.value},
                                             {"planned_peak_bytes", r.tiers[i].planned_peak.value},
                                             {"measured_peak_bytes", r.tiers[i].measured_peak.value}};
  }
  return out;
}

json::object exposed_of(const RunReport& r) {
  json::object out;
  for (const ExposedTime& e : r.exposed) out[e.cause] = e.seconds;
  return out;
}

json::object phases_of(const RunReport& r) {
  json::object out;
  for (const PhaseTime& p : r.phases) out[p.phase] = {{"seconds", p.seconds}, {"bound_seconds", p.bound_seconds}};
  return out;
}

// A JSON object, and the way to it for messages. The first thing that is missing is kept.
class Object {
 public:
  Object(const json::value* value, std::string path, std::string& fault)
      : object_(value != nullptr && value->is_object() ? &value->get_object() : nullptr),
        path_(std::move(path)),
        fault_(fault) {
    if (object_ == nullptr) wrong("");
  }

  Object object(std::string_view key) const { return {find(key), path_ + std::string(key) + ".", fault_}; }
  bool has(std::string_view key) const { return find(key) != nullptr; }

  u64 count(std::string_view key) const { return count_of(find(key), key); }
  Bytes bytes(std::string_view key) const { return Bytes{count(key)}; }
  double number(std::string_view key) const { return number_of(find(key), key); }
  std::string text(std::string_view key) const { return text_of(find(key), key); }

  std::vector<double> numbers(std::string_view key) const {
    std::vector<double> out;
    each_element(key, [&](const json::value& v) { out.push_back(number_of(&v, key)); });
    return out;
  }
  std::vector<double> losses(std::string_view key) const {
    std::vector<double> out = numbers(key);
    for (std::size_t i = 0; i < out.size(); ++i)
      if (!may_be_loss(out[i])) wrong(fmt::format("{}[{}], {:g},", key, i, out[i]));
    return out;
  }
  // Of a key that older files do not have.
  Bytes bytes_or_0(std::string_view key) const { return has(key) ? bytes(key) : Bytes{}; }

  std::vector<u64> counts(std::string_view key) const {
    std::vector<u64> out;
    each_element(key, [&](const json::value& v) { out.push_back(count_of(&v, key)); });
    return out;
  }
  std::map<std::string, std::string> texts(std::string_view key) const {
    std::map<std::string, std::string> out;
    object(key).each_member([&](std::string_view k, const json::value& v) { out[std::string(k)] = text_of(&v, key); });
    return out;
  }
  template <class Fn>
  void each_member(Fn&& fn) const {
    if (object_ == nullptr) return;
    for (const auto& [key, value] : *object_) fn(std::string_view(key), value);
  }

 private:
  const json::value* find(std::string_view key) const {
    return object_ == nullptr ? nullptr : object_->if_contains(view(key));
  }
  template <class Fn>
  void each_element(std::string_view key, Fn&& fn) const {
    const json::value* list = find(key);
    if (list == nullptr || !list->is_array()) return wrong(key);
    for (const json::value& v : list->get_array()) fn(v);
  }
  u64 count_of(const json::value* v, std::string_view key) const {
    if (v != nullptr && v->is_int64() && v->get_int64() >= 0) return static_cast<u64>(v->get_int64());
    if (v != nullptr && v->is_uint64()) return v->get_uint64();
    wrong(key);
    return 0;
  }
  double number_of(const json::value* v, std::string_view key) const {
    if (v != nullptr && v->is_null()) return std::numeric_limits<double>::quiet_NaN();
    if (v != nullptr && v->is_number()) return v->to_number<double>();
    wrong(key);
    return 0;
  }
  std::string text_of(const json::value* v, std::string_view key) const {
    if (v != nullptr && v->is_string()) return std::string(std::string_view(v->get_string()));
    wrong(key);
    return {};
  }
  void wrong(std::string_view key) const {
    if (fault_.empty()) fault_ = path_ + std::string(key);
  }

  const json::object* object_;
  std::string path_;
  std::string& fault_;
};

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
  r.losses = o.losses("losses");
  r.eval_steps = o.counts("eval_steps");
  r.eval_losses = o.losses("eval_losses");
  r.train_seconds = o.number("train_seconds");
  r.tokens_per_second = o.number("tokens_per_second");
  r.step_seconds = o.number("step_seconds");
  r.predicted_step_seconds = o.number("predicted_step_seconds");
  r.each_step_seconds = o.numbers("each_step_seconds");
  r.flops_per_second = o.number("flops_per_second");
  r.peak_flops_per_second = o.number("peak_flops_per_second");
  for (u32 i = 0; i < link_count; ++i) {
    const Object link = o.object("links").object(name(static_cast<LinkKind>(i)));
    r.links[i] = {link.bytes("planned_bytes"), link.bytes("measured_bytes"), link.bytes("lower_bound_bytes"),
                  link.bytes_or_0("planned_steady_step_bytes")};
  }
  if (o.has("comm")) {
    const Object comm = o.object("comm");
    r.comm = {comm.bytes("planned_bytes"), comm.bytes("measured_bytes"), comm.bytes_or_0("planned_steady_step_bytes")};
  }
  for (u32 i = 0; i < tier_count; ++i) {
    const Object tier = o.object("tiers").object(name(static_cast<Tier>(i)));
    r.tiers[i] = {tier.bytes("budget_bytes"), tier.bytes("planned_peak_bytes"), tier.bytes("measured_peak_bytes")};
  }
  r.rss_peak = o.bytes("rss_peak_bytes");
  r.checkpoint_written = o.bytes("checkpoint_written_bytes");
  r.disk_endurance = o.bytes_or_0("disk_endurance_bytes");
  r.io_retries = o.count("io_retries");
  const Object exposed = o.object("exposed_seconds");
  exposed.each_member([&](std::string_view cause, const json::value&) {
    r.exposed.push_back({std::string(cause), exposed.number(cause)});
  });
  const Object phases = o.object("phases");
  phases.each_member([&](std::string_view phase, const json::value&) {
    const Object p = phases.object(phase);
    r.phases.push_back({std::string(phase), p.number("seconds"), p.number("bound_seconds")});
  });
  if (o.has("phase_steps")) r.phase_steps = o.count("phase_steps");
  r.binds = o.text("binds");
  r.machine = o.texts("machine");
  r.config = o.texts("config");
  return r;
}

}  // namespace

bool may_be_loss(double loss) { return !std::isfinite(loss) || (loss >= -1 && loss <= 1e39); }

std::string to_json(const RunReport& r) {
  json::object o;
  o["version"] = r.version;
  o["commit"] = r.commit;
  o["model"] = r.model;
  o["precision"] = r.precision;
  o["executor"] = r.executor;
  o["parameters"] = r.parameters;
  o["state_bytes"] = r.state.value;
  o["weights_xxh3"] = r.weights_xxh3;
  o["steps"] = r.steps;
  o["resumed_from_step"] = r.resumed_from_step;
  o["tokens_per_step"] = r.tokens_per_step;
  o["tokens_per_second"] = r.tokens_per_second;
  o["train_seconds"] = r.train_seconds;
  o["step_seconds"] = r.step_seconds;
  o["predicted_step_seconds"] = r.predicted_step_seconds;
  o["flops_per_second"] = r.flops_per_second;
  o["peak_flops_per_second"] = r.peak_flops_per_second;
  o["binds"] = r.binds;
  o["links"] = links_of(r);
  if (r.comm)
    o["comm"] = {{"planned_bytes", r.comm->planned.value},
                 {"measured_bytes", r.comm->measured.value},
                 {"planned_steady_step_bytes", r.comm->planned_steady.value}};
  o["tiers"] = tiers_of(r);
  o["rss_peak_bytes"] = r.rss_peak.value;
  o["checkpoint_written_bytes"] = r.checkpoint_written.value;
  o["disk_endurance_bytes"] = r.disk_endurance.value;
  o["io_retries"] = r.io_retries;
  o["exposed_seconds"] = exposed_of(r);
  o["phases"] = phases_of(r);
  o["phase_steps"] = r.phase_steps;
  o["machine"] = object_of(r.machine);
  o["config"] = object_of(r.config);
  o["eval_steps"] = array_of(r.eval_steps);
  o["eval_losses"] = array_of(r.eval_losses);
  o["losses"] = array_of(r.losses);
  o["each_step_seconds"] = array_of(r.each_step_seconds);
  return json_text(o, JsonStyle::pretty);
}

Result<RunReport> parse_report(std::string_view text, std::string_view file_name) {
  TRY_ASSIGN(const json::value root, parse_json(text, ErrorKind::bad_input, file_name));
  std::string fault;
  RunReport report = read_fields(Object(&root, "", fault));
  if (fault.empty()) return report;
  return Error{ErrorKind::bad_input, fmt::format("{}: {} is missing or not as expected", file_name, fault)};
}

Result<void> write_report(const std::string& run_dir, const RunReport& report) {
  return replace_text_file(run_dir + "/" + report_file, to_json(report));
}

Result<RunReport> read_report(const std::string& run_dir) {
  const std::string path = run_dir + "/" + report_file;
  TRY_ASSIGN(const std::string text, read_text_file(path));
  return parse_report(text, path);
}

}  // namespace tidepool
