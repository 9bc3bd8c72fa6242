// What one sees: the plan before the first step, a progress line while it runs, the report at the end.
// All are pure functions from values to text; Progress alone writes.
#pragma once

#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "report/run_report.h"
#include "report/screen.h"
#include "tidepool/chunk.h"
#include "tidepool/plan.h"

namespace tidepool {

// ---- Before the first step

struct KindUse {
  Kind kind{};
  Bytes bytes{};
};

struct TierSummary {  // of the device: of each
  Bytes budget{};
  Bytes planned_peak{};
  std::vector<KindUse> resting;    // persistent chunks at home here
  std::vector<KindUse> streaming;  // frames that chunks pass through, and everything that lives for a step
  Bytes reserved{};                // of planned_peak: held for the whole run, beside frames
};

struct LinkSummary {
  Bytes per_step{};
  Bytes lower_bound{};
  double seconds = 0;  // predicted busy time per step; 0: not predicted
};

struct KindCost {
  Kind kind{};
  u32 bytes_per_parameter = 0;
};

struct PlanSummary {
  std::string model;     // "gpt2": a name or path
  std::string executor;  // what runs it: "cpu:1, 2 threads"; a machine file's: "8xv100-32g, 8 devices"
  u32 devices = 1;       // alike: `tiers` of the device are of each, `links` of all together
  Precision precision = Precision::fp32;
  u64 parameters = 0;
  u64 trained_parameters = ~u64{0};  // fewer: of the others there are parameters alone
  u32 layers = 0, width = 0, heads = 0, vocabulary = 0;
  u64 sequences = 0;  // per micro-batch
  u64 tokens_per_sequence = 0;
  u32 micro_batches = 0;  // per step
  u32 sweeps = 1;
  bool clipping = true;
  Bytes state{};                  // all persistent kinds
  std::vector<KindCost> kept;     // param, master or master_low, momentum, variance
  std::vector<KindCost> waiting;  // gradients until their update, if in bytes of their own; may be empty
  std::array<TierSummary, tier_count> tiers{};
  std::array<LinkSummary, link_count> links{};
  double compute_seconds = 0;         // predicted, per step; 0: not predicted
  double predicted_step_seconds = 0;  // 0: not predicted
  Spread predicted_step_range;        // by the rounds of measurements that it was predicted with
  std::string binds;                  // "disk_write"; empty: not known
  std::vector<std::string> notes;     // one line each: "checkpoints: 2 x 1.3 GiB in runs/a"
};

std::string render_plan(const PlanSummary&, const Screen&);

// ---- While it runs

struct StepLine {
  u64 step = 0;      // done
  double epoch = 0;  // epochs done
  double loss = 0;
  double learning_rate = 0;
  double grad_norm = 0;
  double tokens_per_second = 0;
  double loss_scale = 0;        // fp16's; else 0
  double fraction_of_peak = 0;  // 0: not known
  std::string binds;            // empty: not known
};

struct ProgressState {
  StepLine last;
  u64 total_steps = 0;
  double total_epochs = 0;  // 0: not known
  double eta_seconds = 0;   // NaN: not known yet
};

// The line of a logged step: "step 37/100  loss 3.214  ..."
std::string progress_line(const ProgressState&);
// The same, of at most screen.columns - 1 columns: what does not fit is left out.
std::string progress_line(const ProgressState&, const Screen&);

// The view on a terminal, lines of at most screen.columns - 1 columns: a bar, and what moves slowly under it.
std::string progress_bar(const ProgressState&, const Screen&);
std::string progress_numbers(const ProgressState&, const Screen&);  // empty before the first step

// Under those. NaN: not known, or nothing to show.
struct LiveState {
  bool known = false;
  std::array<double, lane_kind_count> busy{};  // share of the last moments in which the lane worked
  std::array<double, tier_count> fill{};       // share of the tier's arena that holds something
};
// No lines where the screen is too narrow, or nothing is known.
std::vector<std::string> live_lines(const LiveState&, const Screen&);

// One line per logged step, and on a terminal below them a live view that is rewritten. One thread.
class Progress {
 public:
  struct Options {
    u64 total_steps = 0;
    double total_epochs = 0;  // 0: not known
    u64 first_step = 0;       // steps done before: the ETA counts from here
    u64 logging_steps = 1;
    double now_seconds = 0;  // a clock of the caller's, at the start
  };
  Progress(const Screen&, std::FILE* out, const Options&);
  ~Progress();  // takes the view away

  // After each step; `now_seconds` of the same clock.
  void step(const StepLine&, double now_seconds);
  // Between steps, as often as one likes: drawn at most ten times a second. Nothing where lines cannot be
  // rewritten. The terminal is asked for its size each time.
  void live(const LiveState&, double now_seconds);
  // A line of its own above the view: evaluations, checkpoints, warnings.
  void note(const std::string& line);
  // Takes the view away for good.
  void close();

  Progress(const Progress&) = delete;

 private:
  bool logged(u64 step) const;
  void draw();
  void clear();
  void put(const std::string&);

  Screen screen_;
  std::FILE* out_;
  Options options_;
  ProgressState state_;
  LiveState live_;
  std::string due_;  // lines of steps, written with the next picture
  double drawn_at_ = 0, logged_at_ = 0;
  bool visible_ = false;
};

// ---- At the end

std::string render_report(const RunReport&, const Screen&);
// Report of a run that has not ended, or not with a report: `state` says how far it is.
std::string render_unfinished(const RunReport&, const std::string& state, const Screen&);

// Two runs beside each other: figures with their change, and the settings that differ.
struct NamedReport {
  const std::string& name;
  const RunReport& report;
};
std::string render_comparison(const NamedReport& a, const NamedReport& b, const Screen&);

// A curve of `values` over steps 1, 2, ... with labelled axes; `marks` are (step, value) points on it. Values
// that are not finite are left out; nothing to draw gives no lines.
struct PlotMark {
  u64 step = 0;
  double value = 0;
};
struct PlotSize {
  u32 columns = 70;  // labels included
  u32 rows = 8;
};
std::vector<std::string> render_plot(const std::vector<double>& values, const std::vector<PlotMark>& marks,
                                     PlotSize, const Screen&);

}  // namespace tidepool
