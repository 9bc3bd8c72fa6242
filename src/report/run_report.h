// RunReport is what a run did, compared with the plan and with lower bounds. report.json stores it; the
// terminal report and `tidepool report` show it.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/spread.h"
#include "report/expert_use.h"
#include "tidepool/plan.h"

namespace tidepool {

// Totals over all training steps of this process. Counts useful bytes only (no retries, checkpoints,
// evaluation).
struct LinkUse {
  Bytes planned{};
  Bytes measured{};
  Bytes lower_bound{};
  Bytes planned_steady{};  // of a step that is neither first nor last, as in `tidepool plan`
  bool operator==(const LinkUse&) const = default;
};

// The same for collectives, all devices together. There is no lower bound, because homes and shards fix the
// bytes.
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
  std::string cause;   // key: "compute", "update", "h2d", "d2h", "disk_read", "disk_write", ...
  double seconds = 0;  // over all training steps; the causes add up to the training time
  bool operator==(const ExposedTime&) const = default;
};
// RETURNS: the word that people see for a cause. Reports have the key `record` for the wait for commits.
constexpr std::string_view cause_label(std::string_view key) { return key == "record" ? "commit" : key; }

// Phases of a single step, so that they add up to its length. Medians of each phase would not.
struct PhaseTime {
  std::string phase;   // "forward", "backward", "update"
  double seconds = 0;  // in the steady step of median length
  // Lower bound by the slowest link or by compute; 0: none, because the phase was faster than the rates
  // measured before the first step allow.
  double bound_seconds = 0;
  bool operator==(const PhaseTime&) const = default;
};

// Readings of a GPU from the driver while training; 0: not available.
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
  std::string weights_xxh3;  // weights at the end, as 16 hex digits

  u64 steps = 0;              // optimizer steps of this process
  u64 resumed_from_step = 0;  // 0: not resumed
  u64 tokens_per_step = 0;
  u64 tile_tokens = 0;         // of sequences that are computed in tiles; 0: whole
  u64 tiles = 1, pieces = 1;   // of a micro-batch
  u64 steps_per_epoch = 0;     // 0: an older report.json without it
  u64 tokens = 0;              // trained tokens, without padding, including earlier processes
  std::vector<double> losses;  // of steps 1, 2, ..., including earlier processes
  // fp16 only: steps whose gradient overflowed, so that no weight changed; and the loss scale at the end.
  u64 skipped_steps = 0;
  // Updates did not wait for the norm: how often it changed them, and the steps that were trained again then.
  bool speculated = false;
  u64 redos = 0, redone_steps = 0;
  double loss_scale = 0;  // 0: not fp16
  std::vector<u64> eval_steps;
  std::vector<double> eval_losses;
  std::string eval_figure;           // metric beside the losses; empty: perplexity, which they give
  std::vector<double> eval_figures;  // its values, by evaluation
  // The lowest eval_loss, and the checkpoint at that evaluation or the first after it; no path if nothing is
  // saved.
  u64 best_step = 0;       // of the checkpoint; 0: none
  u64 best_eval_step = 0;  // of the evaluation; 0: an older report.json without it
  double best_eval_loss = 0;
  std::string best_ranked_by;  // the metric by which it is the best; empty: eval_loss
  std::string best_checkpoint;
  std::string stopped_early;  // reason; empty: not stopped early

  double train_seconds = 0;
  double tokens_per_second = 0;
  double step_seconds = 0;            // median
  double predicted_step_seconds = 0;  // 0: not predicted
  Spread predicted_step_range;        // over the rounds of measurements before the first step
  std::vector<double> each_step_seconds;
  std::vector<double> each_grad_norm, each_learning_rate;  // same length; empty in an older report
  double flops_per_second = 0;                             // achieved
  double peak_flops_per_second = 0;  // measured on this machine before the first step; 0: not measured
  Spread peak_range;                 // range of the peak, including the measurement after the last step
  double speed_at_end = 0;           // peak after the last step / peak before the first; 0: not measured

  std::array<LinkUse, link_count> links{};
  std::optional<CommUse> comm;                    // several devices
  u32 nodes = 1;                                  // all bytes are of the first
  std::optional<std::array<LinkUse, 2>> network;  // several nodes: sent, received
  std::array<TierPeak, tier_count> tiers{};
  Bytes rss_peak{};
  Bytes checkpoint_written{};  // not counted in the links
  Bytes disk_endurance{};      // stated by machine.file; 0: not stated
  u64 io_retries = 0;
  std::vector<ExposedTime> exposed;
  std::vector<PhaseTime> phases;
  u64 phase_steps = 0;       // number of steady steps behind the median: not the first, none after a rest
  std::string binds;         // "disk_read"
  std::vector<GpuUse> gpus;  // empty: no GPU, or no readings
  std::optional<ExpertUse> experts;  // none: a model without experts, or nothing is known of them

  std::map<std::string, std::string> machine;  // "cpu", "cores", "memory", "disk", ...: for people
  std::map<std::string, std::string> config;   // effective settings, as in config.yaml

  bool operator==(const RunReport&) const = default;
};

// True if training can produce this loss. A cross-entropy of fp32 logits is not below 0, except by rounding,
// and not above the largest difference of two logits. Values that are not finite are accepted: they are
// losses of a failed training.
bool may_be_loss(double);

// Text of report.json. Numbers that are not finite become null.
std::string to_json(const RunReport&);
// Parses report.json; null becomes NaN.
// Error: bad_input, naming `file_name` and the key.
Result<RunReport> parse_report(std::string_view text, std::string_view file_name);

// Replaces `run_dir`/report.json atomically.
Result<void> write_report(const std::string& run_dir, const RunReport&);
Result<RunReport> read_report(const std::string& run_dir);

}  // namespace tidepool
