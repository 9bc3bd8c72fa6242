// AdapterTargets holds the target modules of an adapter, as adapter_config.json names them and PEFT reads
// them.
#pragma once

#include <boost/json/fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace tidepool {

struct AdapterTargets {
  struct Modules {
    std::vector<std::string> names;  // a module's whole path or its end: "q_proj", "self_attn.q_proj"
    std::string pattern;             // regular expression for whole paths, used instead of names
  };
  Modules named;                        // target_modules
  std::vector<std::string> parameters;  // target_parameters: ends of parameters' names
  Modules excluded;                     // exclude_modules
  std::vector<u64> layers;              // layers_to_transform, for modules named by their ends; empty: all

  // True for "all-linear". Only the model itself could tell which of its modules are linear.
  bool all_linear() const { return named.pattern == "all-linear"; }
  bool none() const { return named.names.empty() && named.pattern.empty() && parameters.empty(); }

  // Tells whether the adapter targets a module. `module` is its path in the model, such as
  // "model.layers.0.self_attn.q_proj".
  // Error: a reason without file name, if a pattern is not valid here.
  Result<bool> hold(std::string_view module) const;
};

// Reads target_modules, target_parameters, exclude_modules and layers_to_transform.
// Error: a reason without file name.
Result<AdapterTargets> parse_adapter_targets(const boost::json::object& adapter_config);
// RETURNS: true if the pattern matches the whole path. Boost's Perl syntax: the constructs that such patterns
// use mean the same there as in Python.
// Error: a reason without file name.
Result<bool> matches_pattern(std::string_view module, const std::string& pattern);
// RETURNS: true if PEFT's rank_pattern or alpha_pattern means the module by `key`: a regular expression for
// the path's end. Error: a reason without file name.
Result<bool> ends_with_key(std::string_view module, const std::string& key);
// Number of the layer that a module belongs to, and its path in the layer: 3 and "mlp.up_proj" for
// "model.layers.3.mlp.up_proj".
struct LayerModule {
  u64 layer = 0;
  std::string_view module;
};
std::optional<LayerModule> layer_module_of(std::string_view path);
// "q_proj, v_proj", for messages; only the first few of a long list.
std::string targets_text(const AdapterTargets&);

}  // namespace tidepool
