#include "huggingface/adapters/adapter_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cmath>
#include <optional>
#include <set>

#include "base/check.h"
#include "base/json/text.h"
#include "base/read_file.h"
#include "base/text/path_text.h"
#include "huggingface/directory/hf_config.h"

namespace tidepool {
namespace json = boost::json;
namespace {

// Last part of the module's name: "q_proj" from
// "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight".
std::string module_of(std::string name) {
  for (int parts = 0; parts < 2; ++parts) name.resize(name.rfind('.'));
  return name.substr(name.rfind('.') + 1);
}

std::set<std::string> modules_of(const ModelGraph& graph) {
  std::set<std::string> modules;
  for (const Window& window : graph.windows)
    for (const Tensor& t : window.tensors)
      if (window.adapter) modules.insert(module_of(t.name));
  return modules;
}

json::value number(double x) {
  if (x == std::floor(x) && std::abs(x) < 1e15) return static_cast<std::int64_t>(x);
  return x;
}

bool is_empty(const json::value& v) {
  return v.is_null() || (v.is_object() && v.get_object().empty()) ||
         (v.is_array() && v.get_array().empty()) || (v.is_bool() && !v.get_bool());
}

// Refuses settings that change the update beyond plain LoRA. Allows the values with which they change
// nothing.
std::string refused_setting(const json::object& o) {
  for (const char* key : {"use_dora", "use_qalora", "modules_to_save", "rank_pattern", "alpha_pattern",
                          "layer_replication", "trainable_token_indices", "target_parameters", "lora_bias",
                          "megatron_config", "alora_invocation_tokens"}) {
    const json::value* v = o.if_contains(key);
    if (v != nullptr && !is_empty(*v)) return key;
  }
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

}  // namespace

std::string adapter_config_text(const ModelGraph& graph) {
  CHECK(graph.lora.on());
  json::array modules;
  for (const std::string& module : modules_of(graph)) modules.emplace_back(module);
  json::object o;
  o["peft_type"] = "LORA";
  o["task_type"] = "CAUSAL_LM";
  o["base_model_name_or_path"] = absolute_path(graph.lora.base);
  o["revision"] = nullptr;
  o["inference_mode"] = true;
  o["r"] = graph.lora.r;
  o["lora_alpha"] = number(graph.lora.alpha);
  o["lora_dropout"] = graph.lora.dropout;
  o["target_modules"] = std::move(modules);
  o["bias"] = "none";
  o["fan_in_fan_out"] = style(graph.config.family).matrices_in_out;
  o["init_lora_weights"] = true;
  o["use_rslora"] = graph.lora.rslora;
  o["use_dora"] = false;
  o["modules_to_save"] = nullptr;
  o["layers_to_transform"] = nullptr;
  o["layers_pattern"] = nullptr;
  o["rank_pattern"] = json::object();
  o["alpha_pattern"] = json::object();
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
  if (!r || *r < 1 || *r > lora_rank_max || *r != std::floor(*r))
    return fault(fmt::format("r: must be a whole number from 1 to {}", lora_rank_max));
  if (!alpha || !std::isfinite(*alpha)) return fault("lora_alpha: must be a number");
  if (const std::string key = refused_setting(o); !key.empty())
    return fault(fmt::format(
        "{}: is set, but only plain LoRA is merged; merge this adapter with PEFT's merge_and_unload", key));
  Result<AdapterTargets> targets = parse_adapter_targets(o);
  if (!targets) return fault(targets.error().message);
  const bool rslora = flag_of(o, "use_rslora");
  const json::value* base = o.if_contains("base_model_name_or_path");
  return AdapterConfig{.r = static_cast<u32>(*r),
                       .alpha = *alpha,
                       .rslora = rslora,
                       .scale = *alpha / (rslora ? std::sqrt(*r) : *r),
                       .dropout = number_of(o, "lora_dropout").value_or(0),
                       .fan_in_fan_out = flag_of(o, "fan_in_fan_out"),
                       .targets = *std::move(targets),
                       .base = base != nullptr && base->is_string() ? std::string(base->get_string()) : ""};
}

LoraConfig lora_of_adapter(const AdapterConfig& adapter, const std::string& directory) {
  LoraConfig lora{.r = adapter.r,
                  .alpha = adapter.alpha,
                  .dropout = adapter.dropout,
                  .rslora = adapter.rslora,
                  .adapter = directory};
  std::set<std::string> modules;
  for (const std::string& name : adapter.targets.named.names)
    modules.insert(name.substr(name.rfind('.') + 1));
  lora.target_modules.assign(modules.begin(), modules.end());
  return lora;
}

}  // namespace tidepool
