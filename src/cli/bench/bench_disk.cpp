#include "cli/bench/bench_disk.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cstdio>
#include <vector>

#include "base/median.h"
#include "cli/bench/fio.h"
#include "io/memory_limits.h"
#include "probe/disk_load.h"
#include "report/print_text.h"

namespace tidepool {
namespace {

struct Samples {
  std::vector<double> rates, cpu;
  void add(const DiskRate& rate) {
    rates.push_back(rate.bytes_per_second);
    cpu.push_back(rate.cpu_seconds_per_gb);
  }
};
struct PatternSamples {
  Samples ours, fio;
};

class Bench {
 public:
  explicit Bench(const BenchDiskOptions& options)
      : options_(options),
        load_options_{.block = options.block, .depth = options.depth, .backend = options.backend} {}

  Result<void> run() {
    std::string dir = fmt::format("{}/tidepool-bench-{}", options_.dir, getpid());
    TRY_ASSIGN(file_, SwapFile::create({.dir = dir, .bytes = options_.size}));
    for (const std::string& note : file_->notes()) print_text(stderr, "{}\n", note);
    TRY_ASSIGN(load_, DiskLoad::create(*file_, load_options_));
    has_fio_ = fio_installed();
    TRY(load_->fill());
    // We and fio take turns, and the first changes each round: disks and neighbours' load drift.
    for (u32 round = 0; round < options_.repetitions; ++round) {
      for (u32 p = 0; p < disk_pattern_count; ++p)
        TRY(compare(static_cast<DiskPattern>(p), round % 2 == 0, dir));
    }
    return {};
  }

  void print() const {
    print_text("{}, {} file in {}, blocks of {}, medians of {}\n", load_->describe(),
               format_bytes(options_.size), options_.dir, format_bytes(options_.block), options_.repetitions);
    print_text("{:<8}{:>12}{:>14}{:>12}{:>14}{:>9}\n", "", "MB/s", "CPU s/GB", "fio MB/s", "fio CPU s/GB",
               "/ fio");
    for (u32 p = 0; p < disk_pattern_count; ++p) {
      const PatternSamples& s = samples_[p];
      print_text("{:<8}{:>12.0f}{:>14.4f}", name(static_cast<DiskPattern>(p)), median(s.ours.rates) / 1e6,
                 median(s.ours.cpu));
      if (has_fio_) {
        print_text("{:>12.0f}{:>14.4f}{:>9.3f}", median(s.fio.rates) / 1e6, median(s.fio.cpu), fraction(s));
      }
      print_text("\n");
    }
    if (!has_fio_)
      print_text("fio is not installed, so there is nothing to compare with (apt install fio)\n");
  }

  void print_json() const {
    boost::json::object out{{"dir", options_.dir},
                            {"backend", load_->describe()},
                            {"size_bytes", options_.size.value},
                            {"block_bytes", options_.block.value},
                            {"queue_depth", options_.depth},
                            {"seconds", options_.seconds},
                            {"repetitions", options_.repetitions},
                            {"fio", has_fio_},
                            {"fio_huge_pages", has_fio_}};
    for (u32 p = 0; p < disk_pattern_count; ++p)
      out[name(static_cast<DiskPattern>(p))] = to_json(samples_[p]);
    print_text("{}\n", boost::json::serialize(out));
  }

 private:
  Result<void> compare(DiskPattern pattern, bool ours_first, const std::string& dir) {
    PatternSamples& samples = samples_[static_cast<u32>(pattern)];
    if (ours_first) TRY(run_ours(pattern, samples.ours));
    if (has_fio_) {
      TRY_ASSIGN(DiskRate rate, run_fio(*file_, pattern, load_options_, options_.seconds, dir + "/fio.json"));
      samples.fio.add(rate);
    }
    if (!ours_first) TRY(run_ours(pattern, samples.ours));
    return {};
  }

  Result<void> run_ours(DiskPattern pattern, Samples& samples) {
    TRY_ASSIGN(DiskRate rate, load_->run(pattern, options_.seconds));
    samples.add(rate);
    return {};
  }

  static double fraction(const PatternSamples& s) { return median(s.ours.rates) / median(s.fio.rates); }

  boost::json::object to_json(const PatternSamples& s) const {
    boost::json::object out{{"bytes_per_second", median(s.ours.rates)},
                            {"cpu_seconds_per_gb", median(s.ours.cpu)},
                            {"samples", boost::json::value_from(s.ours.rates)}};
    if (!has_fio_) return out;
    out["fio_bytes_per_second"] = median(s.fio.rates);
    out["fio_cpu_seconds_per_gb"] = median(s.fio.cpu);
    out["fio_fraction"] = fraction(s);
    out["fio_samples"] = boost::json::value_from(s.fio.rates);
    return out;
  }

  BenchDiskOptions options_;
  DiskLoadOptions load_options_;
  std::unique_ptr<SwapFile> file_;
  std::unique_ptr<DiskLoad> load_;
  bool has_fio_ = false;
  PatternSamples samples_[disk_pattern_count];
};

Result<void> check(const BenchDiskOptions& o) {
  const auto usage = [](std::string text) { return Error{ErrorKind::usage, std::move(text)}; };
  if (o.block.value == 0 || o.block.value % frame_alignment != 0)
    return usage(fmt::format("--block: {} is not a multiple of 4KiB", format_bytes(o.block)));
  if (o.size.value % frame_alignment != 0)
    return usage(fmt::format("--size: {} is not a multiple of 4KiB", format_bytes(o.size)));
  if (o.size.value < 4 * o.block.value)
    return usage(fmt::format("--size: {} is too small; at least four blocks, {}", format_bytes(o.size),
                             format_bytes(Bytes{4 * o.block.value})));
  if (!(o.seconds > 0)) return usage(fmt::format("--seconds: {} is too small; above 0", o.seconds));
  return {};
}

}  // namespace

Result<void> bench_disk(const BenchDiskOptions& options) {
  TRY(check(options));
  Bench bench(options);
  TRY(bench.run());
  if (options.json)
    bench.print_json();
  else
    bench.print();
  return {};
}

}  // namespace tidepool
