// What a style of layers brings to a model. Embedding and head are written once for all of them.
#pragma once

#include <span>

#include "model/adapters.h"
#include "model/blocks.h"

namespace tidepool {

struct LayerCode {
  // In order: what the embedding reads, a window per layer, the final norm, the head's matrix where it is not
  // tied.
  std::vector<Window> (*windows)(const ModelConfig&);
  u32 embedding_windows;  // how many the embedding reads
  LinearModules (*modules)(const ModelConfig&);
  // Fills in what one layer keeps and the workspaces that it takes.
  void (*measure)(Block&, const ModelGraph&);
  void (*forward)(const BlockContext&, const BlockForward&);
  void (*backward)(const BlockContext&, const BlockBackward&);
};

extern const LayerCode gpt2_layer_code;   // gpt2_graph.cpp
extern const LayerCode llama_layer_code;  // llama_graph.cpp

inline const LayerCode& layer_code(Family family) {
  return style(family) == LayerStyle::gpt2 ? gpt2_layer_code : llama_layer_code;
}

}  // namespace tidepool
