// Target modules of an adapter, as adapter_config.json names them and PEFT reads them.
#pragma once

#include <boost/json/fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace tidepool {

struct AdapterTargets {
  struct Modules {
    std::vector<std::string> names;  // a module's whole path or its end: "q_proj", "self_attn.q_proj"
    std::string pattern;             // of whole paths, in the place of names
  };
  Modules named;            // target_modules
  Modules excluded;         // exclude_modules
  std::vector<u64> layers;  // layers_to_transform; empty: all. Of modules that are named by their ends

  // Only the model could tell its linear modules.
  bool all_linear() const { return named.pattern == "all-linear"; }
  bool none() const { return named.names.empty() && named.pattern.empty(); }

  // `module`: its path in the model, "model.layers.0.self_attn.q_proj". Error: a reason without a place, of a
  // pattern that cannot be read here.
  Result<bool> hold(std::string_view module) const;
};

// Errors are a reason without a place.
Result<AdapterTargets> parse_adapter_targets(const boost::json::object& adapter_config);
// "q_proj, v_proj", for messages; of many the first.
std::string targets_text(const AdapterTargets&);

}  // namespace tidepool
