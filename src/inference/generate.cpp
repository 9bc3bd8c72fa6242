// generate_text() finds weights and config of a run or a model directory, then samples one token after
// another from the logits.
#include "inference/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "checkpoint/checkpoint.h"
#include "data/documents/decode_stream.h"
#include "inference/forward_only.h"
#include "inference/generate_place.h"
#include "inference/generate_text.h"
#include "inference/model_directory.h"
#include "inference/retry_rotated.h"
#include "run/outputs/leave_now.h"
#include "run/outputs/signals.h"
#include "session/evaluation_runs.h"
#include "session/session.h"
#include "tidepool/ignored_target.h"

namespace tidepool {
namespace {

// PromptSource gives the executor one sequence: the newest tokens of the text so far, up to the sequence
// length.
class PromptSource final : public StepSource {
 public:
  Result<void> load_batch(const BatchRequest&, const BatchArrays& batch) override {
    make_empty(batch);
    const u64 count = std::min<u64>(text.size(), batch.tokens.size());
    std::copy(text.end() - static_cast<i64>(count), text.end(), batch.tokens.begin());
    std::fill_n(batch.targets.begin(), count, ignored_target);
    return {};
  }
  StepSettings settings(u64) const override { return {}; }

  std::vector<i32> text;
};

i32 sample(std::vector<float>& logits, const GenerateConfig& config, std::mt19937_64& random) {
  std::vector<u32> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const u64 k = config.top_k == 0 ? logits.size() : std::min<u64>(config.top_k, logits.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<i64>(k), order.end(),
                    [&](u32 a, u32 b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; });
  if (config.temperature <= 0) return static_cast<i32>(order[0]);
  std::vector<double> weight(k);
  for (u64 i = 0; i < k; ++i)
    weight[i] = std::exp((logits[order[i]] - logits[order[0]]) / config.temperature);
  return static_cast<i32>(order[std::discrete_distribution<u64>(weight.begin(), weight.end())(random)]);
}

struct Trained {
  Config config;
  std::string weights;  // directory of the weights
};

std::vector<std::string> overrides_of(const GenerateRequest& request) {
  std::vector<std::string> out = {fmt::format("machine.threads={}", request.threads)};
  out.insert(out.end(), request.overrides.begin(), request.overrides.end());
  return out;
}

Result<Trained> of_model_directory(const GenerateRequest& request) {
  std::vector<std::string> overrides = overrides_of(request);
  overrides.insert(overrides.begin(), "data.train=none");  // a config must name data; it is not read here
  Trained out{.config = {}, .weights = request.path};
  TRY_ASSIGN(out.config, config_of_model_directory(request.path, "generating with " + request.path,
                                                   std::move(overrides)));
  return out;
}

// Clears tokenizer and template unless the command line names them: the checkpoint carries those of its
// training.
void leave_to_checkpoint(const DataConfig& of_run, DataConfig& data) {
  if (data.tokenizer == of_run.tokenizer) data.tokenizer.clear();
  if (data.chat_template == of_run.chat_template) data.chat_template.clear();
}

Result<Trained> of_run(const GenerateRequest& request, std::string& reading) {
  TRY_ASSIGN(GeneratePlace place, find_generate_place(request.path));
  if (place.newest) reading = place.checkpoint;
  for (const std::string& note : place.notes) request.note(note);
  Trained out{.config = {}, .weights = std::move(place.checkpoint)};
  TRY_ASSIGN(out.config, config_of_trained(place.run_dir, out.weights, overrides_of(request)));
  TRY_ASSIGN(const Config own, config_of_trained(place.run_dir, out.weights, {}));
  leave_to_checkpoint(own.data, out.config.data);
  TRY_ASSIGN(const std::vector<std::string> changed, changes_since_run(place.run_dir, out.weights));
  for (const std::string& line : changed) request.note(line);
  out.config.memory.swap_dir = place.run_dir + "/generate-swap";
  return out;
}

Result<Trained> find_trained(const GenerateRequest& request, std::string& reading) {
  TRY_ASSIGN(Trained out,
             stands_alone(request.path) ? of_model_directory(request) : of_run(request, reading));
  Config& config = out.config;
  config.train.per_device_train_batch_size = 1;
  config.train.gradient_accumulation_steps = 1;
  config.data.packing = false;
  TRY(make_forward_only(config, request.overrides, request.note));
  return out;
}

// `reading`: as in retry_rotated().
Result<void> generate_once(const GenerateRequest& request, const std::function<void(std::string_view)>& emit,
                           std::string& reading) {
  TRY_ASSIGN(const Trained trained, find_trained(request, reading));
  TRY_ASSIGN(const Speech speech, open_speech(trained.config, request.generate, trained.weights));
  TRY_ASSIGN(ForwardPlan forward, plan_forward(trained.config));
  const u32 tokens = forward.job.graph.batch.tokens;
  if (speech.prompt.size() > tokens)
    request.note(fmt::format(
        "the prompt has {} tokens, of which the last {} are read; train.sequence_length=N reads more",
        speech.prompt.size(), tokens));
  PromptSource source;
  TRY_ASSIGN(const std::unique_ptr<Session> session,
             open_forward(std::move(forward), source, trained.weights, request.note));
  reading.clear();  // no text was emitted yet, and nothing more is read
  const std::unique_ptr<Engine> engine = Engine::create(session->plan(), session->executor(), {});
  source.text.assign(speech.prompt.begin(), speech.prompt.end());
  DecodeStream text(*speech.encoder.text, speech.prompt);
  std::vector<float> logits(session->graph().config.vocab_size);
  std::mt19937_64 random(request.seed);
  emit(speech.shown);
  for (u64 i = 0; i < request.generate.max_new_tokens; ++i) {
    const u64 last = std::min<u64>(source.text.size(), tokens) - 1;
    session->results().request_logits({.row = static_cast<u32>(last), .logits = logits});
    EvaluationRuns run(1);
    const Result<void> ran = engine->run(run, run);
    if (!ran && session->busy()) leave_now(ran.error());
    TRY(ran);
    const i32 token = sample(logits, request.generate, random);
    if (std::ranges::find(speech.ends, static_cast<u32>(token)) != speech.ends.end()) break;
    source.text.push_back(token);
    emit(text.push(static_cast<u32>(token)));
  }
  emit(text.finish());
  return {};
}

}  // namespace

Result<void> generate_text(const GenerateRequest& request,
                           const std::function<void(std::string_view)>& emit) {
  // Ends at once on a signal: there is nothing to save. The handler is needed to remove the swap file.
  const StopSignals signals(StopSignals::at_once(""));
  return retry_rotated(request.note,
                       [&](std::string& reading) { return generate_once(request, emit, reading); });
}

}  // namespace tidepool
