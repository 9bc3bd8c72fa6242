#include "trainer/first_weights.h"

#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/checkpoint.h"
#include "report/units.h"
#include "trainer/init_weights.h"
#include "trainer/run_meter.h"

namespace tidepool {
namespace {

constexpr u64 parameters_worth_progress = 200'000'000;

Result<void> load(const Config& config, const ModelGraph& graph, StateWriter& state, RunOutputs& outputs) {
  const std::string& directory = config.model_directory;
  outputs.say("loading weights from " + directory);
  const double began = RunMeter::now();
  TRY_ASSIGN(const std::vector<std::string> unused, load_weights(directory, graph, state));
  for (const std::string& tensor : unused) outputs.say(fmt::format("{}: tensor {} is not used", directory, tensor));
  outputs.say("loaded weights in " + seconds_text(RunMeter::now() - began));
  return {};
}

}  // namespace

Result<void> load_frozen_model(const Config& config, const ModelGraph& graph, Session& session, RunOutputs& outputs) {
  WriteMore adapters_follow(session.state());
  return load(config, graph, adapters_follow, outputs);
}

Result<void> make_first_weights(const Config& config, const ModelGraph& graph, Session& session, RunOutputs& outputs) {
  if (graph.lora.on()) TRY(load_frozen_model(config, graph, session, outputs));
  else if (!config.model_directory.empty()) return load(config, graph, session.state(), outputs);
  std::vector<std::byte> buffer(checkpoint_buffer.value);
  return init_weights(graph, config.train.seed, session.state(), buffer, session.pool(),
                      [&, last = -1](double share) mutable {
                        const int tenth = static_cast<int>(share * 10);
                        if (graph.parameters > parameters_worth_progress && tenth > last)
                          outputs.say(fmt::format("initialising weights: {} %", tenth * 10));
                        last = std::max(last, tenth);
                      });
}

}  // namespace tidepool
