// WindowParams and WindowGradients find the tensors of a window in device memory by number.
#pragma once

#include "kernels/values.h"
#include "tidepool/model_graph.h"

namespace tidepool {

enum class NormTensor : u8 { weight, bias };  // tensors of the final norm's window; RMS norms have no bias

// Parameters of a window in device memory.
struct WindowParams {
  const Window& window;
  Precision precision;
  const std::byte* data;

  template <class E>
  Param operator[](E tensor) const {
    return Param{data, precision}.at(window.tensor(static_cast<u32>(tensor)).window_offset);
  }
};

// Gradient accumulators of a window: fp32, in the window's layout. `data` is null if the window is frozen.
struct WindowGradients {
  const Window& window;
  float* data;

  template <class E>
  float* operator[](E tensor) const {
    return data == nullptr ? nullptr : data + window.tensor(static_cast<u32>(tensor)).window_offset;
  }
};

}  // namespace tidepool
