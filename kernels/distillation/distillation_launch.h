// Launch shapes of distillation's kernels.
#pragma once

#include "kernels/cuda/launch_shape.h"
#include "kernels/distillation/distillation.h"

namespace tidepool::cuda {

// A block has a row, whose threads share the teacher's tokens.
inline constexpr u32 teacher_threads = 128;
constexpr LaunchShape teacher_rows_launch(u32 rows) { return {.grid = {rows}, .block = {teacher_threads}}; }
// The same, with a list of k tokens in shared memory.
constexpr LaunchShape select_top_launch(u32 rows, u32 k) {
  return {.grid = {rows}, .block = {teacher_threads}, .shared_bytes = k * static_cast<u32>(sizeof(TopToken))};
}

}  // namespace tidepool::cuda
