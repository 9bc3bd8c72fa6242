#include "run/commits/recorded_run.h"

#include <fmt/format.h>

#include "io/memory_limits.h"
#include "session/recorded_reader.h"

namespace tidepool {
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
