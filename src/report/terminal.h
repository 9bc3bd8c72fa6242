// Texts for the user: the plan before the first step, a progress line while training, the report at the end.
// All are pure functions from values to text, except that Progress writes.
#pragma once

#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "report/metrics.h"
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

struct TierSummary {  // for the device tier: of each device
  Bytes budget{};
  Bytes planned_peak{};
  std::vector<KindUse> resting;    // persistent chunks at home here
  std::vector<KindUse> streaming;  // frames that chunks pass through, and content that lives for one step
  Bytes reserved{};                // part of planned_peak that is held for the whole run, beside frames
};

struct LinkSummary {
  Bytes per_step{};
  Bytes lower_bound{};
  double seconds = 0;  // predicted busy time per step; 0: not predicted
};

struct KindCost {
  Kind kind{};
  double bytes_per_parameter = 0;
};

// Parameters that another rule than the first updates.
struct OrthogonalizedSummary {
  u64 matrices = 0;  // in a step
  double share = 0;  // of the step's products, without recompute
};

struct RuleCost {
  std::string optim;  // as in a config
  u64 parameters = 0;
  double bytes_per_parameter = 0;
};

struct PlanSummary {
  std::string model;     // a name or path
  std::string executor;  // "cpu:1, 2 threads"; for a machine file: "8xv100-32g, 8 devices"
  u32 devices = 1;       // `tiers` are per device, `links` are of all devices together
  bool layers_over_devices = false;
  u32 nodes = 1;  // all else is of one of them
  Precision precision = Precision::fp32;
  StateSlots state_slots;
  u64 parameters = 0;
  u64 active_parameters = 0;         // used by one token; 0: all
  u64 trained_parameters = ~u64{0};  // the other parameters are frozen
  std::string quantization;          // of the frozen layers' matrices; empty: none
  u32 layers = 0, width = 0, heads = 0, vocabulary = 0, labels = 0;
  u64 sequences = 0;  // per micro-batch
  u64 tokens_per_sequence = 0;
  u32 experts = 0, experts_per_group = 0;  // of a layer; 0: none
  u64 tile_tokens = 0;                     // of a sequence that is computed in tiles; 0: whole
  u32 tiles = 1, pieces = 1;               // of a micro-batch
  u32 micro_batches = 0;                   // per step
  u32 sweeps = 1;
  bool clipping = true;
  bool speculates = false;     // updates do not wait for the norm
  Bytes state{};               // all persistent kinds
  std::vector<KindCost> kept;  // param and the slots of the first rule's state
  std::vector<RuleCost> other_rules;
  OrthogonalizedSummary orthogonalized;
  std::vector<KindCost> waiting;  // gradients until their update, if they have own bytes; may be empty
  std::array<TierSummary, tier_count> tiers{};
  std::array<LinkSummary, link_count> links{};
  // Sum of the links, in which a byte of the disk counts as `disk_weight`; 0: unknown.
  LinkSummary together;
  u64 disk_weight = 0;
  std::array<LinkSummary, 2> network{};  // sent and received; several nodes only
  double compute_seconds = 0;            // predicted, per step; 0: not predicted
  double predicted_step_seconds = 0;     // 0: not predicted
  Spread predicted_step_range;           // over the rounds of measurements behind the prediction
  std::string binds;                     // "disk_write"; empty: unknown
  std::vector<std::string> notes;        // one line each: "checkpoints: 2 x 1.3 GiB in runs/a"
};

std::string render_plan(const PlanSummary&, const Screen&);

// ---- While it runs

struct StepLine {
  u64 step = 0;  // finished steps
  Metrics metrics;
  double fraction_of_peak = 0;  // 0: unknown
  std::string binds;            // empty: unknown
};

struct ProgressState {
  StepLine last;
  u64 total_steps = 0;
  double total_epochs = 0;  // 0: unknown
  double eta_seconds = 0;   // NaN: unknown yet
};

// RETURNS: the line of a logged step: "step 37/100  loss 3.214  ..."
std::string progress_line(const ProgressState&);
// The same with at most screen.columns - 1 columns: drops items that do not fit.
std::string progress_line(const ProgressState&, const Screen&);

// The live view on a terminal: a bar, and slowly changing numbers below it. Lines of at most screen.columns -
// 1 columns.
std::string progress_bar(const ProgressState&, const Screen&);
std::string progress_numbers(const ProgressState&, const Screen&);  // empty before the first step

// State of the lines below them. NaN: unknown, or nothing to show.
struct LiveState {
  bool known = false;
  std::array<double, lane_kind_count> busy{};  // share of the last moments in which the lane worked
  std::array<double, tier_count> fill{};       // used share of the tier's arena
};
// RETURNS: no lines if the screen is too narrow or nothing is known.
std::vector<std::string> live_lines(const LiveState&, const Screen&);

// Prints one line per logged step, and on a terminal a live view below them.
// THREADS: one.
class Progress {
 public:
  struct Options {
    u64 total_steps = 0;
    double total_epochs = 0;  // 0: unknown
    u64 first_step = 0;       // steps before this process; the ETA counts from here
    u64 logging_steps = 1;
    double now_seconds = 0;  // the caller's clock at the start
  };
  Progress(const Screen&, std::FILE* out, const Options&);
  ~Progress();  // erases the view

  // To be called after each step. `now_seconds` is of the same clock.
  void step(const StepLine&, double now_seconds);
  // To be called between steps, at any rate: draws at most ten times a second, and asks the terminal for its
  // size each time. A no-op if lines cannot be rewritten.
  void live(const LiveState&, double now_seconds);
  // RETURNS: the newest step's line, as it is printed.
  std::string last_line() const { return progress_line(state_); }
  // Prints a line above the view: evaluations, checkpoints, warnings.
  void note(const std::string& line);
  // Erases the view for good.
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
  std::string due_;  // lines of steps, to be written with the next redraw
  double drawn_at_ = 0, logged_at_ = 0;
  bool visible_ = false;
};

// ---- At the end

std::string render_report(const RunReport&, const Screen&);
// Report of a run without a final report: `state` describes its progress.
std::string render_unfinished(const RunReport&, const std::string& state, const Screen&);

// Two runs side by side: figures with their change, and settings that differ.
struct NamedReport {
  const std::string& name;
  const RunReport& report;
};
std::string render_comparison(const NamedReport& a, const NamedReport& b, const Screen&);

// Plots `values` over steps 1, 2, ... with labelled axes. `marks` are (step, value) points on the curve.
// Values that are not finite are skipped.
// RETURNS: no lines if there is nothing to draw.
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
