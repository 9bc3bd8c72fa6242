// What a run did, measured against what was planned and against the least possible. report.json holds
// it; the terminal report and `tidepool report` are drawn from it.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/spread.h"
#include "tidepool/plan.h"

namespace tidepool {

// Totals over all training steps of this process; useful bytes (no retries, checkpoints, evaluation).
struct LinkUse {
  Bytes planned{};
  Bytes measured{};
  Bytes lower_bound{};
  Bytes planned_steady{};  // of one step between others, as `tidepool plan` has it: the first and the last
                           // differ
  bool operator==(const LinkUse&) const = default;
};

// The same of collectives, all devices together. Homes and shards fix their bytes, so there is no least.
struct CommUse {
  Bytes planned{};
  Bytes measured{};
  Bytes planned_steady{};
  bool operator==(const CommUse&) const = default;
};

struct TierPeak {
  Bytes budget{};
  Bytes planned_peak{};
  Bytes measured_peak{};
  bool operator==(const TierPeak&) const = default;
};

struct ExposedTime {
  std::string cause;   // "compute", "host_adam", "h2d", "d2h", "disk_read", "disk_write", ...
  double seconds = 0;  // of all training steps; the causes add up to the training time
  bool operator==(const ExposedTime&) const = default;
};

// The phases of one step, so that they add up to its seconds: of medians of each phase nobody says what they
// add to.
struct PhaseTime {
  std::string phase;         // "forward", "backward", "update"
  double seconds = 0;        // of the steady step whose length is the median
  double bound_seconds = 0;  // the least that its slowest link or the compute needs
  bool operator==(const PhaseTime&) const = default;
};

// What the driver told of a GPU while training; what it did not tell is 0.
struct GpuUse {
  std::string name;  // "cuda:0"
  u64 samples = 0;
  double watts_mean = 0, watts_most = 0;
  double mhz_mean = 0, mhz_least = 0;
  double celsius_most = 0;
  bool operator==(const GpuUse&) const = default;
};

struct RunReport {
  std::string version;
  std::string commit;
  std::string model;  // "gpt2 24 x 2048"
  std::string precision;
  std::string executor;  // "cpu:1"
  u64 parameters = 0;
  Bytes state{};             // parameters, masters and optimizer states
  std::string weights_xxh3;  // of the weights at the end, 16 hex digits

  u64 steps = 0;              // optimizer steps done by this process
  u64 resumed_from_step = 0;  // 0: from the beginning
  u64 tokens_per_step = 0;
  u64 steps_per_epoch = 0;     // 0: an older report.json, which does not say
  u64 tokens = 0;              // trained on, those of earlier processes included; padding is none
  std::vector<double> losses;  // of steps 1, 2, ...; those of earlier processes included
  // fp16: of those, the ones whose gradient overflowed and changed no weight, and the loss's scale at the
  // end.
  u64 skipped_steps = 0;
  double loss_scale = 0;  // 0: another precision
  std::vector<u64> eval_steps;
  std::vector<double> eval_losses;
  // The lowest eval_loss, and its checkpoint or the first after it; no path where nothing is saved.
  u64 best_step = 0;       // of the checkpoint; 0: none
  u64 best_eval_step = 0;  // of the evaluation; 0: an older report.json, which does not say
  double best_eval_loss = 0;
  std::string best_checkpoint;
  std::string stopped_early;  // why; empty: it was not

  double train_seconds = 0;
  double tokens_per_second = 0;
  double step_seconds = 0;            // median
  double predicted_step_seconds = 0;  // 0: not predicted
  Spread predicted_step_range;        // by the rounds of measurements before the first step
  std::vector<double> each_step_seconds;
  std::vector<double> each_grad_norm, each_learning_rate;  // as many; none in an older report.json
  double flops_per_second = 0;                             // achieved
  double peak_flops_per_second = 0;  // measured on this machine before the first step; 0: not measured
  Spread peak_range;                 // of that, measured again after the last step
  double speed_at_end = 0;           // of the peak: after the last step by before the first; 0: not measured

  std::array<LinkUse, link_count> links{};
  std::optional<CommUse> comm;  // several devices
  std::array<TierPeak, tier_count> tiers{};
  Bytes rss_peak{};
  Bytes checkpoint_written{};  // beside the links
  Bytes disk_endurance{};      // that machine.file promises may be written; 0: not told
  u64 io_retries = 0;
  std::vector<ExposedTime> exposed;
  std::vector<PhaseTime> phases;
  u64 phase_steps = 0;       // steady steps that the median is of: neither the first nor any after a rest
  std::string binds;         // "disk_read"
  std::vector<GpuUse> gpus;  // empty: none, or the driver tells nothing

  std::map<std::string, std::string> machine;  // "cpu", "cores", "memory", "disk", ...: for people
  std::map<std::string, std::string> config;   // effective, as in config.yaml

  bool operator==(const RunReport&) const = default;
};

// Whether training could have come to this loss. A cross-entropy of fp32 logits is not below 0 but by
// rounding, and not above the largest difference of two; what is not finite is a loss that went wrong.
bool may_be_loss(double);

// report.json. Non-finite numbers become null.
std::string to_json(const RunReport&);
// The other way: errors are ErrorKind::bad_input and name `file_name` and the key. null reads as NaN.
Result<RunReport> parse_report(std::string_view text, std::string_view file_name);

// `run_dir`/report.json, replaced in one step.
Result<void> write_report(const std::string& run_dir, const RunReport&);
Result<RunReport> read_report(const std::string& run_dir);

}  // namespace tidepool
