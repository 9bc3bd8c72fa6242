// StepArrays lays out the arrays of a step's numbers in a device's memory.
#pragma once

#include "executor/shared/step_source.h"
#include "kernels/router/router_totals.h"
#include "kernels/update/update.h"
#include "tidepool/model_graph.h"
#include "tidepool/objective.h"

namespace tidepool {

inline constexpr u32 steps_kept = 4;  // a norm's result is asked for up to two steps later

struct StepArraySizes {
  u64 micro_batches = 0, partials = 0, decay_segments = 0, vocabulary = 0;
  u64 cells = 0;           // cells of granules that several devices share
  u64 experts = 0;         // of all layers; 0: none
  u64 outputs = 0;         // numbers that an evaluation gives for targets; 0: none
  u64 update_scratch = 0;  // bytes
  bool several_devices = false;
  bool several_nodes = false;
};
// RETURNS: the number of experts of all layers, whose tokens a step counts.
u64 experts_of_layers(const ModelGraph&);

struct StepArrays {
  Sums* sums = nullptr;              // [steps_kept, micro_batches]
  Sums* evaluations = nullptr;       // [lane_depth]
  double* partials = nullptr;        // partials of the step in backward, followed by cells
  double* cells = nullptr;           // cells of granules that devices share
  double* received = nullptr;        // another device's sums, or its partials and cells
  u32* shared = nullptr;             // by granule that devices share: index of its partial
  StepResult* results = nullptr;     // [steps_kept]
  LossScale* loss_scale = nullptr;   // scale of the step in backward
  UpdateScalars* scalars = nullptr;  // scalars of the last update
  float* logits = nullptr;           // [vocabulary]
  float* outputs = nullptr;          // [lane_depth, outputs]
  DecaySegment* segments = nullptr;  // decay of all chunk sets
  std::byte* update_scratch = nullptr;
  // Models with experts: of the device's micro-batches.
  RouterLosses* router_losses = nullptr;  // [steps_kept, micro_batches]
  i64* expert_tokens = nullptr;           // [steps_kept, experts]
};
// RETURNS: the bytes of the arrays. If `begin` is null, only counts.
Bytes lay_out(const StepArraySizes&, std::byte* begin, StepArrays&);

// The arrays that are copied to the host.
struct HostStepArrays {
  StepResult* results = nullptr;
  Sums* sums = nullptr;  // several nodes: [steps_kept, micro_batches]
  Sums* evaluations = nullptr;
  float* logits = nullptr;
  float* outputs = nullptr;
  RouterLosses* router_losses = nullptr;
  i64* expert_tokens = nullptr;
};
Bytes lay_out(const StepArraySizes&, std::byte* begin, HostStepArrays&);

}  // namespace tidepool
