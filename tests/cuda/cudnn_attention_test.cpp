// Attention through cuDNN: results are attention, in slices as in one piece, and our own kernels compute the
// cases that cuDNN does not support.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "kernels/attention/cudnn_attention_slices.h"
#include "kernels/cuda/capability.h"
#include "kernels/kernels_cuda.h"
#include "tests/cuda/attention_reference.h"
#include "tests/cuda/cuda_fixture.h"

namespace tidepool::test::cudnn_attention_test {

using namespace cuda;

constexpr Precision bf16 = Precision::bf16, fp16 = Precision::fp16, fp32 = Precision::fp32;
constexpr AttentionShape shape_of(u32 sequences, u32 tokens, u32 heads, u32 kv_heads, u32 head_size) {
  return {
      .sequences = sequences, .tokens = tokens, .heads = heads, .head_size = head_size, .kv_heads = kv_heads};
}
// RETURNS: the exact scratch of backward of this slice.
constexpr u64 scratch_for(const AttentionShape& s, const AttentionSlice& slice) {
  return cudnn_backward_bytes(s, slice) + cudnn_scratch_alignment;
}

struct Given {
  AttentionShape shape;
  Precision precision = bf16;
  u64 scratch_bytes = 64 * mib;
  bool keeps_lse = true;
  bool documents = false;
  float dropout = 0;
#ifdef CUDA_EMULATED
  emulated_cuda::Faults faults{};  // active once the kernels are made
#endif
};

class CudnnAttentionTest : public CudaTest {
 protected:
#ifdef CUDA_EMULATED
  CudnnAttentionTest() { restart({.cudnn = true}); }
  void restart(const emulated_cuda::Options& options) {
    ASSERT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
    emulated_cuda::reset(options);
    make_stream();
  }
  // RETURNS: number of library calls since the last run.
  static u64 calls_of_library() {
    return std::ranges::count(emulated_cuda::calls(), emulated_cuda::CallKind::attention,
                              &emulated_cuda::Call::kind);
  }
  static u64 launches() {
    return std::ranges::count(emulated_cuda::calls(), emulated_cuda::CallKind::launch,
                              &emulated_cuda::Call::kind);
  }
#else
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped()) return;
    const Result<std::string> library = attention_library(current_capability());
    if (!library || !library->starts_with("cuDNN"))
      GTEST_SKIP() << "cuDNN is not used here: " << (library ? *library : library.error().message);
  }
#endif

  struct Arrays {
    explicit Arrays(const Given& g)
        : qkv(random_floats(g.shape.sequences * u64{g.shape.tokens} * g.shape.qkv_columns(), 1), g.precision),
          dout(random_floats(g.shape.sequences * u64{g.shape.tokens} * g.shape.out_columns(), 2),
               g.precision) {}
    const DeviceValues qkv, dout;
  };

  static AttentionToCome to_come(const Given& g) {
    return {.shape = g.shape, .precision = g.precision, .scratch = Bytes{g.scratch_bytes}};
  }

  // RETURNS: memory to try plans in: twice the bytes of the arrays is enough.
  static u64 trial_bytes(const Given& g) {
    const AttentionShape& s = g.shape;
    const u64 columns = 2 * (s.qkv_columns() + s.out_columns()) + s.heads;
    return 2 * sizeof(float) * s.sequences * u64{s.tokens} * columns + g.scratch_bytes + mib;
  }

  // `failure`: set to the error of the kernels, or empty.
  AttentionResults run(const Given& g, const Arrays& a, std::string* failure = nullptr) {
    const AttentionShape& s = g.shape;
    const DeviceArray workspace(cuda_kernels_workspace.value), scratch(std::max<u64>(g.scratch_bytes, 1));
    const DeviceArray trial(trial_bytes(g));
    auto made = create_cuda_kernels({.stream = stream_,
                                     .workspace = {workspace.data(), workspace.bytes()},
                                     .to_come = to_come(g),
                                     .trial = {trial.data(), trial.bytes()}});
    EXPECT_TRUE(made) << made.error().message;
#ifdef CUDA_EMULATED
    emulated_cuda::set_faults(g.faults);
#endif
    made_by_ = made->attention;
    Kernels& kernels = *made->kernels;
    const DeviceValues out(a.dout.given().size(), g.precision), dqkv(a.qkv.given().size(), g.precision);
    const DeviceValues lse(s.lse_elements(), fp32);
    const std::vector<i32> none(u64{s.sequences} * s.tokens);
    const DeviceArray starts(none.data(), none.size() * sizeof(i32));
    const i32* const documents = g.documents ? starts.as<i32>() : nullptr;
    const Dropout dropout = {.p = g.dropout, .seed = 1};
#ifdef CUDA_EMULATED
    emulated_cuda::clear_calls();
#endif
    kernels.attention({.shape = s,
                       .qkv = a.qkv.values(),
                       .out = out.values(),
                       .lse = g.keeps_lse ? lse.values().fp32() : nullptr,
                       .starts = documents,
                       .dropout = dropout});
    if (g.keeps_lse) {
      kernels.attention_backward({.shape = s,
                                  .qkv = a.qkv.values(),
                                  .out = out.values(),
                                  .lse = lse.values().fp32(),
                                  .dout = a.dout.values(),
                                  .dqkv = dqkv.values(),
                                  .starts = documents,
                                  .dropout = dropout,
                                  .scratch = {scratch.data(), g.scratch_bytes}});
    }
    const Result<void> done = kernels.finish();
    if (failure != nullptr)
      *failure = done ? "" : done.error().message;
    else
      EXPECT_TRUE(done) << done.error().message;
    return {out.now(), lse.now(), strips(s, dqkv.now(), 0, s.query_columns()),
            strips(s, dqkv.now(), s.query_columns(), s.key_columns()),
            strips(s, dqkv.now(), s.query_columns() + s.key_columns(), s.key_columns())};
  }
  AttentionResults run(const Given& g) { return run(g, Arrays(g)); }

  std::string made_by_;

  static std::vector<float> strips(const AttentionShape& s, const std::vector<float>& rows, u64 begin,
                                   u64 n) {
    std::vector<float> out;
    for (u64 at = begin; at < rows.size(); at += s.qkv_columns())
      out.insert(out.end(), rows.begin() + static_cast<i64>(at), rows.begin() + static_cast<i64>(at + n));
    return out;
  }

  void expect_attention(const Given& g) {
    const Arrays a(g);
    const AttentionResults got = run(g, a);
    EXPECT_TRUE(made_by_.starts_with("cuDNN")) << made_by_;
    const AttentionResults want =
        attention_reference(g.shape, a.qkv.given(), a.dout.given(), &got.out, {}, nullptr);
    // With grouped queries, dk and dv of every query head are rounded before they are added.
    const double gradient = g.precision == fp16 ? 1.5e-3 : 7e-3;
    EXPECT_LE(relative_error(got.out, want.out), g.precision == fp16 ? 8e-4 : 4e-3);
    EXPECT_LE(relative_error(got.lse, want.lse), 1e-5);
    EXPECT_LE(relative_error(got.dq, want.dq), gradient);
    EXPECT_LE(relative_error(got.dk, want.dk), gradient);
    EXPECT_LE(relative_error(got.dv, want.dv), gradient);
    const AttentionResults again = run(g, a);
    for (auto part : {&AttentionResults::out, &AttentionResults::lse, &AttentionResults::dq,
                      &AttentionResults::dk, &AttentionResults::dv})
      EXPECT_TRUE(same_bits(got.*part, again.*part));
  }
};

TEST_F(CudnnAttentionTest, IsAttention) {
  for (const auto& [shape, precision] : {std::pair{shape_of(2, 128, 2, 2, 64), bf16},
                                         {shape_of(1, 200, 4, 2, 32), bf16},
                                         {shape_of(1, 129, 1, 1, 128), bf16},
                                         {shape_of(1, 130, 3, 1, 80), fp16},
                                         {shape_of(1, 128, 2, 2, 96), fp16}}) {
    SCOPED_TRACE(fmt::format("t{} h{} kv{} d{}", shape.tokens, shape.heads, shape.kv_heads, shape.head_size));
    expect_attention({.shape = shape, .precision = precision});
#ifdef CUDA_EMULATED
    EXPECT_EQ(calls_of_library(), 2u);
    EXPECT_EQ(launches(), 0u);
#endif
  }
}

// Slices that leave a remainder, of sequences and of kv heads.
TEST_F(CudnnAttentionTest, SlicesAreAttentionToo) {
  const AttentionShape s = shape_of(5, 128, 2, 2, 32), h = shape_of(2, 128, 6, 3, 16);
  for (const auto& [shape, slice, calls] : {std::tuple{s, AttentionSlice{3, 2}, 2u},
                                            {s, AttentionSlice{1, 2}, 5u},
                                            {h, AttentionSlice{1, 2}, 4u},
                                            {h, AttentionSlice{1, 1}, 6u}}) {
    SCOPED_TRACE(fmt::format("slices of {} x {}", slice.sequences, slice.kv_heads));
    expect_attention({.shape = shape, .scratch_bytes = scratch_for(shape, slice)});
#ifdef CUDA_EMULATED
    EXPECT_EQ(calls_of_library(), 1 + calls);
#endif
  }
}

// Rows of lse may begin at any alignment.
TEST_F(CudnnAttentionTest, SlicesBeginWhereRowsDo) {
  const AttentionShape s = shape_of(1, 129, 4, 2, 32);
  expect_attention({.shape = s, .scratch_bytes = scratch_for(s, {1, 1})});
}

// Forward is the same for recompute, evaluation and training.
TEST_F(CudnnAttentionTest, ForwardIsTheSameWithoutLogarithms) {
  const Given with{.shape = shape_of(2, 128, 2, 1, 64)};
  Given without = with;
  without.keeps_lse = false;
  const Arrays a(with);
  EXPECT_TRUE(same_bits(run(with, a).out, run(without, a).out));
}

#ifdef CUDA_EMULATED

TEST_F(CudnnAttentionTest, OurKernelsComputeUnsupportedCases) {
  const AttentionShape shape = shape_of(1, 128, 1, 1, 32);
  const auto ours = [&](const Given& g) {
    run(g);
    return calls_of_library() == 0 && launches() > 0;
  };
  EXPECT_TRUE(ours({.shape = shape, .documents = true}));
  EXPECT_TRUE(ours({.shape = shape, .dropout = 0.5f}));
  EXPECT_TRUE(ours({.shape = shape, .precision = fp32}));
  EXPECT_TRUE(ours({.shape = shape_of(1, 127, 1, 1, 32)}));
  EXPECT_TRUE(ours({.shape = shape_of(1, 128, 1, 1, 20)}));
  EXPECT_FALSE(ours({.shape = shape}));
}

TEST_F(CudnnAttentionTest, BackwardFallsBackIfNoSliceFits) {
  const AttentionShape shape = shape_of(1, 128, 2, 2, 32);
  run({.shape = shape, .scratch_bytes = scratch_for(shape, {1, 1}) - 1});
  EXPECT_EQ(calls_of_library(), 1u);  // forward
  EXPECT_EQ(launches(), 3u);
  run({.shape = shape, .scratch_bytes = 0});
  EXPECT_EQ(launches(), 3u);
  run({.shape = shape, .scratch_bytes = scratch_for(shape, {1, 1})});
  EXPECT_EQ(launches(), 0u);
}

TEST_F(CudnnAttentionTest, FallsBackIfCudnnHasNoEngine) {
  const Given g{.shape = shape_of(1, 128, 1, 1, 32)};
  restart({.cudnn = true, .cudnn_deterministic = false});
  run(g);
  EXPECT_EQ(calls_of_library(), 0u);
  EXPECT_EQ(launches(), 4u);
  EXPECT_EQ(
      made_by_,
      "our own kernels; cuDNN 9.19.0 is not used: none of its engines is there, or all say that bits vary");

  restart({.cudnn = true, .cudnn_workspace = 128 * mib});
  run(g);
  EXPECT_EQ(calls_of_library(), 0u);
  EXPECT_THAT(made_by_, testing::HasSubstr("bytes of memory, and there are "));

  // Uses the second of two usable engines.
  restart({.cudnn = true});
  emulated_cuda::set_faults({.attention_plan = 1});
  run(g);
  EXPECT_EQ(calls_of_library(), 2u);
  EXPECT_EQ(made_by_, "cuDNN 9.19.0");
}

// Results are compared before a plan is used, whatever the library's version claims.
TEST_F(CudnnAttentionTest, FallsBackIfCudnnsResultsAreWrong) {
  const Given g{.shape = shape_of(2, 128, 2, 1, 32)};
  const auto expect_ours = [&](const std::string& why) {
    run(g);
    EXPECT_EQ(calls_of_library(), 0u);
    EXPECT_EQ(launches(), 4u);
    EXPECT_THAT(made_by_, testing::StartsWith("our own kernels; cuDNN 9.19.0 is not used: " + why));
  };
  restart({.cudnn = true, .cudnn_scale = 2});
  expect_ours("its output differs from our kernels' by ");
  restart({.cudnn = true, .cudnn_nan = true});
  expect_ours("its output differs from our kernels' by nan");
  restart({.cudnn = true, .cudnn_drift = 1e-3F});
  expect_ours("its bits vary from run to run");
  restart({.cudnn = true});
  emulated_cuda::set_faults({.attention = 1});
  run(g);
  EXPECT_EQ(calls_of_library(), 1u) << "backward, which has been tried and is sound";
  EXPECT_THAT(made_by_, testing::StartsWith("our own kernels forward; cuDNN 9.19.0 is not used: it fails: "));
}

// A run of 7B has gigabytes of frames to try plans in; a run without such room uses our own kernels.
TEST_F(CudnnAttentionTest, FallsBackIfThereIsNoRoomForATrial) {
  const Given g{.shape = shape_of(1, 128, 1, 1, 32)};
  const DeviceArray workspace(cuda_kernels_workspace.value);
  const auto made = create_cuda_kernels(
      {.stream = stream_, .workspace = {workspace.data(), workspace.bytes()}, .to_come = to_come(g)});
  ASSERT_TRUE(made);
  EXPECT_EQ(made->attention, "our own kernels; cuDNN 9.19.0 is not used: there is no room to try it");
}

// If the first proposed engine fails, the second must not replace it: the next start might use the first
// again.
TEST_F(CudnnAttentionTest, AFailureToPlanEndsTheStart) {
  const DeviceArray workspace(cuda_kernels_workspace.value);
  emulated_cuda::set_faults({.attention_plan = 1, .attention_plan_status = 4004});
  const auto made = create_cuda_kernels({.stream = stream_,
                                         .workspace = {workspace.data(), workspace.bytes()},
                                         .to_come = to_come({.shape = shape_of(1, 128, 1, 1, 32)})});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().kind, ErrorKind::does_not_fit);
  EXPECT_THAT(made.error().message, testing::HasSubstr("lower memory.device"));
}

TEST_F(CudnnAttentionTest, AFailureIsReportedWithoutAFallback) {
  const Given g{.shape = shape_of(1, 128, 1, 1, 32), .faults = {.attention = 1}};
  std::string failure;
  run(g, Arrays(g), &failure);
  EXPECT_THAT(failure,
              testing::HasSubstr("attention: cuDNN 9.19.0 says CUDNN_STATUS_EXECUTION_FAILED: as the "
                                 "test asks; TIDEPOOL_CUDNN=off does without it"));
  EXPECT_EQ(launches(), 0u);
}

TEST_F(CudnnAttentionTest, SaysWhichKernelsWouldBeUsed) {
  EXPECT_EQ(attention_library(90).value(), "cuDNN 9.19.0");
  EXPECT_EQ(attention_library(89).value(), "our own kernels");
  EXPECT_EQ(attention_library(100).value(), "our own kernels");
  restart({.cudnn = true, .cudnn_version = 91500});
  EXPECT_THAT(attention_library(90).error().message, testing::HasSubstr("cuDNN 9.15.0 is older than 9.15.1"));
  restart({.cudnn = false});
  EXPECT_EQ(attention_library(90).error().message, "cuDNN is switched off by TIDEPOOL_CUDNN=off");
}

TEST_F(CudnnAttentionTest, IsNotStartedOnOtherGpusOrForShortSequences) {
  const Given g{.shape = shape_of(1, 128, 1, 1, 32)};
  restart({.major = 8, .minor = 9, .cudnn = true});
  run(g);
  EXPECT_EQ(calls_of_library(), 0u);
  EXPECT_EQ(made_by_, "");
  restart({.cudnn = false});
  run({.shape = shape_of(1, 127, 1, 1, 32)});
  EXPECT_EQ(made_by_, "");
  run(g);
  EXPECT_THAT(made_by_, testing::StartsWith("our own kernels, slower here; cuDNN is switched off"));
}

// Nothing is compiled in a step, so our own kernels compute shapes other than the run's.
TEST_F(CudnnAttentionTest, KnowsOneShape) {
  const Given g{.shape = shape_of(1, 128, 1, 1, 32)};
  const DeviceArray workspace(cuda_kernels_workspace.value), trial(trial_bytes(g));
  const auto made = create_cuda_kernels({.stream = stream_,
                                         .workspace = {workspace.data(), workspace.bytes()},
                                         .to_come = to_come(g),
                                         .trial = {trial.data(), trial.bytes()}});
  ASSERT_TRUE(made);
  for (const u32 tokens : {128u, 192u}) {
    const Given other{.shape = shape_of(1, tokens, 1, 1, 32)};
    const Arrays a(other);
    const DeviceValues out(a.dout.given().size(), bf16);
    emulated_cuda::clear_calls();
    made->kernels->attention(
        {.shape = other.shape, .qkv = a.qkv.values(), .out = out.values(), .dropout = {}});
    EXPECT_TRUE(made->kernels->finish());
    EXPECT_EQ(calls_of_library(), tokens == 128 ? 1u : 0u);
  }
}

#endif

TEST(CudnnSlices, AreCutByShapeAndScratch) {
  const AttentionShape s = shape_of(16, 2048, 32, 32, 128);
  constexpr u64 of_sequence = u64{32} * 2048 * (2048 * 2 + 4);
  const auto slice = [&](u64 bytes) { return cudnn_backward_slice(s, Bytes{bytes}); };
  constexpr u64 fixed = cudnn_backward_fixed_bytes;
  EXPECT_EQ(slice(16 * of_sequence + fixed), (AttentionSlice{8, 32}));     // 2 GiB of ds
  EXPECT_EQ(slice(7 * of_sequence + fixed - 1), (AttentionSlice{6, 32}));  // in three slices
  EXPECT_EQ(slice(3 * of_sequence + fixed), (AttentionSlice{3, 32}));
  EXPECT_EQ(slice(of_sequence + fixed - 1), (AttentionSlice{1, 16}));  // 31 heads fit: two slices of 16
  EXPECT_EQ(slice(of_sequence / 32 + fixed), (AttentionSlice{1, 1}));
  EXPECT_EQ(slice(of_sequence / 32 + fixed - 1), AttentionSlice{});
  EXPECT_EQ(slice(0), AttentionSlice{});
}

TEST(CudnnSlices, StayWithin32BitAddresses) {
  const AttentionShape long_ones = shape_of(4, 16384, 32, 8, 128);  // ds of a head: 512 MiB
  EXPECT_EQ(cudnn_backward_slice(long_ones, Bytes{100 * gib}), (AttentionSlice{1, 1}));
  const AttentionShape many = shape_of(100'000, 128, 4, 4, 64);
  EXPECT_LE(cudnn_backward_slice(many, Bytes{100 * gib}).sequences * 4, 65535u);
  EXPECT_LE(cudnn_forward_slice(many, Bytes{100 * gib}).sequences * 4, 65535u);
  const AttentionShape wide = shape_of(200, 2048, 32, 32, 128);
  EXPECT_EQ(cudnn_forward_slice(wide, Bytes{64 * mib}).sequences, 67u);  // of 85 whose qkv has 2^31 elements
  EXPECT_EQ(cudnn_backward_slice(shape_of(1, 16384, 64, 8, 128), Bytes{100 * gib}), AttentionSlice{});
}

TEST(CudnnSlices, OfForwardReserveSpaceForDiscardedLogarithms) {
  const AttentionShape s = shape_of(16, 2048, 32, 8, 128);
  const auto slice = [&](u64 bytes) {
    return cudnn_forward_slice(s, Bytes{bytes + cudnn_attention_slack}).sequences;
  };
  constexpr u64 of_sequence = u64{32} * 2048 * 4;
  EXPECT_EQ(slice(16 * of_sequence), 16u);
  EXPECT_EQ(slice(15 * of_sequence), 8u);
  EXPECT_EQ(slice(of_sequence), 1u);
  EXPECT_EQ(slice(of_sequence - 1), 0u);
}

}  // namespace tidepool::test::cudnn_attention_test
