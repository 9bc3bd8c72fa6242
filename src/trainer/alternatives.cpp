#include "trainer/alternatives.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "planner/advice.h"
#include "text/budget_text.h"
#include "text/value_text.h"
#include "trainer/budget_room.h"
#include "trainer/choice_progress.h"
#include "trainer/session.h"

namespace tidepool {
namespace {

constexpr u32 sequence_length_least = 32;  // shorter ones are no help to anybody
constexpr u32 tries_max = 4;               // of each kind: large models take seconds each
// Of all changes together. Those of GPT-2 of 18 billion parameters on 8 GPUs are some 1.4 million, and take
// about 5 s.
constexpr u64 ops_worked_on_max = 2'000'000;
constexpr std::array tiers = {Tier::device, Tier::host, Tier::disk};

// `had`, raised as a message advises in words like "set memory.device=73GiB".
Budgets advised_budgets(const Budgets& had, std::string_view message) {
  Budgets out = had;
  for (const Tier tier : tiers) {
    const std::string key = fmt::format("set memory.{}=", name(tier));
    const size_t at = message.find(key);
    if (at == message.npos) continue;
    const std::string_view rest = message.substr(at + key.size());
    if (const Result<Bytes> value = parse_size(rest.substr(0, rest.find_first_of("; ,"))))
      budget_of(out, tier) = std::max(had.of(tier), *value);
  }
  return out;
}

class Alternatives {
 public:
  Alternatives(const Config& config, const PlanOptions& options, const std::optional<Machine>& machine,
               std::string_view message, u64 ops_max)
      : config_(config),
        graph_(make_graph(config)),
        options_(options),
        machine_(machine),
        message_(message),
        ops_max_(ops_max),
        advised_(advised_budgets(options.budgets, message)),
        can_be_taken_(!machine || takes_budgets(*machine, options, advised_)) {
    options_.advise = false;
  }

  std::string message() {
    std::string out = can_be_taken_ ? std::string(message_) : shortages();
    std::vector<std::string> found = all();
    if (found.empty()) {
      out += can_be_taken_ ? "; or use a smaller model"
                           : "; no change that the machine has room for was found to fit: use a smaller "
                             "model, or a machine that has more";
    } else if (!can_be_taken_) {
      out += ": set " + found.front();
      found.erase(found.begin());
    }
    if (!found.empty()) out += fmt::format("{}{}", alternatives_words, fmt::join(found, ", or "));
    if (cut_) out += "; changes other than those may fit: the search for them takes long and was cut short";
    return out;
  }

 private:
  bool is_raised(Tier tier, const Budgets& to) const { return to.of(tier) > options_.budgets.of(tier); }

  u32 count_raised(const Budgets& to) const {
    u32 count = 0;
    for (const Tier tier : tiers) count += is_raised(tier, to);
    return count;
  }

  // What is short, beside what the machine has of it. REQUIRES: a machine.
  std::string shortages() const {
    std::string out = "the job does not fit:";
    for (const Tier tier : tiers) {
      if (!is_raised(tier, advised_)) continue;
      out += fmt::format("{} {} {}", out.back() == ':' ? "" : ";", name(tier),
                         shortage_text(advised_.of(tier), options_.budgets.of(tier)));
      const std::optional<Bytes> most = budget_most(*machine_, options_, tier);
      if (!most || advised_.of(tier) <= *most) continue;
      out += most->value == 0 ? fmt::format(", and the machine has no {}", name(tier))
                              : fmt::format(", and the machine has {} for it", budget_text(*most));
    }
    return out;
  }

  std::vector<std::string> all() {
    std::vector<std::string> found;
    const auto add = [&](std::optional<std::string> text) {
      if (text) found.push_back(*std::move(text));
    };
    for (const Tier tier : tiers) add(one_budget(tier));
    if (!can_be_taken_ && found.empty()) add(several_budgets());
    if (smaller_may_fit()) {
      add(smaller_batch());
      add(shorter_sequence());
    }
    add(narrower_weights());
    return found;
  }

  // What `search` finds within what may be worked on. Nothing, too, where that does not suffice.
  template <class Search>
  auto within_limits(std::string_view change, Search&& search) {
    SearchWork work{.ops_max = ops_max_};
    using Found = decltype(search(work));
    if (worked_on_ >= ops_worked_on_max) {
      cut_ = true;
      return Found{};
    }
    progress_.trying(change);
    Found found = search(work);
    worked_on_ += work.ops;
    cut_ = cut_ || (work.cut && !found);
    return found;
  }

  bool fits(std::string_view change, const ModelGraph& graph, const PlanOptions& options) {
    return within_limits(change,
                         [&](SearchWork& work) { return check_fits(graph, options, &work).has_value(); });
  }

  bool fits(std::string_view change, const Config& changed) {
    const Result<ModelGraph> graph = make_graph(changed);
    PlanOptions options = plan_options(changed, options_.budgets.disk);
    options.advise = false;
    return graph && fits(change, *graph, options);
  }

  // What a budget can be raised to.
  Bytes most(Tier tier, const PlanOptions& options) const {
    constexpr u64 times = 64;  // of a machine that nobody described
    const Bytes had = options.budgets.of(tier);
    const std::optional<Bytes> has = machine_ ? budget_most(*machine_, options, tier) : std::nullopt;
    if (has) return *has;
    return tier == Tier::disk ? had : std::max(had, written_below(had * times));
  }

  // A little above the least that fit, as a config has them.
  std::optional<std::string> raised(const Budgets& most) {
    const std::string change = "larger budgets";
    const auto least = within_limits(
        change, [&](SearchWork& work) { return least_budgets(*graph_, options_, most, &work); });
    if (!least) return std::nullopt;
    PlanOptions larger = options_;
    for (const Tier tier : tiers)
      if (is_raised(tier, *least)) budget_of(larger.budgets, tier) = written_above(least->of(tier));
    // Least of one chunk size: the search that comes upon it by itself may pass it by, and knows `most` to
    // fit.
    const bool cut = cut_;
    if (!fits(change, *graph_, larger)) larger.budgets = most;
    cut_ = cut;
    std::vector<std::string> settings;
    for (const Tier tier : tiers)
      if (is_raised(tier, larger.budgets))
        settings.push_back(fmt::format("memory.{}={}", name(tier), budget_text(larger.budgets.of(tier))));
    return fmt::format("{}", fmt::join(settings, " "));
  }

  std::optional<std::string> one_budget(Tier tier) {
    const bool wants_a_disk = is_raised(Tier::disk, advised_) && options_.budgets.disk.value == 0;
    const bool is_wanted =
        can_be_taken_ ? tier != Tier::disk && (count_raised(advised_) > 1 || wants_a_disk) : true;
    Budgets larger = options_.budgets;
    budget_of(larger, tier) = most(tier, options_);
    if (!graph_ || !is_wanted || !is_raised(tier, larger)) return std::nullopt;
    return raised(larger);
  }

  // All that the machine has. Where devices and host share it, devices get what they were said to need.
  std::optional<std::string> several_budgets() {
    PlanOptions larger = options_;
    Bytes& device = larger.budgets.device;
    device = most(Tier::device, larger);
    if (machine_->device.kind == DeviceKind::cpu) device = std::min(device, advised_.device);
    for (const Tier tier : {Tier::host, Tier::disk}) budget_of(larger.budgets, tier) = most(tier, larger);
    if (!graph_ || count_raised(larger.budgets) < 2) return std::nullopt;
    return raised(larger.budgets);
  }

  // Or no smaller batch or shorter sequence does, which for large models takes seconds each to find.
  bool smaller_may_fit() {
    const bool cut = std::exchange(cut_, false);
    const bool may_fit = fits("the smallest batch", smallest()) || cut_;
    cut_ = cut;
    return may_fit;
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

  std::optional<std::string> smaller_batch() {
    const u32 batch = config_.train.per_device_train_batch_size;
    u32 tries = 0;
    for (u32 times = 2; times <= batch && tries < tries_max; ++times) {
      if (batch % times != 0) continue;
      ++tries;
      Config changed = config_;
      changed.train.per_device_train_batch_size = batch / times;
      changed.train.gradient_accumulation_steps *= times;
      if (fits("smaller batches", changed))
        return fmt::format(
            "train.per_device_train_batch_size={} train.gradient_accumulation_steps={} (as many tokens per "
            "step)",
            batch / times, changed.train.gradient_accumulation_steps);
    }
    return std::nullopt;
  }

  std::optional<std::string> shorter_sequence() {
    Config changed = config_;
    for (u32 i = 0; i < tries_max; ++i) {
      changed.train.sequence_length /= 2;
      if (changed.train.sequence_length < sequence_length_least) return std::nullopt;
      if (fits("shorter sequences", changed))
        return fmt::format("train.sequence_length={}", changed.train.sequence_length);
    }
    return std::nullopt;
  }

  std::optional<std::string> narrower_weights() {
    if (config_.train.precision != Precision::fp32) return std::nullopt;
    Config changed = config_;
    changed.train.precision = Precision::bf16;
    if (!fits("weights in 16 bits", changed)) return std::nullopt;
    return "train.precision=bf16";
  }

  const Config& config_;
  const Result<ModelGraph> graph_;
  PlanOptions options_;
  const std::optional<Machine>& machine_;
  const std::string_view message_;
  const u64 ops_max_;
  const Budgets advised_;    // by the message
  const bool can_be_taken_;  // that advice, by the machine
  u64 worked_on_ = 0;        // ops
  bool cut_ = false;         // something that was not found may fit
  ChangeProgress progress_;
};

}  // namespace

Error add_alternatives(const Config& config, const PlanOptions& options,
                       const std::optional<Machine>& machine, Error error, u64 ops_max) {
  if (error.kind != ErrorKind::does_not_fit) return error;
  std::string message = Alternatives(config, options, machine, error.message, ops_max).message();
  error.message = std::move(message);
  return error;
}

}  // namespace tidepool
