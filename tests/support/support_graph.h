// Small model graphs for planner tests: shaped like GPT-2, with chosen sizes, without kernels.
#pragma once

#include <fmt/format.h>

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
  bool untied = false;  // the head has its own matrix and the embedding has one window, as in Llama
  bool packed = false;  // layers read the batch
};

inline Window make_window(std::string name, u64 elements) {
  Window window{.name = name, .elements = round_up(elements, cut_alignment_elements)};
  window.parameters = elements;
  window.tensors.push_back({.name = name + ".weight", .shape = {elements}, .elements = elements});
  return window;
}

// Windows: wte, wpe, h.0 ..., ln_f, with wte tied. Untied: wte, h.0 ..., ln_f, lm_head.
inline ModelGraph make_graph(const GraphShape& shape) {
  ModelGraph graph;
  graph.precision = shape.precision;
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
  for (u32 l = 0; l < shape.layers; ++l) {
    graph.blocks.push_back({.kind = BlockKind::layer,
                            .name = fmt::format("h.{}", l),
                            .layer = l,
                            .windows = {static_cast<u32>(graph.windows.size())},
                            .kept = Bytes{shape.kept_bytes},
                            .forward_workspace = work,
                            .backward_workspace = work});
    graph.windows.push_back(make_window(fmt::format("h.{}", l), shape.layer_elements));
  }
  const u32 norm = static_cast<u32>(graph.windows.size());
  graph.blocks.push_back({.kind = BlockKind::head,
                          .name = "head",
                          .windows = {norm, shape.untied ? norm + 1 : 0},
                          .forward_workspace = work,
                          .backward_workspace = work});
  graph.windows.push_back(make_window("ln_f", 2048));
  if (shape.untied) graph.windows.push_back(make_window("lm_head", shape.embedding_elements));
  for (const Window& w : graph.windows) graph.parameters += w.parameters;
  return graph;
}

}  // namespace tidepool::test
