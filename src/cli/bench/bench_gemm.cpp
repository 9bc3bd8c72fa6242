// Compares matrix products as Tidepool runs them (fixed tiles on the core pool) with the simplest use of the
// same library: one single-threaded call per core, each for its share of the rows.
#include <fmt/format.h>

#include <boost/json.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "base/median.h"
#include "cli/bench/bench.h"
#include "kernels/kernels.h"
#include "kernels/matmul/sgemm.h"
#include "probe/timing.h"
#include "report/print_text.h"

namespace tidepool {
namespace {

enum class Form : u8 { forward, input_gradient, weight_gradient };

// Shape is that of the product y [M, N] = x [M, K] w [K, N], or of one of the two products of its backward.
struct Shape {
  const char* name;
  Form form;
  u32 m, n, k;
};
constexpr Shape shapes[] = {
    {"100M qkv", Form::forward, 2048, 2304, 768},
    {"100M mlp in", Form::forward, 2048, 3072, 768},
    {"100M mlp out", Form::forward, 2048, 768, 3072},
    {"100M mlp in, dx", Form::input_gradient, 2048, 3072, 768},
    {"100M mlp in, dw", Form::weight_gradient, 2048, 3072, 768},
    {"1.3B qkv", Form::forward, 256, 6144, 2048},
    {"1.3B mlp in", Form::forward, 256, 8192, 2048},
    {"1.3B mlp out", Form::forward, 256, 2048, 8192},
    {"1.3B mlp in, dx", Form::input_gradient, 256, 8192, 2048},
    {"1.3B mlp in, dw", Form::weight_gradient, 256, 8192, 2048},
};

struct Operands {
  std::vector<float> x, w, y;  // [M, K], [K, N], [M, N]

  explicit Operands(const Shape& s)
      : x(u64{s.m} * s.k, 0.5f), w(u64{s.k} * s.n, 0.25f), y(u64{s.m} * s.n, 1.0f) {}
};

void tiled(const Shape& s, Operands& o, Kernels& kernels) {
  const Param weight{reinterpret_cast<const std::byte*>(o.w.data()), Precision::fp32};
  switch (s.form) {
    case Form::forward:
      return kernels.matmul({.m = s.m,
                             .n = s.n,
                             .k = s.k,
                             .x = o.x.data(),
                             .weight = weight,
                             .bias = {},
                             .y = o.y.data(),
                             .dropout = {}});
    case Form::input_gradient:
      return kernels.matmul({.m = s.m,
                             .n = s.k,
                             .k = s.n,
                             .x = o.y.data(),
                             .weight = weight,
                             .transposed = true,
                             .bias = {},
                             .y = o.x.data(),
                             .dropout = {}});
    case Form::weight_gradient:
      return kernels.weight_gradient({.m = s.m,
                                      .n = s.n,
                                      .k = s.k,
                                      .x = o.x.data(),
                                      .dy = o.y.data(),
                                      .dw = o.w.data(),
                                      .accumulate = false});
  }
}

// RETURNS: the library call that computes rows [begin, end) of the product.
Sgemm plain_call(const Shape& s, Operands& o, u64 begin, u64 end) {
  const u32 rows = static_cast<u32>(end - begin);
  switch (s.form) {
    case Form::forward:
      return {.m = rows,
              .n = s.n,
              .k = s.k,
              .a = o.x.data() + begin * s.k,
              .lda = s.k,
              .b = o.w.data(),
              .ldb = s.n,
              .c = o.y.data() + begin * s.n,
              .ldc = s.n};
    case Form::input_gradient:
      return {.transpose_b = true,
              .m = rows,
              .n = s.k,
              .k = s.n,
              .a = o.y.data() + begin * s.n,
              .lda = s.n,
              .b = o.w.data(),
              .ldb = s.n,
              .c = o.x.data() + begin * s.k,
              .ldc = s.k};
    case Form::weight_gradient:
      break;
  }
  return {.transpose_a = true,
          .m = rows,
          .n = s.n,
          .k = s.m,
          .a = o.x.data() + begin,
          .lda = s.k,
          .b = o.y.data(),
          .ldb = s.n,
          .c = o.w.data() + begin * s.n,
          .ldc = s.n};
}

void plain(const Shape& s, Operands& o, CorePool& pool) {
  const u64 rows = s.form == Form::weight_gradient ? s.k : s.m, workers = pool.workers();
  parallel_for(pool, Priority::normal, pool.workers(), [&](u32 task, u32) {
    sgemm(plain_call(s, o, rows * task / workers, rows * (task + 1) / workers));
  });
}

struct GemmRates {
  double tiled, plain;  // flop/s
};

GemmRates measure(const Shape& s, u32 repetitions, Kernels& kernels, CorePool& pool) {
  Operands operands(s);
  const double flops = 2.0 * s.m * s.n * s.k;
  std::vector<double> tiled_rates, plain_rates;
  for (u32 round = 0; round <= repetitions; ++round) {
    const double tiled_seconds = seconds_of([&] { tiled(s, operands, kernels); });
    const double plain_seconds = seconds_of([&] { plain(s, operands, pool); });
    if (round == 0) continue;  // warm-up
    tiled_rates.push_back(flops / tiled_seconds);
    plain_rates.push_back(flops / plain_seconds);
  }
  return {median(tiled_rates), median(plain_rates)};
}

}  // namespace

Result<void> bench_gemm(const BenchOptions& options) {
  TRY_ASSIGN(const auto pool, create_core_pool(options.threads, kernel_scratch_per_worker));
  const auto kernels = create_cpu_kernels(*pool);
  if (!options.json)
    print_text("fp32 products, {} workers, medians of {}; Gflop/s\n{:<18}{:>6}{:>7}{:>7}{:>10}{:>10}{:>10}\n",
               pool->workers(), options.repetitions, "", "M", "N", "K", "tiles", "plain", "fraction");
  boost::json::array results;
  for (const Shape& s : shapes) {
    const GemmRates rates = measure(s, options.repetitions, *kernels, *pool);
    const double fraction = rates.tiled / rates.plain;
    if (!options.json)
      print_text("{:<18}{:>6}{:>7}{:>7}{:>10.1f}{:>10.1f}{:>10.3f}\n", s.name, s.m, s.n, s.k,
                 rates.tiled / 1e9, rates.plain / 1e9, fraction);
    results.push_back({{"name", s.name},
                       {"m", s.m},
                       {"n", s.n},
                       {"k", s.k},
                       {"tiled_flops_per_second", rates.tiled},
                       {"plain_flops_per_second", rates.plain},
                       {"fraction", fraction}});
  }
  if (options.json)
    print_text("{}\n",
               boost::json::serialize(boost::json::object{
                   {"workers", pool->workers()}, {"repetitions", options.repetitions}, {"shapes", results}}));
  return {};
}

}  // namespace tidepool
