// evaluate_model() opens the held-out data, plans forward passes only, and sums the losses part by part.
#include "inference/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/steady_seconds.h"
#include "base/text/units.h"
#include "checkpoint/checkpoint.h"
#include "data/batches/held_out_files.h"
#include "inference/evaluation_place.h"
#include "inference/forward_only.h"
#include "inference/retry_rotated.h"
#include "run/open_data.h"
#include "run/outputs/leave_now.h"
#include "run/outputs/signals.h"
#include "run/references/reference_pass.h"
#include "session/evaluation_runs.h"
#include "session/session.h"

namespace tidepool {
namespace {

// HeldOut opens the held-out sequences: files of their own, without the training data, or the part that the
// training data holds out.
class HeldOut {
 public:
  static Result<HeldOut> open(const Config& config, const OpenData& options) {
    HeldOut out;
    if (config.data.validation.empty()) {
      TRY_ASSIGN(out.data_, open_data(config, options));
    } else {
      TRY_ASSIGN(HeldOutFiles files, open_held_out(config, options));
      out.files_.emplace(std::move(files));
    }
    return out;
  }
  std::vector<HeldOutPart> parts() const { return files_ ? files_->parts() : data_->held_out_parts(); }
  std::vector<TokenCache*> caches() const { return files_ ? files_->caches() : data_->caches(); }
  std::vector<std::string> notes() const { return files_ ? files_->notes() : data_->notes(); }
  Result<void> sequence(u64 index, const BatchArrays& out) const {
    return files_ ? files_->sequence(index, out) : data_->validation_sequence(index, out);
  }

 private:
  std::optional<HeldOutFiles> files_;
  std::unique_ptr<Dataset> data_;
};

// RunSource gives the executor consecutive held-out sequences. Rows after the last sequence have no loss.
class RunSource final : public StepSource {
 public:
  RunSource(const HeldOut& held_out, BatchShape batch, u32 micro_batches)
      : held_out_(held_out), batch_(batch), micro_batches_(micro_batches) {}

  void take(u64 first, u64 count) { first_ = first, count_ = count; }
  u64 segments() const { return div_up(count_, per_segment()); }
  u64 per_segment() const { return u64{micro_batches_} * batch_.sequences; }

  Result<void> load_batch(const BatchRequest& request, const BatchArrays& out) override {
    const u64 batch = request.step * micro_batches_ + request.micro_batch;
    for (u64 row = 0; row < batch_.sequences; ++row) {
      const u64 index = batch * batch_.sequences + row;
      const BatchArrays arrays = out.row(row, batch_.tokens);
      make_empty(arrays);
      if (index < count_) TRY(held_out_.sequence(first_ + index, arrays));
    }
    return {};
  }
  StepSettings settings(u64) const override { return {}; }

 private:
  const HeldOut& held_out_;
  const BatchShape batch_;
  const u32 micro_batches_;
  u64 first_ = 0, count_ = 0;
};

// RETURNS: the number of sequences to evaluate. train.eval_batches counts micro-batches; 0 is all.
u64 sequences_wanted(const Config& config, const std::vector<HeldOutPart>& parts) {
  u64 all = 0;
  for (const HeldOutPart& part : parts) all += part.sequences;
  const u64 batches = config.train.eval_batches, rows = config.train.per_device_train_batch_size;
  return batches == 0 || batches > all / rows ? all : batches * rows;
}

// Shrinks the batch if there are fewer sequences than one batch takes.
void shrink_to(Config& config, u64 sequences) {
  TrainConfig& t = config.train;
  t.per_device_train_batch_size = static_cast<u32>(std::min<u64>(t.per_device_train_batch_size, sequences));
  t.gradient_accumulation_steps = static_cast<u32>(
      std::min<u64>(t.gradient_accumulation_steps, div_up(sequences, t.per_device_train_batch_size)));
}

Result<EvaluatedPart> run_part(Session& session, Engine& engine, RunSource& source,
                               const EvaluateRequest& request, u64 before, u64 wanted) {
  EvaluationRuns runs(source.segments(), [&](u64 segments) {
    request.progress(std::min(wanted, before + segments * source.per_segment()), wanted);
  });
  const Result<void> ran = engine.run(runs, runs);
  if (!ran && session.busy()) leave_now(ran.error());
  TRY(ran);
  TRY_ASSIGN(const EvalResult result, session.results().take_eval());
  return EvaluatedPart{.result = result};
}

Result<Evaluation> run_parts(Session& session, RunSource& source, const std::vector<HeldOutPart>& parts,
                             u64 wanted, const EvaluateRequest& request) {
  const std::unique_ptr<Engine> engine = Engine::create(session.plan(), session.executor(), {});
  Evaluation out;
  u64 first = 0;
  for (const HeldOutPart& part : parts) {
    const u64 count = std::min(part.sequences, wanted - std::min(wanted, first));
    if (count == 0) continue;
    source.take(first, count);
    TRY_ASSIGN(EvaluatedPart done, run_part(session, *engine, source, request, first, wanted));
    done.name = part.name;
    done.sequences = count;
    first += part.sequences;
    out.all.sequences += count;
    out.all.result.add(done.result);
    if (done.result.targets > 0) out.parts.push_back(std::move(done));
  }
  return out;
}

// RETURNS: "the loss of a.txt is nan", or "the losses of 3 of 4 parts are not finite, such as the loss of
// a.txt (nan)".
std::string losses_text(const std::vector<const EvaluatedPart*>& bad, u64 parts) {
  const std::string loss = loss_text(bad[0]->loss()), &name = bad[0]->name;
  if (parts > 1)
    return fmt::format("the losses of {} of {} parts are not finite, such as the loss of {} ({})", bad.size(),
                       parts, name, loss);
  return fmt::format("the loss{}{} is {}", name.empty() ? "" : " of ", name, loss);
}

}  // namespace

Result<void> check_losses_are_finite(const Evaluation& e) {
  std::vector<const EvaluatedPart*> bad;
  for (const EvaluatedPart& part : e.parts)
    if (!std::isfinite(part.loss())) bad.push_back(&part);
  if (bad.empty()) return {};
  return Error{
      ErrorKind::non_finite,
      fmt::format("{}; look for values that are NaN, infinite or very large in the weights of {}{}",
                  losses_text(bad, e.parts.size()), e.weights,
                  e.precision == Precision::fp16 ? ", or set train.precision=fp32: fp16 may overflow" : "")};
}

namespace {

// `reading`: as in retry_rotated().
Result<Evaluation> evaluate_once(const EvaluateRequest& request, std::string& reading) {
  TRY_ASSIGN(EvaluationPlace place, find_evaluation_place(request, reading));
  Config& config = place.config;
  config.memory.swap_dir = place.swap_dir;
  if (!place.of_run && objective_rule(config.objective).reference &&
      config.objective.reference == place.weights)
    return Error{
        ErrorKind::usage,
        fmt::format("objective.reference: {} would be compared with itself; name the reference model",
                    place.weights)};
  TRY(make_forward_only(config, request.overrides, request.note));
  look_at_rows(config, place.of_run, HeldOutAlone::yes);
  TRY_ASSIGN(const HeldOut held_out,
             HeldOut::open(config, {.quiet = request.quiet, .kept_model = place.of_run}));
  for (const std::string& note : held_out.notes()) request.note(note);
  TRY(attach_references({.config = config, .quiet = request.quiet, .say = request.note}, held_out.caches()));
  const std::vector<HeldOutPart> parts = held_out.parts();
  const u64 wanted = sequences_wanted(config, parts);
  if (wanted == 0)
    return Error{ErrorKind::usage, "no data is held out: name files to evaluate on with data=FILE"};
  shrink_to(config, wanted);
  TRY_ASSIGN(ForwardPlan forward, plan_forward(config));
  RunSource source(held_out, forward.job.graph.batch, forward.plan.micro_batches / forward.plan.sweeps);
  TRY_ASSIGN(const std::unique_ptr<Session> session,
             open_forward(std::move(forward), source, place.weights, request.note));
  reading.clear();
  const double began = steady_seconds();
  TRY_ASSIGN(Evaluation out, run_parts(*session, source, parts, wanted, request));
  out.seconds = steady_seconds() - began;
  out.weights = place.weights;
  out.precision = config.train.precision;
  out.objective = config.objective.type;
  if (out.all.result.targets == 0)
    return Error{ErrorKind::bad_input, "no held-out token has loss: see data.loss"};
  return out;
}

}  // namespace

Result<Evaluation> evaluate_model(const EvaluateRequest& request) {
  // Ends at once on a signal: there is nothing to save. The handler is needed to remove the swap file.
  const StopSignals signals(StopSignals::at_once(""));
  return retry_rotated(request.note, [&](std::string& reading) { return evaluate_once(request, reading); });
}

}  // namespace tidepool
