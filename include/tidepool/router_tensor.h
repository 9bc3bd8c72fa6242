// is_router() finds the matrix of a layer's router by its name in files.
#pragma once

#include <string_view>

#include "tidepool/model_config.h"

namespace tidepool {

// True for the router's matrix, under its name in files of either form.
inline bool is_router(Family family, std::string_view tensor) {
  const ExpertTraits* experts = traits(family).experts;
  return experts != nullptr &&
         (tensor.ends_with(experts->tensors.router) || tensor.ends_with(experts->tensors.joined_router));
}

}  // namespace tidepool
