#include "probe/disk_meter.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/steady_seconds.h"
#include "base/text/value_text.h"
#include "io/memory_limits.h"

namespace tidepool {
namespace {

namespace fs = std::filesystem;

constexpr Bytes file_max{2 * gib};  // beyond the caches of most drives
constexpr Bytes file_min{64 * mib};
constexpr u64 share_of_free = 4;  // uses at most one part in this many of the free space
constexpr double fill_step_seconds = 0.5;
// One name, not one per process: the next probe finds and clears the directory that a killed probe left
// behind.
constexpr const char* directory_name = "tidepool-probe";

Result<Bytes> space_of(const std::string& dir) {
  std::error_code error;
  if (!fs::is_directory(dir, error))
    return Error{ErrorKind::usage,
                 fmt::format("--disk {}: no such directory; make it, name another one, or leave the disk out "
                             "with --no-disk",
                             dir)};
  const fs::space_info space = fs::space(dir, error);
  if (error) return Error{ErrorKind::io, fmt::format("--disk {}: {}", dir, error.message())};
  const Bytes free{space.available};
  if (free < file_min * share_of_free)
    return Error{
        ErrorKind::io,
        fmt::format("--disk {}: only {} free, and measuring takes {}; free some, name a directory on "
                    "another disk, or leave the disk out with --no-disk",
                    dir, format_bytes(free), format_bytes(file_min * share_of_free))};
  return free;
}

// Adds the probe's own options to a swap file's error, which names a config key that the probe does not have.
Error in_words_of_probe(Error error) {
  error.message += " (memory.swap_dir is --disk here; --no-disk leaves the disk out)";
  return error;
}

}  // namespace

std::string point_key(Bytes block, u32 depth, DiskPattern pattern) {
  return fmt::format("point.{}.{}.{}", block.value, depth, name(pattern));
}

Result<std::unique_ptr<DiskMeter>> DiskMeter::create(const DiskMeterOptions& options) {
  std::unique_ptr<DiskMeter> meter(new DiskMeter(options));
  TRY_ASSIGN(meter->free_, space_of(options.dir));
  if (auto made = meter->make_file(); !made) return in_words_of_probe(made.error());
  TRY(meter->fill());
  return meter;
}

DiskMeter::~DiskMeter() {
  load_.reset();
  file_.reset();
  rmdir(dir_.c_str());  // if a killed probe made the directory, SwapFile does not remove it
}

Result<void> DiskMeter::make_file() {
  dir_ = fmt::format("{}/{}", options_.dir, directory_name);
  const u64 bytes = std::min(file_max.value, free_.value / share_of_free / file_min.value * file_min.value);
  TRY_ASSIGN(file_, SwapFile::create({.dir = dir_, .bytes = Bytes{bytes}}));
  for (const std::string& note : file_->notes()) notes_ += note + "\n";
  return {};
}

// Reads must find written data: space that was only reserved is read without the disk.
Result<void> DiskMeter::fill() {
  DiskLoadOptions load{.backend = options_.backend};
  TRY_ASSIGN(load_, DiskLoad::create(*file_, load));
  const double begin = steady_seconds();
  while (span_ < file_->bytes()) {
    TRY_ASSIGN(span_, load_->fill_on(fill_step_seconds));
    const bool enough = span_ >= file_min && steady_seconds() - begin > options_.fill_seconds;
    if (enough || (options_.stop && options_.stop())) break;
  }
  load.span = span_ = Bytes{span_.value / mib * mib};
  TRY_ASSIGN(load_, DiskLoad::create(*file_, load));
  return {};
}

Result<void> DiskMeter::measure(Rates& rates) {
  for (DiskPattern pattern : {DiskPattern::read, DiskPattern::write, DiskPattern::mixed}) {
    TRY_ASSIGN(const DiskRate rate, load_->run(pattern, options_.slice_seconds));
    rates.add(fmt::format("disk.{}", name(pattern)), fmt::format("disk, {}, 1MiB x 32", name(pattern)),
              SampleUnit::bytes_per_s, rate.bytes_per_second);
  }
  return {};
}

Result<void> DiskMeter::measure_points(Rates& rates) {
  for (Bytes block : point_blocks) {
    for (u32 depth : point_depths) {
      if (options_.stop && options_.stop()) return {};
      TRY_ASSIGN(const auto load,
                 DiskLoad::create(
                     *file_, {.block = block, .depth = depth, .backend = options_.backend, .span = span_}));
      for (DiskPattern pattern : {DiskPattern::read, DiskPattern::write}) {
        TRY_ASSIGN(const DiskRate rate, load->run(pattern, options_.point_seconds));
        rates.add(point_key(block, depth, pattern),
                  fmt::format("disk, {}, {} x {}", name(pattern), format_size(block), depth),
                  SampleUnit::bytes_per_s, rate.bytes_per_second);
      }
    }
  }
  return {};
}

}  // namespace tidepool
