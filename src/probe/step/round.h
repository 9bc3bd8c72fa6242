// Round is one round of measurements of a step's parts.
#pragma once

#include <vector>

#include "base/median.h"
#include "base/steady_seconds.h"
#include "probe/step/sampling.h"
#include "session/session.h"

namespace tidepool {

inline constexpr u32 samples_max = 15;  // a median of more says no more: a tiny model is measured in a moment

struct Round {
  bool first = true;  // first of all rounds: caches, files and clocks need a warm-up
  Bytes cache{};      // of all cores
  const Sampling& sampling;
};

// Evicts the caches: between two ops of a step much other data passes through them.
void cool_caches(Session&, Bytes cache);

// Median time of a call that finds its data in memory, as ops of a step do, and not in the caches.
template <class Fn>
Result<double> cold_seconds_of(Session& session, Round round, u32 samples_min, Fn&& fn) {
  std::vector<double> samples;
  if (round.first) TRY(fn());
  for (const double begin = steady_seconds();
       samples.size() < samples_min ||
       (samples.size() < samples_max && steady_seconds() - begin < round.sampling.op_seconds);) {
    cool_caches(session, round.cache);
    const double at = steady_seconds();
    TRY(fn());
    samples.push_back(steady_seconds() - at);
  }
  return median(std::move(samples));
}

}  // namespace tidepool
