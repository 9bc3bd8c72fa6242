#include "trainer/smaller_job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>

#include "trainer/session.h"

namespace tidepool {
namespace {

constexpr u32 sequence_length_least = 32;  // shorter ones are no help to anybody
constexpr u32 tries_max = 4;               // of each kind: large models take seconds each

class SmallerJobs {
 public:
  SmallerJobs(const Config& config, Bytes disk) : config_(config), disk_(disk) {}

  std::vector<std::string> all() const {
    std::vector<std::string> found;
    for (auto kind :
         {&SmallerJobs::smaller_batch, &SmallerJobs::shorter_sequence, &SmallerJobs::narrower_weights})
      if (std::optional<std::string> text = (this->*kind)()) found.push_back(*std::move(text));
    return found;
  }

 private:
  bool fits(const Config& changed) const {
    const Result<ModelGraph> graph = make_graph(changed);
    PlanOptions options = plan_options(changed, disk_);
    options.advise = false;
    return graph && check_fits(*graph, options);
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
  const Bytes disk_;
};

}  // namespace

Error suggest_smaller_job(const Config& config, Bytes disk, Error error) {
  if (error.kind != ErrorKind::does_not_fit) return error;
  const std::vector<std::string> jobs = SmallerJobs(config, disk).all();
  if (jobs.empty())
    error.message += "; or use a smaller model";
  else
    error.message += fmt::format("{}{}", smaller_job_words, fmt::join(jobs, ", or "));
  return error;
}

}  // namespace tidepool
