#include "run/commits/committed_run.h"

#include <fmt/format.h>

#include "io/memory_limits.h"
#include "session/committed_reader.h"

namespace tidepool {
Config with_slots_of(Config config, const CommittedRun& run) {
  if (config.memory.versions == 0) config.memory.versions = run.table.versions;
  if (config.memory.chunk_size.value == 0)
    config.memory.chunk_size = Bytes{run.table.chunk_elements * sizeof(float)};
  return config;
}

bool has_slots_of(const Plan& plan, const ModelGraph& graph, const CommittedRun& run) {
  return plan.versions > 1 && make_state_table(plan, graph) == run.table;
}

Result<void> restore_committed_state(const CommittedRun& run, SessionCommits::Mode mode, Session& session,
                                     RunOutputs& outputs) {
  const u64 step = run.state.step;
  if (mode == SessionCommits::Mode::take_over) {
    TRY(session.committed().take_over());
    session.state().keep_trained();
    TRY(session.state().finish());
    outputs.say(fmt::format("resumed from the state committed in {} (step {})", run.found.path, step));
    return {};
  }
  outputs.say(fmt::format("the plan has other chunks than the state committed in {}: {} are copied",
                          run.found.path, format_bytes(run.table.bytes())));
  TRY_ASSIGN(const auto reader, CommittedReader::open(run.found, run.table, session.graph(), session.pool()));
  TRY(copy_state(session.graph(), *reader, session.state()));
  outputs.say(fmt::format("resumed from the state committed in {} (step {})", run.found.path, step));
  return {};
}

}  // namespace tidepool
