// One run from config to report. The class below is the only place that decides what happens next;
// everything that it uses decides nothing.
#include "trainer/trainer.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "checkpoint/checkpoint.h"
#include "config/schema.h"
#include "data/batch_source.h"
#include "data/dataset.h"
#include "engine/engine.h"
#include "report/metrics_log.h"
#include "report/terminal.h"
#include "report/trace.h"
#include "tidepool/check.h"
#include "trainer/init_weights.h"
#include "trainer/run_meter.h"
#include "trainer/session.h"
#include "trainer/signals.h"
#include "trainer/summary.h"
#include "trainer/train_source.h"
#include "trainer/write_trace.h"

namespace tidepool {
namespace {

namespace fs = std::filesystem;

constexpr u64 trace_events_max = 200'000;

Result<void> write_file(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  if (!out) return Error{ErrorKind::io, fmt::format("cannot write {}: is the disk full or read-only?", path)};
  return {};
}

std::map<std::string, std::string> settings_of(const Config& config, bool everything) {
  std::map<std::string, std::string> settings;
  for (const Field& field : schema())
    if (everything || field.section == "train" || field.section == "model")
      settings[fmt::format("{}.{}", field.section, field.key)] = value_yaml(field, config);
  return settings;
}

class Trainer final : public NextSegment, public EngineObserver {
 public:
  explicit Trainer(const TrainRequest& request)
      : request_(request), config_(request.config), screen_(detect_screen(1)) {}

  Result<RunReport> run() {
    TRY_ASSIGN(graph_, make_graph(config_));
    TRY(open_data());
    TRY_ASSIGN(Plan plan, make_plan(graph_, plan_options(config_)));
    TRY(open_run_directory(plan));
    TRY_ASSIGN(session_, Session::create(config_, graph_, std::move(plan), *source_));
    if (!request_.quiet) TRY(show_plan());
    for (const std::string& note : session_->notes()) say(note);
    TRY(open_checkpoints());
    TRY(load_or_init());
    TRY(open_outputs());
    const StopSignals signals;  // until the last save is done: it must not die of a first signal
    TRY(train());
    return finish();
  }

  // ---- NextSegment: asked when the current segment is about to end ---------------------------------

  std::optional<SegmentRun> next() override {
    if (must_rest()) {
      if (!pending_update_) return std::nullopt;
      pending_update_ = false;
      return SegmentRun{SegmentKind::drain, issued_ + 1};
    }
    const SegmentKind kind = resting_ ? SegmentKind::forward_backward : SegmentKind::body;
    resting_ = false;
    pending_update_ = session_->plan().clipping;
    return SegmentRun{kind, ++issued_};
  }

  // ---- EngineObserver ----------------------------------------------------------------------------------

  void segment_started(const SegmentRun& run, u64 sequence) override {
    meter_->profile().segment_started(run, sequence);
  }
  void completed(const Issue& issue, const Completion& completion) override {
    meter_->profile().completed(issue, completion);
    if (config_.output.trace) meter_->trace().completed(issue, completion);
    if (issue.get().kind == OpKind::norm) step_done(issue.step);
  }
  void segment_finished(const SegmentRun& run) override {
    meter_->profile().segment_finished(run);
    meter_->segment_finished(run.kind);
  }
  void at_rest() override { meter_->profile().at_rest(); }

 private:
  // ---- before the first step ---------------------------------------------------------------------------

  void say(const std::string& line) {
    if (request_.quiet) return;
    if (progress_) return progress_->note(line);
    fmt::print("{}\n", line);
    std::fflush(stdout);
  }

  Result<void> show_plan() {
    TRY_ASSIGN(prediction_, predict_step(*session_));
    fmt::print("{}", render_plan(summarize(config_, graph_, session_->plan(), &prediction_), screen_));
    std::fflush(stdout);
    return {};
  }

  Result<void> open_data() {
    TRY_ASSIGN(data_, Dataset::open(config_.data, config_.model.vocab_size, config_.train.sequence_length,
                                    config_.train.seed));
    batches_ = std::make_unique<BatchSource>(*data_, graph_.batch, config_.train.gradient_accumulation_steps);
    TRY_ASSIGN(LearningRate rate, make_learning_rate(config_.train));
    learning_rate_ = std::move(rate);
    return {};
  }

  Result<void> open_run_directory(const Plan& plan) {
    std::error_code error;
    fs::create_directories(config_.output.dir, error);
    if (error)
      return Error{ErrorKind::io, fmt::format("cannot make output.dir {}: {}", config_.output.dir, error.message())};
    if (request_.resume.empty() && !checkpoint_steps(config_.output.dir).empty())
      return Error{ErrorKind::usage,
                   fmt::format("{} already holds checkpoints: continue with --resume auto, or set another "
                               "output.dir",
                               config_.output.dir)};
    TRY(write_file(config_.output.dir + "/config.yaml", to_yaml(config_)));
    source_ = std::make_unique<TrainSource>(
        TrainSource::Parts{.batches = *batches_,
                           .train = config_.train,
                           .learning_rate = learning_rate_,
                           .evaluation_micro_batches = plan.micro_batches / plan.sweeps,
                           .evaluation_batches = evaluation_batches()});
    return write_file(config_.output.dir + "/plan.txt", to_text(plan));
  }

  Result<void> open_checkpoints() {
    TRY_ASSIGN(store_, CheckpointStore::create({.run_dir = config_.output.dir, .buffer = checkpoint_buffer},
                                               session_->graph()));
    TRY_ASSIGN(const std::vector<std::string> litter, store_->sweep());
    for (const std::string& name : litter) say("cleared a half-written checkpoint of a dead run: " + name);
    return {};
  }

  Result<void> load_or_init() {
    state_.seed = config_.train.seed;
    state_.data_fingerprint = batches_->fingerprint();
    std::optional<FoundCheckpoint> found;
    if (request_.resume == "auto") {
      TRY_ASSIGN(Resumable resumable, store_->find_resumable());
      for (const SteppedOver& s : resumable.stepped_over) {
        say(fmt::format("stepped over {}: {}", s.path, s.reason));
        distrusted_.push_back(s.path);
      }
      found = std::move(resumable.found);
      if (!found) say("no checkpoint to resume from: starting from the beginning");
    } else if (!request_.resume.empty()) {
      TRY_ASSIGN(found, store_->open(request_.resume));
    }
    if (!found) return init();
    return restore(*found);
  }

  Result<void> init() {
    std::vector<std::byte> buffer(checkpoint_buffer.value);
    return init_weights(graph_, config_.train.seed, session_->state(), buffer, session_->pool(),
                        [&, last = -1](double share) mutable {
                          const int tenth = static_cast<int>(share * 10);
                          const bool large = graph_.parameters > 200'000'000;
                          if (large && tenth > last) say(fmt::format("initialising weights: {} %", tenth * 10));
                          last = std::max(last, tenth);
                        });
  }

  Result<void> restore(const FoundCheckpoint& found) {
    if (found.state.data_fingerprint != state_.data_fingerprint)
      return Error{ErrorKind::usage,
                   fmt::format("{} was trained on other data, another split or another batch size: resume with "
                               "the same data, or start anew in another output.dir",
                               found.path)};
    for (const std::string& line : changed_settings(found.state, settings_of(config_, false)))
      say("changed since the checkpoint: " + line);
    TRY(store_->restore(found, session_->state()));
    const u64 seed = state_.seed;
    state_ = found.state;
    state_.seed = seed;
    issued_ = resumed_from_ = state_.step;
    say(fmt::format("resumed from {} (step {})", found.path, state_.step));
    return {};
  }

  Result<void> open_outputs() {
    TRY_ASSIGN(metrics_, MetricsLog::open(config_.output.dir + "/metrics.jsonl", state_.step));
    meter_ = std::make_unique<RunMeter>(session_->plan(), session_->executor(), config_.train.max_steps,
                                        config_.output.trace ? trace_events_max : 0);
    engine_ = Engine::create(session_->plan(), session_->executor(), {});
    state_.losses.reserve(config_.train.max_steps);
    if (!request_.quiet)
      progress_ = std::make_unique<Progress>(
          screen_, stdout,
          Progress::Options{.total_steps = config_.train.max_steps,
                            .first_step = state_.step,
                            .logging_steps = config_.output.logging_steps,
                            .now_seconds = RunMeter::now()});
    return {};
  }

  // ---- the loop ----------------------------------------------------------------------------------------

  bool stop_requested() const {
    return StopSignals::stop_requested() || (request_.stop_after != 0 && issued_ >= request_.stop_after);
  }
  static bool due(u64 every, u64 step) { return every != 0 && step % every == 0; }
  bool must_rest() const {
    if (issued_ >= config_.train.max_steps || failed_ || stop_requested()) return true;
    return !resting_ && (due(config_.train.eval_steps, issued_) || due(config_.output.save_steps, issued_));
  }

  Result<void> train() {
    while (issued_ < config_.train.max_steps && !stop_requested()) {
      resting_ = true;
      meter_->begin_training();
      const Result<void> ran = engine_->run(*this, *this);
      meter_->end_training();
      TRY(ran);
      if (failed_) return std::move(*failed_);
      state_.step = issued_;
      session_->state().invalidate();
      if (due(config_.train.eval_steps, issued_)) TRY(evaluate());
      if (due(config_.output.save_steps, issued_) && issued_ < config_.train.max_steps) TRY(save());
    }
    interrupted_ = issued_ < config_.train.max_steps;
    if (!interrupted_ && !due(config_.train.eval_steps, issued_)) TRY(evaluate());
    return {};
  }

  void step_done(u64 step) {
    const double took = meter_->step_done();
    const StepResult result = session_->executor().result(step);
    state_.losses.push_back(result.loss);
    state_.tokens += result.target_tokens;
    const double rate = static_cast<double>(result.target_tokens) / took;
    const StepMetrics metrics{.step = step,
                              .epoch = batches_->epoch(step),
                              .loss = result.loss,
                              .grad_norm = result.grad_norm,
                              .learning_rate = source_->learning_rate(step),
                              .train_tokens_per_second = rate,
                              .step_seconds = took};
    if (due(config_.output.logging_steps, step) || step == config_.train.max_steps)
      if (const Result<void> written = metrics_->append(metrics); !written) fail(written.error());
    if (progress_)
      progress_->step({.step = step,
                       .loss = result.loss,
                       .learning_rate = metrics.learning_rate,
                       .grad_norm = result.grad_norm,
                       .tokens_per_second = rate},
                      RunMeter::now());
    if (result.skipped || !std::isfinite(result.loss)) fail(non_finite(step, result));
  }

  void fail(Error error) {
    if (!failed_) failed_ = std::move(error);
  }

  Error non_finite(u64 step, const StepResult& result) const {
    const bool kept = session_->plan().clipping;
    return {ErrorKind::non_finite,
            fmt::format("step {}: loss {} and gradient norm {} are not finite{}; lower train.learning_rate or "
                        "raise train.warmup_steps, and continue with --resume auto from the last checkpoint",
                        step, result.loss, result.grad_norm,
                        kept ? " (the update was not applied)" : "")};
  }

  // ---- evaluation ----------------------------------------------------------------------------------------

  class EvaluationRuns final : public NextSegment, public EngineObserver {
   public:
    explicit EvaluationRuns(u64 count) : count_(count) {}
    std::optional<SegmentRun> next() override {
      if (done_ == count_) return std::nullopt;
      return SegmentRun{SegmentKind::evaluation, done_++};
    }

   private:
    u64 count_, done_ = 0;
  };

  u64 evaluation_batches() const {
    return std::min(config_.train.eval_batches, batches_->validation_batches());
  }

  Result<void> evaluate() {
    const u64 batches = evaluation_batches();
    const bool known = !state_.eval_losses.empty() && state_.eval_losses.back().step == issued_;  // resumed here
    if (batches == 0 || known) return {};
    const double began = RunMeter::now();
    EvaluationRuns runs(div_up(batches, session_->plan().micro_batches / session_->plan().sweeps));
    TRY(engine_->run(runs, runs));
    const EvalResult result = session_->executor().take_eval();
    const double loss = result.loss_sum / static_cast<double>(result.target_tokens);
    state_.eval_losses.push_back({issued_, loss});
    if (state_.best_step == 0 || loss < state_.best_eval_loss) {
      state_.best_step = issued_;
      state_.best_eval_loss = loss;
    }
    const double took = RunMeter::now() - began;
    say(fmt::format("step {}: eval_loss {:.4f} over {} tokens in {:.1f} s", issued_, loss, result.target_tokens,
                    took));
    return metrics_->append(
        EvalMetrics{.step = issued_, .epoch = batches_->epoch(issued_), .eval_loss = loss, .eval_seconds = took});
  }

  // ---- checkpoints ---------------------------------------------------------------------------------------

  Result<void> save() {
    state_.step = issued_;
    state_.seconds = earlier_seconds_ + meter_->train_seconds();
    state_.settings = settings_of(config_, false);
    session_->state().invalidate();
    const double began = RunMeter::now();
    TRY_ASSIGN(saved_, store_->save(state_, session_->state()));
    saved_step_ = issued_;
    checkpoint_written_ += saved_.bytes;
    TRY_ASSIGN(const std::vector<std::string> gone,
               store_->rotate({.saved_step = issued_,
                               .total_limit = config_.output.save_total_limit,
                               .best_step = state_.best_step,
                               .distrusted = distrusted_}));
    say(fmt::format("saved {} in {:.1f} s", saved_.path, RunMeter::now() - began));
    return {};
  }

  // ---- the end -------------------------------------------------------------------------------------------

  Result<RunReport> finish() {
    if (saved_step_ != issued_) TRY(save());
    RunReport report = begin_report(config_, graph_, session_->plan());
    meter_->fill(report);
    report.predicted_step_seconds = prediction_.forecast.step_seconds;
    report.binds = prediction_.forecast.binds;
    report.weights_xxh3 = fmt::format("{:016x}", saved_.weights_xxh3);
    report.resumed_from_step = resumed_from_;
    report.losses = state_.losses;
    for (const EvalLoss& e : state_.eval_losses) {
      report.eval_steps.push_back(e.step);
      report.eval_losses.push_back(e.loss);
    }
    const double tokens = static_cast<double>(report.tokens_per_step) * static_cast<double>(report.steps);
    report.tokens_per_second = report.train_seconds > 0 ? tokens / report.train_seconds : 0;
    report.flops_per_second = report.tokens_per_second * static_cast<double>(graph_.flops_per_token);
    report.checkpoint_written = checkpoint_written_;
    report.config = settings_of(config_, true);
    report.config["command"] = request_.command;
    TRY(write_report(config_.output.dir, report));
    TRY(metrics_->append(TrainMetrics{.step = issued_,
                                      .train_runtime = report.train_seconds,
                                      .train_tokens_per_second = report.tokens_per_second,
                                      .train_loss = mean_loss()}));
    if (config_.output.trace)
      TRY(write_trace_of(config_.output.dir + "/trace.json", session_->plan(), graph_, meter_->trace()));
    progress_.reset();
    if (!request_.quiet) fmt::print("{}", render_report(report, screen_));
    if (interrupted_)
      return Error{ErrorKind::interrupted,
                   fmt::format("interrupted after step {}; everything is in {}: continue with --resume auto",
                               issued_, saved_.path)};
    return report;
  }

  double mean_loss() const {
    double sum = 0;
    for (double loss : state_.losses) sum += loss;
    return state_.losses.empty() ? std::numeric_limits<double>::quiet_NaN()
                                 : sum / static_cast<double>(state_.losses.size());
  }

  const TrainRequest& request_;
  const Config& config_;
  const Screen screen_;
  ModelGraph graph_;
  std::unique_ptr<Dataset> data_;
  std::unique_ptr<BatchSource> batches_;
  LearningRate learning_rate_;
  std::unique_ptr<TrainSource> source_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<CheckpointStore> store_;
  std::unique_ptr<MetricsLog> metrics_;
  std::unique_ptr<RunMeter> meter_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Progress> progress_;

  Prediction prediction_;
  TrainerState state_;
  SavedCheckpoint saved_;
  u64 saved_step_ = ~u64{0};     // none by this process yet
  std::vector<std::string> distrusted_;
  Bytes checkpoint_written_{};
  double earlier_seconds_ = 0;
  u64 resumed_from_ = 0;
  u64 issued_ = 0;               // last step whose forward has been given to the engine
  bool resting_ = true;          // nothing runs: the next segment starts from rest
  bool pending_update_ = false;  // gradients wait for their update
  bool interrupted_ = false;
  std::optional<Error> failed_;
};

}  // namespace

Result<RunReport> train_model(const TrainRequest& request) { return Trainer(request).run(); }

}  // namespace tidepool
