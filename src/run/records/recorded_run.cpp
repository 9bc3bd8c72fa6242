#include "run/records/recorded_run.h"

#include <fmt/format.h>

#include "base/text/path_text.h"
#include "io/directory_lock.h"
#include "io/memory_limits.h"
#include "run/records/progress_record.h"
#include "session/recorded_reader.h"

namespace tidepool {
namespace {

std::string recorded_text(const FoundState& found) {
  return fmt::format("{} holds the state of a run that ended without finishing, recorded after step {}",
                     found.path, found.record.step);
}

// A directory may have been moved with all that is in it.
bool is_of_run(const Config& config, const std::string& run) {
  return config.memory.swap_dir.empty() || run == run_name(config);
}

// A checkpoint of the recorded step, or a later one, leaves nothing behind.
bool is_as_new(const std::string& checkpoint, const FoundState& found) {
  const Result<TrainerState> state = read_trainer_state(without_slashes(checkpoint));
  return state && state->step >= found.record.step;
}

Result<void> check_is_wanted(const Config& config, const FoundState& found, const std::string& run,
                             const std::string& resume) {
  if (!is_of_run(config, run))
    return Error{ErrorKind::usage,
                 fmt::format("{}: it is of the run in {}. Resume it there (output.dir={}, --resume "
                             "auto), choose another memory.swap_dir, or move the file away",
                             recorded_text(found), run, run)};
  if (resume == "auto" || (!resume.empty() && is_as_new(resume, found))) return {};
  return Error{ErrorKind::usage,
               fmt::format("{}: resume with --resume auto, or move the file away {}", recorded_text(found),
                           resume.empty() ? "to begin anew" : "to resume from " + resume)};
}

}  // namespace

std::string run_name(const Config& config) { return canonical_path(config.output.dir); }

Result<std::optional<RecordedRun>> find_recorded_run(const Config& config, const ModelGraph& graph,
                                                     const std::string& resume,
                                                     const std::function<void(const std::string&)>& warn) {
  const std::string dir = swap_directory(config);
  if (lock_holder(dir, swap_job_name))
    return std::optional<RecordedRun>();  // whose lock the session will meet
  TRY_ASSIGN(std::optional<FoundState> found, read_state_file(dir + "/" + swap_file_name));
  if (!found) return std::optional<RecordedRun>();
  if (found->newest_is_torn)
    warn(found->record.sequence == 0
             ? fmt::format("{}: its only record is torn or damaged, so there is nothing to resume from",
                           found->path)
             : fmt::format("{}: its newest record is torn or damaged: the one before it, of step {}, counts",
                           found->path, found->record.step));
  if (found->record.sequence == 0) return std::optional<RecordedRun>();
  TRY_ASSIGN(DescribedState described, parse_state(found->head.description, found->path));
  TRY(check_is_wanted(config, *found, described.run, resume));
  if (const std::string differs = difference_of_models(described.table, graph); !differs.empty())
    return Error{ErrorKind::usage,
                 fmt::format("{}, of another model: {}. Restore its settings, or move the file away",
                             recorded_text(*found), differs)};
  if (found->record.chunks.size() != described.table.marks() || !described.table.has_slots_of(*found))
    return Error{ErrorKind::bad_input,
                 fmt::format("{}: its record and its description do not fit each other. Nothing "
                             "was changed",
                             found->path)};
  TRY_ASSIGN(TrainerState state, progress_of_record(found->record.payload, found->path));
  return std::optional(RecordedRun{std::move(*found), std::move(described.table), std::move(state)});
}

Config with_slots_of(Config config, const RecordedRun& run) {
  if (config.memory.versions == 0) config.memory.versions = run.table.versions;
  if (config.memory.chunk_size.value == 0)
    config.memory.chunk_size = Bytes{run.table.chunk_elements * sizeof(float)};
  return config;
}

bool has_slots_of(const Plan& plan, const ModelGraph& graph, const RecordedRun& run) {
  return plan.versions > 1 && make_state_table(plan, graph) == run.table;
}

Result<void> restore_recorded_state(const RecordedRun& run, SessionRecords::Way way, Session& session,
                                    RunOutputs& outputs) {
  const u64 step = run.state.step;
  if (way == SessionRecords::Way::use_on) {
    TRY(session.recorded().take_over());
    session.state().keep_trained();
    TRY(session.state().finish());
    outputs.say(fmt::format("resumed from the state recorded in {} (step {})", run.found.path, step));
    return {};
  }
  outputs.say(fmt::format("the plan has other chunks than the state recorded in {}: {} are copied",
                          run.found.path, format_bytes(run.table.bytes())));
  TRY_ASSIGN(const auto reader, RecordedReader::open(run.found, run.table, session.graph(), session.pool()));
  TRY(copy_state(session.graph(), *reader, session.state()));
  outputs.say(fmt::format("resumed from the state recorded in {} (step {})", run.found.path, step));
  return {};
}

}  // namespace tidepool
