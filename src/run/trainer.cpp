// Trainer runs one training from config to report: it asks the parts what is due, tells RunDurability each
// event, and does what the table answers.
#include "run/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/process/limits.h"
#include "base/steady_seconds.h"
#include "base/text/units.h"
#include "engine/engine.h"
#include "log/log.h"
#include "machine/gpu_sampler.h"
#include "probe/step/measure_peak.h"
#include "run/assembly/assemble_report.h"
#include "run/assembly/write_trace.h"
#include "run/commits/replay.h"
#include "run/early_stop.h"
#include "run/evaluate.h"
#include "run/nodes.h"
#include "run/outputs/leave_now.h"
#include "run/outputs/metric_lines.h"
#include "run/outputs/routing_meter.h"
#include "run/outputs/run_meter.h"
#include "run/outputs/signals.h"
#include "run/outputs/training_memory.h"
#include "run/prepare_run.h"
#include "run/saves/run_saves.h"
#include "run/step_faults.h"

namespace tidepool {
namespace {

class Trainer final : public NextSegment, public EngineObserver {
 public:
  Trainer(const TrainRequest& request, Job job)
      : run_(request, std::move(job)),
        choice_(request.config, request.speculation),
        saves_({.job = run_.job,
                .prediction = run_.prediction,
                .durability = run_.durability,
                .commits = run_.commits,
                .state = run_.state,
                .session = run_.session,
                .checkpoints = run_.checkpoints}) {}

  Result<RunReport> run() {
    TRY_ASSIGN(std::optional<RunReport> done_before, prepare_run(run_));
    if (done_before) return std::move(*done_before);
    if (run_.session->plan().versions < 2) choice_.close();
    // Called only now: a resume that is refused must not change the run's config.yaml and plan.txt.
    TRY(describe_run(run_));
    open_log(run_.config().output.dir + "/" + run_log_name);
    TRY(run_.outputs.open(run_.session->plan(), run_.state.step,
                          run_.batches->epoch(run_.config().train.max_steps)));
    begin_part();
    saves_.tell_signals();
    if (Result<void> trained = train(); !trained) {
      run_.durability.tell(Event::run_breaks);
      if (!hangs()) saves_.end_background();
      return trained.error();
    }
    return finish();
  }

  // All nodes end with the same result, after the same step.
  bool ended_together() const { return ended_together_; }
  // Ops or transfers have been handed over and have not come back.
  bool hangs() const { return run_.session && run_.session->busy(); }

  // ---- NextSegment: asked when the current segment is about to end ---------------------------------

  std::optional<SegmentRun> next() override {
    switch (run_.durability.tell(asked())) {
      case Action::start_forward_backward:
        return with_commit({SegmentKind::forward_backward, now().issued});
      case Action::start_body:
        return with_commit({SegmentKind::body, now().issued});
      case Action::start_drain:
        return with_commit({SegmentKind::drain, now().issued + 1});
      default:
        return std::nullopt;
    }
  }

  bool abandons() override { return now().phase == Phase::abandons; }

  // ---- EngineObserver ----------------------------------------------------------------------------------

  void segment_started(const SegmentRun& run, u64 sequence) override {
    meter_->profile().segment_started(run, sequence);
    run_.outputs.segment_started(run);
  }
  void completed(const Issue& issue, const Completion& completion) override {
    meter_->profile().completed(issue, completion);
    meter_->phases().completed(issue, completion);
    run_.outputs.completed(issue, completion);
    if (run_.config().output.trace) meter_->trace().completed(issue, completion);
    if (gpus_) gpus_->sample(steady_seconds());
    if (issue.get().kind == OpKind::norm) step_done(issue.step);
    if (issue.get().kind == OpKind::commit) {
      run_.commits.completed(issue, completion);
      saves_.tell_signals();
    }
  }
  void segment_finished(const SegmentRun& run) override {
    meter_->profile().segment_finished(run);
    meter_->segment_finished(run);
    run_.outputs.segment_finished();
  }
  void at_rest() override {
    meter_->profile().at_rest();
    meter_->phases().at_rest();
    run_.outputs.at_rest();
  }

 private:
  // ---- before the first step ---------------------------------------------------------------------------

  // A part of the run ends with its plan; the report is of the last one.
  void begin_part() {
    meter_ = std::make_unique<RunMeter>(run_.session->plan(), run_.session->counters(), steps_expected(),
                                        run_.config().output.trace ? trace_events_max : 0);
    routing_.emplace(run_.job.graph, steps_expected());
    engine_ = Engine::create(run_.session->plan(), run_.session->executor(),
                             {.watchdog = watchdog(run_.prediction, run_.request.watchdog_least)});
    run_.state.losses.reserve(steps_expected());
    if (auto gpus = gpu_addresses(run_.config().machine.gpus(), run_.session->devices().pci()); !gpus.empty())
      gpus_.emplace(std::move(gpus), Nvml::load());
    run_.state.settings = settings_now(run_);
    resumed_from_ = run_.state.step;
    earlier_seconds_ = run_.state.seconds;
    earlier_tokens_ = run_.state.tokens;
    replay_ = {};
  }

  // Reserved in advance, so that a steady step allocates no memory, at least the first `steps_max`.
  u64 steps_expected() const {
    constexpr u64 steps_max = mib;
    return std::min(run_.config().train.max_steps, steps_max);
  }

  // ---- the loop ----------------------------------------------------------------------------------------

  const Durability& now() const { return run_.durability.state(); }
  double seconds() const { return earlier_seconds_ + meter_->train_seconds(); }  // of training, at rest
  bool is_last() const { return now().issued >= run_.config().train.max_steps; }
  bool stop_requested() const { return run_.several() ? now().stop_is_voted : wants_to_stop(); }
  bool wants_to_stop() const {
    return StopSignals::stop_requested() ||
           (run_.request.stop_after != 0 && now().issued >= run_.request.stop_after);
  }
  bool due(u64 every) const { return every != 0 && now().issued % every == 0; }

  SegmentRun with_commit(const SegmentRun& run) {
    return run_.commits.with_choice(run, meter_->so_far(), run_.outputs);
  }

  // RETURNS: the event that the engine's question is.
  Event asked() {
    if (now().phase == Phase::comes_to_rest) return Event::run_continues;
    return run_.several() ? asked_of_nodes() : asked_here();
  }

  Event asked_here() {
    saves_.end_if_done();
    if (is_last() || stop_requested()) return Event::run_ends;
    if (now().phase == Phase::rests) return Event::run_continues;
    const bool rests = choice_.asks() || due(run_.config().train.eval_steps) || saves_.due(now().issued) ||
                       run_.directory.has_moved(steady_seconds());
    return rests ? Event::rest_is_due : Event::run_continues;
  }

  Event asked_of_nodes() {
    if (is_last()) return Event::run_ends;
    StepResults& results = run_.session->results();
    const bool rest =
        run_.leads() && (saves_.due(now().issued) || run_.directory.has_moved(steady_seconds()));
    results.vote((rest ? vote_rest : 0) | (SaveSignal::asked() ? vote_save : 0) |
                 (wants_to_stop() ? vote_stop : 0));
    if (hears_votes(now())) run_.durability.tell(Event::votes_are_heard, results.votes(now().issued - 1));
    return due(run_.config().train.eval_steps) || due(run_.config().output.save_steps) ? Event::rest_is_due
                                                                                       : Event::run_continues;
  }

  // At rest: node 0 saves what is due, while the others serve it. A vote to save is of the same step for all.
  Result<void> rest_together() {
    const bool voted = (now().votes & vote_save) != 0;
    if (voted) SaveSignal::forget();
    if (!run_.leads()) return run_.session->serve();
    if (const auto moved = run_.directory.moved()) return saves_.save_moved(*moved, seconds());
    if ((voted || saves_.due_at_rest(now().issued)) && !is_last()) TRY(saves_.save(seconds()));
    return run_.session->end_leading();
  }

  Result<void> go_back() {
    TRY(replay_.go_back(*run_.session, run_.durability, run_.commits, run_.state));
    run_.session->state().invalidate();
    return {};
  }

  // Changes the plan if the norms and times of the steps so far ask for the other policy of updates.
  Result<void> change_policy() {
    if (!choice_.asks() || is_last() || !stopped_early_.empty() || stop_requested()) return {};
    const std::string said =
        choice_.switches(run_.job.graph, run_.session->plan(), run_.chosen, run_.prediction);
    if (said.empty()) return {};
    saves_.end_background();
    TRY_ASSIGN(const bool committed, saves_.commit());
    if (!committed || !run_.session->has_swap_file()) {
      choice_.close();
      return {};
    }
    run_.outputs.say(said);
    run_.state.seconds = run_.commits.last_numbers().seconds;
    engine_.reset();
    TRY(tidepool::change_plan(run_, !now().policy.speculates));
    run_.outputs.change_plan(run_.session->plan());
    begin_part();
    return {};
  }

  Result<void> train() {
    saves_.begin();
    TRY(saves_.commit_to_replay_from());
    // A run that resumes from a commit may have been killed before the evaluation of that step.
    if (now().issued > 0 && due(run_.config().train.eval_steps)) TRY(evaluate(run_, *engine_));
    // A resumed run may have stopped early already, and been killed before its report.
    stopped_early_ = why_stop_early(run_.state.eval_losses, run_.config().train);
    while (!is_last() && stopped_early_.empty() && !stop_requested()) {
      meter_->begin_training();
      const Result<void> ran = engine_->run(*this, *this);
      meter_->end_training(now().phase == Phase::abandons);
      TRY(ran);
      const Action action = run_.durability.tell(Event::comes_to_rest);
      if (action == Action::roll_back) {
        TRY(go_back());
        continue;
      }
      ended_together_ = action == Action::end_with_error;  // all nodes know all losses
      if (ended_together_) return std::move(*failed_);
      TRY(rest());
      TRY(change_policy());
    }
    if (!stopped_early_.empty())
      run_.outputs.say(fmt::format("stopped early after step {}: {}", now().issued, stopped_early_));
    interrupted_ = !is_last() && stopped_early_.empty();
    if (!interrupted_ && !due(run_.config().train.eval_steps)) TRY(evaluate(run_, *engine_));
    return {};
  }

  // All that is due between two stretches of training.
  Result<void> rest() {
    run_.state.step = now().issued;
    run_.session->state().invalidate();
    if (!run_.several())
      if (const auto moved = run_.directory.moved()) return saves_.save_moved(*moved, seconds());
    if (due(run_.config().train.eval_steps)) {
      TRY(saves_.commit_to_replay_from());
      TRY(evaluate(run_, *engine_));
    }
    stopped_early_ = why_stop_early(run_.state.eval_losses, run_.config().train);
    if (run_.several()) return rest_together();
    if (saves_.due_at_rest(now().issued) && !is_last()) return saves_.save(seconds());
    return {};
  }

  void step_done(u64 step) {
    const StepResults& results = run_.session->results();
    const StepResult result = results.result(step);
    const bool fails = !run_.is_fp16() && (result.skipped || !std::isfinite(result.loss));
    const bool wrong = !fails && now().policy.speculates && !results.assumed_right(step);
    const Action action = run_.durability.tell(wrong ? Event::step_is_wrong : Event::step_counts, step);
    if (action == Action::ignore_step || action == Action::abandon) return;
    const bool is_logged = action == Action::replay_step;
    const double took = is_logged ? 0 : meter_->step_done();
    if (!is_logged)
      choice_.step_done({.speculated = now().policy.speculates,
                         .changed = !results.assumed_right(step),
                         .again = replay_.take_again(),
                         .took = took});
    run_.state.losses.push_back(result.loss);
    const u64 tokens = run_.batches->tokens(step);
    run_.state.tokens += tokens;
    if (!is_logged) log(step, result, tokens, took);
    if (run_.is_fp16()) {
      follow_loss_scale(step, result, is_logged);
    } else if (fails) {
      fail(step, non_finite_step(bad_step(step, result)));
    }
    run_.commits.progress().step_done(run_.state, step, earlier_seconds_ + meter_->train_seconds_now());
  }

  void log(u64 step, const StepResult& result, u64 tokens, double took) {
    const double learning_rate = run_.source->learning_rate(step);
    MetricLine line = step_line({.step = step,
                                 .epoch = run_.batches->epoch(step),
                                 .learning_rate = learning_rate,
                                 .tokens = tokens,
                                 .seconds = took,
                                 .is_fp16 = run_.is_fp16(),
                                 .objective = run_.config().objective.type},
                                result);
    meter_->record(result.grad_norm, learning_rate);
    routing_->add(run_.session->results().routing(step), tokens, line.metrics);
    if (run_.outputs.logs(step)) line.expert_tokens = routing_->due();
    run_.outputs.step(line);
  }

  std::string resume_hint() const {
    return commit_is_newest(now()) ? run_.commits.resume_hint() : run_.checkpoints->resume_hint();
  }
  BadStep bad_step(u64 step, const StepResult& result) const {
    return {.step = step,
            .result = result,
            .update_was_kept_back = run_.session->plan().clipping || run_.session->plan().speculates,
            .weights_are_the_first = step == 1 || result.next_loss_scale.skipped_steps >= step,
            .model_directory = run_.config().model_directory,
            .way_on = resume_hint()};
  }

  // An overflow is normal in fp16, and no sign of a bad model, while the loss scale can be lowered.
  void follow_loss_scale(u64 step, const StepResult& result, bool is_logged) {
    const LossScale& next = result.next_loss_scale;
    run_.state.loss_scale = {next.scale, next.good_steps, next.skipped_steps};
    if (!result.skipped) return;
    if (result.loss_scale.scale <= static_cast<float>(run_.config().train.min_loss_scale))
      return fail(step, no_lower_scale(bad_step(step, result)));
    if (!is_logged) run_.outputs.say(overflow_text(step, result));
  }

  void fail(u64 step, Error error) {
    failed_ = std::move(error);
    run_.durability.tell(Event::step_is_bad, step);
  }

  // ---- the end -------------------------------------------------------------------------------------------

  Result<RunReport> finish() {
    meter_->keep(now().issued - resumed_from_);
    if (run_.leads()) {
      if (const auto moved = run_.directory.moved()) return saves_.save_moved(*moved, seconds());
      if (now().saved != now().issued) TRY(saves_.save_last(seconds()));
      TRY(run_.session->end_leading());
    } else {
      TRY(run_.session->serve());
    }
    ended_together_ = true;
    // Before the peak is measured, which overwrites what rests in memory.
    if (run_.durability.tell(interrupted_ ? Event::run_is_interrupted : Event::run_is_complete) ==
        Action::forget_commit)
      forget_commit(run_);
    StopSignals::say_instead(
        {.first = "\ntidepool: the run is done and about to end; interrupt again to stop at once\n",
         .second = "\ntidepool: stopped at once, after the last step\n"});
    RunReport report = assemble_report(
        {.command = run_.request.command,
         .session = *run_.session,
         .meter = *meter_,
         .prediction = run_.prediction,
         .peak_at_end = peak_at_end(*run_.session, run_.prediction, run_.sampling()),
         .state = run_.state,
         .tokens = run_.state.tokens - earlier_tokens_,
         .steps_per_epoch = run_.batches->steps_per_epoch(),
         .resumed_from = resumed_from_,
         .stopped_early = stopped_early_,
         .weights_xxh3 = run_.checkpoints->last().weights_xxh3,
         .checkpoint_written = run_.checkpoints->written(),
         .disk_endurance = run_.chosen.machine ? run_.chosen.machine->disk.endurance : Bytes{},
         .gpus = gpus_ ? gpus_->readings() : std::vector<GpuReadings>{}});
    routing_->fill(report);
    replay_.fill(report, run_.session->plan());
    const Result<void> reported = run_.outputs.finish(report);
    const Result<void> written =
        write_traces(*run_.session, meter_->trace().events(), run_.prediction.forecast);
    run_.outputs.page();
    const Result<void> retold = reported ? run_.outputs.tell_process_size(report) : reported;
    run_.outputs.show(report);  // after all files are written: the screen may fail
    for (const Result<void>& file : {retold, written})
      if (!file) lacks_a_file(file.error());
    if (interrupted_ && !now().saved)
      return Error{ErrorKind::interrupted,
                   fmt::format("interrupted after step {}; {}", now().issued, resume_hint())};
    if (interrupted_)
      return Error{ErrorKind::interrupted,
                   fmt::format("interrupted after step {}; all files are in {}: resume with --resume auto",
                               now().issued, run_.checkpoints->last().path)};
    if (lacking_) return std::move(*lacking_);
    return report;
  }

  // The training is complete, but readers of its files must learn that one is missing.
  void lacks_a_file(const Error& error) {
    run_.outputs.warn(error.message);
    const std::string where =
        now().saved ? fmt::format(". All steps are done, and saved in {}", run_.checkpoints->last().path)
                    : ". All steps are done";
    if (!lacking_) lacking_ = Error{error.kind, error.message + where};
  }

  PreparedRun run_;
  SpeculationChoice choice_;
  RunSaves saves_;
  std::unique_ptr<RunMeter> meter_;
  std::optional<RoutingMeter> routing_;
  std::optional<GpuSampler> gpus_;  // none: no GPU
  std::unique_ptr<Engine> engine_;

  double earlier_seconds_ = 0;
  u64 earlier_tokens_ = 0;
  u64 resumed_from_ = 0;
  bool interrupted_ = false;
  std::string stopped_early_;  // the reason; empty: not stopped early
  std::optional<Error> failed_;
  Replay replay_;
  bool ended_together_ = false;
  std::optional<Error> lacking_;  // the training is complete, but a file of it could not be written
};

}  // namespace

Result<RunReport> train_model(const TrainRequest& given) {
  TRY_ASSIGN(TrainRequest request, request_of_node(given));
  // The signals outlive the trainer: a second signal must find what to clean up while the trainer is
  // destroyed.
  const StopSignals signals(StopSignals::at_once("\ntidepool: stopped before the first step\n"));
  // As given: node 0 saves for all.
  const SaveSignal save_signal(SaveSignal::words(given.config.output.save));
  Result<Job> job = job_of_run(request);
  std::optional<Trainer> trainer;
  if (job) trainer.emplace(request, *std::move(job));
  Result<RunReport> report = trainer ? trainer->run() : job.error();
  const bool ended_together = trainer && trainer->ended_together();
  if (!report && request.transport != nullptr) {
    // Then node 0 says why. Launchers kill all nodes if one ends with another code than 0, and node 0 may not
    // have written all its files yet.
    if (ended_together && request.config.machine.node > 0) return RunReport{};
    if (!ended_together) request.transport->fail(report.error());
  }
  // Exits without destructors: the trainer's would wait, perhaps forever, for what hangs. Prints the message
  // first.
  if (!report && trainer && trainer->hangs()) leave_now(report.error());
  return report;
}

}  // namespace tidepool
