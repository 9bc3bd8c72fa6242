#include "model/layer_code.h"

#include "base/check.h"

namespace tidepool {

const LayerCode& layer_code(Family family) {
  for (const LayerCode* code : {&gpt2::code, &llama::code})
    if (code->style == &style(family)) return *code;
  CHECK(false, name(family));
}

}  // namespace tidepool
