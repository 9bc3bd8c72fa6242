// What a forecast means for people: speed, efficiency, days, wear.
#pragma once

#include "fit/forecast.h"

namespace tidepool {

struct Outlook {
  u64 tokens_per_step = 0;
  double tokens_per_second = 0;
  // Of one device, by model flops: flops_per_token of the graph (6 N + 12 L H Q T), recompute not counted.
  double flops_per_second = 0;
  double flops_utilization = 0;   // MFU: of the machine's best matrix products in this precision
  double least_step_seconds = 0;  // no plan is faster: the busiest resource doing its least work
  std::string least_binds;        // that resource
  double days = 0;                // for the token budget; 0: none given
  Bytes disk_written_per_step{};
  double disk_bytes_per_day = 0;
  double drive_life_years =
      0;  // until the endurance that the machine file tells is used up; 0: none told, or nothing written
  Bytes checkpoint{};       // one, as it lies on disk
  double save_seconds = 0;  // of one checkpoint: read, copied and hashed, written, one after the other
};

struct OutlookInput {
  const Plan& plan;
  const ModelGraph& graph;
  const Machine& machine;
  const Forecast& forecast;
  u64 token_budget = 0;
};

Outlook outlook(const OutlookInput&);

}  // namespace tidepool
