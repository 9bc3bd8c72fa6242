// One run from config to report. The class below is the only place that decides what happens next;
// everything that it uses decides nothing.
#include "run/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/process/limits.h"
#include "base/steady_seconds.h"
#include "base/text/path_text.h"
#include "base/text/units.h"
#include "checkpoint/checkpoint.h"
#include "data/batches/batch_source.h"
#include "data/batches/dataset.h"
#include "engine/engine.h"
#include "fit/executor_choice.h"
#include "fit/plan_inputs.h"
#include "fit/plan_run.h"
#include "huggingface/weights/weights_fingerprint.h"
#include "machine/cpu_name.h"
#include "machine/gpu_sampler.h"
#include "probe/step/measure_peak.h"
#include "report/assembly/assemble_report.h"
#include "report/assembly/summary.h"
#include "report/assembly/write_trace.h"
#include "run/choice_progress.h"
#include "run/early_stop.h"
#include "run/finished_run.h"
#include "run/open_data.h"
#include "run/other_sequences.h"
#include "run/outputs/leave_now.h"
#include "run/outputs/run_meter.h"
#include "run/outputs/run_outputs.h"
#include "run/outputs/signals.h"
#include "run/resume_notes.h"
#include "run/run_checkpoints.h"
#include "run/run_directory.h"
#include "run/save_moments.h"
#include "run/step_faults.h"
#include "run/train_length.h"
#include "run/train_source.h"
#include "run/weights/base_model.h"
#include "run/weights/first_adapter.h"
#include "run/weights/first_weights.h"
#include "run/weights/kept_model.h"
#include "session/evaluation_runs.h"
#include "session/session.h"

namespace tidepool {
namespace {

constexpr u64 trace_events_max = 200'000;
// A step that takes this many times as long as predicted without a single completion hangs.
constexpr double watchdog_steps = 20;
constexpr double watchdog_seconds_max = 1e6;  // a prediction beyond eleven days is none

class Trainer final : public NextSegment, public EngineObserver {
 public:
  explicit Trainer(const TrainRequest& request)
      : request_(request),
        config_(request.config),
        outputs_(config_, request.quiet),
        save_moments_(config_.output) {}

  Result<RunReport> run() {
    TRY(check_executor(config_));
    TRY(check_output_directory(config_));
    look_at_rows(config_, !request_.resume.empty());
    TRY_ASSIGN(graph_, make_graph(config_));
    if (!config_.model_directory.empty() && (request_.resume.empty() || graph_.lora.on()))
      TRY(check_weights_are_there(config_));
    TRY_ASSIGN(const bool goes_on, goes_on_from_checkpoint());
    if (!goes_on) TRY(check_model_is_unchanged(config_));
    if (!goes_on) TRY(check_first_adapter(config_, graph_));
    // The run's model-files are mended before any of them is used.
    if (goes_on) TRY(take_directory(goes_on));
    TRY(find_data(goes_on));
    TRY(choose(goes_on ? PlanFor::resumed_run : PlanFor::this_machine));
    if (!goes_on) TRY(take_directory(goes_on));
    TRY_ASSIGN(checkpoints_, RunCheckpoints::open(config_, graph_, outputs_));
    TRY_ASSIGN(std::optional<FoundCheckpoint> found, checkpoints_->find(request_.resume));
    if (found && all_is_done(*found, config_)) return done_before(*found, config_, outputs_);
    make_source(chosen_.plan);
    TRY_ASSIGN(session_,
               Session::create(
                   config_, graph_, std::move(chosen_.plan), *source_,
                   {.open_disk = request_.open_disk,
                    .rest_patience = request_.watchdog_least,
                    .loads_weights = (!found || graph_.lora.on()) && !config_.model_directory.empty(),
                    .product_timing = config_.output.save ? ProductTiming::keep : ProductTiming::for_now}));
    if (!request_.quiet) TRY(show_plan());
    for (const std::string& note : data_->notes()) outputs_.say(note);
    if (config_.train.max_steps > 0)
      outputs_.say(train_length_text(request_.config.train, batches_->steps_per_epoch()));
    for (const std::string& note : session_->notes()) outputs_.say(note);
    say_choice();
    TRY(checkpoints_->check_room(found ? found->state.step : 0, prediction_.forecast.step_seconds));
    TRY(load_or_init(std::move(found)));
    StopSignals::say_instead(stop_words());
    // Not before: a resume that is refused leaves the run's own config and plan as they were.
    TRY(describe_run());
    TRY(open_outputs());
    TRY(train());
    return finish();
  }

  // Ops or transfers have been handed over and have not come back.
  bool hangs() const { return session_ && session_->executor().busy(); }

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
    outputs_.segment_started(run);
  }
  void completed(const Issue& issue, const Completion& completion) override {
    meter_->profile().completed(issue, completion);
    meter_->phases().completed(issue, completion);
    outputs_.completed(issue, completion);
    if (config_.output.trace) meter_->trace().completed(issue, completion);
    if (gpus_) gpus_->sample(steady_seconds());
    if (issue.get().kind == OpKind::norm) step_done(issue.step);
  }
  void segment_finished(const SegmentRun& run) override {
    meter_->profile().segment_finished(run);
    meter_->segment_finished(run.kind);
  }
  void at_rest() override {
    meter_->profile().at_rest();
    meter_->phases().at_rest();
  }

 private:
  // ---- before the first step ---------------------------------------------------------------------------

  Result<void> choose(PlanFor who) {
    ChoiceProgress progress;
    TRY_ASSIGN(chosen_,
               plan_run(config_, graph_, who, request_.quiet ? PlanProgress{} : progress.listener()));
    choice_notes_ = describe_choice(config_, chosen_);
    return {};
  }

  void say_choice() {
    for (const std::string& note : choice_notes_) outputs_.say(note);
    if (!chosen_.machine) return;
    const std::string other =
        machine_mismatch(config_, *chosen_.machine, session_->pool().workers(), cpu_name());
    if (!other.empty()) outputs_.say(other);
  }

  // A plan of its own is no fault of a resumed run. But it is said, and what it does to the numbers.
  Result<void> describe_run() {
    const std::string plan = plan_text(config_, session_->plan());
    if (!request_.resume.empty()) {
      const std::string change = directory_.change_of_plan(plan);
      if (!change.empty()) outputs_.say(change);
    }
    Config described = config_;
    described.train.max_steps = request_.config.train.max_steps;  // auto stays auto
    // Looked for again by all who read the adapters, from wherever they are.
    if (graph_.lora.on()) described.model_directory = absolute_path(config_.model_directory);
    if (!config_.lora.adapter.empty()) described.lora.adapter = absolute_path(config_.lora.adapter);
    return directory_.describe_run(to_yaml(described), plan);
  }

  Result<void> show_plan() {
    TRY_ASSIGN(prediction_, predict_step(*session_));
    outputs_.show(summarize({config_, graph_, session_->plan(), &prediction_}));
    return {};
  }

  // --resume auto begins anew where no checkpoint has been written yet.
  Result<bool> goes_on_from_checkpoint() {
    if (request_.resume.empty()) return false;
    std::string path = request_.resume;
    if (path == "auto") {
      TRY_ASSIGN(const std::vector<u64> steps, checkpoint_steps(config_.output.dir));
      if (steps.empty()) return false;
      path = fmt::format("{}/checkpoint-{}", config_.output.dir, steps.back());
    }
    // Before anything is refused that may follow from it.
    for (const std::string& line : changes_since_kept(config_)) outputs_.say(line);
    TRY(CheckpointStore::check_trained_alike(path, graph_));
    return true;
  }

  Result<void> take_directory(bool goes_on) {
    TRY_ASSIGN(directory_,
               RunDirectory::open(config_.output.dir,
                                  request_.resume.empty() ? Beginning::anew : Beginning::resumed));
    if (!goes_on) return keep_model(config_);
    TRY_ASSIGN(const std::vector<std::string> mended, mend_kept_model(config_));
    for (const std::string& line : mended) outputs_.say(line);
    return {};
  }

  Result<void> find_data(bool goes_on) {
    TRY_ASSIGN(data_, open_data(config_, {.quiet = request_.quiet, .kept_model = goes_on}));
    if (config_.train.early_stopping_patience > 0 && data_->validation_sequences() == 0)
      return Error{ErrorKind::usage,
                   "train.early_stopping_patience: the data is too small to hold some of it out; name "
                   "data.validation, or set it to 0"};
    batches_ = std::make_unique<BatchSource>(*data_, graph_.batch, micro_batches_per_step(config_));
    TRY_ASSIGN(config_.train.max_steps, steps_to_train(config_.train, batches_->steps_per_epoch()));
    TRY_ASSIGN(LearningRate rate, make_learning_rate(config_.train));
    learning_rate_ = std::move(rate);
    return {};
  }

  void make_source(const Plan& plan) {
    source_ = std::make_unique<TrainSource>(
        TrainSource::Parts{.batches = *batches_,
                           .train = config_.train,
                           .learning_rate = learning_rate_,
                           .evaluation_micro_batches = plan.micro_batches / plan.sweeps,
                           .evaluation_batches = evaluation_batches()});
  }

  Result<void> load_or_init(std::optional<FoundCheckpoint> found) {
    state_.seed = config_.train.seed;
    state_.data_fingerprint = batches_->fingerprint();
    if (fp16()) state_.loss_scale = StoredLossScale{.scale = config_.train.init_scale};
    if (!found) TRY(make_first_weights(config_, graph_, *session_, outputs_, state_.base_xxh3));
    const TrainerState fresh = state_;
    while (found) {  // older ones follow where the newest turns out to be damaged
      state_ = fresh;
      TRY_ASSIGN(found, restore(std::move(*found)));
    }
    if (graph_.lora.on() && state_.base_fingerprint.empty()) {
      TRY_ASSIGN(state_.base_fingerprint, weights_fingerprint(config_.model_directory));
    }
    if (const auto& stored = state_.loss_scale)
      session_->executor().set_loss_scale({.scale = static_cast<float>(stored->scale),
                                           .good_steps = static_cast<u32>(stored->good_steps),
                                           .skipped_steps = stored->skipped_steps});
    return {};
  }
  bool fp16() const { return config_.train.precision == Precision::fp16; }

  // The checkpoint to try next, or none: this one is restored.
  Result<std::optional<FoundCheckpoint>> restore(FoundCheckpoint found) {
    if (found.state.data_fingerprint != state_.data_fingerprint)
      return other_sequences(found, state_.data_fingerprint, config_);
    if (graph_.lora.on()) TRY(check_base_model(config_.model_directory, found.path));
    TRY(check_model_is_unchanged(config_));
    if (found.state.loss_scale.has_value() != fp16())
      return Error{
          ErrorKind::corrupt_checkpoint,
          fmt::format("{}: trainer_state.json {} a loss_scale, and train.precision is {}: resume in the "
                      "precision of the checkpoint",
                      found.path, fp16() ? "has not" : "has", name(config_.train.precision))};
    for (const std::string& note : resume_notes(found.state, config_, settings_now())) outputs_.say(note);
    const u64 seed = state_.seed;
    state_ = found.state;
    state_.seed = seed;
    issued_ = resumed_from_ = state_.step;
    earlier_seconds_ = state_.seconds;
    earlier_tokens_ = state_.tokens;
    if (graph_.lora.on()) {
      TRY_ASSIGN(const std::string xxh3, load_frozen_model(config_, graph_, *session_, outputs_));
      TRY(same_base_weights(config_.model_directory, state_.base_xxh3, xxh3));
      state_.base_xxh3 = xxh3;
    }
    return checkpoints_->go_on_from(std::move(found), session_->state());
  }

  void watch_gpus() {
    const std::vector<std::string> pci = session_->devices().pci();
    const std::vector<u32> numbers = config_.machine.gpus();
    std::vector<GpuAddress> gpus;
    for (u32 i = 0; i < std::min(pci.size(), numbers.size()); ++i)
      gpus.push_back({.name = fmt::format("cuda:{}", numbers[i]), .pci = pci[i]});
    if (!gpus.empty()) gpus_.emplace(std::move(gpus), Nvml::load());
  }

  Result<void> open_outputs() {
    meter_ = std::make_unique<RunMeter>(session_->plan(), session_->executor(), steps_expected(),
                                        config_.output.trace ? trace_events_max : 0);
    engine_ = Engine::create(session_->plan(), session_->executor(), {.watchdog = watchdog()});
    state_.losses.reserve(steps_expected());
    watch_gpus();
    return outputs_.open(session_->plan(), state_.step, batches_->epoch(config_.train.max_steps));
  }

  // So that a steady step takes no memory; a run of more steps than this grows its records now and then.
  u64 steps_expected() const {
    constexpr u64 steps_max = mib;
    return std::min(config_.train.max_steps, steps_max);
  }

  StopWords stop_words() const {
    if (checkpoints_->last_step()) return {};
    return {.second = "\ntidepool: stopped at once; no checkpoint had been written yet\n"};
  }

  // Some runs are slow and healthy: one op may take minutes on a large model.
  Nanos watchdog() const {
    const double predicted = watchdog_steps * prediction_.forecast.step_seconds;
    const double seconds = predicted > 0 && predicted < watchdog_seconds_max ? predicted : 0;
    return std::max(request_.watchdog_least, Nanos{static_cast<u64>(seconds * 1e9)});
  }

  // ---- the loop ----------------------------------------------------------------------------------------

  bool stop_requested() const {
    return StopSignals::stop_requested() || (request_.stop_after != 0 && issued_ >= request_.stop_after);
  }
  static bool due(u64 every, u64 step) { return every != 0 && step % every == 0; }
  bool must_rest() {
    if (issued_ >= config_.train.max_steps || failed_ || stop_requested()) return true;
    if (resting_) return false;
    const double now = steady_seconds();
    return due(config_.train.eval_steps, issued_) || save_moments_.due(issued_, now) ||
           directory_.has_moved(now);
  }

  Result<void> train() {
    save_moments_.begin(steady_seconds());
    stopped_early_ = why_stop_early(state_.eval_losses, config_.train);  // killed before its report
    while (issued_ < config_.train.max_steps && stopped_early_.empty() && !stop_requested()) {
      resting_ = true;
      meter_->begin_training();
      const Result<void> ran = engine_->run(*this, *this);
      meter_->end_training();
      TRY(ran);
      if (failed_) return std::move(*failed_);
      state_.step = issued_;
      session_->state().invalidate();
      if (const auto moved = directory_.moved()) return save_moved(*moved);
      if (due(config_.train.eval_steps, issued_)) TRY(evaluate());
      stopped_early_ = why_stop_early(state_.eval_losses, config_.train);
      if (save_due() && issued_ < config_.train.max_steps) TRY(save());
    }
    if (!stopped_early_.empty())
      outputs_.say(fmt::format("stopped early after step {}: {}", issued_, stopped_early_));
    interrupted_ = issued_ < config_.train.max_steps && stopped_early_.empty();
    if (!interrupted_ && !due(config_.train.eval_steps, issued_)) TRY(evaluate());
    return {};
  }

  // A run that may end before its last step is trained for its best one, which then has a checkpoint of its
  // own.
  bool save_due() const {
    return save_moments_.due(issued_, steady_seconds()) ||
           (config_.train.early_stopping_patience > 0 && best_unsaved_);
  }

  void step_done(u64 step) {
    if (failed_) return;  // it was under way when the one before failed
    const double took = meter_->step_done();
    const StepResult result = session_->executor().result(step);
    state_.losses.push_back(result.loss);
    const u64 tokens = batches_->tokens(step);
    state_.tokens += tokens;
    const StepMetrics metrics{.step = step,
                              .epoch = batches_->epoch(step),
                              .loss = result.loss,
                              .grad_norm = result.grad_norm,
                              .learning_rate = source_->learning_rate(step),
                              .train_tokens_per_second = static_cast<double>(tokens) / took,
                              .step_seconds = took,
                              .loss_scale = loss_scale_of(result)};
    meter_->record(metrics.grad_norm, metrics.learning_rate);
    outputs_.step(metrics);
    if (fp16()) {
      follow_loss_scale(step, result);
    } else if (result.skipped || !std::isfinite(result.loss)) {
      fail(non_finite_step(bad_step(step, result)));
    }
  }

  BadStep bad_step(u64 step, const StepResult& result) const {
    return {.step = step,
            .result = result,
            .update_was_kept_back = session_->plan().clipping,
            .weights_are_the_first = step == 1 || result.next_loss_scale.skipped_steps >= step,
            .model_directory = config_.model_directory,
            .way_on = checkpoints_->way_on()};
  }

  std::optional<double> loss_scale_of(const StepResult& result) const {
    if (!fp16()) return std::nullopt;
    return result.loss_scale.scale;
  }

  // An overflow is part of fp16's way, and says nothing of the model, while there is a lower scale.
  void follow_loss_scale(u64 step, const StepResult& result) {
    const LossScale& next = result.next_loss_scale;
    state_.loss_scale = {next.scale, next.good_steps, next.skipped_steps};
    if (!result.skipped) return;
    if (result.loss_scale.scale <= static_cast<float>(config_.train.min_loss_scale))
      return fail(no_lower_scale(bad_step(step, result)));
    outputs_.say(overflow_text(step, result));
  }

  void fail(Error error) {
    if (!failed_) failed_ = std::move(error);
  }

  // ---- evaluation ----------------------------------------------------------------------------------------

  u64 evaluation_batches() const {
    const u64 all = batches_->validation_batches();
    return config_.train.eval_batches == 0 ? all : std::min(config_.train.eval_batches, all);
  }

  Result<void> evaluate() {
    const u64 batches = evaluation_batches();
    const bool known =
        !state_.eval_losses.empty() && state_.eval_losses.back().step == issued_;  // resumed here
    if (batches == 0 || known) return {};
    const double began = steady_seconds();
    EvaluationRuns runs(div_up(batches, session_->plan().micro_batches / session_->plan().sweeps));
    TRY(engine_->run(runs, runs));
    const EvalResult result = session_->executor().take_eval();
    const double loss = result.loss_sum / static_cast<double>(result.target_tokens);
    state_.eval_losses.push_back({issued_, loss, result.target_tokens});
    if (best_evaluation(state_.eval_losses) == &state_.eval_losses.back()) best_unsaved_ = true;
    const double took = steady_seconds() - began;
    outputs_.say(fmt::format("step {}: eval_loss {}, perplexity {} over {} tokens in {:.1f} s", issued_,
                             loss_text(loss), perplexity_text(loss), result.target_tokens, took));
    if (const std::string anew = why_best_begins_anew(state_.eval_losses, config_.train); !anew.empty())
      outputs_.say(anew);
    outputs_.evaluation(
        {.step = issued_, .epoch = batches_->epoch(issued_), .eval_loss = loss, .eval_seconds = took});
    return {};
  }

  // ---- checkpoints ---------------------------------------------------------------------------------------

  // All that its numbers depend on and that a resume may change.
  std::map<std::string, std::string> settings_now() const {
    std::map<std::string, std::string> settings = numeric_settings(config_);
    if (!session_->algorithms().empty()) settings["algorithms of matrix products"] = session_->algorithms();
    return settings;
  }
  // The state as a checkpoint of now has it.
  TrainerState state_to_save() {
    session_->state().invalidate();
    TrainerState state = state_;
    state.step = issued_;
    state.seconds = earlier_seconds_ + meter_->train_seconds();
    state.settings = settings_now();
    if (best_unsaved_) state.best_step = issued_;
    return state;
  }
  void saved(const TrainerState& state) {
    state_.best_step = state.best_step;
    best_unsaved_ = false;
    StopSignals::say_instead(stop_words());
  }

  Result<void> save() {
    if (!config_.output.save) return {};
    save_moments_.tried(steady_seconds());
    const TrainerState state = state_to_save();
    TRY_ASSIGN(const bool written, checkpoints_->save(state, session_->state()));
    if (written) saved(state);
    return {};
  }

  Result<void> save_last() {
    if (!config_.output.save) return {};
    const TrainerState state = state_to_save();
    TRY(checkpoints_->save_last(state, session_->state()));
    saved(state);
    return {};
  }

  Error save_moved(const MovedDirectory& moved) {
    return checkpoints_->save_moved(moved, state_to_save(), session_->state());
  }

  // ---- the end -------------------------------------------------------------------------------------------

  // The arenas hold nothing that anyone still needs. 0: nothing was predicted that could be compared.
  double peak_at_end() {
    if (prediction_.blocks.empty()) return 0;
    const Result<double> peak = measure_peak(*session_);
    return peak ? *peak : 0;
  }

  // Writing the reports takes memory too, on a small run more than training: the size that they tell is that
  // of the process with all of it. A second writing takes no more than the first.
  Result<void> tell_process_size(RunReport& report) {
    const Bytes size = process_peak();
    if (size <= report.rss_peak) return {};
    report.rss_peak = size;
    TRY(write_report(config_.output.dir, report));
    outputs_.page();
    return {};
  }

  Result<RunReport> finish() {
    if (const auto moved = directory_.moved()) return save_moved(*moved);
    if (checkpoints_->last_step() != issued_) TRY(save_last());
    StopSignals::say_instead(
        {.first = "\ntidepool: the run is over, and ends by itself; again to stop at once\n",
         .second = "\ntidepool: stopped at once, after the last step\n"});
    RunReport report =
        assemble_report({.config = config_,
                         .command = request_.command,
                         .session = *session_,
                         .meter = *meter_,
                         .prediction = prediction_,
                         .peak_at_end = peak_at_end(),
                         .state = state_,
                         .tokens = state_.tokens - earlier_tokens_,
                         .steps_per_epoch = batches_->steps_per_epoch(),
                         .resumed_from = resumed_from_,
                         .stopped_early = stopped_early_,
                         .weights_xxh3 = checkpoints_->last().weights_xxh3,
                         .checkpoint_written = checkpoints_->written(),
                         .disk_endurance = chosen_.machine ? chosen_.machine->disk.endurance : Bytes{},
                         .gpus = gpus_ ? gpus_->readings() : std::vector<GpuReadings>{}});
    const Result<void> reported = outputs_.finish(report);
    const TracedRun traced{.measured = meter_->trace().events(), .forecast = prediction_.forecast};
    const Result<void> written =
        write_traces(config_.output.dir, config_.output.trace, session_->plan(), graph_, traced);
    outputs_.page();
    const Result<void> retold = reported ? tell_process_size(report) : reported;
    outputs_.show(report);  // all files are there before anything can go wrong with a screen
    for (const Result<void>& file : {retold, written})
      if (!file) lacks_a_file(file.error());
    if (interrupted_ && !checkpoints_->last_step())
      return Error{ErrorKind::interrupted,
                   fmt::format("interrupted after step {}; {}", issued_, checkpoints_->way_on())};
    if (interrupted_)
      return Error{ErrorKind::interrupted,
                   fmt::format("interrupted after step {}; everything is in {}: continue with --resume auto",
                               issued_, checkpoints_->last().path)};
    if (lacking_) return std::move(*lacking_);
    return report;
  }

  // The training is whole; who reads its files must know that one of them is not.
  void lacks_a_file(const Error& error) {
    outputs_.warn(error.message);
    const std::string where = checkpoints_->last_step() ? fmt::format(". All steps are done, and saved in {}",
                                                                      checkpoints_->last().path)
                                                        : ". All steps are done";
    if (!lacking_) lacking_ = Error{error.kind, error.message + where};
  }

  const TrainRequest& request_;
  Config config_;  // the request's, with steps in the place of epochs once the data is known
  RunOutputs outputs_;
  ModelGraph graph_;
  RunPlan chosen_;  // its plan moves into the session
  std::vector<std::string> choice_notes_;
  std::unique_ptr<Dataset> data_;
  std::unique_ptr<BatchSource> batches_;
  LearningRate learning_rate_;
  std::unique_ptr<TrainSource> source_;
  RunDirectory directory_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<RunCheckpoints> checkpoints_;
  SaveMoments save_moments_;
  std::unique_ptr<RunMeter> meter_;
  std::optional<GpuSampler> gpus_;  // none: no GPU
  std::unique_ptr<Engine> engine_;

  Prediction prediction_;
  TrainerState state_;
  double earlier_seconds_ = 0;
  u64 earlier_tokens_ = 0;
  bool best_unsaved_ = false;  // the best evaluation is newer than the last checkpoint
  u64 resumed_from_ = 0;
  u64 issued_ = 0;               // last step whose forward has been given to the engine
  bool resting_ = true;          // nothing runs: the next segment starts from rest
  bool pending_update_ = false;  // gradients wait for their update
  bool interrupted_ = false;
  std::string stopped_early_;  // why; empty: not
  std::optional<Error> failed_;
  std::optional<Error> lacking_;  // the training is done, and a file that tells of it is not there
};

}  // namespace

Result<RunReport> train_model(const TrainRequest& request) {
  // They outlive the trainer: a second signal must find what to clear while it goes.
  const StopSignals signals(StopSignals::at_once("\ntidepool: stopped before the first step\n"));
  const SaveSignal save_signal(request.config.output.save
                                   ? "tidepool: SIGUSR1: saving after this step\n"
                                   : "tidepool: SIGUSR1: output.save is false, so nothing is saved\n");
  Trainer trainer(request);
  Result<RunReport> report = trainer.run();
  // Its end would wait, perhaps for ever, for what hangs: the message has to come before.
  if (!report && trainer.hangs()) leave_now(report.error());
  return report;
}

}  // namespace tidepool
