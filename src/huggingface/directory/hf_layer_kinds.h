// Reads and writes the kinds of layers of Nemotron-H and Granite 4, and the sizes and bounds of Mamba-2 that
// follow from other keys of config.json.
#pragma once

#include <boost/json/fwd.hpp>
#include <optional>

#include "tidepool/model_config.h"

namespace tidepool {

// Nemotron-H's earlier names of keys become today's.
std::optional<ModelFault> rename_mamba_keys(Family, boost::json::object& file);
// True for the keys that read_layer_kinds() reads, in families that have them.
bool is_layer_kind_key(Family, std::string_view key);
// REQUIRES: the plain keys were read.
std::optional<ModelFault> read_layer_kinds(const boost::json::object& file, ModelConfig&);
void write_layer_kinds(const ModelConfig&, boost::json::object& out);

}  // namespace tidepool
