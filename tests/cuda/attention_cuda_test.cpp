// Tests attention on tensor cores and on fused multiply-adds against its definition in double and against the
// CPU's kernels, on the same values.
#include <fmt/format.h>

#include "kernels/attention/attention_launch.h"
#include "kernels/cuda/kernels_cuda_parts.h"
#include "tests/cuda/attention_reference.h"
#include "tests/cuda/cuda_fixture.h"
#include "tests/support/documents.h"
#include "tests/support/gpu_precision.h"

namespace tidepool::test::attention_cuda_test {

using namespace cuda;

struct Case {
  AttentionShape shape;
  Precision precision;
  float dropout = 0;
  int capability = 90;
  u64 shift = 0;  // elements by which arrays are off the alignment
  bool documents = false;
  std::optional<Precision> sinks{};  // none: no sinks
  bool holes = false;                // prompts that completions share
  u32 tile_tokens = 0;               // the device computes in tiles
};

std::string name(const testing::TestParamInfo<Case>& info) {
  const Case& c = info.param;
  return fmt::format("{}_b{}_t{}_nh{}_nkv{}_d{}{}{}{}{}{}_sm{}{}{}{}", tidepool::name(c.precision),
                     c.shape.sequences, c.shape.tokens, c.shape.heads, c.shape.key_heads(), c.shape.head_size,
                     c.shape.value_size != 0 ? fmt::format("_v{}", c.shape.value_size) : "",
                     c.shape.scale_size != 0 || c.shape.scale_given != 0 ? "_scaled" : "",
                     c.shape.cap != 0 ? fmt::format("_cap{}", static_cast<u32>(c.shape.cap)) : "",
                     c.shape.window != 0 ? fmt::format("_w{}", c.shape.window) : "",
                     c.dropout > 0 ? "_dropout" : "", c.capability, c.shift > 0 ? "_shifted" : "",
                     c.documents ? "_documents" : "",
                     c.sinks ? fmt::format("_sinks_{}", tidepool::name(*c.sinks)) : "") +
         (c.holes ? "_holes" : "") + (c.tile_tokens != 0 ? fmt::format("_tiles{}", c.tile_tokens) : "");
}

using Results = AttentionResults;

// RETURNS: columns [begin, begin + n) of rows of `columns`.
std::vector<float> part_of(const std::vector<float>& rows, u64 columns, u64 begin, u64 n) {
  std::vector<float> part;
  for (u64 at = begin; at < rows.size(); at += columns) {
    part.insert(part.end(), rows.begin() + at, rows.begin() + at + n);
  }
  return part;
}
std::vector<float> third(const std::vector<float>& qkv, u64 hidden, u64 which) {
  return part_of(qkv, 3 * hidden, which * hidden, hidden);
}

Results results(const AttentionShape& s, std::vector<float> out, std::vector<float> lse,
                const std::vector<float>& dqkv, std::vector<float> dsinks) {
  const u64 columns = s.qkv_columns(), keys = s.key_columns();
  return {std::move(out),
          std::move(lse),
          part_of(dqkv, columns, 0, s.query_columns()),
          part_of(dqkv, columns, s.query_columns(), keys),
          part_of(dqkv, columns, s.query_columns() + keys, s.value_columns()),
          std::move(dsinks)};
}

// RETURNS: starts of documents; empty if the case has none.
std::vector<i32> starts_of(const Case& c) {
  if (c.holes) return shared_prompts(c.shape.sequences, c.shape.tokens).starts;
  return c.documents ? growing_documents(c.shape.sequences, c.shape.tokens) : std::vector<i32>();
}

std::vector<KeyHole> holes_of(const Case& c) {
  return c.holes ? shared_prompts(c.shape.sequences, c.shape.tokens).holes : std::vector<KeyHole>();
}

// RETURNS: values that the sinks' precision holds, some above and some below the scores; empty: no sinks.
std::vector<float> sinks_of(const Case& c) {
  if (!c.sinks) return {};
  std::vector<float> sinks = random_floats(c.shape.heads, 3, 3.0f);
  sinks.back() = 4.0f;
  return rounded_to(sinks, *c.sinks);
}
// Content of dsinks before backward adds to it.
constexpr float dsinks_before = 0.5f;

Dropout dropout_of(const Case& c) {
  return {.p = c.dropout, .seed = 1, .step = 2, .micro_batch = 3, .tensor = 4};
}

std::vector<float> stored(const Case& c, const std::vector<float>& out) {
  return rounded_to(out, c.precision);
}

Results on_cpu(const Case& c, const std::vector<float>& qkv, const std::vector<float>& dout) {
  const auto pool = make_pool(2);
  const std::vector<i32> starts = starts_of(c);
  const std::vector<KeyHole> holes = holes_of(c);
  const std::vector<float> sinks = sinks_of(c);
  const Param given_sinks = c.sinks ? Param(sinks.data()) : Param();
  std::vector<float> out(dout.size()), lse(c.shape.lse_elements()), dqkv(qkv.size()),
      dsinks(sinks.size(), dsinks_before);
  attention_cpu({.shape = c.shape,
                 .qkv = qkv.data(),
                 .out = out.data(),
                 .lse = lse.data(),
                 .starts = starts.empty() ? nullptr : starts.data(),
                 .holes = holes.empty() ? nullptr : holes.data(),
                 .dropout = dropout_of(c),
                 .sinks = given_sinks},
                *pool);
  const std::vector<float> kept = stored(c, out);
  attention_backward_cpu({.shape = c.shape,
                          .qkv = qkv.data(),
                          .out = kept.data(),
                          .lse = lse.data(),
                          .dout = dout.data(),
                          .dqkv = dqkv.data(),
                          .starts = starts.empty() ? nullptr : starts.data(),
                          .holes = holes.empty() ? nullptr : holes.data(),
                          .dropout = dropout_of(c),
                          .sinks = given_sinks,
                          .dsinks = c.sinks ? dsinks.data() : nullptr},
                         *pool);
  return results(c.shape, out, lse, dqkv, dsinks);
}

#ifdef CUDA_EMULATED
emulated_cuda::Options options_of(int capability, u64 seed) {
  const u64 shared_kib = capability < 75 ? 96 : capability < 80 ? 64 : 227;
  return {.seed = seed,
          .major = capability / 10,
          .minor = capability % 10,
          .shared_bytes_max = shared_kib * 1024};
}
#endif

class AttentionCudaTest : public CudaTest, public testing::WithParamInterface<Case> {
 protected:
  Results on_device(const Case& c, const DeviceValues& qkv, const DeviceValues& dout) {
    DeviceValues out(dout.given().size(), c.precision, c.shift),
        dqkv(qkv.given().size(), c.precision, c.shift);
    DeviceValues lse(c.shape.lse_elements(), Precision::fp32);
    std::vector<i32> host_starts = starts_of(c);
    host_starts.resize(std::max<u64>(host_starts.size(), 1));
    const DeviceArray documents(host_starts.data(), host_starts.size() * sizeof(i32));
    const i32* const starts = c.documents || c.holes ? documents.as<i32>() : nullptr;
    std::vector<KeyHole> host_holes = holes_of(c);
    host_holes.resize(std::max<u64>(host_holes.size(), 1));
    const DeviceArray device_holes(host_holes.data(), host_holes.size() * sizeof(KeyHole));
    const KeyHole* const holes = c.holes ? device_holes.as<KeyHole>() : nullptr;
    const std::vector<float> host_sinks = sinks_of(c);
    const DeviceValues sinks(c.sinks ? host_sinks : std::vector<float>(1), c.sinks.value_or(c.precision));
    const DeviceValues dsinks(std::vector<float>(std::max<u64>(host_sinks.size(), 1), dsinks_before),
                              Precision::fp32);
    const Param given_sinks = c.sinks ? Param(sinks.values()) : Param();
    if (c.tile_tokens != 0)
      return in_tiles(c, {qkv, dout, starts, holes, given_sinks, c.sinks ? dsinks.values().fp32() : nullptr});
    attention_cuda({.shape = c.shape,
                    .qkv = qkv.values(),
                    .out = out.values(),
                    .lse = lse.values().fp32(),
                    .starts = starts,
                    .holes = holes,
                    .dropout = dropout_of(c),
                    .sinks = given_sinks},
                   stream_);
    attention_backward_cuda({.shape = c.shape,
                             .qkv = qkv.values(),
                             .out = out.values(),
                             .lse = lse.values().fp32(),
                             .dout = dout.values(),
                             .dqkv = dqkv.values(),
                             .starts = starts,
                             .holes = holes,
                             .dropout = dropout_of(c),
                             .sinks = given_sinks,
                             .dsinks = c.sinks ? dsinks.values().fp32() : nullptr},
                            stream_);
    synchronize();
    return results(c.shape, out.now(), lse.now(), dqkv.now(), c.sinks ? dsinks.now() : std::vector<float>());
  }

  struct TiledInput {
    const DeviceValues &qkv, &dout;
    const i32* starts;
    const KeyHole* holes;
    Param sinks;
    float* dsinks;
  };
  // Tiles forward in order, and backward from the last to the first. The past has the keys and values of the
  // whole sequence, of which a tile sees those up to its own.
  Results in_tiles(const Case& c, const TiledInput& in) {
    const AttentionShape& s = c.shape;
    const u64 columns = s.qkv_columns(), key_columns = s.key_columns() + s.value_columns();
    const DeviceValues past(part_of(in.qkv.given(), columns, s.query_columns(), key_columns), c.precision);
    const DeviceValues dpast(std::vector<float>(s.tokens * key_columns, 0.0f), Precision::fp32);
    DeviceValues out(in.dout.given().size(), c.precision), dqkv(in.qkv.given().size(), c.precision);
    DeviceValues lse(s.lse_elements(), Precision::fp32);
    const auto of_tile = [&](u32 first) {
      AttentionShape shape = s;
      shape.tokens = std::min(c.tile_tokens, s.tokens - first);
      return shape;
    };
    const auto from = [](auto* array, u32 first) { return array == nullptr ? nullptr : array + first; };
    // The lse of a tile is [NH, tokens of the tile]; tiles follow each other.
    for (u32 first = 0; first < s.tokens; first += c.tile_tokens)
      attention_cuda({.shape = of_tile(first),
                      .tile = {past.values(), first, c.tile_tokens},
                      .qkv = ConstValues(in.qkv.values()).at(first * columns),
                      .out = Values(out.values()).at(u64{first} * s.out_columns()),
                      .lse = lse.values().fp32() + u64{first} * s.heads,
                      .starts = from(in.starts, first),
                      .holes = from(in.holes, first),
                      .sinks = in.sinks},
                     stream_);
    for (u32 first = (s.tokens - 1) / c.tile_tokens * c.tile_tokens;; first -= c.tile_tokens) {
      attention_backward_cuda({.shape = of_tile(first),
                               .tile = {past.values(), first, c.tile_tokens},
                               .qkv = ConstValues(in.qkv.values()).at(first * columns),
                               .out = Values(out.values()).at(u64{first} * s.out_columns()),
                               .lse = lse.values().fp32() + u64{first} * s.heads,
                               .dout = ConstValues(in.dout.values()).at(u64{first} * s.out_columns()),
                               .dqkv = Values(dqkv.values()).at(first * columns),
                               .dpast = dpast.values().fp32(),
                               .starts = from(in.starts, first),
                               .holes = from(in.holes, first),
                               .sinks = in.sinks,
                               .dsinks = in.dsinks},
                              stream_);
      if (first == 0) break;
    }
    synchronize();
    const std::vector<float> tiled_lse = lse.now(), dkv = dpast.now();
    std::vector<float> all_lse(tiled_lse.size());
    for (u32 first = 0; first < s.tokens; first += c.tile_tokens)
      for (u32 head = 0; head < s.heads; ++head)
        for (u32 row = 0; row < of_tile(first).tokens; ++row)
          all_lse[u64{head} * s.tokens + first + row] =
              tiled_lse[u64{first} * s.heads + u64{head} * of_tile(first).tokens + row];
    return {out.now(),
            all_lse,
            part_of(dqkv.now(), columns, 0, s.query_columns()),
            part_of(dkv, key_columns, 0, s.key_columns()),
            part_of(dkv, key_columns, s.key_columns(), s.value_columns()),
            {}};
  }
#ifdef CUDA_EMULATED
  // Restarts a device of the case's kind with another order of blocks and threads.
  void restart(const Case& c, u64 seed) {
    ASSERT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
    emulated_cuda::reset(options_of(c.capability, seed));
    make_stream();
  }
#else
  void restart(const Case&, u64) {}  // a real device cannot be changed, and every run has another order
#endif
};

// bf16: a stored value is rounded once, at most 2^-8 of the value and 2^-8 / sqrt(3) = 2.3e-3 of the norm if
// errors are spread evenly. Before that, p and ds are rounded to nearest even as factors of the last product
// (2^-9, at most 1.2e-3 of the norm, less as terms average out), and dq and dk are computed from out, which
// was rounded too. The squares add.
struct Tolerance {
  double out, gradient;
};
Tolerance tolerance_of(Precision precision) {
  if (precision == Precision::fp16) return {6e-4, 8e-4};  // three more bits
  return precision == Precision::fp32 ? Tolerance{1e-5, 1e-5} : Tolerance{3.5e-3, 5e-3};
}

// With one key dq and dk are 0 but for the rounding of terms that cancel, which are as large as dv.
double gradient_error(const std::vector<float>& got, const std::vector<float>& want,
                      const std::vector<float>& dv) {
  double difference = 0, norm = 0, of_terms = 0;
  for (u64 i = 0; i < want.size(); ++i) {
    difference += std::pow(double(got[i]) - double(want[i]), 2);
    norm += std::pow(double(want[i]), 2);
  }
  for (const float term : dv) of_terms += std::pow(double(term), 2);
  return std::sqrt(difference / std::max(norm, 0x1p-20 * of_terms));
}

void expect_close(const Results& got, const Results& want, const Tolerance& tolerance) {
  EXPECT_LE(relative_error(got.out, want.out), tolerance.out);
  EXPECT_LE(relative_error(got.lse, want.lse), 1e-5);
  EXPECT_LE(gradient_error(got.dq, want.dq, want.dv), tolerance.gradient);
  EXPECT_LE(gradient_error(got.dk, want.dk, want.dv), tolerance.gradient);
  EXPECT_LE(relative_error(got.dv, want.dv), tolerance.gradient);
  // Terms of both signs cancel in the few sums, so errors of a stored out weigh more.
  if (!want.dsinks.empty()) {
    EXPECT_LE(relative_error(got.dsinks, want.dsinks), 4 * tolerance.gradient);
  }
}

// RETURNS: dsinks that follow from the out and the lse that the device has stored.
std::vector<double> dsinks_of(const Case& c, const Results& got, const std::vector<float>& dout) {
  const AttentionShape& s = c.shape;
  const std::vector<float> sinks = sinks_of(c);
  const u32 width = s.value_head_size();
  std::vector<double> dsinks(sinks.size(), dsinks_before);
  for (u64 i = 0; i < got.lse.size() && c.sinks; ++i) {
    const u64 head = i / s.tokens % s.heads, sequence = i / s.tokens / s.heads;
    const u64 first = ((sequence * s.tokens + i % s.tokens) * s.heads + head) * width;
    double delta = 0;
    for (u32 e = 0; e < width; ++e) delta += double(dout[first + e]) * got.out[first + e];
    dsinks[head] -= std::exp(double(sinks[head]) - got.lse[i]) * delta;
  }
  return dsinks;
}

TEST_P(AttentionCudaTest, MatchesReferenceAndCpu) {
  const Case c = GetParam();
#ifndef CUDA_EMULATED
  if (c.shift != 0 &&
      cuda::attention_units(c.precision, c.shape, gpu_capability()) != cuda::AttentionUnits::fma)
    GTEST_SKIP() << "this GPU's tensor cores take only aligned rows";
#endif
  const u64 rows = u64{c.shape.sequences} * c.shape.tokens;
  const auto qkv_floats = random_floats(rows * c.shape.qkv_columns(), 1);
  const std::vector<i32> starts = starts_of(c);
  const std::vector<KeyHole> holes = holes_of(c);
  const auto dout_floats = random_floats(rows * c.shape.out_columns(), 2);
  restart(c, 7);
  Results got, again;
  {
    const DeviceValues qkv(qkv_floats, c.precision, c.shift), dout(dout_floats, c.precision, c.shift);
    const Results cpu = on_cpu(c, qkv.given(), dout.given());
    const std::vector<float> out = stored(c, cpu.out);
    got = on_device(c, qkv, dout);
    if (c.sinks) {
      EXPECT_LE(relative_error(got.dsinks, dsinks_of(c, got, dout.given())), 2e-5);
    }
    {
      SCOPED_TRACE("the CPU");
      expect_close(got, cpu, tolerance_of(c.precision));
    }
    SCOPED_TRACE("the reference");
    Results want = attention_reference(c.shape, qkv.given(), dout.given(), &out, dropout_of(c),
                                       starts.empty() ? nullptr : starts.data(), sinks_of(c),
                                       holes.empty() ? nullptr : holes.data());
    for (float& dsink : want.dsinks) dsink += dsinks_before;
    expect_close(got, want, tolerance_of(c.precision));
  }
  restart(c, 1234);
  const DeviceValues qkv(qkv_floats, c.precision, c.shift), dout(dout_floats, c.precision, c.shift);
  again = on_device(c, qkv, dout);
  for (auto part :
       {&Results::out, &Results::lse, &Results::dq, &Results::dk, &Results::dv, &Results::dsinks}) {
    EXPECT_TRUE(same_bits(got.*part, again.*part));
  }
}

constexpr AttentionShape one(u32 tokens, u32 head_size, u32 heads = 1, u32 sequences = 1) {
  return {.sequences = sequences, .tokens = tokens, .heads = heads, .head_size = head_size};
}
constexpr AttentionShape grouped(u32 tokens, u32 head_size, u32 heads, u32 kv_heads, u32 sequences = 1) {
  return {
      .sequences = sequences, .tokens = tokens, .heads = heads, .head_size = head_size, .kv_heads = kv_heads};
}
// Gemma's: scores divided by another root than the head's size.
constexpr AttentionShape scaled_by(u32 size) {
  AttentionShape shape = grouped(130, 64, 4, 1);
  shape.scale_size = size;
  return shape;
}
constexpr AttentionShape windowed(u32 tokens, u32 head_size, u32 window) {
  AttentionShape shape = grouped(tokens, head_size, 4, 2);
  shape.window = window;
  return shape;
}
constexpr Precision bf16 = Precision::bf16, fp16 = Precision::fp16, fp32 = Precision::fp32;

INSTANTIATE_TEST_SUITE_P(TensorCores, AttentionCudaTest,
                         testing::Values(Case{one(1, 64), bf16}, Case{one(63, 64, 2), bf16},
                                         Case{one(64, 64, 1, 2), bf16, 0.2f}, Case{one(65, 64), bf16},
                                         Case{one(200, 64, 2, 2), bf16, 0.1f}, Case{one(200, 80), bf16},
                                         Case{one(130, 40, 2, 2), bf16, 0.2f}, Case{one(97, 72), bf16},
                                         Case{one(65, 80, 2), bf16, 0.2f}, Case{one(200, 96), bf16},
                                         Case{one(64, 96), bf16, 0.2f}, Case{one(200, 128), bf16},
                                         Case{one(65, 128, 2), bf16, 0.2f},
                                         Case{one(300, 8, 3, 2), bf16, 0.1f}, Case{one(65, 48, 2), bf16},
                                         Case{one(70, 200), bf16, 0.2f}, Case{one(100, 256), bf16}),
                         name);
// The last tile is shorter; tiles begin at no multiple of the kernels' blocks.
INSTANTIATE_TEST_SUITE_P(
    Tiles, AttentionCudaTest,
    testing::Values(
        Case{.shape = one(200, 64, 2), .precision = bf16, .tile_tokens = 64},
        Case{.shape = grouped(230, 64, 4, 2), .precision = bf16, .tile_tokens = 88},
        Case{.shape = windowed(200, 64, 50), .precision = fp16, .tile_tokens = 72},
        Case{.shape = grouped(150, 128, 4, 2),
             .precision = fp16,
             .capability = 70,
             .documents = true,
             .tile_tokens = 40},
        Case{.shape = grouped(150, 20, 4, 2), .precision = fp32, .documents = true, .tile_tokens = 61},
        Case{.shape = grouped(130, 128, 4, 1), .precision = bf16, .holes = true, .tile_tokens = 48}),
    name);
INSTANTIATE_TEST_SUITE_P(TensorCoresFp16, AttentionCudaTest,
                         testing::Values(Case{one(2, 64), fp16}, Case{one(65, 64, 2), fp16, 0, 75},
                                         Case{one(200, 64, 2, 2), fp16, 0.1f}, Case{one(97, 72), fp16, 0, 75},
                                         Case{one(65, 80, 2), fp16, 0.2f}, Case{one(200, 96), fp16},
                                         Case{one(130, 128), fp16, 0.2f, 80}, Case{one(100, 256), fp16}),
                         name);
// sm_70 has another instruction, whose lanes hold other elements.
INSTANTIATE_TEST_SUITE_P(
    TensorCoresSm70, AttentionCudaTest,
    testing::Values(Case{one(2, 64), fp16, 0, 70}, Case{one(63, 64, 2), fp16, 0, 70},
                    Case{one(64, 64, 1, 2), fp16, 0.2f, 70}, Case{one(200, 64, 2, 2), fp16, 0.1f, 70},
                    Case{one(65, 32), fp16, 0.2f, 70}, Case{one(300, 8, 3, 2), fp16, 0.1f, 70},
                    Case{one(97, 72), fp16, 0.1f, 70}, Case{one(200, 80), fp16, 0, 70},
                    Case{one(130, 96, 2), fp16, 0.2f, 70}, Case{one(200, 128), fp16, 0, 72},
                    Case{one(132, 128, 2), fp16, 0.2f, 70}, Case{one(100, 256), fp16, 0, 70},
                    Case{one(70, 200), fp16, 0.2f, 70}, Case{grouped(200, 64, 8, 2), fp16, 0, 70},
                    Case{grouped(300, 64, 2, 2), fp16, 0.1f, 70, 0, true},
                    Case{grouped(300, 128, 4, 1), fp16, 0, 70, 0, true},
                    Case{grouped(200, 80, 4, 2), fp16, 0.2f, 70, 0, true},
                    Case{grouped(100, 256, 2, 1), fp16, 0, 70, 0, true}),
    name);
// Heads above 256 columns run on fused multiply-adds in every precision.
INSTANTIATE_TEST_SUITE_P(LargeHeads, AttentionCudaTest,
                         testing::Values(Case{one(40, 512), fp32}, Case{one(33, 512, 2), bf16, 0.2f},
                                         Case{grouped(40, 512, 4, 2), bf16, 0, 90, 0, true},
                                         Case{grouped(35, 320, 2, 1), fp16, 0.1f, 70, 0, true},
                                         Case{one(17, 258), fp32, 0.2f}, Case{windowed(60, 512, 20), bf16}),
                         name);
// Rows that are not whole vectors, unaligned arrays, and rows of probabilities not aligned to Philox's
// blocks.
INSTANTIATE_TEST_SUITE_P(OddOnes, AttentionCudaTest,
                         testing::Values(Case{one(65, 20, 3), bf16, 0.2f},
                                         Case{one(33, 7, 3, 2), bf16, 0, 90, 3}, Case{one(18, 1, 5), bf16},
                                         Case{one(18, 1, 5), fp32}, Case{one(17, 33, 2), fp32, 0.2f, 90, 1}),
                         name);
INSTANTIATE_TEST_SUITE_P(
    MultiplyAdds, AttentionCudaTest,
    testing::Values(Case{one(2, 64), fp32}, Case{one(63, 64, 2), fp32}, Case{one(64, 64, 1, 2), fp32, 0.2f},
                    Case{one(65, 80), fp32}, Case{one(200, 64), fp32, 0.1f}, Case{one(65, 96, 2), fp32},
                    Case{one(65, 128), fp32, 0.2f}, Case{one(65, 8, 3, 2), fp32}, Case{one(65, 48), fp32},
                    Case{one(33, 40, 2), fp32, 0.2f}, Case{one(33, 72), fp32}, Case{one(40, 200), fp32, 0.2f},
                    Case{one(65, 64, 2), bf16, 0.2f, 70}, Case{one(40, 128), bf16, 0, 70},
                    Case{one(65, 20, 2), fp16, 0.2f, 70}, Case{one(18, 1, 5), fp16}),
    name);

// Grouped queries; documents of 1, 2, 3 ... tokens, so that some blocks and warps see several documents, or
// none.
INSTANTIATE_TEST_SUITE_P(GroupedAndPacked, AttentionCudaTest,
                         testing::Values(Case{grouped(200, 64, 4, 2), bf16}, Case{scaled_by(24), bf16},
                                         Case{scaled_by(24), fp32}, Case{scaled_by(24), fp16, 0, 70},
                                         Case{grouped(65, 64, 8, 1, 2), bf16, 0.2f},
                                         Case{grouped(300, 64, 2, 2), bf16, 0, 90, 0, true},
                                         Case{grouped(300, 128, 4, 1), bf16, 0, 90, 0, true},
                                         Case{grouped(200, 128, 2, 1), bf16, 0.2f, 90, 0, true},
                                         Case{grouped(200, 80, 4, 2), fp16, 0, 75, 0, true},
                                         Case{grouped(130, 96, 2, 1), fp16, 0.1f, 80},
                                         Case{grouped(100, 256, 2, 1), fp16, 0, 90, 0, true},
                                         Case{grouped(70, 128, 2, 1), fp16, 0, 75, 0, true},
                                         Case{grouped(130, 16, 4, 1, 2), bf16, 0.1f, 90, 0, true},
                                         Case{grouped(70, 20, 4, 2), bf16, 0.2f, 90, 0, true},
                                         Case{grouped(130, 64, 4, 2), fp32, 0.1f, 90, 0, true},
                                         Case{grouped(65, 128, 8, 1), fp32},
                                         Case{grouped(40, 200, 2, 1), fp32, 0, 90, 0, true},
                                         Case{grouped(65, 80, 2, 1), bf16, 0.1f, 70, 1, true}),
                         name);

// Windows shorter than a tile, of a tile, across tiles; with documents and dropout.
INSTANTIATE_TEST_SUITE_P(
    Windows, AttentionCudaTest,
    testing::Values(Case{windowed(200, 64, 2), bf16}, Case{windowed(200, 64, 37), bf16, 0.2f},
                    Case{windowed(300, 64, 64), bf16}, Case{windowed(300, 128, 130), bf16, 0, 90, 0, true},
                    Case{windowed(200, 96, 50), fp16, 0, 75}, Case{windowed(200, 64, 37), fp16, 0.1f, 70},
                    Case{windowed(300, 128, 100), fp16, 0, 70, 0, true}, Case{windowed(100, 256, 20), fp16},
                    Case{windowed(130, 64, 30), fp32, 0.1f},
                    Case{windowed(130, 20, 50), fp32, 0, 90, 0, true},
                    Case{windowed(65, 80, 9), bf16, 0.1f, 70, 1, true}),
    name);

// DeepSeek-V3: v is narrower than k, and scores have a factor of their own. Also v wider than k, and widths
// that need tiles of two sizes.
constexpr AttentionShape with_values(AttentionShape shape, u32 value_size, float scale = 0) {
  shape.value_size = value_size, shape.scale_given = scale;
  return shape;
}
INSTANTIATE_TEST_SUITE_P(
    ValueSizes, AttentionCudaTest,
    testing::Values(Case{with_values(one(130, 192, 2), 128, 0.1352f), bf16},
                    Case{with_values(one(70, 192, 2), 128), bf16, 0.1f, 90, 0, true},
                    Case{with_values(one(65, 192), 128, 0.1352f), fp16, 0, 75},
                    Case{with_values(one(65, 192, 2), 128, 0.1352f), fp16, 0, 70},
                    Case{with_values(one(40, 192, 2), 128, 0.1352f), fp32},
                    Case{with_values(grouped(130, 24, 4, 2, 2), 16, 0.3f), bf16, 0.2f, 90, 0, true, bf16},
                    Case{with_values(grouped(200, 64, 4, 1), 128), bf16},
                    Case{with_values(windowed(130, 40, 30), 64), fp16, 0, 70},
                    Case{with_values(grouped(65, 64, 2, 1), 20), bf16},
                    Case{with_values(grouped(65, 20, 4, 2), 64), fp32, 0.1f, 90, 1, true, fp32},
                    Case{with_values(grouped(40, 24, 2, 1), 7, 0.5f), fp32},
                    Case{with_values(one(65, 128, 2), 96), bf16, 0.1f, 70}),
    name);

// Parameters may have another precision than activations.
INSTANTIATE_TEST_SUITE_P(Sinks, AttentionCudaTest,
                         testing::Values(Case{grouped(200, 64, 4, 2), bf16, 0, 90, 0, false, fp32},
                                         Case{grouped(130, 64, 8, 1, 2), bf16, 0.2f, 90, 0, true, bf16},
                                         Case{windowed(200, 64, 37), bf16, 0, 90, 0, false, bf16},
                                         Case{grouped(65, 128, 4, 2), bf16, 0.1f, 90, 0, false, bf16},
                                         Case{grouped(70, 200, 2, 1), bf16, 0, 90, 0, false, fp32},
                                         Case{grouped(130, 64, 4, 2), fp16, 0, 75, 0, true, fp16},
                                         Case{windowed(130, 64, 37), fp16, 0.1f, 70, 0, true, fp16},
                                         Case{grouped(65, 80, 3, 1), fp16, 0, 70, 0, false, fp32},
                                         Case{grouped(130, 64, 4, 2, 2), fp32, 0, 90, 0, false, fp32},
                                         Case{windowed(70, 20, 9), fp32, 0.2f, 90, 1, true, bf16},
                                         Case{one(18, 1, 5), bf16, 0, 90, 0, false, bf16},
                                         Case{grouped(65, 80, 2, 1), bf16, 0.1f, 70, 1, true, bf16}),
                         name);

// Soft caps, some far below the scores.
constexpr AttentionShape capped_at(AttentionShape shape, float cap, float scale = 0) {
  shape.cap = cap, shape.scale_given = scale;
  return shape;
}
INSTANTIATE_TEST_SUITE_P(
    SoftCaps, AttentionCudaTest,
    testing::Values(Case{capped_at(one(200, 64, 2, 2), 2), bf16},
                    Case{capped_at(one(130, 256), 1, 0.5f), bf16},
                    Case{capped_at(grouped(130, 128, 4, 2), 5, 0.3f), bf16, 0.2f},
                    Case{capped_at(windowed(200, 64, 37), 1), bf16, 0.1f, 90, 0, true},
                    Case{capped_at(windowed(200, 96, 50), 50), bf16, 0, 80, 0, true},
                    Case{capped_at(grouped(200, 80, 4, 2), 2), fp16, 0, 75, 0, true},
                    Case{capped_at(grouped(130, 64, 4, 2), 2), fp16, 0, 90, 0, false, fp16},
                    Case{capped_at(windowed(130, 64, 37), 1), fp16, 0.1f, 70, 0, true, fp16},
                    Case{capped_at(one(100, 256), 3, 0.4f), fp16, 0, 70},
                    Case{capped_at(one(65, 32), 1), fp16, 0, 70}, Case{capped_at(one(130, 64, 2), 1), fp32},
                    Case{capped_at(one(40, 200), 50), fp32, 0.2f},
                    Case{capped_at(windowed(130, 20, 50), 1, 0.7f), fp32, 0, 90, 0, true},
                    Case{capped_at(one(65, 20, 3), 2), bf16, 0.2f}, Case{capped_at(one(1, 64), 1), bf16}),
    name);

constexpr Case with_holes(Case c) {
  c.holes = true;
  return c;
}
INSTANTIATE_TEST_SUITE_P(Holes, AttentionCudaTest,
                         testing::Values(with_holes({grouped(400, 64, 4, 2), bf16}),
                                         with_holes({grouped(300, 128, 2, 1), bf16, 0.2f}),
                                         with_holes({grouped(130, 40, 2, 2, 2), fp16, 0, 75}),
                                         with_holes({grouped(300, 64, 2, 1), fp16, 0.1f, 70}),
                                         with_holes({capped_at(one(260, 64, 2), 1, 0.7f), bf16}),
                                         with_holes({grouped(300, 32, 2, 1), fp32}),
                                         with_holes({grouped(200, 256, 2, 1), fp32, 0.2f, 90, 0, false,
                                                     fp32}),
                                         with_holes({grouped(100, 256, 2, 1), bf16})),
                         name);

// Documents that begin and end with tiles, and a document that spans several tiles.
TEST_P(AttentionCudaTest, DocumentsAreAsIfAlone) {
  Case c = GetParam();
  if (!c.documents) return;
  restart(c, 11);
  const std::vector<u32> lengths = {64, 64, 150, 1, 41};
  std::vector<i32> starts;
  for (const u32 length : lengths) starts.insert(starts.end(), length, static_cast<i32>(starts.size()));
  c.shape.tokens = static_cast<u32>(starts.size());
  c.shape.sequences = 1;
  const auto qkv = random_floats(u64{c.shape.tokens} * c.shape.qkv_columns(), 1);
  const auto run = [&](u32 first, u32 tokens, const i32* documents) {
    AttentionShape shape = c.shape;
    shape.tokens = tokens;
    const auto from = qkv.begin() + u64{first} * shape.qkv_columns();
    const DeviceValues rows(std::vector<float>(from, from + u64{tokens} * shape.qkv_columns()), c.precision);
    const DeviceValues out(u64{tokens} * shape.out_columns(), c.precision);
    const DeviceArray device(starts.data(), starts.size() * sizeof(i32));
    attention_cuda({.shape = shape,
                    .qkv = rows.values(),
                    .out = out.values(),
                    .starts = documents == nullptr ? nullptr : device.as<i32>()},
                   stream_);
    synchronize();
    return out.now();
  };
  const std::vector<float> packed = run(0, c.shape.tokens, starts.data());
  std::vector<float> alone;
  u32 first = 0;
  for (const u32 length : lengths) {
    const std::vector<float> one_document = run(first, length, nullptr);
    alone.insert(alone.end(), one_document.begin(), one_document.end());
    first += length;
  }
  EXPECT_LE(relative_error(packed, alone), tolerance_of(c.precision).out);
}

class AttentionCudaForward : public CudaTest {};

#ifdef CUDA_EMULATED
class AttentionCudaBanks : public CudaTest, public testing::WithParamInterface<int> {};  // by capability
INSTANTIATE_TEST_SUITE_P(Capabilities, AttentionCudaBanks, testing::Values(70, 90));

// Checks every tile's layout: elements that lanes read together lie in different banks.
TEST_P(AttentionCudaBanks, HaveNoConflicts) {
  ASSERT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
  emulated_cuda::reset(options_of(GetParam(), 1));
  make_stream();
  const u64 before = emulated_cuda::shared_bank_conflicts();
  for (u32 head_size : attention_tensor_sizes) {
    const AttentionShape shape = one(130, head_size);
    const DeviceValues qkv(random_floats(130 * 3 * head_size, 1), fp16),
        dout(random_floats(130 * head_size, 2), fp16);
    DeviceValues out(130 * head_size, fp16), lse(130, fp32), dqkv(130 * 3 * head_size, fp16);
    attention_cuda({.shape = shape, .qkv = qkv.values(), .out = out.values(), .lse = lse.values().fp32()},
                   stream_);
    attention_backward_cuda({.shape = shape,
                             .qkv = qkv.values(),
                             .out = out.values(),
                             .lse = lse.values().fp32(),
                             .dout = dout.values(),
                             .dqkv = dqkv.values()},
                            stream_);
    synchronize();
    EXPECT_EQ(emulated_cuda::shared_bank_conflicts(), before) << head_size;
  }
}
#endif

TEST_F(AttentionCudaForward, OmitsLseIfItIsNotRequested) {
  for (Precision precision : {bf16, fp32}) {
    const AttentionShape shape = one(65, 64);
    const DeviceValues qkv(random_floats(65 * 192, 1), precision);
    DeviceValues out(65 * 64, precision), same(65 * 64, precision), lse(65, fp32);
    attention_cuda({.shape = shape, .qkv = qkv.values(), .out = out.values()}, stream_);
    attention_cuda({.shape = shape, .qkv = qkv.values(), .out = same.values(), .lse = lse.values().fp32()},
                   stream_);
    synchronize();
    EXPECT_TRUE(same_bits(out.now(), same.now()));
  }
}

// A single token sees only itself: its value passes through, and scores have no gradient.
TEST_F(AttentionCudaForward, OfOneTokenReturnsItsValue) {
  for (u32 head_size : {64u, 128u}) {
    const AttentionShape shape = one(1, head_size);
    const DeviceValues qkv(random_floats(3 * head_size, 1), fp32), dout(random_floats(head_size, 2), fp32);
    DeviceValues out(head_size, fp32), lse(1, fp32), dqkv(3 * head_size, fp32);
    attention_cuda({.shape = shape, .qkv = qkv.values(), .out = out.values(), .lse = lse.values().fp32()},
                   stream_);
    attention_backward_cuda({.shape = shape,
                             .qkv = qkv.values(),
                             .out = out.values(),
                             .lse = lse.values().fp32(),
                             .dout = dout.values(),
                             .dqkv = dqkv.values()},
                            stream_);
    synchronize();
    const std::vector<float> now = dqkv.now();
    EXPECT_LE(relative_error(out.now(), third(qkv.given(), head_size, 2)), 1e-6);
    EXPECT_LE(relative_error(third(now, head_size, 2), dout.given()), 1e-5);
    for (u32 i = 0; i < 2 * head_size; ++i) EXPECT_NEAR(now[i], 0.0f, 1e-4f);
  }
}

// Scores of several hundred: only the running maximum keeps the exponentials finite.
TEST_F(AttentionCudaForward, LargeScoresStayFinite) {
  for (Precision precision : {bf16, fp32}) {
    const AttentionShape shape = one(200, 64);
    const DeviceValues qkv(random_floats(200 * 192, 3, 6.0f), precision);
    DeviceValues out(200 * 64, precision);
    attention_cuda({.shape = shape, .qkv = qkv.values(), .out = out.values()}, stream_);
    synchronize();
    std::vector<float> want(200 * 64);
    attention_cpu({.shape = shape, .qkv = qkv.given().data(), .out = want.data()}, *make_pool(1));
    EXPECT_LE(relative_error(out.now(), want), precision == fp32 ? 1e-4 : 4e-3);
  }
}

}  // namespace tidepool::test::attention_cuda_test
