#include "trainer/alternatives.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "text/budget_text.h"
#include "trainer/session.h"

namespace tidepool {
namespace {

constexpr u32 sequence_length_least = 32;  // shorter ones are no help to anybody
constexpr u32 tries_max = 4;               // of each kind: large models take seconds each

class Alternatives {
 public:
  Alternatives(const Config& config, const PlanOptions& options, const std::optional<Machine>& machine,
               std::string_view advised)
      : config_(config), graph_(make_graph(config)), options_(options), machine_(machine), advised_(advised) {
    options_.advise = false;
  }

  std::vector<std::string> all() const {
    std::vector<std::string> found;
    const auto add = [&](std::optional<std::string> text) {
      if (text) found.push_back(*std::move(text));
    };
    for (const Tier tier : {Tier::device, Tier::host}) add(one_budget(tier));
    if (fits(smallest())) {  // or none of them does, which for large models takes seconds each to find
      add(smaller_batch());
      add(shorter_sequence());
    }
    add(narrower_weights());
    return found;
  }

 private:
  bool fits(const Config& changed) const {
    const Result<ModelGraph> graph = make_graph(changed);
    PlanOptions options = plan_options(changed, options_.budgets.disk);
    options.advise = false;
    return graph && check_fits(*graph, options);
  }

  bool advises(Tier tier) const {
    return advised_.find(fmt::format("memory.{}=", name(tier))) != advised_.npos;
  }

  // What a budget can be raised to.
  Bytes most(Tier tier) const {
    constexpr u64 times = 64;  // of a machine that nobody described
    const Bytes has = !machine_              ? Bytes{0}
                      : tier == Tier::device ? machine_->device.memory
                                             : machine_->host.memory;
    return has.value != 0 ? has : options_.budgets.of(tier) * times;
  }

  std::optional<std::string> one_budget(Tier tier) const {
    u32 advised = 0;
    for (const Tier t : {Tier::device, Tier::host, Tier::disk}) advised += advises(t);
    const bool wants_a_disk = advises(Tier::disk) && options_.budgets.disk.value == 0;
    if (!graph_ || (advised < 2 && !wants_a_disk)) return std::nullopt;
    const std::optional<Bytes> least = least_budget(*graph_, options_, tier, most(tier));
    if (!least) return std::nullopt;
    return fmt::format("memory.{}={}", name(tier), budget_text(*least));
  }

  // As few tokens at a time as any of the next two tries has.
  Config smallest() const {
    Config changed = config_;
    changed.train.gradient_accumulation_steps *= changed.train.per_device_train_batch_size;
    changed.train.per_device_train_batch_size = 1;
    changed.train.sequence_length = std::max(changed.train.sequence_length >> tries_max,
                                             std::min(sequence_length_least, config_.train.sequence_length));
    return changed;
  }

  std::optional<std::string> smaller_batch() const {
    const u32 batch = config_.train.per_device_train_batch_size;
    u32 tries = 0;
    for (u32 times = 2; times <= batch && tries < tries_max; ++times) {
      if (batch % times != 0) continue;
      ++tries;
      Config changed = config_;
      changed.train.per_device_train_batch_size = batch / times;
      changed.train.gradient_accumulation_steps *= times;
      if (fits(changed))
        return fmt::format(
            "train.per_device_train_batch_size={} train.gradient_accumulation_steps={} (as many tokens per "
            "step)",
            batch / times, changed.train.gradient_accumulation_steps);
    }
    return std::nullopt;
  }

  std::optional<std::string> shorter_sequence() const {
    Config changed = config_;
    for (u32 i = 0; i < tries_max; ++i) {
      changed.train.sequence_length /= 2;
      if (changed.train.sequence_length < sequence_length_least) return std::nullopt;
      if (fits(changed)) return fmt::format("train.sequence_length={}", changed.train.sequence_length);
    }
    return std::nullopt;
  }

  std::optional<std::string> narrower_weights() const {
    if (config_.train.precision != Precision::fp32) return std::nullopt;
    Config changed = config_;
    changed.train.precision = Precision::bf16;
    if (!fits(changed)) return std::nullopt;
    return "train.precision=bf16";
  }

  const Config& config_;
  const Result<ModelGraph> graph_;
  PlanOptions options_;
  const std::optional<Machine>& machine_;
  const std::string_view advised_;
};

}  // namespace

Error add_alternatives(const Config& config, const PlanOptions& options,
                       const std::optional<Machine>& machine, Error error) {
  if (error.kind != ErrorKind::does_not_fit) return error;
  const std::vector<std::string> found = Alternatives(config, options, machine, error.message).all();
  if (found.empty())
    error.message += "; or use a smaller model";
  else
    error.message += fmt::format("{}{}", alternatives_words, fmt::join(found, ", or "));
  return error;
}

}  // namespace tidepool
