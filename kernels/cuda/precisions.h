// Checks the arrays of a launch; readable without CUDA.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "kernels/cuda/launch_shape.h"
#include "kernels/values.h"

namespace tidepool::cuda {

// Stops the process unless all non-null arrays have one precision. A model's activations do, and kernels are
// not built for mixtures.
void check_same_precision(std::initializer_list<ConstValues>);

// RETURNS: true if rows of `columns` elements may be accessed in vectors of 8: load8<true>. Null counts as
// aligned.
template <class... Arrays>
bool rows_of_vectors(u64 columns, const Arrays&... arrays) {
  const auto aligned = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; };
  return columns % vector_elements == 0 && (aligned(ConstValues(arrays).data) && ...);
}

}  // namespace tidepool::cuda
