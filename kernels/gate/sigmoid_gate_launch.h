// Launch shapes of the device's output gates.
#pragma once

#include "kernels/cuda/launch_shape.h"
#include "kernels/gate/sigmoid_gate.h"

namespace tidepool::cuda {

// Vectors of a head; the last may be short.
constexpr u32 gate_head_vectors(const GateShape& s) {
  return static_cast<u32>(div_up(s.head_size, vector_elements));
}
// A thread takes eight elements of a head at a time.
constexpr LaunchShape sigmoid_gate_launch(const GateShape& s) {
  return elementwise_launch(u64{s.rows} * s.heads * gate_head_vectors(s), 1);
}
// The gradient of a whole head's gate is a sum over the head: a warp per row and head, in a loop.
constexpr LaunchShape whole_head_gate_launch(const GateShape& s) {
  return elementwise_launch(u64{s.rows} * s.heads * warp_threads, 1);
}

}  // namespace tidepool::cuda
