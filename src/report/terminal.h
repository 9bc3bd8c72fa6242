// Renders a run for the terminal: the plan before the first step, progress during the run, the report at the
// end. All are pure functions from values to text, except Progress, which writes.
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

struct TierSummary {  // the device tier: values of one device, as all are alike
  Bytes budget{};
  Bytes planned_peak{};
  std::vector<KindUse> resting;    // persistent chunks at home here
  std::vector<KindUse> streaming;  // frames of streamed chunks, and content that lives for one step
  Bytes reserved{};                // part of planned_peak: held for the whole run, not in frames
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
  std::string model;     // name or path: "gpt2"
  std::string executor;  // "cpu:1, 2 threads", or with a machine file "8xv100-32g, 8 devices"
  u32 devices = 1;       // all alike; `tiers` has one device's values, `links` the sum of all
  Precision precision = Precision::fp32;
  u64 parameters = 0;
  u64 trained_parameters = ~u64{0};  // if fewer, the others are frozen: parameters only
  u32 layers = 0, width = 0, heads = 0, vocabulary = 0;
  u64 sequences = 0;  // per micro-batch
  u64 tokens_per_sequence = 0;
  u32 micro_batches = 0;  // per step
  u32 sweeps = 1;
  bool clipping = true;
  Bytes state{};                  // all persistent kinds
  std::vector<KindCost> kept;     // param, master or master_low, momentum, variance
  std::vector<KindCost> waiting;  // gradients until their update, if they have own bytes; may be empty
  std::array<TierSummary, tier_count> tiers{};
  std::array<LinkSummary, link_count> links{};
  double compute_seconds = 0;         // predicted, per step; 0: not predicted
  double predicted_step_seconds = 0;  // 0: not predicted
  Spread predicted_step_range;        // over the rounds of measurements behind the prediction
  std::string binds;                  // "disk_write"; empty: not known
  std::vector<std::string> notes;     // one line each: "checkpoints: 2 x 1.3 GiB in runs/a"
};

std::string render_plan(const PlanSummary&, const Screen&);

// ---- While it runs

struct StepLine {
  u64 step = 0;      // steps done
  double epoch = 0;  // epochs done
  double loss = 0;
  double learning_rate = 0;
  double grad_norm = 0;
  double tokens_per_second = 0;
  double loss_scale = 0;        // fp16 only; else 0
  double fraction_of_peak = 0;  // 0: not known
  std::string binds;            // empty: not known
};

struct ProgressState {
  StepLine last;
  u64 total_steps = 0;
  double total_epochs = 0;  // 0: not known
  double eta_seconds = 0;   // NaN: not known yet
};

// RETURNS: the line of a logged step: "step 37/100  loss 3.214  ..."
std::string progress_line(const ProgressState&);
// RETURNS: the same line with at most screen.columns - 1 columns; items that do not fit are left out.
std::string progress_line(const ProgressState&, const Screen&);

// The live view on a terminal, lines of at most screen.columns - 1 columns: a progress bar, and under it the
// numbers that change slowly.
std::string progress_bar(const ProgressState&, const Screen&);
std::string progress_numbers(const ProgressState&, const Screen&);  // empty before the first step

// LiveState is shown below the bar and the numbers. NaN: not known, or nothing to show.
struct LiveState {
  bool known = false;
  std::array<double, lane_kind_count> busy{};  // share of the most recent time in which the lane worked
  std::array<double, tier_count> fill{};       // share of the tier's arena that holds content
};
// RETURNS: the lines of the lanes and tiers; no lines if the screen is too narrow or nothing is known.
std::vector<std::string> live_lines(const LiveState&, const Screen&);

// Progress writes one line per logged step, and on a terminal a live view below them, which is rewritten.
// THREADS: one.
class Progress {
 public:
  struct Options {
    u64 total_steps = 0;
    double total_epochs = 0;  // 0: not known
    u64 first_step = 0;       // steps done before this process; the ETA counts from here
    u64 logging_steps = 1;
    double now_seconds = 0;  // the caller's clock at the start
  };
  Progress(const Screen&, std::FILE* out, const Options&);
  ~Progress();  // removes the view

  // Call after each step. `now_seconds`: the same clock as in Options.
  void step(const StepLine&, double now_seconds);
  // Call between steps, as often as you like: the view is drawn at most ten times a second. No-op if lines
  // cannot be rewritten. Each drawing asks the terminal for its size.
  void live(const LiveState&, double now_seconds);
  // Writes a line above the view: an evaluation, a checkpoint, a warning.
  void note(const std::string& line);
  // Removes the view for good.
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
  std::string due_;  // lines of steps, written with the next drawing
  double drawn_at_ = 0, logged_at_ = 0;
  bool visible_ = false;
};

// ---- At the end

std::string render_report(const RunReport&, const Screen&);
// Renders the report of a run that still trains or ended without a report. `state` says how far the run is.
std::string render_unfinished(const RunReport&, const std::string& state, const Screen&);

// Compares two runs side by side: figures with their change, and the settings that differ.
struct NamedReport {
  const std::string& name;
  const RunReport& report;
};
std::string render_comparison(const NamedReport& a, const NamedReport& b, const Screen&);

// Plots a curve of `values` over steps 1, 2, ... with labelled axes; `marks` are (step, value) points on it.
// Values that are not finite are left out. If nothing is left to draw, there are no lines.
struct PlotMark {
  u64 step = 0;
  double value = 0;
};
struct PlotSize {
  u32 columns = 70;  // including labels
  u32 rows = 8;
};
std::vector<std::string> render_plot(const std::vector<double>& values, const std::vector<PlotMark>& marks,
                                     PlotSize, const Screen&);

}  // namespace tidepool
