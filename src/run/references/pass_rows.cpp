#include "run/references/pass_rows.h"

#include <algorithm>

#include "engine/engine.h"
#include "session/evaluation_runs.h"

namespace tidepool {

constexpr u64 segments_at_once = 8;  // results of so many are held before they are taken

Result<void> run_rows(Session& session, PassRows& rows, u64 first,
                      const std::function<Result<void>(u64 row, std::span<const float>)>& take) {
  session.results().request_outputs(&rows);
  const std::unique_ptr<Engine> engine = Engine::create(session.plan(), session.executor(), {});
  for (u64 row = first; row < rows.rows();) {
    rows.begin_at(row);
    const u64 segments = std::min(segments_at_once, rows.segments_left());
    rows.expect(segments);
    EvaluationRuns runs(segments);
    TRY(engine->run(runs, runs));
    TRY(session.results().take_eval());
    const u64 end = std::min(rows.rows(), row + segments * rows.rows_per_segment());
    for (; row < end; ++row) TRY(take(row, rows.of_row(row)));
  }
  return {};
}

}  // namespace tidepool
