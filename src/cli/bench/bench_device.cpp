#include "cli/bench/bench_device.h"

#include <fmt/format.h>

#include <boost/json.hpp>
#include <cstdio>

#include "base/text/value_text.h"
#include "cli/bench/measured_choice.h"
#include "executor/cpu/cores_device.h"
#include "executor/devices.h"
#include "probe/rates.h"
#include "report/print_text.h"
#include "tidepool/model_graph.h"

namespace tidepool {
namespace {

namespace json = boost::json;

// Shapes on GPUs: the layer of a 7B model at 8k tokens, and the attention of models of that size.
constexpr u32 gemm_tokens = 8192, gemm_hidden = 4096;
constexpr AttentionShape gpu_attention{.sequences = 16, .tokens = 2048, .heads = 32, .head_size = 128};
constexpr AttentionShape cores_attention{.sequences = 1, .tokens = 1024, .heads = 8, .head_size = 128};
constexpr u32 gpu_peak_side = 8192, cores_peak_side = 1024;
constexpr Bytes gpu_plain{256 * mib}, cores_plain{64 * mib};
constexpr Bytes host_memory_least{64 * mib};  // host memory in which the data is generated

json::object json_of(const BenchRow& row, const char* unit) {
  return {{"name", row.name},
          {unit, row.rate()},
          {"fraction", row.fraction},
          {"samples", json::value_from(row.samples)}};
}

std::string rate_text(const BenchRow& row, SampleUnit unit) { return sample_text(unit, row.rate()); }

// Opened holds the device of a benchmark and the objects that the device needs.
struct Opened {
  std::unique_ptr<CorePool> pool;
  std::unique_ptr<Arena> host;
  std::unique_ptr<MeasuredDevice> device;
};

Result<Opened> open_device(const BenchOptions& options, std::optional<u32> gpu, Bytes memory,
                           Bytes host_memory, const std::optional<AttentionToCome>& attention = {}) {
  Opened out;
  TRY_ASSIGN(out.pool, create_core_pool(options.threads, kernel_scratch_per_worker));
  const auto pages = [](Bytes bytes) { return Bytes{round_up(bytes.value, frame_alignment)}; };
  TRY_ASSIGN(out.host, Arena::create({.name = "host", .bytes = pages(host_memory), .pool = out.pool.get()}));
  TRY_ASSIGN(out.device, gpu ? gpu_backend()->open({.gpu = *gpu,
                                                    .memory = pages(memory),
                                                    .host_memory = out.host->memory(),
                                                    .attention = attention})
                             : open_cores(*out.pool, pages(memory), out.host->memory()));
  return out;
}

// RETURNS: the line above a table.
std::string heading(const char* what, const BenchOptions& options, const Opened& opened) {
  const DeviceFacts& facts = opened.device->facts();
  return fmt::format("{} of {}, medians of {}\n", what,
                     facts.gpu ? facts.name : fmt::format("the cores, {} workers", opened.pool->workers()),
                     options.repetitions);
}

json::object json_heading(const BenchOptions& options, const Opened& opened) {
  const DeviceFacts& facts = opened.device->facts();
  return {{"device", facts.gpu ? facts.name : "cpu"},
          {"gpu", facts.gpu},
          {"workers", opened.pool->workers()},
          {"repetitions", options.repetitions}};
}

void print_json(const json::object& object) { print_text("{}\n", json::serialize(object)); }

Result<MeasuredChoice> choose(const BenchOptions& options) {
  TRY_ASSIGN(MeasuredChoice choice, choose_measured(options.device));
  if (!choice.note.empty()) print_text(stderr, "tidepool: {}", choice.note);
  return choice;
}

}  // namespace

// ---- copies

std::string copy_table(const CopyResult& result) {
  constexpr SampleUnit unit = SampleUnit::bytes_per_s;
  std::string out = fmt::format("{:<14}{:>12}{:>12}{:>16}{:>24}\n", "one copy", "h2d", "d2h", "both, sum",
                                "fraction: h2d d2h both");
  const auto line = [&](Bytes piece, const std::array<BenchRow, 3>& ways) {
    out += fmt::format("{:<14}{:>12}{:>12}{:>16}{:>14.2f}{:>5.2f}{:>5.2f}\n", format_size(piece),
                       rate_text(ways[0], unit), rate_text(ways[1], unit), rate_text(ways[2], unit),
                       ways[0].fraction, ways[1].fraction, ways[2].fraction);
  };
  line(result.plain, result.plain_rows);
  for (const CopyResult::Row& row : result.rows) line(row.piece, row.ways);
  return out + fmt::format("Fractions of a plain copy of {}.\n", format_size(result.plain));
}

Result<void> bench_copy(const BenchOptions& options) {
  TRY_ASSIGN(const MeasuredChoice choice, choose(options));
  const Bytes plain = choice.gpu ? gpu_plain : cores_plain;
  TRY_ASSIGN(const Opened opened, open_device(options, choice.gpu, plain * 2, plain * 2));
  std::vector<Bytes> pieces{Bytes{mib}, Bytes{4 * mib}, Bytes{16 * mib}};
  if (plain > Bytes{64 * mib}) pieces.push_back(Bytes{64 * mib});
  TRY_ASSIGN(const CopyResult result,
             bench_copies(*opened.device, plain, pieces, {.repetitions = options.repetitions}));
  if (!options.json) {
    print_text("{}{}",
               heading(choice.gpu ? "Copies of pinned memory" : "Copies within memory", options, opened),
               copy_table(result));
    return {};
  }
  json::object object = json_heading(options, opened);
  const auto ways = [](const std::array<BenchRow, 3>& rows) {
    json::array out;
    for (const BenchRow& row : rows) out.push_back(json_of(row, "bytes_per_second"));
    return out;
  };
  object["plain_bytes"] = result.plain.value;
  object["plain"] = ways(result.plain_rows);
  json::array rows;
  for (const CopyResult::Row& row : result.rows)
    rows.push_back(json::object{{"piece_bytes", row.piece.value}, {"ways", ways(row.ways)}});
  object["pieces"] = rows;
  print_json(object);
  return {};
}

// ---- products

std::string gemm_table(const std::vector<LayerProduct>& products, const std::vector<BenchRow>& rows) {
  std::string out = fmt::format("{:<18}{:>8}{:>8}{:>8}{:>16}{:>14}\n", "", "M", "N", "K", "", "of the best");
  for (u32 i = 0; i < rows.size(); ++i) {
    const ProductShape& s = products[i].shape;
    out += fmt::format("{:<18}{:>8}{:>8}{:>8}{:>16}{:>14.3f}\n", rows[i].name, s.m, s.n, s.k,
                       rate_text(rows[i], SampleUnit::flops_per_s), rows[i].fraction);
  }
  return out;
}

Result<void> bench_gpu_gemm(const BenchOptions& options, u32 gpu) {
  const std::vector<LayerProduct> products = layer_products(gemm_tokens, gemm_hidden);
  TRY_ASSIGN(const Opened opened,
             open_device(options, gpu, product_memory(products, Precision::fp32), host_memory_least));
  const Precision precision = opened.device->facts().has_bf16 ? Precision::bf16 : Precision::fp32;
  TRY_ASSIGN(const std::vector<BenchRow> rows,
             bench_products(*opened.device, products, precision, {.repetitions = options.repetitions}));
  if (!options.json) {
    print_text("{}{}",
               heading(precision == Precision::bf16 ? "bf16 products" : "fp32 products", options, opened),
               gemm_table(products, rows));
    return {};
  }
  json::object object = json_heading(options, opened);
  object["precision"] = name(precision);
  json::array shapes;
  for (u32 i = 0; i < rows.size(); ++i) {
    json::object row = json_of(rows[i], "flops_per_second");
    row["m"] = products[i].shape.m, row["n"] = products[i].shape.n, row["k"] = products[i].shape.k;
    shapes.push_back(row);
  }
  object["shapes"] = shapes;
  print_json(object);
  return {};
}

// ---- attention

std::string attention_table(const AttentionWork& work, const AttentionResult& result) {
  std::string out = fmt::format("{:<12}{:>14}{:>14}{:>14}\n", "", "time", "", "of the peak");
  const double flops[] = {work.forward_flops(), work.backward_flops(),
                          work.forward_flops() + work.backward_flops()};
  for (u32 i = 0; i < result.rows.size(); ++i)
    out += fmt::format("{:<12}{:>14}{:>14}{:>14.3f}\n", result.rows[i].name,
                       sample_text(SampleUnit::seconds, flops[i] / result.rows[i].rate()),
                       rate_text(result.rows[i], SampleUnit::flops_per_s), result.rows[i].fraction);
  return out + fmt::format(
                   "{} x {} tokens{}, {} heads of {}, causal, {}.\n"
                   "Flops: 4 B H T^2 D / 2 forward, 2.5 times that backward.\n"
                   "Peak: a product of {} x {} x {}, {}.\n",
                   work.shape.sequences, work.shape.tokens,
                   work.tile_tokens != 0 ? fmt::format(" in tiles of {}", work.tile_tokens) : "",
                   work.shape.heads, work.shape.head_size, name(work.precision), work.peak_side,
                   work.peak_side, work.peak_side, sample_text(SampleUnit::flops_per_s, result.peak));
}

Result<void> bench_attention(const BenchOptions& options) {
  TRY_ASSIGN(const MeasuredChoice choice, choose(options));
  AttentionWork work{.shape = choice.gpu ? gpu_attention : cores_attention,
                     .precision = Precision::fp32,
                     .peak_side = choice.gpu ? gpu_peak_side : cores_peak_side};
  if (options.tokens != 0) work.shape.sequences = 1, work.shape.tokens = static_cast<u32>(options.tokens);
  const u32 tile = default_tile_tokens(choice.gpu.has_value());
  if (options.tokens > tile) work.tile_tokens = tile;
  AttentionToCome to_come = work.to_come();  // as on GPUs with a library for attention
  to_come.precision = Precision::bf16, to_come.scratch = to_come.scratch / 2;
  TRY_ASSIGN(const Opened opened,
             open_device(options, choice.gpu, work.memory(), host_memory_least, to_come));
  if (opened.device->facts().has_bf16) work.precision = Precision::bf16;
  const std::string& made_by = opened.device->facts().attention;
  TRY_ASSIGN(const AttentionResult result,
             bench_attention(*opened.device, work, {.repetitions = options.repetitions}));
  if (!options.json) {
    print_text("{}{}", heading("Attention", options, opened), attention_table(work, result));
    if (!made_by.empty()) print_text("By {}.\n", made_by);
    return {};
  }
  json::object object = json_heading(options, opened);
  object["sequences"] = work.shape.sequences, object["tokens"] = work.shape.tokens;
  object["heads"] = work.shape.heads, object["head_size"] = work.shape.head_size;
  object["precision"] = name(work.precision);
  object["tile_tokens"] = work.tile_tokens;
  object["library"] = made_by;
  object["peak_flops_per_second"] = result.peak;
  json::array rows;
  for (const BenchRow& row : result.rows) rows.push_back(json_of(row, "flops_per_second"));
  object["attention"] = rows;
  print_json(object);
  return {};
}

}  // namespace tidepool
