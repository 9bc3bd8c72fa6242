#include "model/layer_code.h"

#include <algorithm>

#include "base/check.h"

namespace tidepool {

const LayerCode& layer_code(Family family) {
  for (const LayerCode* code : {&gpt2::code, &llama::code, &deepseek::code})
    if (std::ranges::find(code->styles, &style(family)) != code->styles.end()) return *code;
  CHECK(false, name(family));
}

}  // namespace tidepool
