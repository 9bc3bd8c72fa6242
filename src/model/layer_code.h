// The code of a layer style. Embedding and head are written once for all of them.
#pragma once

#include <array>
#include <span>

#include "model/adapters.h"
#include "model/blocks.h"

namespace tidepool {

struct LayerCode {
  std::array<const LayerStyle*, 2> styles{};  // made by this code
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

const LayerCode& layer_code(Family);

// One folder each; layer_code.cpp lists them.
namespace gpt2 {
extern const LayerCode code;
}
namespace llama {
extern const LayerCode code;
}

}  // namespace tidepool
