// What launches ask of their arrays; readable without CUDA.
#pragma once

#include <initializer_list>

#include "kernels/values.h"

namespace tidepool::cuda {

// Stops the process unless all that are there have one precision. Activations of a model do: kernels are not
// built for mixtures.
void check_same_precision(std::initializer_list<ConstValues>);

}  // namespace tidepool::cuda
