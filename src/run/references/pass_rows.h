// PassRows gives forward passes the rows of documents, and takes what they tell: log-probabilities of
// targets, or scores.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "data/batches/packing.h"
#include "session/session.h"

namespace tidepool {

// Rows in micro-batches, and the log-probability or score of each of their targets.
class PassRows final : public StepSource, public TargetLogps {
 public:
  PassRows(const PackedRows& rows, const ModelGraph& graph, u32 micro_batches)
      : rows_(rows),
        batch_(graph.batch),
        vocabulary_(graph.config.vocab_size),
        micro_batches_(micro_batches) {}

  // The next run begins with a row.
  void begin_at(u64 row) { first_ = row; }
  u64 rows_per_segment() const { return u64{micro_batches_} * batch_.sequences; }
  u64 rows() const { return rows_.rows(); }
  u64 segments_left() const { return div_up(rows_.rows() - first_, rows_per_segment()); }
  void expect(u64 segments) { logps_.resize(segments * micro_batches_ * batch_.rows()); }

  Result<void> load_batch(const BatchRequest& request, const BatchArrays& out) override {
    const u64 batch = request.step * micro_batches_ + request.micro_batch;
    for (u64 row = 0; row < batch_.sequences; ++row) {
      const BatchArrays arrays = out.row(row, batch_.tokens);
      make_empty(arrays);
      const u64 index = first_ + batch * batch_.sequences + row;
      if (index < rows_.rows()) TRY(rows_.read(index, vocabulary_, arrays));
    }
    return {};
  }
  StepSettings settings(u64) const override { return {}; }
  std::span<float> place(u64 micro_batch) override {
    return std::span(logps_).subspan(micro_batch * batch_.rows(), batch_.rows());
  }
  // RETURNS: [T] of a row of the run.
  std::span<const float> of_row(u64 row) const {
    return std::span(logps_).subspan((row - first_) * batch_.tokens, batch_.tokens);
  }

 private:
  const PackedRows& rows_;
  const BatchShape batch_;
  const u32 vocabulary_, micro_batches_;
  u64 first_ = 0;
  std::vector<float> logps_;
};

// Runs the rows from `first` on, and calls `take` for each with the log-probabilities or scores of its T
// places.
// REQUIRES: the session's graph tells log-probabilities, and its source is `rows`.
Result<void> run_rows(Session&, PassRows& rows, u64 first,
                      const std::function<Result<void>(u64 row, std::span<const float>)>& take);

}  // namespace tidepool
