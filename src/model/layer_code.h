// LayerCode is the code of the layers of one or several styles. Embedding and head are written once for all
// styles.
#pragma once

#include <array>
#include <span>

#include "model/adapters.h"
#include "model/blocks.h"

namespace tidepool {

struct LayerCode {
  std::array<const LayerStyle*, 3> styles{};  // made by this code
  // In order: the embedding's windows, a window per layer, the final norm, the head's matrix if it is not
  // tied. A layer's window is followed by those of its groups of experts.
  std::vector<Window> (*windows)(const ModelGraph&);
  u32 embedding_windows;  // number of windows that the embedding reads
  LinearModules (*modules)(const ModelConfig&, BlockKind);
  // Fills in the sizes of a layer or of its attention block: Block::kept and both workspaces.
  void (*measure)(Block&, const ModelGraph&);
  void (*forward)(const BlockContext&, const BlockForward&);
  void (*backward)(const BlockContext&, const BlockBackward&);
};

const LayerCode& layer_code(Family);

// Kind of a layer's first block.
inline BlockKind layer_kind(const ModelConfig& c, u32 layer) {
  return c.has_experts(layer) ? BlockKind::attention : BlockKind::layer;
}

// Each `code` is in a folder of its own; layer_code.cpp lists them all.
namespace gpt2 {
extern const LayerCode code;
}
namespace llama {
extern const LayerCode code;
}
namespace deepseek {
extern const LayerCode code;
}

}  // namespace tidepool
