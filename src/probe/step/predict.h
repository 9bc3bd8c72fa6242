// predict_step() predicts the time of a step: it replays the plan in virtual time at rates measured here and
// now.
#pragma once

#include <string>
#include <vector>

#include "base/spread.h"
#include "fit/forecast.h"
#include "probe/step/sampling.h"
#include "session/session.h"

namespace tidepool {

struct Prediction {
  Machine machine;  // only the rates that matter here, measured on the spot
  OpSeconds seconds;
  double peak_flops_per_s = 0;  // rate of the largest square product that memory has room for
  Spread peak_range;            // over the rounds
  Forecast forecast;
  Spread step_seconds;  // forecasts of the single rounds
};

// Measures every kind of block as it will run, copies and updates for a few milliseconds each in the
// session's own memory, and the disk through its own swap file; in rounds, until two in a row predict the
// same step. `network`: of measure_network(). REQUIRES: at rest, before the state is written: it overwrites
// arenas and swap file.
Result<Prediction> predict_step(Session&, const NetworkRates& network = {}, const Sampling& = {});

// RETURNS: how long a step may go without the completion of an op: many times the predicted step, so that
// slow, healthy runs continue, whose ops may take minutes on a large model.
Nanos watchdog(const Prediction&, Nanos least);

}  // namespace tidepool
