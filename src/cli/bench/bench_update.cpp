// Compares a rule's update on the host with scaling the same arrays in place (x *= c, all arrays, each byte
// read and written): the fraction of the memory's speed that the update reaches. Both are counted in bytes
// read plus bytes written. So the gradient, which an update only reads, counts once for it and twice for
// scaling.
#include <fmt/format.h>

#include <boost/json.hpp>
#include <cstdio>

#include "base/median.h"
#include "cli/bench/bench.h"
#include "probe/timing.h"
#include "probe/update_load.h"
#include "report/print_text.h"

namespace tidepool {
namespace {

// UpdateBench measures one precision.
class UpdateBench {
 public:
  UpdateBench(Precision precision, UpdateLoad& load) : precision_(precision), load_(load) {}

  void measure(u32 repetitions) {
    for (u32 round = 0; round <= repetitions; ++round) {
      const double scale = seconds_of([&] { load_.scale(); });
      const double hashed = seconds_of([&] { load_.update_hashed(); });
      const double plain = seconds_of([&] { load_.update(); });
      if (round == 0) continue;  // warm-up
      scale_rates_.push_back(static_cast<double>(load_.scale_bytes()) / scale);
      hashed_rates_.push_back(static_cast<double>(load_.update_bytes()) / hashed);
      plain_rates_.push_back(static_cast<double>(load_.update_bytes()) / plain);
    }
  }

  double fraction() const { return median(hashed_rates_) / median(scale_rates_); }

  void print() const {
    print_text("{:<11}{:>16.4g}{:>13.1f}{:>19.1f}{:>14.1f}{:>10.3f}\n", name(precision_),
               load_.bytes_per_parameter(), median(hashed_rates_) / 1e9, median(plain_rates_) / 1e9,
               median(scale_rates_) / 1e9, fraction());
  }
  boost::json::object to_json() const {
    return {{"precision", name(precision_)},
            {"bytes_per_parameter", load_.bytes_per_parameter()},
            {"update_bytes_per_second", median(hashed_rates_)},
            {"update_without_checksums_bytes_per_second", median(plain_rates_)},
            {"stream_bytes_per_second", median(scale_rates_)},
            {"stream_fraction", fraction()},
            {"update_samples", boost::json::value_from(hashed_rates_)},
            {"stream_samples", boost::json::value_from(scale_rates_)}};
  }

 private:
  const Precision precision_;
  UpdateLoad& load_;
  std::vector<double> scale_rates_, hashed_rates_, plain_rates_;
};

}  // namespace

Result<void> bench_update(const BenchOptions& options) {
  TRY_ASSIGN(const auto pool, create_core_pool(options.threads, Bytes{0}));
  boost::json::object json;
  if (!options.json)
    print_text(
        "{} on {} parameters, {} workers, medians of {}; GB/s read and "
        "written\n{:<11}{:>16}{:>13}{:>19}{:>14}{:>10}\n",
        optimizer(options.optim).title, options.parameters, pool->workers(), options.repetitions, "precision",
        "bytes/parameter", "update", "without checksums", "plain scaling", "fraction");
  for (Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    TRY_ASSIGN(const auto load, UpdateLoad::create(precision, options.optim, options.parameters, *pool));
    UpdateBench bench(precision, *load);
    bench.measure(options.repetitions);
    if (!options.json) bench.print();
    // fp32 is the main result: its fields are also at the top level.
    if (precision == Precision::fp32) json = bench.to_json();
    json[name(precision)] = bench.to_json();
  }
  json["optim"] = name(options.optim);
  json["parameters"] = options.parameters;
  json["workers"] = pool->workers();
  json["repetitions"] = options.repetitions;
  if (options.json) print_text("{}\n", boost::json::serialize(json));
  return {};
}

}  // namespace tidepool
