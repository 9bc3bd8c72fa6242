// Small model graphs for planner tests: shaped like GPT-2, with chosen sizes, without kernels. Layers may
// have experts.
#pragma once

#include <fmt/format.h>

#include "tests/support/adamw_state.h"
#include "tidepool/connect_blocks.h"
#include "tidepool/model_graph.h"

namespace tidepool::test {

struct GraphShape {
  u32 layers = 3;
  u64 layer_elements = 8 * 2048;
  u64 embedding_elements = 4 * 2048;
  u64 boundary_bytes = 8 * 4096;
  u64 kept_bytes = 16 * 4096;
  u64 workspace_bytes = 16 * 4096;
  Precision precision = Precision::bf16;
  bool untied = false;    // the head has its own matrix and the embedding has one window, as in Llama
  bool packed = false;    // layers read the batch
  u32 expert_groups = 0;  // of each layer that is not dense; 0: all layers are dense
  u32 dense_layers = 0;   // the first layers are dense although others have experts
  u64 group_elements = 6 * 2048;
  Optim optim = Optim::adamw_torch;  // of layers; the rest takes AdamW
};

// Windows of layers are one matrix each, the others one vector.
inline Window make_window(std::string name, u64 elements) {
  Window window{.name = name, .elements = round_up(elements, cut_alignment_elements)};
  window.parameters = elements;
  window.tensors.push_back(
      {.name = name + ".weight", .shape = {elements}, .elements = elements, .stored_elements = elements});
  return window;
}

// Adds a block that reads a window of its own.
inline void add_block(ModelGraph& graph, const GraphShape& shape, Block block, u64 elements) {
  block.windows = {static_cast<u32>(graph.windows.size())};
  block.kept = Bytes{shape.kept_bytes};
  block.forward_workspace = block.backward_workspace = Bytes{shape.workspace_bytes};
  graph.windows.push_back(make_window(block.name, elements));
  if (optimizer(shape.optim).takes != nullptr) {
    Tensor& tensor = graph.windows.back().tensors[0];
    tensor.shape = {elements / 32, 32};
    tensor.rule = 0;
    if (graph.rules[0].place == UpdatePlace::streamed)
      graph.matrix_costs.push_back({.rows = static_cast<u32>(elements / 32),
                                    .columns = 32,
                                    .workspace = Bytes{12 * elements},
                                    .kernels = {{.product_flops = 1000 * elements}}});
  }
  graph.blocks.push_back(std::move(block));
}

inline void add_layer(ModelGraph& graph, const GraphShape& shape, u32 layer) {
  const std::string name = fmt::format("h.{}", layer);
  if (shape.expert_groups == 0 || layer < shape.dense_layers)
    return add_block(graph, shape, {.kind = BlockKind::layer, .name = name, .layer = layer},
                     shape.layer_elements);
  add_block(graph, shape, {.kind = BlockKind::attention, .name = name, .layer = layer}, shape.layer_elements);
  for (u32 group = 0; group < shape.expert_groups; ++group)
    add_block(graph, shape,
              {.kind = BlockKind::experts, .name = fmt::format("{}.experts.{}", name, group), .layer = layer},
              shape.group_elements);
}

// Windows: wte, wpe, h.0 ..., ln_f, with wte tied. Untied: wte, h.0 ..., ln_f, lm_head. Groups of experts
// follow their layer.
inline ModelGraph make_graph(const GraphShape& shape) {
  ModelGraph graph;
  graph.precision = shape.precision;
  graph.rules = update_rules(shape.optim);
  graph.state_slots = state_slots(shape.precision, graph.rules);
  graph.boundary = Bytes{shape.boundary_bytes};
  graph.batch_bytes = Bytes{4096};
  graph.batch.packed = shape.packed;
  graph.config.tied = !shape.untied;
  graph.windows = {make_window("wte", shape.embedding_elements)};
  if (!shape.untied) graph.windows.push_back(make_window("wpe", 2048));
  const Bytes work{shape.workspace_bytes};
  graph.blocks.push_back({.kind = BlockKind::embedding,
                          .name = "embedding",
                          .windows = shape.untied ? std::vector<u32>{0} : std::vector<u32>{0, 1},
                          .forward_workspace = Bytes{4096},
                          .backward_workspace = Bytes{4096}});
  for (u32 l = 0; l < shape.layers; ++l) add_layer(graph, shape, l);
  const u32 norm = static_cast<u32>(graph.windows.size());
  graph.blocks.push_back({.kind = BlockKind::head,
                          .name = "head",
                          .windows = {norm, shape.untied ? norm + 1 : 0},
                          .forward_workspace = work,
                          .backward_workspace = work});
  graph.windows.push_back(make_window("ln_f", 2048));
  if (shape.untied) graph.windows.push_back(make_window("lm_head", shape.embedding_elements));
  for (Window& w : graph.windows) {
    graph.parameters += w.parameters;
    for (Tensor& tensor : w.tensors)
      if (tensor.shape.size() == 1) tensor.rule = static_cast<u8>(graph.rules.size() - 1);
  }
  connect_blocks(graph, {.residual = graph.boundary,
                         .normed = graph.boundary,
                         .routes = Bytes{4096},
                         .routes_grad = Bytes{4096},
                         .sum = graph.boundary * 2,
                         .router_sums = Bytes{4096}});
  return graph;
}

}  // namespace tidepool::test
