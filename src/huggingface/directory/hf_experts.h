// Reads and writes the keys of config.json about experts and latent attention that are not one value under
// one name.
#pragma once

#include <boost/json/fwd.hpp>
#include <optional>

#include "tidepool/model_config.h"

namespace tidepool {

// Renames the number of experts to the family's own name: transformers 5 may write it under another one.
// RETURNS: a fault if the file has two names with different numbers.
std::optional<ModelFault> rename_expert_count(Family, boost::json::object& file);

// In families whose config.json says with a key of its own that a model has experts: removes that key, and if
// it is false, the sizes of experts beside it, which transformers ignores.
// RETURNS: which size is missing, or that the key is no boolean.
std::optional<ModelFault> apply_expert_switch(Family, boost::json::object& file);

// Reads a list of layers, such as mlp_only_layers.
std::optional<ModelFault> read_layer_list(std::string_view key, const boost::json::value&,
                                          std::vector<u32>& layers);

// True for the list that says which layers have experts, in families that have it.
bool is_mlp_list(Family, std::string_view key);
// Takes the list, which transformers reads in place of first_k_dense_replace.
// RETURNS: a fault if a dense layer follows one with experts, or the two disagree.
std::optional<ModelFault> read_mlp_list(const boost::json::object& file, ModelConfig&);

// Writes all keys about experts and latent attention that the family has.
void write_experts(const ModelConfig&, boost::json::object& out);

}  // namespace tidepool
