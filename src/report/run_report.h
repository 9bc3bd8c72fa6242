// RunReport compares a run's measurements with its plan and with the lower bounds. It is stored in
// report.json; the terminal report and `tidepool report` are rendered from it.
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

// LinkUse holds a link's useful bytes, summed over all training steps of this process. Retries, checkpoints
// and evaluations are not counted.
struct LinkUse {
  Bytes planned{};
  Bytes measured{};
  Bytes lower_bound{};
  Bytes planned_steady{};  // of one steady step, as `tidepool plan` shows: the first and the last step differ
  bool operator==(const LinkUse&) const = default;
};

// CommUse holds the same sums for collectives, all devices together. Homes and shards fix these bytes, so
// there is no lower bound.
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

// PhaseTime is one phase of one step. All phases are of the same step, so that they add up to the step's
// seconds: the medians of each phase by itself would not.
struct PhaseTime {
  std::string phase;         // "forward", "backward", "update"
  double seconds = 0;        // of the steady step whose length is the median
  double bound_seconds = 0;  // lower bound: what the slowest link or the compute needs
  bool operator==(const PhaseTime&) const = default;
};

// GpuUse holds the driver's readings of a GPU during training. A value that the driver did not give is 0.
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
  std::string weights_xxh3;  // hash of the final weights, 16 hex digits

  u64 steps = 0;              // optimizer steps of this process
  u64 resumed_from_step = 0;  // 0: not resumed
  u64 tokens_per_step = 0;
  u64 steps_per_epoch = 0;     // 0: an older report.json, which lacks it
  u64 tokens = 0;              // trained on, including earlier processes; without padding
  std::vector<double> losses;  // of steps 1, 2, ..., including earlier processes
  // fp16: steps whose gradient overflowed, so that no weight changed; and the loss scale at the end. Steps of
  // earlier processes are included.
  u64 skipped_steps = 0;
  double loss_scale = 0;  // 0: not fp16
  std::vector<u64> eval_steps;
  std::vector<double> eval_losses;
  // The lowest eval_loss, and the first checkpoint at or after its step; no path if nothing is saved.
  u64 best_step = 0;       // step of the checkpoint; 0: no checkpoint
  u64 best_eval_step = 0;  // step of the evaluation; 0: an older report.json, which lacks it
  double best_eval_loss = 0;
  std::string best_checkpoint;
  std::string stopped_early;  // reason; empty: not stopped early

  double train_seconds = 0;
  double tokens_per_second = 0;
  double step_seconds = 0;            // median
  double predicted_step_seconds = 0;  // 0: not predicted
  Spread predicted_step_range;        // over the rounds of measurements before the first step
  std::vector<double> each_step_seconds;
  std::vector<double> each_grad_norm, each_learning_rate;  // same length; empty in an older report.json
  double flops_per_second = 0;                             // achieved
  double peak_flops_per_second = 0;  // measured on this machine before the first step; 0: not measured
  Spread peak_range;                 // range of the peak, with the measurement after the last step
  double speed_at_end = 0;           // peak after the last step / peak before the first; 0: not measured

  std::array<LinkUse, link_count> links{};
  std::optional<CommUse> comm;  // several devices
  std::array<TierPeak, tier_count> tiers{};
  Bytes rss_peak{};
  Bytes checkpoint_written{};  // not counted in `links`
  Bytes disk_endurance{};      // from machine.file: bytes that may be written; 0: not given
  u64 io_retries = 0;
  std::vector<ExposedTime> exposed;
  std::vector<PhaseTime> phases;
  u64 phase_steps = 0;       // steady steps behind the median: not the first, and none right after a rest
  std::string binds;         // "disk_read"
  std::vector<GpuUse> gpus;  // empty: no GPUs, or no readings from the driver

  std::map<std::string, std::string> machine;  // "cpu", "cores", "memory", "disk", ...: for people
  std::map<std::string, std::string> config;   // effective settings, as in config.yaml

  bool operator==(const RunReport&) const = default;
};

// RETURNS: true if training can have produced this loss. A cross-entropy of fp32 logits is at least 0 up to
// rounding, and at most the largest difference of two logits. A loss that is not finite is possible: training
// went wrong.
bool may_be_loss(double);

// RETURNS: the text of report.json. Numbers that are not finite become null.
std::string to_json(const RunReport&);
// Parses the text of report.json; null becomes NaN. Errors are ErrorKind::bad_input and name `file_name` and
// the key.
Result<RunReport> parse_report(std::string_view text, std::string_view file_name);

// Replaces `run_dir`/report.json atomically.
Result<void> write_report(const std::string& run_dir, const RunReport&);
Result<RunReport> read_report(const std::string& run_dir);

}  // namespace tidepool
