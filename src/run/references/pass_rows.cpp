#include "run/references/pass_rows.h"

#include <algorithm>

#include "engine/engine.h"
#include "session/evaluation_runs.h"

namespace tidepool {

// Results of so many segments are held before they are taken, or of so many numbers.
constexpr u64 segments_most = 8, numbers_most = 1 << 20;

Result<void> run_rows(Session& session, PassRows& rows, u64 first,
                      const std::function<Result<void>(u64 row, std::span<const float>)>& take) {
  session.results().request_outputs(&rows);
  const std::unique_ptr<Engine> engine = Engine::create(session.plan(), session.executor(), {});
  const u64 most = std::clamp<u64>(numbers_most / rows.numbers_per_segment(), 1, segments_most);
  for (u64 row = first; row < rows.rows();) {
    rows.begin_at(row);
    const u64 segments = std::min(most, rows.segments_left());
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
