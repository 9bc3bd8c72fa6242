#include "session/tuned_products.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <utility>

namespace tidepool {

// Products that no earlier run has timed are looked for again under a lock, and then timed.
Result<std::unique_ptr<TunedProducts>> TunedProducts::open(const std::string& path, ProductTiming timing,
                                                           std::function<void(const std::string&)> say) {
  std::unique_ptr<TunedProducts> out(new TunedProducts(path, std::move(say)));
  out->choices_.may_time = timing != ProductTiming::recall;
  TRY_ASSIGN(out->choices_.known, read_product_file(path));
  if (timing == ProductTiming::keep)
    out->choices_.before_timing = [made = out.get()] { return made->lock(); };
  return out;
}

// A file that can be read but not written or locked does not end the run. Then nothing is timed: algorithms
// that are not kept might differ in the next run, and with them its bits.
Result<void> TunedProducts::lock() {
  Result<ProductFile> file = ProductFile::open(path_, {.say = say_});
  if (file) {
    file_ = std::move(file).value();
    choices_.known = file_->known();
    return {};
  }
  if (file.error().kind == ErrorKind::usage) return file.error();
  choices_.may_time = false;
  notes_.push_back("matrix products that no earlier run has timed use cuBLASLt's first advice: " +
                   file.error().message);
  return {};
}

// Choices that cannot be kept do not end the run, but the next run may choose other algorithms.
void TunedProducts::finish() {
  choices_.before_timing = nullptr;
  std::string text;
  for (const auto& [product, algorithm] : choices_.used) text += algorithm + product + "\n";
  algorithms_ = fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
  std::optional<ProductFile> file = std::exchange(file_, std::nullopt);
  const u64 timed = choices_.timed.size();
  if (timed == 0) return;
  if (!file) {
    notes_.push_back(fmt::format(
        "matrix products: {} timed for this run only, because it keeps nothing for later runs", timed));
    return;
  }
  const Result<void> kept = file->append(choices_.timed);
  notes_.push_back(
      kept ? fmt::format("matrix products: {} timed, the fastest algorithms kept in {}", timed, file->path())
           : fmt::format("matrix products: {} timed, but not kept, so a later run may choose "
                         "other algorithms and differ in its last bits: {}",
                         timed, kept.error().message));
}

}  // namespace tidepool
