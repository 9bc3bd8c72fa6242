#include "trainer/run_checkpoints.h"

#include <fmt/format.h>

#include "trainer/run_meter.h"
#include "trainer/session.h"

namespace tidepool {

Result<std::unique_ptr<RunCheckpoints>> RunCheckpoints::open(const Config& config, const ModelGraph& graph,
                                                             RunOutputs& outputs) {
  std::unique_ptr<RunCheckpoints> out(new RunCheckpoints(config, outputs));
  TRY_ASSIGN(out->store_, CheckpointStore::create({.run_dir = config.output.dir, .buffer = checkpoint_buffer}, graph));
  TRY_ASSIGN(const std::vector<std::string> litter, out->store_->sweep());
  for (const std::string& name : litter) outputs.say("cleared a half-written checkpoint of a dead run: " + name);
  return out;
}

Result<std::optional<FoundCheckpoint>> RunCheckpoints::find(const std::string& resume) {
  if (resume.empty()) return std::optional<FoundCheckpoint>();
  if (resume != "auto") {
    TRY_ASSIGN(FoundCheckpoint found, store_->open(resume));
    return std::optional(std::move(found));
  }
  TRY_ASSIGN(Resumable resumable, store_->find_resumable());
  for (const SteppedOver& s : resumable.stepped_over) {
    outputs_.say(fmt::format("stepped over {}: {}", s.path, s.reason));
    distrusted_.push_back(s.path);
  }
  if (!resumable.found) outputs_.say("no checkpoint to resume from: starting from the beginning");
  return std::move(resumable.found);
}

Result<void> RunCheckpoints::save(const TrainerState& state, StateReader& reader) {
  const double began = RunMeter::now();
  TRY_ASSIGN(last_, store_->save(state, reader));
  last_step_ = state.step;
  written_ += last_.bytes;
  TRY(store_->rotate({.saved_step = state.step,
                      .total_limit = config_.output.save_total_limit,
                      .best_step = state.best_step,
                      .distrusted = distrusted_}));
  outputs_.say(fmt::format("saved {} in {:.1f} s", last_.path, RunMeter::now() - began));
  return {};
}

}  // namespace tidepool
