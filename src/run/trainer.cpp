// Trainer runs one training from config to report. Only this class decides what happens next; the parts that
// it uses decide nothing.
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
#include "run/early_stop.h"
#include "run/nodes.h"
#include "run/outputs/leave_now.h"
#include "run/outputs/metric_lines.h"
#include "run/outputs/routing_meter.h"
#include "run/outputs/run_meter.h"
#include "run/outputs/signals.h"
#include "run/outputs/training_memory.h"
#include "run/prepare_run.h"
#include "run/records/redone_steps.h"
#include "run/rest_together.h"
#include "run/run_saves.h"
#include "run/step_faults.h"
#include "session/evaluation_runs.h"

namespace tidepool {
namespace {

class Trainer final : public NextSegment, public EngineObserver {
 public:
  Trainer(const TrainRequest& request, SpeculationChoice& choice, bool goes_on)
      : run_(request, choice, goes_on), saves_(run_) {}

  Result<RunReport> run() {
    TRY_ASSIGN(std::optional<RunReport> done_before, prepare_run(run_));
    if (done_before) return std::move(*done_before);
    issued_ = resumed_from_ = run_.state.step;
    together_.rested(issued_);
    earlier_seconds_ = run_.state.seconds;
    earlier_tokens_ = run_.state.tokens;
    saves_.tell_signals();
    if (run_.session->plan().versions < 2) run_.choice.close();
    // Called only now: a resume that is refused must not change the run's config.yaml and plan.txt.
    TRY(describe_run(run_));
    open_log(run_.config.output.dir + "/" + run_log_name);
    TRY(open_outputs());
    if (Result<void> trained = train(); !trained) {
      if (!hangs()) saves_.end_background();
      return trained.error();
    }
    if (switches_) return RunReport{};
    return finish();
  }

  // The run goes on from its last record, with updates that wait for the norm or no longer do.
  bool switches() const { return switches_; }
  // All nodes end with the same result, after the same step.
  bool ended_together() const { return ended_together_; }
  // Ops or transfers have been handed over and have not come back.
  bool hangs() const { return run_.session && run_.session->busy(); }

  // ---- NextSegment: asked when the current segment is about to end ---------------------------------

  std::optional<SegmentRun> next() override {
    // A rest that was chosen is kept: a norm that arrives on the way may change what the choice asks for.
    ending_ = ending_ || (several() ? must_rest_together() : must_rest());
    if (ending_) {
      if (!pending_update_) return std::nullopt;
      pending_update_ = false;
      return run_.records.with_choice({SegmentKind::drain, issued_ + 1}, meter_->so_far(), run_.outputs);
    }
    const SegmentKind kind = resting_ ? SegmentKind::forward_backward : SegmentKind::body;
    resting_ = false;
    pending_update_ = run_.session->plan().clipping;
    return run_.records.with_choice({kind, ++issued_}, meter_->so_far(), run_.outputs);
  }

  bool abandons() override { return redone_.found(); }

  // ---- EngineObserver ----------------------------------------------------------------------------------

  void segment_started(const SegmentRun& run, u64 sequence) override {
    meter_->profile().segment_started(run, sequence);
    run_.outputs.segment_started(run);
  }
  void completed(const Issue& issue, const Completion& completion) override {
    meter_->profile().completed(issue, completion);
    meter_->phases().completed(issue, completion);
    run_.outputs.completed(issue, completion);
    if (run_.config.output.trace) meter_->trace().completed(issue, completion);
    if (gpus_) gpus_->sample(steady_seconds());
    if (issue.get().kind == OpKind::norm) step_done(issue.step);
    if (issue.get().kind == OpKind::record) {
      run_.records.completed(issue, completion);
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

  Result<void> open_outputs() {
    meter_ = std::make_unique<RunMeter>(run_.session->plan(), run_.session->counters(), steps_expected(),
                                        run_.config.output.trace ? trace_events_max : 0);
    routing_.emplace(run_.graph, steps_expected());
    engine_ = Engine::create(run_.session->plan(), run_.session->executor(),
                             {.watchdog = watchdog(run_.prediction, run_.request.watchdog_least)});
    run_.state.losses.reserve(steps_expected());
    if (auto gpus = gpu_addresses(run_.config.machine.gpus(), run_.session->devices().pci()); !gpus.empty())
      gpus_.emplace(std::move(gpus), Nvml::load());
    return run_.outputs.open(run_.session->plan(), run_.state.step,
                             run_.batches->epoch(run_.config.train.max_steps));
  }

  // Reserved in advance, so that a steady step allocates no memory, at least the first `steps_max`.
  u64 steps_expected() const {
    constexpr u64 steps_max = mib;
    return std::min(run_.config.train.max_steps, steps_max);
  }

  // ---- the loop ----------------------------------------------------------------------------------------

  double seconds() const { return earlier_seconds_ + meter_->train_seconds(); }  // of training, at rest
  bool several() const { return run_.config.machine.nodes > 1; }
  bool leads() const { return run_.config.machine.node == 0; }
  bool stop_requested() const { return several() ? together_.stops() : wants_to_stop(); }
  bool wants_to_stop() const {
    return StopSignals::stop_requested() ||
           (run_.request.stop_after != 0 && issued_ >= run_.request.stop_after);
  }
  static bool due(u64 every, u64 step) { return every != 0 && step % every == 0; }

  bool must_rest() {
    saves_.end_if_done();
    if (issued_ >= run_.config.train.max_steps || failed_ || stop_requested()) return true;
    if (resting_) return false;
    return run_.choice.asks() || due(run_.config.train.eval_steps, issued_) || saves_.due(issued_) ||
           run_.directory.has_moved(steady_seconds());
  }

  bool must_rest_together() {
    if (issued_ >= run_.config.train.max_steps) return true;
    const bool rest = leads() && (saves_.due(issued_) || run_.directory.has_moved(steady_seconds()));
    together_.tell(run_.session->results(), {rest, SaveSignal::asked(), wants_to_stop()});
    if (resting_) return false;
    return together_.must_rest(run_.session->results(), issued_) ||
           due(run_.config.train.eval_steps, issued_) || due(run_.config.output.save_steps, issued_);
  }

  // At rest: node 0 saves what is due, while the others serve it.
  Result<void> rest_together() {
    together_.rested(issued_);
    if (together_.saves()) SaveSignal::forget();
    if (!leads()) return run_.session->serve();
    if (const auto moved = run_.directory.moved()) return saves_.save_moved(*moved, issued_, seconds());
    if ((together_.saves() || saves_.due_at_rest(issued_)) && issued_ < run_.config.train.max_steps)
      TRY(saves_.save(issued_, seconds()));
    return run_.session->end_leading();
  }

  Result<void> train_again_from_last_record() {
    TRY_ASSIGN(issued_, redone_.go_back(*run_.session, run_.records, run_.state));
    run_.session->state().invalidate();
    together_.rested(issued_);
    return {};
  }

  Result<bool> must_switch() {
    const bool ends = issued_ >= run_.config.train.max_steps || !stopped_early_.empty();
    if (!run_.choice.asks() || ends || stop_requested()) return false;
    const std::string said = run_.choice.switches(run_.graph, run_.session->plan(), run_.chosen,
                                                  run_.prediction, run_.records.pace());
    if (said.empty()) return false;
    saves_.end_background();
    TRY_ASSIGN(const bool recorded, saves_.record(issued_));
    recorded ? run_.outputs.say(said) : run_.choice.stays();
    return recorded;
  }

  Result<void> train() {
    saves_.begin();
    TRY(saves_.record_to_go_back_to(issued_));
    // A run that goes on from a record may have been killed before the evaluation of that step.
    if (issued_ > 0 && due(run_.config.train.eval_steps, issued_)) TRY(evaluate());
    // A resumed run may have stopped early already, and been killed before its report.
    stopped_early_ = why_stop_early(run_.state.eval_losses, run_.config.train);
    while (issued_ < run_.config.train.max_steps && stopped_early_.empty() && !stop_requested()) {
      resting_ = true, ending_ = false;
      meter_->begin_training();
      const Result<void> ran = engine_->run(*this, *this);
      meter_->end_training(redone_.found());
      TRY(ran);
      if (redone_.found() && !failed_) {
        TRY(train_again_from_last_record());
        continue;
      }
      ended_together_ = failed_.has_value();  // all nodes know all losses
      if (failed_) return std::move(*failed_);
      run_.state.step = issued_;
      run_.session->state().invalidate();
      if (!several())
        if (const auto moved = run_.directory.moved()) return saves_.save_moved(*moved, issued_, seconds());
      if (due(run_.config.train.eval_steps, issued_)) {
        TRY(saves_.record_to_go_back_to(issued_));
        TRY(evaluate());
      }
      stopped_early_ = why_stop_early(run_.state.eval_losses, run_.config.train);
      if (several())
        TRY(rest_together());
      else if (saves_.due_at_rest(issued_) && issued_ < run_.config.train.max_steps)
        TRY(saves_.save(issued_, seconds()));
      TRY_ASSIGN(switches_, must_switch());
      if (switches_) return {};
    }
    if (!stopped_early_.empty())
      run_.outputs.say(fmt::format("stopped early after step {}: {}", issued_, stopped_early_));
    interrupted_ = issued_ < run_.config.train.max_steps && stopped_early_.empty();
    if (!interrupted_ && !due(run_.config.train.eval_steps, issued_)) TRY(evaluate());
    return {};
  }

  void step_done(u64 step) {
    if (failed_) return;          // this step was in progress when the one before it failed
    if (redone_.found()) return;  // nothing counts that is still in progress
    const StepResult result = run_.session->results().result(step);
    const bool fails = !run_.is_fp16() && (result.skipped || !std::isfinite(result.loss));
    if (!fails && redone_.must_redo(*run_.session, step)) return;
    const bool is_known = redone_.is_known(step);
    const double took = is_known ? 0 : meter_->step_done();
    if (!is_known)
      run_.choice.step_done(!run_.session->results().assumed_right(step), redone_.take_again(), took);
    run_.state.losses.push_back(result.loss);
    const u64 tokens = run_.batches->tokens(step);
    run_.state.tokens += tokens;
    if (!is_known) tell(step, result, tokens, took);
    if (run_.is_fp16()) {
      follow_loss_scale(step, result, is_known);
    } else if (fails) {
      fail(step, non_finite_step(bad_step(step, result)));
    }
    run_.records.progress().step_done(run_.state, step, earlier_seconds_ + meter_->train_seconds_now());
  }

  void tell(u64 step, const StepResult& result, u64 tokens, double took) {
    const double learning_rate = run_.source->learning_rate(step);
    MetricLine line = step_line({.step = step,
                                 .epoch = run_.batches->epoch(step),
                                 .learning_rate = learning_rate,
                                 .tokens = tokens,
                                 .seconds = took,
                                 .is_fp16 = run_.is_fp16()},
                                result);
    meter_->record(result.grad_norm, learning_rate);
    routing_->add(run_.session->results().routing(step), tokens, line.metrics);
    if (run_.outputs.logs(step)) line.expert_tokens = routing_->due();
    run_.outputs.step(line);
  }

  std::string way_on() const {
    return run_.records.way_on(run_.checkpoints->last_step(), run_.checkpoints->way_on());
  }
  BadStep bad_step(u64 step, const StepResult& result) const {
    return {.step = step,
            .result = result,
            .update_was_kept_back = run_.session->plan().clipping || run_.session->plan().speculates,
            .weights_are_the_first = step == 1 || result.next_loss_scale.skipped_steps >= step,
            .model_directory = run_.config.model_directory,
            .way_on = way_on()};
  }

  // An overflow is normal in fp16, and no sign of a bad model, while the loss scale can be lowered.
  void follow_loss_scale(u64 step, const StepResult& result, bool is_known) {
    const LossScale& next = result.next_loss_scale;
    run_.state.loss_scale = {next.scale, next.good_steps, next.skipped_steps};
    if (!result.skipped) return;
    if (result.loss_scale.scale <= static_cast<float>(run_.config.train.min_loss_scale))
      return fail(step, no_lower_scale(bad_step(step, result)));
    if (!is_known) run_.outputs.say(overflow_text(step, result));
  }

  void fail(u64 step, Error error) {
    if (failed_) return;
    failed_ = std::move(error);
    run_.records.progress().refuse_from(step);
    together_.failed(step);
  }

  // ---- evaluation ----------------------------------------------------------------------------------------

  Result<void> evaluate() {
    const u64 batches = evaluation_batches(run_);
    std::vector<EvalLoss>& losses = run_.state.eval_losses;
    // A resume from this step has its evaluation already.
    if (batches == 0 || (!losses.empty() && losses.back().step == issued_)) return {};
    const double began = steady_seconds();
    EvaluationRuns runs(div_up(batches, run_.session->plan().micro_batches / run_.session->plan().sweeps));
    TRY(engine_->run(runs, runs));
    TRY_ASSIGN(const EvalResult result, run_.session->results().take_eval());
    const Evaluated done = {.step = issued_,
                            .epoch = run_.batches->epoch(issued_),
                            .objective = run_.config.objective,
                            .result = result,
                            .seconds = steady_seconds() - began};
    losses.push_back({issued_, result.loss(), result.targets, done.figure()});
    run_.records.progress().rested(run_.state);
    if (best_evaluation(losses) == &losses.back()) saves_.found_best();
    run_.outputs.say(evaluation_text(done));
    if (const std::string anew = why_best_begins_anew(losses, run_.config.train); !anew.empty())
      run_.outputs.say(anew);
    run_.outputs.evaluation(evaluation_line(done));
    return {};
  }

  // ---- the end -------------------------------------------------------------------------------------------

  Result<RunReport> finish() {
    meter_->keep(issued_ - resumed_from_);
    if (leads()) {
      if (const auto moved = run_.directory.moved()) return saves_.save_moved(*moved, issued_, seconds());
      if (run_.checkpoints->last_step() != issued_) TRY(saves_.save_last(issued_, seconds()));
      TRY(run_.session->end_leading());
    } else {
      TRY(run_.session->serve());
    }
    ended_together_ = true;
    // Before the peak is measured, which overwrites what rests in memory.
    if (!interrupted_ || run_.checkpoints->last_step() == issued_) forget_record(run_);
    StopSignals::say_instead(
        {.first = "\ntidepool: the run is done and about to end; interrupt again to stop at once\n",
         .second = "\ntidepool: stopped at once, after the last step\n"});
    RunReport report = assemble_report(
        {.config = run_.config,
         .command = run_.request.command,
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
    redone_.fill(report, run_.session->plan());
    const Result<void> reported = run_.outputs.finish(report);
    const TracedRun traced{.measured = meter_->trace().events(), .forecast = run_.prediction.forecast};
    const Result<void> written = write_traces(run_.config.output.dir, run_.config.output.trace,
                                              run_.session->plan(), run_.graph, traced);
    run_.outputs.page();
    const Result<void> retold = reported ? run_.outputs.tell_process_size(report) : reported;
    run_.outputs.show(report);  // after all files are written: the screen may fail
    for (const Result<void>& file : {retold, written})
      if (!file) lacks_a_file(file.error());
    if (interrupted_ && !run_.checkpoints->last_step())
      return Error{ErrorKind::interrupted, fmt::format("interrupted after step {}; {}", issued_, way_on())};
    if (interrupted_)
      return Error{ErrorKind::interrupted,
                   fmt::format("interrupted after step {}; all files are in {}: resume with --resume auto",
                               issued_, run_.checkpoints->last().path)};
    if (lacking_) return std::move(*lacking_);
    return report;
  }

  // The training is complete, but readers of its files must learn that one is missing.
  void lacks_a_file(const Error& error) {
    run_.outputs.warn(error.message);
    const std::string where =
        run_.checkpoints->last_step()
            ? fmt::format(". All steps are done, and saved in {}", run_.checkpoints->last().path)
            : ". All steps are done";
    if (!lacking_) lacking_ = Error{error.kind, error.message + where};
  }

  PreparedRun run_;
  RunSaves saves_;
  std::unique_ptr<RunMeter> meter_;
  std::optional<RoutingMeter> routing_;
  std::optional<GpuSampler> gpus_;  // none: no GPU
  std::unique_ptr<Engine> engine_;

  double earlier_seconds_ = 0;
  u64 earlier_tokens_ = 0;
  u64 resumed_from_ = 0;
  u64 issued_ = 0;               // last step whose forward has been given to the engine
  bool resting_ = true;          // at rest: nothing runs, the next segment starts from rest
  bool ending_ = false;          // on the way to rest
  bool pending_update_ = false;  // gradients wait for their update
  bool interrupted_ = false, switches_ = false;
  std::string stopped_early_;  // the reason; empty: not stopped early
  std::optional<Error> failed_;
  RedoneSteps redone_;
  RestTogether together_;
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
  SpeculationChoice choice(request.config, request.speculation);
  for (bool goes_on = false;; goes_on = true) {
    Trainer trainer(request, choice, goes_on);
    Result<RunReport> report = trainer.run();
    if (report && trainer.switches()) {
      request.resume = "auto";
      continue;
    }
    if (!report && request.transport != nullptr) {
      // Then node 0 says why. Launchers kill all nodes if one ends with another code than 0, and node 0 may
      // not have written all its files yet.
      if (trainer.ended_together() && request.config.machine.node > 0) return RunReport{};
      if (!trainer.ended_together()) request.transport->fail(report.error());
    }
    // Exits without destructors: the trainer's would wait, perhaps forever, for what hangs. Prints the
    // message first.
    if (!report && trainer.hangs()) leave_now(report.error());
    return report;
  }
}

}  // namespace tidepool
