// Alternatives tries changes of a config, one kind after another, within a limit of work.
#include "fit/alternatives.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "base/text/budget_text.h"
#include "fit/executor_choice.h"
#include "planner/advice/change_text.h"

namespace tidepool {
namespace {

constexpr u32 sequence_length_least = 32;  // shorter ones help nobody
constexpr u32 tries_max = 4;               // of each kind: for large models a try takes seconds

// Result of a search for a change. `refused`: for a reason other than room.
enum class Answer : u8 { does_not_fit, fits, refused, cut };

template <class Found>
struct Searched {
  Found found{};
  bool cut = false;  // nothing was found, but the search was cut, so there may be something
};

Budgets advised_by(const Error& error, const Budgets& had) {
  return error.changes.empty() ? had : raised_by(error.changes.front(), had);
}

class Alternatives {
 public:
  Alternatives(const Job& job, const PlanOptions& options, const BudgetRoom& room, const Error& error,
               const AlternativesOptions& how)
      : config_(job.config),
        graph_(job.graph),
        options_(options),
        room_(room),
        error_(error),
        how_(how),
        advised_(advised_by(error, options.budgets)),
        can_be_taken_(room.takes(advised_)),
        is_advised_(can_be_taken_ && !error.changes.empty()) {
    options_.advise = false;
  }

  Error add() {
    std::vector<Change> found = all();
    Error out{error_.kind, message(found)};
    if (can_be_taken_) out.changes = error_.changes;
    for (Change& change : found) out.changes.push_back(std::move(change));
    return out;
  }

 private:
  bool is_raised(Tier tier, const Budgets& to) const { return to.of(tier) > options_.budgets.of(tier); }

  u32 count_raised(const Budgets& to) const {
    u32 count = 0;
    for (const Tier tier : all_tiers) count += is_raised(tier, to);
    return count;
  }

  // ---- texts --------------------------------------------------------------------------------------------

  std::string message(std::span<const Change> found) const {
    std::string out = can_be_taken_ ? error_.message : shortages();
    if (found.empty()) return out + nothing_found();
    if (!is_advised_) {
      out += (can_be_taken_ ? "; set " : ": set ") + change_text(found.front());
      found = found.subspan(1);
    }
    std::vector<std::string> others;
    for (const Change& change : found) others.push_back(change_text(change));
    if (!others.empty()) out += fmt::format("; or instead set {}", fmt::join(others, ", or "));
    if (cut_) out += "; other changes may fit, too: the search takes long and was cut short";
    return out;
  }

  std::string nothing_found() const {
    constexpr std::string_view others_may_fit =
        "; other changes may fit: the search takes long and was cut short";
    if (can_be_taken_)
      return fmt::format("; {}use a smaller model{}", is_advised_ ? "or " : "", cut_ ? others_may_fit : "");
    if (cut_) return fmt::format("; use a smaller model or a larger machine{}", others_may_fit);
    return "; found no change that fits this machine: use a smaller model or a larger machine";
  }

  // Lists each tier that is short, with the room that the machine has.
  // REQUIRES: the machine has no room for the advised budgets.
  std::string shortages() const {
    std::string out = "the job does not fit:";
    bool each_fits = true;  // each tier alone
    for (const Tier tier : all_tiers) {
      if (!is_raised(tier, advised_)) continue;
      out += fmt::format("{} {} {}{}", out.back() == ':' ? "" : ";", name(tier),
                         shortage_text(advised_.of(tier), options_.budgets.of(tier)),
                         reserved_text(tier == Tier::device ? options_.device_reserved : Bytes{0}));
      const std::optional<Bytes> most = room_.most(options_.budgets, tier);
      if (!most || advised_.of(tier) <= *most) continue;
      each_fits = false;
      out += most->value == 0
                 ? fmt::format(", but the machine has no {}", name(tier))
                 : fmt::format(", but the machine has {} for it", budget_text(written_below(*most)));
    }
    if (each_fits) out += "; " + shared_memory_text(room_, advised_);
    return out;
  }

  // ---- tries --------------------------------------------------------------------------------------------

  std::vector<Change> all() {
    std::vector<Change> found;
    const auto add = [&](std::optional<Change> change) {
      if (change) found.push_back(*std::move(change));
    };
    for (const Tier tier : all_tiers) add(one_budget(tier));
    if (!can_be_taken_ && found.empty()) add(several_budgets());
    add(automatic_sizes());
    if (smaller_may_fit()) {
      add(smaller_batch());
      if (!how_.resumes) add(shorter_sequence());
    }
    if (!how_.resumes) add(narrower_weights());
    add(on_the_cores());
    return found;
  }

  // Runs `search` within the limits of work.
  template <class Search>
  auto within_limits(std::string_view change, Search&& search) {
    SearchWork work{.ops_max = how_.change_ops_max};
    Searched<decltype(search(work))> out;
    if (worked_on_ >= how_.ops_max) {
      out.cut = true;
      return out;
    }
    if (how_.trying) how_.trying(change);
    out.found = search(work);
    out.cut = work.cut;
    worked_on_ += work.ops;
    return out;
  }

  Answer answer_to(std::string_view change, const Config& changed) {
    Result<Job> job = make_job(changed);
    if (!job) return Answer::refused;
    job->options.budgets.disk = options_.budgets.disk;
    job->options.advise = false;
    const auto said = within_limits(change, [&](SearchWork& work) {
      const Result<void> checked = check_fits(job->graph, job->options, &work);
      if (checked) return Answer::fits;
      return checked.error().kind == ErrorKind::does_not_fit ? Answer::does_not_fit : Answer::refused;
    });
    return said.cut ? Answer::cut : said.found;
  }

  bool fits(std::string_view change, const Config& changed) {
    const Answer answer = answer_to(change, changed);
    cut_ = cut_ || answer == Answer::cut;
    return answer == Answer::fits;
  }

  // Most that a budget can be raised to.
  Bytes most(Tier tier, const Budgets& beside) const {
    constexpr u64 times = 64;  // limit if nobody said how much there is
    if (const std::optional<Bytes> has = room_.most(beside, tier)) return *has;
    const Bytes had = beside.of(tier);
    return tier == Tier::disk ? had : std::max(had, written_below(had * times));
  }

  Change budget_change(const Budgets& larger) const {
    Change change;
    for (const Tier tier : all_tiers)
      if (is_raised(tier, larger)) change.settings.push_back(budget_setting(tier, larger.of(tier)));
    return change;
  }

  std::optional<Change> raised(const Budgets& most) {
    const auto least = within_limits(
        "larger budgets", [&](SearchWork& work) { return least_budgets(graph_, options_, most, &work); });
    cut_ = cut_ || (least.cut && !least.found);
    if (!least.found) return std::nullopt;
    return budget_change(*least.found);
  }

  std::optional<Change> one_budget(Tier tier) {
    const bool wants_a_disk = is_raised(Tier::disk, advised_) && options_.budgets.disk.value == 0;
    const bool is_wanted =
        is_advised_ ? tier != Tier::disk && (count_raised(advised_) > 1 || wants_a_disk) : true;
    Budgets larger = options_.budgets;
    larger.of(tier) = most(tier, options_.budgets);
    if (!is_wanted || !is_raised(tier, larger)) return std::nullopt;
    return raised(larger);
  }

  // Raises budgets to all that the machine has. If devices and host share its memory, devices get what the
  // error says that they need.
  std::optional<Change> several_budgets() {
    Budgets larger = options_.budgets;
    larger.device = most(Tier::device, larger);
    if (room_.is_shared || room_.is_gpu) larger.device = std::min(larger.device, advised_.device);
    for (const Tier tier : {Tier::host, Tier::disk}) larger.of(tier) = most(tier, larger);
    if (count_raised(larger) < 2) return std::nullopt;
    return raised(larger);
  }

  // If false, no smaller batch or shorter sequence fits. This check saves their tries, which take seconds
  // each for large models.
  bool smaller_may_fit() { return answer_to("the smallest batch", smallest()) != Answer::does_not_fit; }

  // A config with as few tokens at a time as any try of the next two kinds. It does not accumulate more:
  // accumulation does not change the room needed, and with as many tokens per step there might be more ops
  // than can be planned.
  Config smallest() const {
    Config changed = config_;
    changed.train.per_device_train_batch_size = 1;
    if (how_.resumes) return changed;
    changed.train.sequence_length = std::max(changed.train.sequence_length >> tries_max,
                                             std::min(sequence_length_least, config_.train.sequence_length));
    return changed;
  }

  // Smaller groups of experts or pieces of sequences than the config names.
  std::optional<Change> automatic_sizes() {
    Config changed = config_;
    Change change;
    if (changed.memory.experts_per_group > 1 && graph_.experts_per_group > 1)
      change.settings.push_back({"memory.experts_per_group", "auto"});
    if (changed.memory.piece_tokens != 0 && graph_.batch.tiled())
      change.settings.push_back({"memory.piece_tokens", "auto"});
    if (change.settings.empty()) return std::nullopt;
    changed.memory.experts_per_group = 0, changed.memory.piece_tokens = 0;
    return fits("smaller groups and pieces", changed) ? std::optional(std::move(change)) : std::nullopt;
  }

  std::optional<Change> smaller_batch() {
    const u32 batch = config_.train.per_device_train_batch_size;
    u32 tries = 0;
    for (u32 times = 2; times <= batch && tries < tries_max; ++times) {
      if (batch % times != 0) continue;
      ++tries;
      Config changed = config_;
      u32& size = changed.train.per_device_train_batch_size;
      u32& accumulation = changed.train.gradient_accumulation_steps;
      size /= times, accumulation *= times;
      if (fits("smaller batches", changed))
        return Change{{{"train.per_device_train_batch_size", fmt::format("{}", size)},
                       {"train.gradient_accumulation_steps", fmt::format("{}", accumulation)}},
                      "as many tokens per step"};
    }
    return std::nullopt;
  }

  std::optional<Change> shorter_sequence() {
    Config changed = config_;
    for (u32 i = 0; i < tries_max; ++i) {
      changed.train.sequence_length /= 2;
      if (changed.train.sequence_length < sequence_length_least) return std::nullopt;
      if (fits("shorter sequences", changed))
        return Change{{{"train.sequence_length", fmt::format("{}", changed.train.sequence_length)}}, ""};
    }
    return std::nullopt;
  }

  std::optional<Change> narrower_weights() {
    if (config_.train.precision != Precision::fp32) return std::nullopt;
    Config changed = config_;
    changed.train.precision = Precision::bf16;
    if (!check_precision(changed)) changed.train.precision = Precision::fp16;
    if (!fits("weights in 16 bits", changed)) return std::nullopt;
    return Change{{{"train.precision", std::string(name(changed.train.precision))}}, ""};
  }

  // Advises the CPU if the device lacks no more than a GPU reserves beside frames: then the config was made
  // for the CPU. A machine file of GPUs rules out the CPU.
  std::optional<Change> on_the_cores() {
    const Bytes had = options_.budgets.device, reserved = options_.device_reserved;
    if (config_.machine.gpus().size() != 1 || !config_.machine.file.empty()) return std::nullopt;
    if (!is_raised(Tier::device, advised_) || advised_.device > had + reserved) return std::nullopt;
    Config changed = config_;
    changed.machine.executor = "cpu";
    if (!fits("training on the cores", changed)) return std::nullopt;
    return Change{{{"machine.executor", "cpu"}}, "the cores train this config unchanged"};
  }

  const Config& config_;
  const ModelGraph& graph_;
  PlanOptions options_;
  const BudgetRoom& room_;
  const Error& error_;
  const AlternativesOptions& how_;
  const Budgets advised_;    // as the error advises
  const bool can_be_taken_;  // the machine has room for advised_
  const bool is_advised_;    // the error advises advised_
  u64 worked_on_ = 0;        // in ops
  bool cut_ = false;         // a search that found nothing was cut, so something may fit
};

}  // namespace

Error add_alternatives(const Job& job, const PlanOptions& options, const BudgetRoom& room, Error error,
                       const AlternativesOptions& how) {
  if (error.kind != ErrorKind::does_not_fit) return error;
  return Alternatives(job, options, room, error, how).add();
}

}  // namespace tidepool
