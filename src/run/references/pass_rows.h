// PassRows gives forward passes the rows of documents, and takes the outputs of their targets
// (ObjectiveRule::output).
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "data/batches/packing.h"
#include "session/session.h"

namespace tidepool {

// Rows in micro-batches, and the numbers of each of their places.
class PassRows final : public StepSource, public TargetOutputs {
 public:
  PassRows(const PackedRows& rows, const ModelGraph& graph, u32 micro_batches)
      : rows_(rows),
        batch_(graph.batch),
        numbers_(graph.objective.outputs()),
        vocabulary_(graph.config.vocab_size),
        micro_batches_(micro_batches) {}

  // The next run begins with a row.
  void begin_at(u64 row) { first_ = row; }
  u64 rows_per_segment() const { return u64{micro_batches_} * batch_.sequences; }
  u64 numbers_per_segment() const { return micro_batches_ * batch_.rows() * numbers_; }
  u64 rows() const { return rows_.rows(); }
  u64 segments_left() const { return div_up(rows_.rows() - first_, rows_per_segment()); }
  void expect(u64 segments) { outputs_.resize(segments * micro_batches_ * batch_.rows() * numbers_); }

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
    const u64 numbers = batch_.rows() * numbers_;
    return std::span(outputs_).subspan(micro_batch * numbers, numbers);
  }
  // RETURNS: [T, numbers] of a row of the run.
  std::span<const float> of_row(u64 row) const {
    const u64 numbers = u64{batch_.tokens} * numbers_;
    return std::span(outputs_).subspan((row - first_) * numbers, numbers);
  }

 private:
  const PackedRows& rows_;
  const BatchShape batch_;
  const u32 numbers_;  // of a place
  const u32 vocabulary_, micro_batches_;
  u64 first_ = 0;
  std::vector<float> outputs_;
};

// Runs the rows from `first` on, and calls `take` for each with the numbers of its T places.
// REQUIRES: the objective of the session's graph has an output, and its source is `rows`.
Result<void> run_rows(Session&, PassRows& rows, u64 first,
                      const std::function<Result<void>(u64 row, std::span<const float>)>& take);

}  // namespace tidepool
