#include "huggingface/adapters/adapter_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "base/check.h"
#include "base/json/text.h"
#include "base/read_file.h"
#include "base/text/path_text.h"
#include "huggingface/directory/hf_config.h"
#include "huggingface/weights/adapter_files.h"
#include "huggingface/weights/model_weights.h"
#include "huggingface/weights/safetensors.h"

namespace tidepool {
namespace json = boost::json;
namespace {

// Name for target_modules: "q_proj" from "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight".
// Names that experts' matrices have too keep their path within the layer, so that they do not stand for
// experts: "mlp.up_proj", "mlp.shared_experts.up_proj".
std::string module_of(const ModelConfig& c, std::string name) {
  for (int parts = 0; parts < 2; ++parts) name.resize(name.rfind('.'));
  const std::string last = name.substr(name.rfind('.') + 1);
  if (c.experts.count == 0) return last;
  const ExpertTensors& experts = traits(c.family).experts->tensors;
  if (last != experts.gate && last != experts.up && last != experts.down) return last;
  const std::string layers = fmt::format("{}.", style(c.family).layers_path);
  const u64 number = name.find(layers) + layers.size();
  return name.substr(name.find('.', number) + 1);
}

bool is_saved_score(std::string_view tensor) {
  return tensor.ends_with(score_tensor) || tensor.ends_with(score_bias);
}

// The names that the config gave, which are PEFT's; or those of all modules.
std::set<std::string> modules_of(const ModelGraph& graph) {
  if (!graph.lora.all_linear()) return {graph.lora.target_modules.begin(), graph.lora.target_modules.end()};
  std::set<std::string> modules;
  for (const Window& window : graph.windows)
    for (const Tensor& t : window.tensors)
      if (window.adapter && !is_saved_score(t.name)) modules.insert(module_of(graph.config, t.name));
  return modules;
}

json::array array_of(const auto& names) {
  json::array out;
  for (const std::string& name : names) out.emplace_back(name);
  return out;
}

// The adapters of experts' parameters, which are the same in all layers that have them.
std::map<std::string, ExpertAdapter> parameter_adapters(const ModelGraph& graph) {
  std::map<std::string, ExpertAdapter> out;
  for (const LayerAdapters& layer : graph.adapters)
    for (const ExpertAdapter& adapter : layer.experts)
      if (layer.experts.form == AdapterForm::joined) out.emplace(adapter.name, adapter);
  return out;
}

// A path as a regular expression.
std::string escaped(std::string_view path) {
  std::string out;
  for (const char c : path) out += c == '.' ? "\\." : std::string(1, c);
  return out;
}

json::value number(double x) {
  if (x == std::floor(x) && std::abs(x) < 1e15) return static_cast<std::int64_t>(x);
  return x;
}

bool is_empty(const json::value& v) {
  return v.is_null() || (v.is_object() && v.get_object().empty()) ||
         (v.is_array() && v.get_array().empty()) || (v.is_bool() && !v.get_bool());
}

// True for the adapter of a classifier, whose score head is trained whole: PEFT names it by either word.
bool saves_score(const json::object& o) {
  const json::value* saved = o.if_contains("modules_to_save");
  if (saved == nullptr || !saved->is_array() || saved->get_array().empty()) return false;
  return std::ranges::all_of(saved->get_array(),
                             [](const json::value& name) { return name == "score" || name == "classifier"; });
}

// Refuses settings that change the update beyond plain LoRA. Allows the values with which they change
// nothing.
std::string refused_setting(const json::object& o) {
  for (const char* key : {"use_dora", "use_qalora", "layer_replication", "trainable_token_indices",
                          "lora_bias", "megatron_config", "alora_invocation_tokens"}) {
    const json::value* v = o.if_contains(key);
    if (v != nullptr && !is_empty(*v)) return key;
  }
  if (const json::value* saved = o.if_contains("modules_to_save"); saved != nullptr && !is_empty(*saved))
    if (!saves_score(o)) return "modules_to_save";
  // PEFT's other initialisations subtract something from the base weights, so the base is no longer the model
  // in its directory.
  constexpr std::array<std::string_view, 2> beside = {"gaussian", "orthogonal"};
  const json::value* init = o.if_contains("init_lora_weights");
  const bool known =
      init == nullptr || init->is_null() || init->is_bool() ||
      (init->is_string() && std::ranges::find(beside, std::string_view(init->get_string())) != beside.end());
  if (!known) return "init_lora_weights";
  const json::value* bias = o.if_contains("bias");
  if (bias != nullptr && !(bias->is_string() && bias->get_string() == "none")) return "bias";
  return {};
}

std::optional<double> number_of(const json::object& o, const char* key) {
  const json::value* v = o.if_contains(key);
  if (v == nullptr || !v->is_number()) return std::nullopt;
  return v->to_number<double>();
}

bool flag_of(const json::object& o, const char* key) {
  const json::value* v = o.if_contains(key);
  return v != nullptr && v->is_bool() && v->get_bool();
}

// Values of rank_pattern or alpha_pattern for the experts' parameters.
struct PatternValues {
  struct Value {
    double value = 0;
    bool given = false;
  };
  Value gate_up, down;
};

// Counts the layers whose parameter the pattern matches. PEFT matches the end of a parameter's path.
Result<u32> layers_matched(const std::string& pattern, std::string_view parameter, u32 layers) {
  u32 count = 0;
  for (u32 layer = 0; layer < layers; ++layer) {
    TRY_ASSIGN(const bool matches,
               matches_pattern(fmt::format("model.layers.{}.mlp.{}", layer, parameter), pattern));
    count += matches;
  }
  return count;
}

// True if the pattern is for the experts' parameters of all layers and for nothing else that has an adapter.
Result<bool> take_pattern(std::string_view key, double value, const AdapterTargets& targets,
                          PatternValues& out) {
  constexpr u32 layers_tried = 128;
  const std::string pattern = fmt::format("(.*\\.)?({})", key);
  TRY_ASSIGN(u32 gate_up, layers_matched(pattern, "experts.gate_up_proj", layers_tried));
  if (gate_up == 0) {  // experts without a gate
    TRY_ASSIGN(gate_up, layers_matched(pattern, "experts.up_proj", layers_tried));
  }
  TRY_ASSIGN(const u32 down, layers_matched(pattern, "experts.down_proj", layers_tried));
  if ((gate_up != 0 && gate_up != layers_tried) || (down != 0 && down != layers_tried)) return false;
  std::vector<std::string> others = {"gate.weight", "router.weight"};
  others.insert(others.end(), targets.named.names.begin(), targets.named.names.end());
  if (!targets.named.pattern.empty()) others.emplace_back("down_proj");
  for (const std::string& other : others) {
    TRY_ASSIGN(const u32 matched, layers_matched(pattern, other, 1));
    if (matched != 0) return false;
  }
  for (auto& [layers, to] : {std::pair{gate_up, &out.gate_up}, {down, &out.down}})
    if (layers != 0 && !to->given) *to = {value, true};  // PEFT takes the first pattern that matches
  return gate_up != 0 || down != 0;
}

Result<PatternValues> pattern_values(const json::object& o, const char* key, double otherwise,
                                     const AdapterTargets& targets) {
  PatternValues out = {{otherwise}, {otherwise}};
  const json::value* patterns = o.if_contains(key);
  if (patterns == nullptr || is_empty(*patterns) || targets.parameters.empty()) return out;
  const Error wrong{
      ErrorKind::bad_input,
      fmt::format("{}: beside target_parameters, only patterns for these parameters are read, the same for "
                  "all layers, such as {{\"experts.gate_up_proj\": 16}}; merge this adapter with PEFT's "
                  "merge_and_unload",
                  key)};
  if (!patterns->is_object()) return wrong;
  for (const json::key_value_pair& entry : patterns->get_object()) {
    if (!entry.value().is_number()) return wrong;
    TRY_ASSIGN(const bool taken, take_pattern(entry.key(), entry.value().to_number<double>(), targets, out));
    if (!taken) return wrong;
  }
  return out;
}

// Patterns for linear layers.
Result<std::vector<PathValue>> path_values(const json::object& o, const char* key,
                                           const AdapterTargets& targets) {
  std::vector<PathValue> out;
  const json::value* patterns = o.if_contains(key);
  if (patterns == nullptr || is_empty(*patterns) || !targets.parameters.empty()) return out;
  const auto wrong = [&](std::string_view why) {
    return Error{ErrorKind::bad_input, fmt::format("{}: {}", key, why)};
  };
  if (!patterns->is_object()) return wrong("must be an object of patterns and numbers");
  for (const json::key_value_pair& entry : patterns->get_object()) {
    if (!entry.value().is_number()) return wrong("must be an object of patterns and numbers");
    out.push_back({std::string(std::string_view(entry.key())), entry.value().to_number<double>()});
    // Refuses a pattern that cannot be read.
    if (const auto read = ends_with_key("model.layers.0.self_attn.q_proj", out.back().key); !read)
      return wrong(read.error().message);
  }
  return out;
}

double value_of(const std::vector<PathValue>& values, std::string_view module, double otherwise) {
  for (const PathValue& one : values) {
    const Result<bool> matches = ends_with_key(module, one.key);
    if (matches && *matches) return one.value;
  }
  return otherwise;
}

// True for a path that names one layer: "model.layers.3.self_attn.q_proj".
bool names_one_layer(std::string_view target) { return layer_module_of(target).has_value(); }

bool is_rank(double r) { return r >= 1 && r <= lora_rank_max && r == std::floor(r); }

}  // namespace

u32 AdapterConfig::rank_of(std::string_view module) const {
  return static_cast<u32>(value_of(ranks, module, r));
}
double AdapterConfig::alpha_of(std::string_view module) const { return value_of(alphas, module, alpha); }
double AdapterConfig::scale_of(std::string_view module) const {
  const double rank = rank_of(module);
  return alpha_of(module) / (rslora ? std::sqrt(rank) : rank);
}

bool AdapterConfig::only_named() const {
  const bool by_pattern = !targets.named.pattern.empty() && !targets.all_linear();
  const bool excludes = !targets.excluded.names.empty() || !targets.excluded.pattern.empty();
  return !by_pattern && !excludes && targets.layers.empty() && ranks.empty() && alphas.empty();
}

bool AdapterConfig::varies() const {
  return !only_named() || std::ranges::any_of(targets.named.names, names_one_layer);
}

std::string adapter_config_text(const ModelGraph& graph) {
  CHECK(graph.lora.on());
  json::object o, ranks, alphas;
  std::set<std::string> modules = modules_of(graph);
  if (!graph.lora.modules.empty()) modules.clear();
  for (const ModuleAdapter& m : graph.lora.modules) {
    const std::string path =
        fmt::format("{}.{}.{}", style(graph.config.family).layers_path, m.layer, m.module);
    modules.insert(path);
    if (m.r != graph.lora.r) ranks[escaped(path)] = m.r;
    if (m.alpha != graph.lora.alpha) alphas[escaped(path)] = number(m.alpha);
  }
  for (const auto& [name, adapter] : parameter_adapters(graph)) {
    const std::string pattern = fmt::format("experts\\.{}", name);
    if (adapter.r != graph.lora.r) ranks[pattern] = adapter.r;
    if (adapter.alpha != graph.lora.alpha) alphas[pattern] = number(adapter.alpha);
  }
  o["peft_type"] = "LORA";
  const bool score = graph.config.score.on();
  o["task_type"] = graph.config.score.of_tokens ? "TOKEN_CLS" : score ? "SEQ_CLS" : "CAUSAL_LM";
  o["base_model_name_or_path"] = absolute_path(graph.lora.base);
  o["revision"] = nullptr;
  o["inference_mode"] = true;
  o["r"] = graph.lora.r;
  o["lora_alpha"] = number(graph.lora.alpha);
  o["lora_dropout"] = graph.lora.dropout;
  o["target_modules"] = array_of(modules);
  if (!graph.lora.target_parameters.empty()) o["target_parameters"] = array_of(graph.lora.target_parameters);
  o["bias"] = "none";
  o["fan_in_fan_out"] = style(graph.config.family).matrices_in_out;
  o["init_lora_weights"] = true;
  o["use_rslora"] = graph.lora.rslora;
  o["use_dora"] = false;
  o["modules_to_save"] = score ? json::value(json::array{"classifier", "score"}) : json::value(nullptr);
  o["layers_to_transform"] = nullptr;
  o["layers_pattern"] = nullptr;
  o["rank_pattern"] = std::move(ranks);
  o["alpha_pattern"] = std::move(alphas);
  return json_text(o, JsonStyle::pretty);
}

Result<AdapterConfig> read_adapter_config(const std::string& directory, ErrorKind error_kind) {
  const std::string path = directory + "/" + adapter_config_file;
  const auto fault = [&](const std::string& reason) {
    return Error{error_kind, fmt::format("{}: {}", path, reason)};
  };
  TRY_ASSIGN(const std::string text, read_small_file(path, config_bytes_max, error_kind));
  TRY_ASSIGN(const json::value root, parse_json(text, error_kind, path));
  if (!root.is_object()) return fault("is not a JSON object");
  const json::object& o = root.get_object();
  const json::value* type = o.if_contains("peft_type");
  if (type == nullptr || !type->is_string() || type->get_string() != "LORA")
    return fault("peft_type: only LORA adapters are read");
  const std::optional<double> r = number_of(o, "r"), alpha = number_of(o, "lora_alpha");
  if (!r || !is_rank(*r)) return fault(fmt::format("r: must be a whole number from 1 to {}", lora_rank_max));
  if (!alpha || !std::isfinite(*alpha)) return fault("lora_alpha: must be a number");
  if (const std::string key = refused_setting(o); !key.empty())
    return fault(fmt::format(
        "{}: is set, but only plain LoRA is merged; merge this adapter with PEFT's merge_and_unload", key));
  Result<AdapterTargets> targets = parse_adapter_targets(o);
  if (!targets) return fault(targets.error().message);
  const bool rslora = flag_of(o, "use_rslora");
  const Result<PatternValues> ranks = pattern_values(o, "rank_pattern", *r, *targets),
                              alphas = pattern_values(o, "alpha_pattern", *alpha, *targets);
  for (const Result<PatternValues>* values : {&ranks, &alphas})
    if (!*values) return fault(values->error().message);
  if (!is_rank(ranks->gate_up.value) || !is_rank(ranks->down.value))
    return fault(fmt::format("rank_pattern: must have whole numbers from 1 to {}", lora_rank_max));
  if (!std::isfinite(alphas->gate_up.value) || !std::isfinite(alphas->down.value))
    return fault("alpha_pattern: must have numbers");
  Result<std::vector<PathValue>> path_ranks = path_values(o, "rank_pattern", *targets),
                                 path_alphas = path_values(o, "alpha_pattern", *targets);
  for (const auto* values : {&path_ranks, &path_alphas})
    if (!*values) return fault(values->error().message);
  for (const PathValue& one : *path_ranks)
    if (!is_rank(one.value))
      return fault(fmt::format("rank_pattern: must have whole numbers from 1 to {}", lora_rank_max));
  for (const PathValue& one : *path_alphas)
    if (!std::isfinite(one.value)) return fault("alpha_pattern: must have numbers");
  const json::value* base = o.if_contains("base_model_name_or_path");
  return AdapterConfig{.r = static_cast<u32>(*r),
                       .alpha = *alpha,
                       .rslora = rslora,
                       .scale = *alpha / (rslora ? std::sqrt(*r) : *r),
                       .dropout = number_of(o, "lora_dropout").value_or(0),
                       .fan_in_fan_out = flag_of(o, "fan_in_fan_out"),
                       .saves_score = saves_score(o),
                       .targets = *std::move(targets),
                       .gate_up_r = static_cast<u32>(ranks->gate_up.value),
                       .down_r = static_cast<u32>(ranks->down.value),
                       .gate_up_alpha = alphas->gate_up.value,
                       .down_alpha = alphas->down.value,
                       .ranks = *std::move(path_ranks),
                       .alphas = *std::move(path_alphas),
                       .base = base != nullptr && base->is_string() ? std::string(base->get_string()) : ""};
}

LoraConfig lora_of_adapter(const AdapterConfig& adapter, const std::string& directory) {
  LoraConfig lora{.r = adapter.r,
                  .alpha = adapter.alpha,
                  .target_parameters = adapter.targets.parameters,
                  .dropout = adapter.dropout,
                  .rslora = adapter.rslora,
                  .adapter = directory};
  // 0 stands for the same: so an adapter without patterns gives the config that a run without them has.
  if (adapter.down_r != adapter.r) lora.expert_r = adapter.down_r;
  if (adapter.gate_up_r != adapter.down_r) lora.joint_r = adapter.gate_up_r;
  if (adapter.down_alpha != adapter.alpha) lora.expert_alpha = adapter.down_alpha;
  if (adapter.gate_up_alpha != adapter.down_alpha) lora.joint_alpha = adapter.gate_up_alpha;
  std::set<std::string> modules;
  for (const std::string& name : adapter.targets.named.names) {
    // Whole paths, of one layer each, stand for the modules of all layers.
    modules.insert(names_one_layer(name) ? name.substr(name.rfind('.') + 1) : name);
  }
  lora.target_modules.assign(modules.begin(), modules.end());
  return lora;
}

Result<LoraConfig> lora_of_adapter_files(const AdapterConfig& adapter, const std::string& source,
                                         const std::string& directory) {
  constexpr std::string_view before = "base_model.model.", a = ".lora_A.weight";
  LoraConfig lora = lora_of_adapter(adapter, directory);
  const std::string path = fmt::format("{}/{}", source, adapter_weights_file);
  if (!adapter.varies() || !is_named(path)) return lora;
  TRY_ASSIGN(const auto file, SafetensorsFile::open(path, ErrorKind::bad_input));
  std::set<std::string> names;
  for (const StoredTensor& t : file->tensors()) {
    if (!t.name.ends_with(a) || !t.name.starts_with(before) || t.shape.size() != 2) continue;
    const std::string whole = t.name.substr(before.size(), t.name.size() - before.size() - a.size());
    const auto at = layer_module_of(whole);
    const auto wrong = [&](const std::string& why) {
      return Error{ErrorKind::bad_input, fmt::format("{}: tensor {} {}", path, t.name, why)};
    };
    if (!at || at->layer > std::numeric_limits<u32>::max())
      return wrong("is of no layer: only layers are trained");
    const bool of_expert =
        at->module.starts_with("experts.") || at->module.find(".experts.") != at->module.npos;
    if (of_expert && adapter.only_named()) return lora_of_adapter(adapter, directory);
    if (of_expert)
      return wrong(
          "is of one expert, whose adapters must be the same in all layers: merge this adapter with PEFT's "
          "merge_and_unload");
    if (t.shape[0] != adapter.rank_of(whole))
      return wrong(fmt::format("is {}, but {} gives the module rank {}", shape_text(t.shape),
                               adapter_config_file, adapter.rank_of(whole)));
    lora.modules.push_back({.layer = static_cast<u32>(at->layer),
                            .module = std::string(at->module),
                            .r = adapter.rank_of(whole),
                            .alpha = adapter.alpha_of(whole)});
    names.insert(whole.substr(whole.rfind('.') + 1));
  }
  std::ranges::sort(lora.modules, {}, [](const ModuleAdapter& m) { return std::tie(m.layer, m.module); });
  lora.target_modules.assign(names.begin(), names.end());
  return lora;
}

}  // namespace tidepool
