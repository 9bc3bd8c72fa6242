#include "run/prepare_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/text/path_text.h"
#include "base/text/units.h"
#include "checkpoint/checkpoint.h"
#include "config_files/load_config.h"
#include "fit/executor_choice.h"
#include "fit/plan_inputs.h"
#include "huggingface/weights/weights_fingerprint.h"
#include "machine/cpu_name.h"
#include "objectives/objective.h"
#include "probe/step/measure_network.h"
#include "run/assembly/assemble_report.h"
#include "run/assembly/summary.h"
#include "run/choice_progress.h"
#include "run/directory/checkpoint_of_record.h"
#include "run/directory/find_recorded_run.h"
#include "run/finished_run.h"
#include "run/nodes.h"
#include "run/open_data.h"
#include "run/other_sequences.h"
#include "run/outputs/training_memory.h"
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
  explicit RunPreparation(PreparedRun& run) : run_(run) {}

  Result<std::optional<RunReport>> prepare() {
    Config& config = run_.config;
    const bool resumes = !run_.request.resume.empty();
    TRY(check_executor(config));
    TRY(check_base_is_named(config));
    TRY(check_output_directory(config));
    look_at_rows(config, resumes);
    if (several()) TRY(agree_on_groups(transport(), config));
    TRY_ASSIGN(run_.graph, make_graph(config));
    // Locked before it is read: records and notes count only while no other process can train on there.
    if (is_named(config.output.dir)) TRY(run_.directory.lock(config.output.dir));
    if (leads()) TRY(find_record());
    if (!config.model_directory.empty() && leads() && (!resumes || run_.graph.lora.on()))
      TRY(check_weights_are_there(config));
    TRY_ASSIGN(const bool goes_on, goes_on_from_checkpoint());
    if (!goes_on) TRY(check_model_is_unchanged(config));
    if (!goes_on) TRY(check_first_adapter(config, run_.graph));
    // Mends the run's model-files before anything uses them.
    if (goes_on) TRY(take_directory(goes_on));
    TRY(find_data(goes_on));
    if (several()) {
      TRY(agree_on_job(transport(), config, run_.batches->fingerprint()));
      TRY(agree_on_weights(transport(), config));
    }
    TRY(choose(goes_on ? PlanFor::resumed_run : PlanFor::this_machine));
    if (!goes_on) TRY(take_directory(goes_on));
    TRY_ASSIGN(run_.checkpoints, RunCheckpoints::open(config, run_.graph, run_.outputs));
    TRY_ASSIGN(std::optional<FoundCheckpoint> found, find_checkpoint());
    TRY(note_branch(found));
    TRY_ASSIGN(const bool done, is_done(found));
    if (done && !found) return std::optional(RunReport{});  // node 0 has the report
    if (done) return std::optional(done_before(*found, config, run_.outputs));
    make_source(run_.chosen.plan);
    TRY(keep_what_is_known());
    TRY(open_session(found.has_value()));
    TRY_ASSIGN(network_, measure_network(*run_.session));
    TRY(say_what_begins());
    TRY(run_.checkpoints->check_room(found ? found->state.step : 0, run_.prediction.forecast.step_seconds));
    TRY(load_or_init(std::move(found)));
    return std::optional<RunReport>();
  }

 private:
  bool several() const { return run_.config.machine.nodes > 1; }
  bool leads() const { return run_.config.machine.node == 0; }
  Transport& transport() { return *run_.request.transport; }

  Result<void> find_record() {
    TRY_ASSIGN(FoundRecord found,
               find_recorded_run(run_.config, run_.graph, run_.request.resume,
                                 [this](const std::string& line) { run_.outputs.warn(line); }));
    recorded_ = std::move(found.run);
    noted_ = std::move(found.note);
    left_at_ = found.left_at;
    record_is_named_ = found.is_asked_for;
    if (several() && record_counts()) TRY(save_record_for_nodes());
    return {};
  }

  // Several nodes keep one version of the state: they resume from a checkpoint.
  Result<void> save_record_for_nodes() {
    const std::string& dir = run_.config.output.dir;
    if (record_is_named_)
      return Error{
          ErrorKind::usage,
          fmt::format("--resume {}: resume from it on one machine, without a launcher; Ctrl-C after its "
                      "first step saves a checkpoint, from which several resume with --resume auto",
                      run_.request.resume)};
    TRY_ASSIGN(const std::vector<u64> steps, checkpoint_steps(dir));
    newer_checkpoint_ = true;
    if (!steps.empty() && steps.back() >= recorded_->state.step) return {};
    TRY_ASSIGN(const SavedCheckpoint saved, make_checkpoint_of(*recorded_, run_.config, run_.graph));
    run_.outputs.say(
        fmt::format("made {} of the state recorded in {}: several machines resume from a checkpoint",
                    saved.path, recorded_->found.path));
    return {};
  }
  // True if the run may resume from the record.
  bool record_counts() const {
    return recorded_ && !newer_checkpoint_ && (record_is_named_ || run_.request.resume == "auto");
  }

  // RETURNS: the checkpoint to resume from; nullopt if the recorded state is newer or was named, or nothing
  // is resumed.
  Result<std::optional<FoundCheckpoint>> find_checkpoint() {
    const bool automatic = run_.request.resume == "auto";
    if (record_is_named_) return std::optional<FoundCheckpoint>();
    if (record_counts()) {
      TRY_ASSIGN(const std::vector<u64> steps, checkpoint_steps(run_.config.output.dir));
      if (steps.empty() || steps.back() <= recorded_->state.step) return std::optional<FoundCheckpoint>();
    }
    TRY_ASSIGN(std::optional<FoundCheckpoint> found, run_.checkpoints->find(run_.request.resume));
    newer_checkpoint_ = newer_checkpoint_ ||
                        (recorded_ && (!automatic || (found && found->state.step > recorded_->state.step)));
    if (resumes_from_record()) found.reset();
    if (automatic) TRY(check_reaches(found));
    return found;
  }
  bool resumes_from_record() const { return recorded_ && !newer_checkpoint_; }

  // A record that was named counts, whatever the run has trained since.
  std::optional<u64> end_of_its_branch() const {
    if (!record_is_named_) return std::nullopt;
    return std::min(recorded_->state.step, left_at_.value_or(recorded_->state.step));
  }

  // A damaged checkpoint may have been stepped over.
  Result<void> check_reaches(const std::optional<FoundCheckpoint>& found) const {
    ReachedSteps reached;
    if (found) reached.checkpoint = found->state.step;
    if (resumes_from_record()) reached.record = recorded_->state.step;
    const bool torn = recorded_ && recorded_->found.newest_is_torn;
    std::optional<Error> left = torn ? std::nullopt : leaves_steps_behind(run_.config, noted_, reached);
    if (left) return *std::move(left);
    return {};
  }

  // The session may replace a swap file without a record, which alone tells that nothing of it is missing.
  Result<void> keep_what_is_known() const {
    if (!noted_) return {};
    const std::string& dir = run_.config.output.dir;
    TRY_ASSIGN(const std::optional<BranchNote> written, read_branch_note(dir));
    if (written != noted_) TRY(BranchFile::write(dir, *noted_));
    return {};
  }

  // A run that resumes from its record stays on its branch; else it begins one.
  Result<void> note_branch(const std::optional<FoundCheckpoint>& found) {
    const u64 step = resumes_from_record() ? recorded_->state.step : found ? found->state.step : 0;
    if (noted_ && !run_.request.resume.empty()) run_.branch = *noted_;
    if (run_.branch.step > step && run_.request.resume != "auto")
      left_behind_ = fmt::format("steps {} to {}, which this run has recorded, are left behind", step + 1,
                                 run_.branch.step);
    resumes_from_record() ? run_.branch.follow(recorded_->branch, step)
                          : run_.branch.begin(new_branch_id(), step);
    run_.branch.swap_dir =
        run_.config.memory.swap_dir.empty() ? "" : canonical_path(run_.config.memory.swap_dir);
    return {};
  }

  // RETURNS: true if the run has reached its last step before; node 0 knows it.
  Result<bool> is_done(const std::optional<FoundCheckpoint>& found) {
    const bool done = found && all_is_done(*found, run_.config);
    if (!several()) return done;
    TRY_ASSIGN(const std::vector<std::string> all, transport().exchange(done ? "done" : "goes on"));
    return all[0] == "done";
  }

  Result<void> open_session(bool resumes) {
    const Config& config = run_.config;
    const Bytes steps_take = training_memory(config, run_.chosen.plan);
    TRY_ASSIGN(
        run_.session,
        Session::create(
            config, run_.graph, std::move(run_.chosen.plan), *run_.source,
            {.open_disk = run_.request.open_disk,
             .rest_patience = run_.request.watchdog_least,
             .loads_weights = (!resumes || run_.graph.lora.on()) && !config.model_directory.empty(),
             .steps_take = steps_take,
             .transport = run_.request.transport,
             .product_timing = config.output.save ? ProductTiming::keep : ProductTiming::for_now,
             .records = {.source = &run_.records.progress(),
                         .payload_max = ProgressRecord::bytes_max(
                             config.train.max_steps, config.train.eval_steps == 0
                                                         ? 1
                                                         : config.train.max_steps / config.train.eval_steps),
                         .owner = {.run = run_name(config), .branch = run_.branch.id()},
                         .found = recorded_ ? &recorded_->found : nullptr,
                         .way = newer_checkpoint_ ? SessionRecords::Way::discard : way_},
             .say = [this](const std::string& line) { run_.outputs.say(line); }}));
    return {};
  }

  Result<void> say_what_begins() {
    if (!left_behind_.empty()) run_.outputs.say(left_behind_);
    if (!run_.request.quiet || run_.request.sampling) TRY(predict());
    if (!run_.goes_on) say_all();
    const auto& known = run_.choice.pace();
    run_.records.begin(
        *run_.session,
        known ? *known : record_pace(run_.config, run_.session->plan(), run_.graph, run_.prediction));
    if (const std::string text = run_.records.describe(); !text.empty()) run_.outputs.say(text);
    return {};
  }

  void say_all() {
    if (!run_.request.quiet)
      run_.outputs.show(summarize({run_.config, run_.graph, run_.session->plan(), &run_.prediction}));
    for (const std::string& note : run_.data->notes()) run_.outputs.say(note);
    if (run_.config.train.max_steps > 0)
      run_.outputs.say(train_length_text(run_.request.config.train, run_.batches->steps_per_epoch()));
    for (const std::string& note : run_.session->notes()) run_.outputs.say(note);
    if (const Bytes process = run_.session->process_expected(); process.value > 0)
      run_.outputs.say("process: about " + bytes_text(process));
    say_choice();
  }

  Result<void> choose(PlanFor who) {
    ChoiceProgress progress;
    const PlanProgress listener = run_.request.quiet ? PlanProgress{} : progress.listener();
    if (record_counts()) {
      if (Result<RunPlan> same = plan_run(with_slots_of(run_.config, *recorded_), run_.graph, who, listener))
        if (has_slots_of(same->plan, run_.graph, *recorded_)) {
          run_.chosen = *std::move(same);
          way_ = SessionRecords::Way::use_on;
          run_.choice_notes = describe_choice(run_.config, run_.chosen);
          return {};
        }
      way_ = SessionRecords::Way::copy;
    }
    TRY_ASSIGN(run_.chosen, several() ? agree_on_plan(transport(), run_.config, run_.graph, who, listener)
                                      : plan_run(run_.config, run_.graph, who, listener));
    run_.choice_notes = describe_choice(run_.config, run_.chosen);
    return {};
  }

  void say_choice() {
    for (const std::string& note : run_.choice_notes) run_.outputs.say(note);
    if (!run_.chosen.machine) return;
    const std::string other =
        machine_mismatch(run_.config, *run_.chosen.machine, run_.session->pool().workers(), cpu_name());
    if (!other.empty()) run_.outputs.say(other);
  }

  Result<void> predict() {
    TRY_ASSIGN(run_.prediction, predict_step(*run_.session, network_, run_.sampling()));
    return {};
  }

  // RETURNS: true if the run resumes from a checkpoint. False for --resume auto before the first checkpoint:
  // training begins anew.
  Result<bool> goes_on_from_checkpoint() {
    if (run_.request.resume.empty()) return false;
    if (record_counts()) return true;
    std::string path = run_.request.resume;
    if (path == "auto") {
      TRY_ASSIGN(const std::vector<u64> steps, checkpoint_steps(run_.config.output.dir));
      if (steps.empty()) return false;
      path = fmt::format("{}/checkpoint-{}", run_.config.output.dir, steps.back());
    }
    // Prints changed files first: they may be the cause of an error below.
    for (const std::string& line : changes_since_kept(run_.config)) run_.outputs.say(line);
    TRY(CheckpointStore::check_trained_alike(path, run_.graph));
    return true;
  }

  Result<void> take_directory(bool goes_on) {
    TRY(run_.directory.lock(run_.config.output.dir));
    TRY(run_.directory.check_beginning(run_.request.resume.empty() ? Beginning::anew : Beginning::resumed));
    if (!leads()) return {};
    for (const std::string& line : clear_absent_nodes(run_.config)) run_.outputs.say(line);
    if (!goes_on) return keep_model(run_.config);
    TRY_ASSIGN(const std::vector<std::string> mended, mend_kept_model(run_.config));
    for (const std::string& line : mended) run_.outputs.say(line);
    return {};
  }

  Result<void> find_data(bool goes_on) {
    TRY_ASSIGN(run_.data, open_data(run_.config, {.quiet = run_.request.quiet, .kept_model = goes_on}));
    if (run_.config.train.early_stopping_patience > 0 && run_.data->validation_sequences() == 0)
      return Error{ErrorKind::usage,
                   "train.early_stopping_patience: the data is too small to hold out a part of it; set "
                   "data.validation, or set early_stopping_patience to 0"};
    run_.batches =
        std::make_unique<BatchSource>(*run_.data, run_.graph.batch, micro_batches_per_step(run_.config));
    TRY_ASSIGN(run_.config.train.max_steps,
               steps_to_train(run_.config.train, run_.batches->steps_per_epoch()));
    TRY_ASSIGN(LearningRate rate, make_learning_rate(run_.config.train));
    run_.learning_rate = std::move(rate);
    return {};
  }

  void make_source(const Plan& plan) {
    run_.source = std::make_unique<TrainSource>(
        TrainSource::Parts{.batches = *run_.batches,
                           .train = run_.config.train,
                           .learning_rate = run_.learning_rate,
                           .evaluation_micro_batches = plan.micro_batches / plan.sweeps,
                           .evaluation_batches = evaluation_batches(run_)});
  }

  Result<void> load_or_init(std::optional<FoundCheckpoint> found) {
    run_.state.seed = run_.config.train.seed;
    run_.state.data_fingerprint = run_.batches->fingerprint();
    if (const EvaluationFigure& figure = objective(run_.config.objective).figure; !figure.of_loss)
      run_.state.eval_figure = figure.metric;
    if (run_.is_fp16()) run_.state.loss_scale = StoredLossScale{.scale = run_.config.train.init_scale};
    if (!leads()) {
      TRY(run_.session->serve());
    } else {
      TRY(load_or_init_all(std::move(found)));
      TRY(run_.session->end_leading());
    }
    if (several()) {
      TRY_ASSIGN(run_.state, share_state(transport(), run_.state));
    }
    if (const auto& stored = run_.state.loss_scale)
      run_.session->results().set_loss_scale({.scale = static_cast<float>(stored->scale),
                                              .good_steps = static_cast<u32>(stored->good_steps),
                                              .skipped_steps = stored->skipped_steps});
    return {};
  }

  Result<void> load_or_init_all(std::optional<FoundCheckpoint> found) {
    if (resumes_from_record()) return restore_record();
    if (!found)
      TRY(make_first_weights(run_.config, run_.graph, *run_.session, run_.outputs, run_.state.base_xxh3));
    const TrainerState fresh = run_.state;
    while (found) {  // falls back to older checkpoints while the newest is damaged
      run_.state = fresh;
      TRY_ASSIGN(found, restore(std::move(*found)));
    }
    if (run_.graph.lora.on() && run_.state.base_fingerprint.empty()) {
      TRY_ASSIGN(run_.state.base_fingerprint, weights_fingerprint(run_.config.model_directory));
    }
    return {};
  }

  Result<void> restore_record() {
    TRY(take_progress(
        {"the state recorded in " + recorded_->found.path, run_.config.output.dir, recorded_->state}));
    TRY(restore_recorded_state(*recorded_, way_, *run_.session, run_.outputs));
    TRY(run_.checkpoints->resumed_from_record(run_.state.best_step, end_of_its_branch()));
    if (run_.session->plan().versions < 2) return {};
    run_.records.progress().rested(run_.state);
    run_.records.progress().step_done(run_.state, run_.state.step, run_.state.seconds);
    if (way_ == SessionRecords::Way::copy) {
      TRY_ASSIGN(const bool recorded, run_.session->recorded().record_at_rest(run_.state.step));
      if (!recorded)
        return Error{ErrorKind::usage,
                     "the run has more evaluations than a record can hold: set "
                     "memory.versions=1"};
      TRY(run_.session->replace_record());
    }
    run_.records.recorded(run_.state.step);
    return {};
  }

  // Makes the stored progress that of this run, and loads what is not part of its state.
  Result<void> take_progress(const EarlierPart& part) {
    const TrainerState& stored = part.state;
    if (stored.data_fingerprint != run_.state.data_fingerprint)
      return other_sequences(part, run_.state.data_fingerprint, run_.config);
    if (run_.graph.lora.on()) TRY(check_base_model(run_.config.model_directory, part.name));
    TRY(check_model_is_unchanged(run_.config));
    if (stored.loss_scale.has_value() != run_.is_fp16())
      return Error{
          ErrorKind::corrupt_checkpoint,
          fmt::format("{}: its progress {} a loss_scale, but train.precision is {}: resume in the "
                      "precision that it was made in",
                      part.name, run_.is_fp16() ? "lacks" : "has", name(run_.config.train.precision))};
    for (const std::string& note : resume_notes(stored, run_.config, settings_now(run_)))
      run_.outputs.say(note);
    const u64 seed = run_.state.seed;
    run_.state = stored;
    run_.state.seed = seed;
    if (run_.graph.lora.on()) {
      TRY_ASSIGN(const std::string xxh3,
                 load_frozen_model(run_.config, run_.graph, *run_.session, run_.outputs));
      TRY(same_base_weights(run_.config.model_directory, run_.state.base_xxh3, xxh3));
      run_.state.base_xxh3 = xxh3;
    }
    return {};
  }

  // RETURNS: the checkpoint to try next, or nullopt if `found` was restored.
  Result<std::optional<FoundCheckpoint>> restore(FoundCheckpoint found) {
    TRY(take_progress({found.path, run_of_checkpoint(found.path), found.state}));
    return run_.checkpoints->go_on_from(std::move(found), run_.session->state());
  }

  PreparedRun& run_;
  std::optional<RecordedRun> recorded_;  // in the swap directory
  bool newer_checkpoint_ = false;        // than the recorded state
  bool record_is_named_ = false;         // by --resume
  std::optional<u64> left_at_;           // as FoundRecord
  std::optional<BranchNote> noted_;      // by the processes before
  std::string left_behind_;              // a line for people
  SessionRecords::Way way_ = SessionRecords::Way::discard;
  NetworkRates network_;  // several nodes
};

}  // namespace

Config PreparedRun::config_of(const TrainRequest& request, const SpeculationChoice& choice) {
  Config config = request.config;
  if (choice.speculates()) config.train.speculate = SpeculatePolicy::on;
  if (choice.parallel() && config.machine.parallel == Parallel::automatic)
    config.machine.parallel = *choice.parallel();
  return config;
}

Result<std::optional<RunReport>> prepare_run(PreparedRun& run) { return RunPreparation(run).prepare(); }

u64 evaluation_batches(const PreparedRun& run) {
  const u64 all = run.batches->validation_batches();
  return run.config.train.eval_batches == 0 ? all : std::min(run.config.train.eval_batches, all);
}

std::map<std::string, std::string> settings_now(const PreparedRun& run) {
  std::map<std::string, std::string> settings = numeric_settings(run.config);
  if (!run.session->algorithms().empty()) settings[algorithms_setting] = run.session->algorithms();
  return settings;
}

}  // namespace tidepool
