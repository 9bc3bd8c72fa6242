// The arrays that a step's numbers take of a device's memory, and where they lie in it.
#pragma once

#include "executor/shared/step_source.h"
#include "kernels/adamw/adamw.h"

namespace tidepool {

inline constexpr u32 steps_kept = 4;  // a norm's result is asked for up to two steps later

struct StepArraySizes {
  u64 micro_batches = 0, partials = 0, decay_segments = 0, vocabulary = 0;
  u64 cells = 0;  // of granules that several devices share
  bool several_devices = false;
};

struct StepArrays {
  double* losses = nullptr;          // [steps_kept, micro_batches]
  double* evaluations = nullptr;     // [lane_depth]
  double* partials = nullptr;        // of the step in backward; behind them
  double* cells = nullptr;           // cells of granules that devices share
  double* received = nullptr;        // what another device has of losses, or of partials and cells
  u32* shared = nullptr;             // by granule that devices share: its partial
  StepResult* results = nullptr;     // [steps_kept]
  LossScale* loss_scale = nullptr;   // of the step in backward
  AdamWScalars* scalars = nullptr;   // of the last update
  float* logits = nullptr;           // [vocabulary]
  DecaySegment* segments = nullptr;  // of all chunk sets
};
// Returns what they take. Without `begin` it only counts.
Bytes lay_out(const StepArraySizes&, std::byte* begin, StepArrays&);

// What the host gets to see of them.
struct HostStepArrays {
  StepResult* results = nullptr;
  double* evaluations = nullptr;
  float* logits = nullptr;
};
Bytes lay_out(const StepArraySizes&, std::byte* begin, HostStepArrays&);

}  // namespace tidepool
