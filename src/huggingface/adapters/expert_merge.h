// ExpertMerge maps the tensors of a model's experts and routers to the adapters beside them, in any two
// forms: either may have a tensor for each expert, or one for all experts of a layer.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "huggingface/adapters/adapter_config.h"

namespace tidepool {

// Rows of a model's tensor, and the part of an adapter that is added to them.
struct MergeBlock {
  u64 row = 0, rows = 0;        // of the tensor, as a matrix with its last dimension as columns
  std::string stem;             // "base_model.model.model.layers.0.mlp.experts"; empty: no adapter
  u32 experts = 1, expert = 0;  // of those that the adapter is for, which one
  u32 r = 0;                    // rank for one expert
  double scale = 0;
  u64 b_row = 0;        // first row of B
  bool in_out = false;  // rows are inputs, not outputs
};

// Shapes and names that an adapter's tensors must have.
struct ExpertStem {
  u32 r = 0;              // columns of B, rows of A
  u32 in = 0, out = 0;    // columns of A, rows of B
  std::string parameter;  // that target_parameters must name; empty: target_modules must name the module
  std::string fault;      // why there can be no such adapter; empty: there can
};

class ExpertMerge {
 public:
  ExpertMerge(const ModelConfig&, const AdapterConfig&);

  // RETURNS: the blocks of a tensor of experts or of a router, in order of rows, whether or not the adapter
  // exists; nothing for other tensors.
  std::optional<std::vector<MergeBlock>> blocks_of(std::string_view tensor) const;
  // RETURNS: nothing for stems that belong neither to experts nor to routers.
  std::optional<ExpertStem> find(std::string_view stem) const;
  // True for tensors of layers after the model's last: extra prediction modules, which get no adapters.
  bool is_extra_layer(std::string_view tensor) const;
  // True if the config names the block's adapter, so that the file must have it.
  Result<bool> is_wanted(const MergeBlock&) const;

 private:
  struct Place {  // "model.layers.3.mlp.gate.weight"
    u32 layer = 0;
    std::string_view rest;  // "mlp.gate.weight"
  };
  std::string_view joined_parameter(std::string_view rest) const;
  bool take_layers(std::string_view& path) const;
  std::optional<Place> place_of(std::string_view path) const;
  std::optional<ExpertStem> find_router(const Place&, std::string_view path) const;
  std::optional<ExpertStem> find_joined(const Place&) const;
  std::optional<ExpertStem> find_single(const Place&) const;
  std::string stem(u32 layer, std::string_view rest) const;
  MergeBlock joined_block(const ExpertAdapter&, u32 layer, u32 expert) const;
  MergeBlock single_block(u32 layer, u32 expert, std::string_view matrix) const;
  const ExpertAdapter* joined_adapter(u32 layer, bool down) const;
  std::vector<MergeBlock> expert_blocks(u32 layer, u32 expert, std::string_view matrix) const;

  const ModelConfig config_;
  const AdapterConfig adapter_;
  const std::vector<LayerAdapters> layers_;
  const ExpertTensors& names_;
  bool joined_ = false;  // some layer's experts have adapters of parameters
};

}  // namespace tidepool
