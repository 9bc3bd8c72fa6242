// Host AdamW next to scaling the same arrays in place (x *= c, all of them, each byte read and
// written): the fraction of the memory's speed that the update reaches. Both are counted in bytes read
// plus bytes written, so the gradient, which AdamW only reads, counts once there and twice here.
#include <fmt/format.h>
#include <sys/mman.h>

#include <array>
#include <boost/json.hpp>
#include <cstdio>
#include <memory>

#include "cli/bench.h"
#include "probe/timing.h"
#include "probe/scale.h"
#include "kernels/adamw.h"
#include "kernels/checksum.h"

namespace tidepool {
namespace {

constexpr u64 chunk_elements =
    16 * mib;  // 64 MiB of fp32: large chunks, as plans for models of this size have
// What an AdamW task takes of each fp32 array.
constexpr u64 scale_piece_bytes = 1 * mib;

// Memory that begins on a huge page, in huge pages where the system gives them.
class Arena {
 public:
  static Result<std::unique_ptr<Arena>> create(u64 bytes) {
    const u64 mapped = bytes + huge_page_bytes;
    void* memory = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
      return Error{ErrorKind::does_not_fit,
                   fmt::format("no memory for arrays of {} bytes; set a smaller --parameters", bytes)};
    madvise(memory, mapped, MADV_HUGEPAGE);  // advice: without it the numbers are only a little lower
    return std::unique_ptr<Arena>(new Arena(memory, mapped));
  }
  ~Arena() { munmap(memory_, mapped_bytes_); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  std::byte* at(u64 offset) const {
    return reinterpret_cast<std::byte*>(round_up(reinterpret_cast<u64>(memory_), huge_page_bytes) + offset);
  }

 private:
  static constexpr u64 huge_page_bytes = 2 * mib;
  Arena(void* memory, u64 bytes) : memory_(memory), mapped_bytes_(bytes) {}
  void* memory_;
  u64 mapped_bytes_;
};

struct Array {
  Kind kind;
  u64 element_bytes;
  u64 offset;  // in the chunk's part of the arena
};

// One precision: its arrays, chunk after chunk, kinds side by side as frames are.
class AdamBench {
 public:
  AdamBench(Precision precision, u64 parameters, CorePool& pool)
      : precision_(precision),
        elements_(std::min(chunk_elements, round_up(parameters, cut_alignment_elements))),
        chunks_(div_up(parameters, elements_)),
        pool_(pool),
        segment_{0, elements_, true} {
    for (Kind kind : {Kind::grad, Kind::param, Kind::master_low, Kind::momentum, Kind::variance}) {
      if (kind == Kind::master_low && precision == Precision::fp32) continue;
      arrays_.push_back({kind, element_bytes(kind, precision), chunk_bytes_});
      chunk_bytes_ += elements_ * arrays_.back().element_bytes;
    }
    for (auto& hashes : hashes_) hashes.resize(div_up(elements_, checksum_block_elements));
  }

  Result<void> prepare() {
    TRY_ASSIGN(arena_, Arena::create(chunks_ * chunk_bytes_));
    for (u64 chunk = 0; chunk < chunks_; ++chunk)
      for (const Array& array : arrays_) {
        fill(array, address(chunk, array));
        cut_pieces(array, address(chunk, array));
      }
    return {};
  }

  void measure(u32 repetitions) {
    for (u32 round = 0; round <= repetitions; ++round) {
      const double scale = seconds_of([&] { scale_all(); });
      const double hashed = seconds_of([&] { update_all(true); });
      const double plain = seconds_of([&] { update_all(false); });
      if (round == 0) continue;  // warms up
      scale_rates_.push_back(static_cast<double>(2 * chunks_ * chunk_bytes_) / scale);
      hashed_rates_.push_back(static_cast<double>(adam_bytes()) / hashed);
      plain_rates_.push_back(static_cast<double>(adam_bytes()) / plain);
    }
  }

  // Every array is read, all but the gradient written.
  u64 bytes_per_parameter() const { return 2 * chunk_bytes_ / elements_ - arrays_[0].element_bytes; }
  double fraction() const { return median_of(hashed_rates_) / median_of(scale_rates_); }

  void print() const {
    fmt::print("{:<11}{:>16}{:>13.1f}{:>19.1f}{:>14.1f}{:>10.3f}\n", name(precision_), bytes_per_parameter(),
               median_of(hashed_rates_) / 1e9, median_of(plain_rates_) / 1e9, median_of(scale_rates_) / 1e9,
               fraction());
  }
  boost::json::object to_json() const {
    return {{"precision", name(precision_)},
            {"bytes_per_parameter", bytes_per_parameter()},
            {"adam_bytes_per_second", median_of(hashed_rates_)},
            {"adam_without_checksums_bytes_per_second", median_of(plain_rates_)},
            {"stream_bytes_per_second", median_of(scale_rates_)},
            {"stream_fraction", fraction()},
            {"adam_samples", boost::json::value_from(hashed_rates_)},
            {"stream_samples", boost::json::value_from(scale_rates_)}};
  }

 private:
  static std::string_view name(Precision precision) { return precision == Precision::fp32 ? "fp32" : "bf16"; }
  std::byte* address(u64 chunk, const Array& array) const {
    return arena_->at(chunk * chunk_bytes_ + array.offset);
  }
  u64 adam_bytes() const { return chunks_ * elements_ * bytes_per_parameter(); }

  // By the workers, so that pages lie where the pool runs. Halves are 1.0 in bf16; small as remainders.
  void fill(const Array& array, std::byte* data) {
    const u64 tasks = div_up(elements_, checksum_block_elements);
    parallel_for(pool_, Priority::high, static_cast<u32>(tasks), [&](u32 task, u32) {
      const u64 begin = task * checksum_block_elements;
      const u64 n = std::min(checksum_block_elements, elements_ - begin);
      if (array.element_bytes == 2)
        std::fill_n(reinterpret_cast<u16*>(data) + begin, n, u16{0x3f80});
      else
        std::fill_n(reinterpret_cast<float*>(data) + begin, n, 0.5f);
    });
  }

  void cut_pieces(const Array& array, std::byte* data) {
    const u64 bytes = elements_ * array.element_bytes;
    for (u64 at = 0; at < bytes; at += scale_piece_bytes)
      pieces_.push_back({data + at, std::min(scale_piece_bytes, bytes - at), array.element_bytes});
  }

  void scale_all() {
    parallel_for(pool_, Priority::high, static_cast<u32>(pieces_.size()), [&](u32 task, u32) {
      const Piece& piece = pieces_[task];
      if (piece.element_bytes == 2)
        scale_halves(reinterpret_cast<u16*>(piece.data), piece.bytes / 2, half_factor_);
      else
        scale_floats(reinterpret_cast<float*>(piece.data), piece.bytes / 4, float_factor_);
    });
  }

  void update_all(bool hashed) {
    const AdamWScalars scalars = adamw_scalars({.learning_rate = 1e-3, .weight_decay = 0.1}, 100, 2.0, 1.0);
    for (u64 chunk = 0; chunk < chunks_; ++chunk) adamw(chunk_of(chunk, hashed), precision_, scalars, pool_);
  }

  AdamWChunk chunk_of(u64 chunk, bool hashed) {
    AdamWChunk c;
    c.elements = elements_;
    c.segments = {&segment_, 1};
    for (const Array& array : arrays_) {
      std::byte* data = address(chunk, array);
      if (array.kind == Kind::grad) c.grad = data;
      if (array.kind == Kind::param) c.param = data;
      if (array.kind == Kind::master_low) c.master_low = data;
      if (array.kind == Kind::momentum) c.momentum = reinterpret_cast<float*>(data);
      if (array.kind == Kind::variance) c.variance = reinterpret_cast<float*>(data);
    }
    if (!hashed) return c;
    c.param_hashes = hashes_[0], c.momentum_hashes = hashes_[1], c.variance_hashes = hashes_[2];
    if (precision_ == Precision::bf16) c.low_hashes = hashes_[3];
    return c;
  }

  struct Piece {
    std::byte* data;
    u64 bytes, element_bytes;
  };

  const Precision precision_;
  const u64 elements_;  // of a chunk
  const u64 chunks_;
  CorePool& pool_;
  const DecaySegment segment_;
  std::vector<Array> arrays_;
  u64 chunk_bytes_ = 0;
  std::unique_ptr<Arena> arena_;
  std::vector<Piece> pieces_;
  std::array<std::vector<u64>, 4> hashes_;
  std::vector<double> scale_rates_, hashed_rates_, plain_rates_;
  // Read at run time, so that the compiler cannot drop a product with 1.
  volatile float float_factor_ = 1.0f;
  volatile u16 half_factor_ = 1;
};

Result<void> run(const BenchOptions& options) {
  TRY_ASSIGN(const auto pool, create_core_pool(options.threads, Bytes{0}));
  boost::json::object json;
  if (!options.json)
    fmt::print(
        "AdamW on {} parameters, {} workers, medians of {}; GB/s read and "
        "written\n{:<11}{:>16}{:>13}{:>19}{:>14}{:>10}\n",
        options.parameters, pool->workers(), options.repetitions, "precision", "bytes/parameter", "AdamW",
        "without checksums", "plain scaling", "fraction");
  for (Precision precision : {Precision::fp32, Precision::bf16}) {
    AdamBench bench(precision, options.parameters, *pool);
    TRY(bench.prepare());
    bench.measure(options.repetitions);
    if (!options.json) bench.print();
    // fp32 is the headline: its fields stand at the top as well.
    if (precision == Precision::fp32) json = bench.to_json();
    json[precision == Precision::fp32 ? "fp32" : "bf16"] = bench.to_json();
  }
  json["parameters"] = options.parameters;
  json["workers"] = pool->workers();
  json["repetitions"] = options.repetitions;
  if (options.json) fmt::print("{}\n", boost::json::serialize(json));
  return {};
}

}  // namespace

int bench_adam(const BenchOptions& options) {
  const auto done = run(options);
  if (done) return 0;
  fmt::print(stderr, "tidepool bench adam: {}\n", done.error().message);
  return exit_code(done.error());
}

}  // namespace tidepool
