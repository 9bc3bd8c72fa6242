#include "run/prepare_run.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text/path_text.h"
#include "base/text/units.h"
#include "checkpoint/checkpoint.h"
#include "fit/executor_choice.h"
#include "machine/cpu_name.h"
#include "objectives/objective.h"
#include "probe/step/measure_network.h"
#include "run/assembly/assemble_report.h"
#include "run/assembly/summary.h"
#include "run/choice_progress.h"
#include "run/directory/find_committed_run.h"
#include "run/finished_run.h"
#include "run/load_state.h"
#include "run/nodes.h"
#include "run/open_data.h"
#include "run/outputs/training_memory.h"
#include "run/references/reference_pass.h"
#include "run/resume_notes.h"
#include "run/train_length.h"
#include "run/weights/base_model.h"
#include "run/weights/first_adapter.h"
#include "run/weights/first_weights.h"
#include "run/weights/kept_model.h"

namespace tidepool {
namespace {

class RunPreparation {
 public:
  explicit RunPreparation(PreparedRun& run) : run_(run), point_(run) {}

  Result<std::optional<RunReport>> prepare() {
    const Config& config = run_.config();
    // Locked before it is read: commits and notes count only while no other process can train on there.
    if (is_named(config.output.dir)) TRY(run_.directory.lock(config.output.dir));
    if (run_.leads()) TRY(point_.find_commit());
    if (!config.model_directory.empty() && run_.leads() &&
        (run_.request.resume.empty() || run_.job.graph.lora.on()))
      TRY(check_weights_are_there(config));
    TRY_ASSIGN(const bool resumed, resumes_from_anything());
    if (!resumed) TRY(check_model_is_unchanged(config));
    if (!resumed) TRY(check_first_adapter(run_.job));
    // Mends the run's model-files before anything uses them.
    if (resumed) TRY(take_directory(resumed));
    TRY(find_data(resumed));
    if (run_.several()) {
      TRY(agree_on_job(transport(), config, run_.batches->fingerprint()));
      TRY(agree_on_weights(transport(), config));
    }
    TRY(choose(resumed ? PlanFor::resumed_run : PlanFor::this_machine));
    if (!resumed) TRY(take_directory(resumed));
    TRY_ASSIGN(run_.checkpoints, RunCheckpoints::open(run_.job, run_.outputs));
    TRY_ASSIGN(std::optional<FoundCheckpoint> found, point_.find_checkpoint());
    const std::string left_behind = point_.note_branch(found);
    TRY_ASSIGN(const bool done, is_done(found));
    if (done && !found) return std::optional(RunReport{});  // node 0 has the report
    if (done) return std::optional(done_before(*found, config, run_.outputs));
    make_source(run_.chosen.plan);
    TRY(point_.keep_what_is_known());
    TRY(open_session(found.has_value()));
    TRY_ASSIGN(network_, measure_network(*run_.session));
    if (!left_behind.empty()) run_.outputs.say(left_behind);
    TRY(predict());
    say_all();
    begin_commits(commit_pace(*run_.session, run_.prediction));
    TRY(run_.checkpoints->check_room(found ? found->state.step : 0, run_.prediction.forecast.step_seconds));
    TRY(load_state(run_, point_, std::move(found)));
    return std::optional<RunReport>();
  }

  // As PreparedRun's change_plan().
  Result<void> change_plan(bool speculates) {
    Session& session = *run_.session;
    RunDurability& durability = run_.durability;
    durability.tell(Event::plan_changes);
    Config config = run_.config();
    config.train.speculate = speculates ? SpeculatePolicy::on : run_.request.config.train.speculate;
    config.machine.parallel = session.plan().parallel;  // stays as it is
    TRY_ASSIGN(run_.job, make_job(std::move(config)));
    point_.set_commit({.found = session.last_commit(),
                       .table = make_state_table(session.plan(), run_.job.graph),
                       .state = run_.state,
                       .branch = run_.branch.id()});
    run_.session.reset();  // before the next takes its memory and its swap file
    TRY(choose(PlanFor::resumed_run));
    make_source(run_.chosen.plan);
    TRY(open_session(true));
    TRY(predict());
    begin_commits(run_.commits.pace().from_here());
    TRY(load_own_commit(run_, point_));
    durability.tell({.event = Event::plan_is_changed, .policy = run_.policy()});
    return describe_plan(run_);
  }

 private:
  Transport& transport() { return *run_.request.transport; }

  // RETURNS: true if the run has reached its last step before; node 0 knows it.
  Result<bool> is_done(const std::optional<FoundCheckpoint>& found) {
    const bool done = found && all_is_done(*found, run_.config());
    if (!run_.several()) return done;
    TRY_ASSIGN(const std::vector<std::string> all, transport().exchange(done ? "done" : "trains"));
    return all[0] == "done";
  }

  Result<void> open_session(bool resumes) {
    const Config& config = run_.config();
    const Bytes steps_take = training_memory(config, run_.chosen.plan);
    TRY_ASSIGN(
        run_.session,
        Session::create(
            run_.job, std::move(run_.chosen.plan), *run_.source,
            {.open_disk = run_.request.open_disk,
             .rest_patience = run_.request.watchdog_least,
             .loads_weights = (!resumes || run_.job.graph.lora.on()) && !config.model_directory.empty(),
             .steps_take = steps_take,
             .transport = run_.request.transport,
             .product_timing = config.output.save ? ProductTiming::keep : ProductTiming::for_now,
             .commits = {.source = &run_.commits.progress(),
                         .payload_max = CommitProgress::bytes_max(
                             config.train.max_steps, config.train.eval_steps == 0
                                                         ? 1
                                                         : config.train.max_steps / config.train.eval_steps),
                         .owner = {.run = run_name(config), .branch = run_.branch.id()},
                         .found = point_.commit() ? &point_.commit()->found : nullptr,
                         .mode = point_.mode()},
             .say = [this](const std::string& line) { run_.outputs.say(line); }}));
    return {};
  }

  void begin_commits(const CommitPace& pace) {
    run_.commits.begin(*run_.session, pace);
    if (const std::string text = run_.commits.describe(); !text.empty()) run_.outputs.say(text);
  }

  void say_all() {
    if (!run_.request.quiet) run_.outputs.show(summarize({run_.job, run_.session->plan(), &run_.prediction}));
    for (const std::string& note : run_.data->notes()) run_.outputs.say(note);
    if (run_.config().train.max_steps > 0)
      run_.outputs.say(train_length_text(run_.request.config.train, run_.batches->steps_per_epoch()));
    for (const std::string& note : run_.session->notes()) run_.outputs.say(note);
    if (const Bytes process = run_.session->process_expected(); process.value > 0)
      run_.outputs.say("process: about " + bytes_text(process));
    say_choice();
  }

  // If the run may resume from a commit, a plan that has its slots comes first: nothing is copied then.
  Result<void> choose(PlanFor who) {
    ChoiceProgress progress;
    const PlanProgress listener = run_.request.quiet ? PlanProgress{} : progress.listener();
    bool has_slots = false;
    if (point_.may_be_commit()) {
      TRY_ASSIGN(const Job with_slots, make_job(with_slots_of(run_.config(), *point_.commit())));
      Result<RunPlan> same = plan_run(with_slots, who, listener);
      has_slots = same && has_slots_of(same->plan, run_.job.graph, *point_.commit());
      point_.copies_commit(!has_slots);
      if (has_slots) run_.chosen = *std::move(same);
    }
    if (!has_slots) {
      TRY_ASSIGN(run_.chosen, run_.several() ? agree_on_plan(transport(), run_.job, who, listener)
                                             : plan_run(run_.job, who, listener));
    }
    run_.choice_notes = describe_choice(run_.config(), run_.chosen);
    return {};
  }

  void say_choice() {
    for (const std::string& note : run_.choice_notes) run_.outputs.say(note);
    if (!run_.chosen.machine) return;
    const std::string other =
        machine_mismatch(run_.config(), *run_.chosen.machine, run_.session->pool().workers(), cpu_name());
    if (!other.empty()) run_.outputs.say(other);
  }

  Result<void> predict() {
    if (run_.request.quiet && !run_.request.sampling) return {};
    TRY_ASSIGN(run_.prediction, predict_step(*run_.session, network_, run_.sampling()));
    return {};
  }

  // RETURNS: true if the run resumes from a checkpoint or a commit. False for --resume auto before the first
  // checkpoint: training begins anew.
  Result<bool> resumes_from_anything() {
    if (run_.request.resume.empty()) return false;
    if (point_.may_be_commit()) return true;
    std::string path = run_.request.resume;
    if (path == "auto") {
      TRY_ASSIGN(const std::vector<u64> steps, checkpoint_steps(run_.config().output.dir));
      if (steps.empty()) return false;
      path = fmt::format("{}/checkpoint-{}", run_.config().output.dir, steps.back());
    }
    // Prints changed files first: they may be the cause of an error below.
    for (const std::string& line : changes_since_kept(run_.config())) run_.outputs.say(line);
    TRY(CheckpointStore::check_trained_alike(path, run_.job.graph));
    return true;
  }

  Result<void> check_beginning() const {
    return run_.directory.check_beginning(run_.request.resume.empty() ? Beginning::anew : Beginning::resumed);
  }

  Result<void> take_directory(bool resumed) {
    TRY(run_.directory.lock(run_.config().output.dir));
    TRY(check_beginning());
    if (!run_.leads()) return {};
    for (const std::string& line : clear_absent_nodes(run_.config())) run_.outputs.say(line);
    if (!resumed) return keep_model(run_.config());
    TRY_ASSIGN(const std::vector<std::string> mended, mend_kept_model(run_.config()));
    for (const std::string& line : mended) run_.outputs.say(line);
    return {};
  }

  Result<void> find_data(bool resumed) {
    TRY_ASSIGN(run_.data, open_data(run_.config(), {.quiet = run_.request.quiet, .kept_model = resumed}));
    const ObjectiveRule rule = objective_rule(run_.config().objective);
    const bool runs_first = may_compare(rule) || rule.divergence.on();
    if (!resumed && runs_first && is_named(run_.config().output.dir))
      TRY(check_beginning());  // before a pass that may take long
    TRY_ASSIGN(const std::string reference,
               attach_references({.config = run_.config(),
                                  .quiet = run_.request.quiet,
                                  .say = [this](const std::string& line) { run_.outputs.say(line); }},
                                 run_.data->caches()));
    if (run_.config().train.early_stopping_patience > 0 && run_.data->validation_sequences() == 0)
      return Error{ErrorKind::usage,
                   "train.early_stopping_patience: the data is too small to hold out a part of it; set "
                   "data.validation, or set early_stopping_patience to 0"};
    run_.batches = std::make_unique<BatchSource>(*run_.data, run_.job.graph.batch,
                                                 run_.job.options.micro_batches, reference);
    TRY_ASSIGN(const u64 steps, steps_to_train(run_.config().train, run_.batches->steps_per_epoch()));
    run_.job = with_steps(std::move(run_.job), steps);
    TRY_ASSIGN(run_.learning_rate, make_learning_rate(run_.config().train));
    return {};
  }

  void make_source(const Plan& plan) {
    run_.source = std::make_unique<TrainSource>(
        TrainSource::Parts{.batches = *run_.batches,
                           .train = run_.config().train,
                           .learning_rate = run_.learning_rate,
                           .evaluation_micro_batches = plan.micro_batches / plan.sweeps,
                           .evaluation_batches = evaluation_batches(run_)});
  }

  PreparedRun& run_;
  ResumePoint point_;
  NetworkRates network_;  // several nodes
};

}  // namespace

Result<Job> job_of_run(const TrainRequest& request) {
  Config config = request.config;
  TRY(check_executor(config));
  TRY(check_base_is_named(config));
  TRY(check_output_directory(config));
  look_at_rows(config, !request.resume.empty());
  if (config.machine.nodes > 1) TRY(agree_on_sizes(*request.transport, config));
  return make_job(std::move(config));
}

Result<std::optional<RunReport>> prepare_run(PreparedRun& run) { return RunPreparation(run).prepare(); }

Result<void> change_plan(PreparedRun& run, bool speculates) {
  return RunPreparation(run).change_plan(speculates);
}

Policy PreparedRun::policy() const {
  const Plan& plan = session->plan();
  return {.versions = plan.versions,
          .waits_for_norm = plan.clipping,
          .speculates = plan.speculates,
          .several_nodes = several(),
          .saves = config().output.save};
}

u64 evaluation_batches(const PreparedRun& run) {
  const u64 all = run.batches->validation_batches();
  return run.config().train.eval_batches == 0 ? all : std::min(run.config().train.eval_batches, all);
}

std::map<std::string, std::string> settings_now(const PreparedRun& run) {
  std::map<std::string, std::string> settings = numeric_settings(run.config());
  if (!run.session->algorithms().empty()) settings[algorithms_setting] = run.session->algorithms();
  return settings;
}

}  // namespace tidepool
