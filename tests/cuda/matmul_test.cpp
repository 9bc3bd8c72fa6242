// The device's matrix products, every epilogue and precision, against the CPU's on the same values. The
// library is emulated: the tests cover our requests to it, and our own passes.
#include <fmt/format.h>

#include <optional>

#include "kernels/matmul/matmul_cuda.h"
#include "kernels/matmul/matmul_launch.h"
#include "tests/cuda/cuda_fixture.h"
#include "tests/support/gpu_precision.h"

namespace tidepool::test::matmul_test {

constexpr u32 m = 70, n = 200, k = 50;

struct MatmulCase {
  Precision activations, parameters;
  bool transposed;
  u64 scratch_bytes;
};
std::ostream& operator<<(std::ostream& out, const MatmulCase& c) {
  return out << name(c.activations) << " x " << name(c.parameters) << (c.transposed ? "^T" : "")
             << ", scratch " << c.scratch_bytes;
}

class CudaProductsTest : public CudaTest {
 protected:
  static constexpr u64 library_bytes = mib;
  static constexpr u64 scratch_default = 256 * kib;

  void create(u64 scratch_bytes) {
    library_.emplace(library_bytes);
    scratch_.emplace(scratch_bytes);
    matmul_ = CudaMatmul::create({.library = library_->data(),
                                  .library_bytes = {library_bytes},
                                  .scratch = scratch_->data(),
                                  .scratch_bytes = {scratch_bytes}})
                  .value();
  }

  std::optional<DeviceArray> library_, scratch_;
  std::unique_ptr<CudaMatmul> matmul_;
};

class CudaMatmulTest : public CudaProductsTest, public testing::WithParamInterface<MatmulCase> {
 protected:
  void SetUp() override {
    CudaProductsTest::SetUp();
    if (!gpu_multiplies(GetParam().activations)) GTEST_SKIP() << "this GPU does not multiply bf16";
  }
};

// Two roundings of bf16 lie between some results and the CPU's.
double product_tolerance(Precision p) { return p == Precision::fp32 ? 1e-6 : 8e-3; }

// Sums kept in fp32. Tensor cores cut off bits where they add, instead of rounding: up to 2^-23 of a sum for
// each instruction, which takes four terms or more; a V100's take four.
double sum_tolerance(Precision in, u32 terms) {
  return in == Precision::fp32 ? 1e-6 : std::max(1e-6, terms / 4 * 0x1p-23);
}

class Product {
 public:
  explicit Product(const MatmulCase& c)
      : x(random_floats(u64{m} * k, 1), c.activations),
        weight(random_floats(u64{k} * n, 2, 0.2f), c.parameters),
        bias(random_floats(n, 3), c.parameters),
        other(random_floats(u64{m} * n, 4), c.activations),
        y(u64{m} * n, c.activations),
        second(u64{m} * n, c.activations),
        transposed(c.transposed) {}

  Matmul on_device() const {
    return {.m = m,
            .n = n,
            .k = k,
            .x = x.values(),
            .weight = weight.values(),
            .transposed = transposed,
            .bias = bias.values(),
            .y = y.values()};
  }
  Matmul on_host(float* out) const {
    return {.m = m,
            .n = n,
            .k = k,
            .x = x.given().data(),
            .weight = param_of(weight.given()),
            .transposed = transposed,
            .bias = param_of(bias.given()),
            .y = out};
  }

  DeviceValues x, weight, bias, other, y, second;
  bool transposed;
};

TEST_P(CudaMatmulTest, AgreesWithTheCpuForEveryEpilogue) {
  const MatmulCase c = GetParam();
  create(c.scratch_bytes);
  const Product p(c);
  const auto pool = make_pool(2);
  std::vector<float> want(u64{m} * n), want_second(u64{m} * n);
  const double most = product_tolerance(c.activations);

  const auto compare = [&](Matmul device, Matmul host, const char* what) {
    EXPECT_TRUE(matmul_->matmul(device, stream_));
    synchronize();
    matmul_cpu(host, *pool);
    EXPECT_LE(relative_error(p.y.now(), want), most) << what;
  };
  compare(p.on_device(), p.on_host(want.data()), "bias");

  Matmul device = p.on_device(), host = p.on_host(want.data());
  device.epilogue = host.epilogue = Epilogue::gelu;
  compare(device, host, "gelu");
  const auto without_pre = p.y.now();
  device.pre = p.second.values(), host.pre = want_second.data();
  compare(device, host, "gelu with pre");
  EXPECT_TRUE(same_bits(p.y.now(), without_pre)) << "what is kept must not change numbers";
  EXPECT_LE(relative_error(p.second.now(), want_second), most);

  device.pre = {}, host.pre = {};
  device.epilogue = host.epilogue = Epilogue::squared_relu;
  compare(device, host, "squared relu");

  device = p.on_device(), host = p.on_host(want.data());
  device.epilogue = host.epilogue = Epilogue::residual;
  device.residual = p.other.values(), host.residual = p.other.given().data();
  compare(device, host, "residual");
  {
    const auto elsewhere = p.y.now();
    const DeviceValues both(p.other.given(), c.activations);
    Matmul in_place = device;
    in_place.y = both.values(), in_place.residual = both.values();
    EXPECT_TRUE(matmul_->matmul(in_place, stream_));
    synchronize();
    EXPECT_TRUE(same_bits(both.now(), elsewhere)) << "a residual in place";
  }
  device.dropout = host.dropout = {.p = 0.25f, .seed = 3, .step = 4};
  compare(device, host, "residual with dropout");
  const auto elsewhere = p.y.now();
  device.y = p.other.values();
  EXPECT_TRUE(matmul_->matmul(device, stream_));
  synchronize();
  EXPECT_TRUE(same_bits(p.other.now(), elsewhere)) << "in place";
}

TEST_P(CudaMatmulTest, GoesBackThroughActivations) {
  const MatmulCase c = GetParam();
  create(c.scratch_bytes);
  const auto pool = make_pool(2);
  for (const Epilogue backward : {Epilogue::gelu_backward, Epilogue::squared_relu_backward}) {
    const Product p(c);
    std::vector<float> want(u64{m} * n), want_value(u64{m} * n);
    Matmul device = p.on_device(), host = p.on_host(want.data());
    device.bias = host.bias = {};
    device.epilogue = host.epilogue = backward;
    device.pre_in = p.other.values(), host.pre_in = p.other.given().data();
    device.value = p.second.values(), host.value = want_value.data();
    matmul_cpu(host, *pool);
    EXPECT_TRUE(matmul_->matmul(device, stream_));
    synchronize();
    EXPECT_LE(relative_error(p.y.now(), want), product_tolerance(c.activations));
    EXPECT_LE(relative_error(p.second.now(), want_value), product_tolerance(c.activations));
    const auto elsewhere = p.y.now();
    device.y = p.other.values();  // where pre_in is
    EXPECT_TRUE(matmul_->matmul(device, stream_));
    synchronize();
    EXPECT_TRUE(same_bits(p.other.now(), elsewhere));
  }
}

TEST_P(CudaMatmulTest, AccumulatesAndWritesFp32) {
  const MatmulCase c = GetParam();
  create(c.scratch_bytes);
  const Product p(c);
  const auto pool = make_pool(2);
  std::vector<float> want = p.other.given();
  Matmul device = p.on_device(), host = p.on_host(want.data());
  device.bias = host.bias = {};
  device.y = p.other.values();
  device.accumulate = host.accumulate = true;
  EXPECT_TRUE(matmul_->matmul(device, stream_));
  synchronize();
  matmul_cpu(host, *pool);
  EXPECT_LE(relative_error(p.other.now(), want), product_tolerance(c.activations));

  const DeviceValues wide(u64{m} * n, Precision::fp32);
  device = p.on_device(), host = p.on_host(want.data());
  device.y = wide.values();
  EXPECT_TRUE(matmul_->matmul(device, stream_));
  synchronize();
  matmul_cpu(host, *pool);
  // Parameters in fp32 are rounded to the type of the activations.
  EXPECT_LE(relative_error(wide.now(), want),
            c.parameters == c.activations || c.activations == Precision::fp32
                ? sum_tolerance(c.activations, k)
                : 8e-3);
}

INSTANTIATE_TEST_SUITE_P(Precisions, CudaMatmulTest,
                         testing::Values(MatmulCase{Precision::fp32, Precision::fp32, false, 256 * kib},
                                         MatmulCase{Precision::fp32, Precision::fp32, true, 16 * kib},
                                         MatmulCase{Precision::bf16, Precision::bf16, false, 256 * kib},
                                         MatmulCase{Precision::bf16, Precision::bf16, true, 16 * kib},
                                         MatmulCase{Precision::fp32, Precision::bf16, false,
                                                    30 * kib},  // weights in slices
                                         MatmulCase{Precision::fp32, Precision::bf16, true, 30 * kib},
                                         MatmulCase{Precision::bf16, Precision::fp32, false, 256 * kib},
                                         MatmulCase{Precision::bf16, Precision::fp32, true, 14 * kib},
                                         MatmulCase{Precision::fp16, Precision::fp16, false, 256 * kib},
                                         MatmulCase{Precision::fp16, Precision::fp16, true, 16 * kib},
                                         MatmulCase{Precision::fp32, Precision::fp16, true, 30 * kib}));

using CudaWeightGradientTest = CudaMatmulTest;

TEST_P(CudaWeightGradientTest, AgreesWithTheCpu) {
  const Precision activations = GetParam().activations;
  create(scratch_default);
  const u32 rows = 300;
  constexpr u32 x_stride = 64;  // as the logits of a vocabulary's last slice have it
  static_assert(x_stride > k);
  const DeviceValues x(random_floats(u64{rows} * x_stride, 1), activations),
      dy(random_floats(u64{rows} * n, 2), activations);
  const DeviceValues dw(random_floats(u64{k} * n, 3), Precision::fp32),
      dbias(random_floats(n, 4), Precision::fp32);
  std::vector<float> want = dw.given(), want_bias = dbias.given();
  const auto pool = make_pool(2);
  for (const auto& [accumulate, transposed] :
       {std::pair{true, false}, {false, false}, {true, true}, {false, true}}) {
    const WeightGradient host = {.m = rows,
                                 .n = n,
                                 .k = k,
                                 .x = x.given().data(),
                                 .x_stride = x_stride,
                                 .dy = dy.given().data(),
                                 .dw = want.data(),
                                 .dbias = want_bias.data(),
                                 .accumulate = accumulate,
                                 .transposed = transposed};
    weight_gradient_cpu(host, *pool);
    WeightGradient device = host;
    device.x = x.values(), device.dy = dy.values();
    device.dw = dw.values().fp32(), device.dbias = dbias.values().fp32();
    EXPECT_TRUE(matmul_->weight_gradient(device, stream_));
    synchronize();
    EXPECT_LE(relative_error(dw.now(), want), sum_tolerance(activations, rows));
    EXPECT_LE(relative_error(dbias.now(), want_bias), 1e-6);
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, CudaWeightGradientTest,
                         testing::Values(MatmulCase{.activations = Precision::fp32},
                                         MatmulCase{.activations = Precision::bf16},
                                         MatmulCase{.activations = Precision::fp16}));

// A router's gradients: logits and their gradients are fp32 beside 16-bit activations.
TEST_P(CudaWeightGradientTest, TakesFp32BesideSixteenBits) {
  const Precision activations = GetParam().activations;
  create(100 * kib);  // both factors are converted in slices
  const u32 rows = 300;
  constexpr u32 x_stride = 64;
  const auto pool = make_pool(2);
  const DeviceValues dw(random_floats(u64{k} * n, 3), Precision::fp32);
  std::vector<float> want = dw.given();
  for (const bool wide_dy : {true, false}) {
    const DeviceValues x(random_floats(u64{rows} * x_stride, 1), wide_dy ? activations : Precision::fp32),
        dy(random_floats(u64{rows} * n, 2), wide_dy ? Precision::fp32 : activations);
    for (const bool accumulate : {true, false}) {
      for (const bool transposed : {true, false}) {
        WeightGradient op = {.m = rows,
                             .n = n,
                             .k = k,
                             .x = x.given().data(),
                             .x_stride = x_stride,
                             .dy = dy.given().data(),
                             .dw = want.data(),
                             .accumulate = accumulate,
                             .transposed = transposed};
        weight_gradient_cpu(op, *pool);
        op.x = x.values(), op.dy = dy.values(), op.dw = dw.values().fp32();
        EXPECT_TRUE(matmul_->weight_gradient(op, stream_));
        synchronize();
        EXPECT_LE(relative_error(dw.now(), want), 1e-6) << wide_dy << accumulate << transposed;
      }
    }
  }
}

TEST_P(CudaWeightGradientTest, AddsAProductOfFp32AndSixteenBitWeights) {
  const Precision parameters = GetParam().activations;
  create(30 * kib);
  const DeviceValues x(random_floats(u64{m} * k, 1), Precision::fp32),
      weight(random_floats(u64{k} * n, 2), parameters), y(random_floats(u64{m} * n, 3), Precision::fp32);
  std::vector<float> want = y.given();
  Matmul op = {.m = m,
               .n = n,
               .k = k,
               .x = x.given().data(),
               .weight = weight.given().data(),
               .accumulate = true,
               .y = want.data()};
  matmul_cpu(op, *make_pool(1));
  op.x = x.values(), op.weight = weight.values(), op.y = y.values();
  EXPECT_TRUE(matmul_->matmul(op, stream_));
  synchronize();
  EXPECT_LE(relative_error(y.now(), want), 1e-6);
}

// Off the alignment of 16 bytes the library may need another algorithm, so only the value is the same there.
// The bits of a run do not hang on that: shapes alone say where a tensor lies in its window.
TEST_F(CudaProductsTest, AnAlgorithmDoesNotDependOnAlignedPlaces) {
  create(scratch_default);
  const auto x = random_floats(u64{m} * k, 1), w = random_floats(u64{k} * n, 2);
  std::vector<std::vector<float>> results;
  for (const u64 shift : {0, 4, 8, 1}) {  // 16, 32 bytes further, then off
    const DeviceValues on_x(x, Precision::fp32, shift), on_w(w, Precision::fp32, shift),
        y(u64{m} * n, Precision::fp32, shift);
    EXPECT_TRUE(matmul_->matmul(
        {.m = m, .n = n, .k = k, .x = on_x.values(), .weight = on_w.values(), .y = y.values()}, stream_));
    synchronize();
    results.push_back(y.now());
  }
  for (const u32 aligned : {1, 2}) EXPECT_TRUE(same_bits(results[aligned], results[0]));
  EXPECT_LE(relative_error(results[3], results[0]), 1e-6);
}

// On a GPU by the library's real algorithms and a real clock.
TEST_F(CudaProductsTest, ARecalledChoiceGivesTheSameBits) {
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    if (!gpu_multiplies(precision)) continue;
    SCOPED_TRACE(name(precision));
    const Product p({precision, precision});
    const auto result = [&](ProductChoices* choices) {
      library_.emplace(8 * mib);
      scratch_.emplace(scratch_default);
      matmul_ = CudaMatmul::create({.library = library_->data(),
                                    .library_bytes = {8 * mib},
                                    .scratch = scratch_->data(),
                                    .scratch_bytes = {scratch_default}},
                                   choices)
                    .value();
      if (choices != nullptr) {
        matmul_->tune(true);
        EXPECT_TRUE(matmul_->matmul(p.on_device(), stream_));
        matmul_->tune(false);
      }
      EXPECT_TRUE(matmul_->matmul(p.on_device(), stream_));
      synchronize();
      return p.y.now();
    };
    ProductChoices choices;
    const auto advised = result(nullptr), timed = result(&choices);
    EXPECT_EQ(choices.timed.size(), 1u);
    choices.timed.clear();
    EXPECT_TRUE(same_bits(result(&choices), timed));
    EXPECT_TRUE(choices.timed.empty()) << "the library takes back what it gave";
    EXPECT_LE(relative_error(timed, advised),
              std::max(product_tolerance(precision), sum_tolerance(precision, k)));
  }
}

#ifdef CUDA_EMULATED

TEST_F(CudaProductsTest, AKnownShapeAllocatesNothing) {
  create(scratch_default);
  const Product p({Precision::bf16, Precision::bf16});
  EXPECT_TRUE(matmul_->matmul(p.on_device(), stream_));
  synchronize();
  const auto before = emulated_cuda::live();
  emulated_cuda::clear_calls();
  EXPECT_TRUE(matmul_->matmul(p.on_device(), stream_));
  synchronize();
  EXPECT_EQ(emulated_cuda::live(), before);
  const auto calls = emulated_cuda::calls();
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0].kind, emulated_cuda::CallKind::matmul) << "the bias is the library's";
}

// ---- algorithms by the clock

class EmulatedProductChoices : public CudaProductsTest {
 protected:
  // Offers algorithms by their time; the library advises the first.
  void offer(std::vector<unsigned> algorithms) {
    emulated_cuda::offer_algorithms(100, std::move(algorithms));
  }
  void create(u64 bytes = library_bytes) {
    library_.emplace(bytes);
    matmul_ = CudaMatmul::create({.library = library_->data(), .library_bytes = {bytes}}, &choices_).value();
  }
  void tune() {
    matmul_->tune(true);
    ASSERT_TRUE(matmul_->matmul(product_.on_device(), stream_));
    matmul_->tune(false);
  }
  // Since clear_calls().
  u64 products_run() {
    synchronize();
    return static_cast<u64>(std::ranges::count(emulated_cuda::calls(), emulated_cuda::CallKind::matmul,
                                               &emulated_cuda::Call::kind));
  }
  // Those that run when the product is asked for once.
  std::vector<u64> algorithms_of_run() {
    emulated_cuda::clear_calls();
    EXPECT_TRUE(matmul_->matmul(product_.on_device(), stream_));
    synchronize();
    std::vector<u64> out;
    for (const emulated_cuda::Call& call : emulated_cuda::calls())
      if (call.kind == emulated_cuda::CallKind::matmul) out.push_back(call.algorithm);
    return out;
  }

  ProductChoices choices_;
  const Product product_{{Precision::bf16, Precision::bf16}};
};

TEST_F(EmulatedProductChoices, TheFastestOfTheFirstEightIsTaken) {
  offer({9, 7, 3, 5, 8, 8, 8, 8, 1});
  create();
  tune();
  EXPECT_EQ(algorithms_of_run(), std::vector<u64>{2});
  EXPECT_EQ(choices_.timed.size(), 1u);
}

TEST_F(EmulatedProductChoices, WithoutTuningTheLibrarysFirstIsTaken) {
  offer({9, 1});
  create();
  EXPECT_EQ(algorithms_of_run(), std::vector<u64>{0});
  EXPECT_TRUE(choices_.known.empty()) << "only a clock chooses for later runs";
  EXPECT_TRUE(choices_.used.empty()) << "in steps, threads of several devices share the choices";
}

TEST_F(EmulatedProductChoices, ChoicesOfOtherRunsAreReadOnceAndTaken) {
  offer({9, 1});
  create();
  tune();
  const AlgorithmsByProduct theirs = std::exchange(choices_, {}).known;
  u64 asked = 0;
  choices_.before_timing = [&]() -> Result<void> { return ++asked, choices_.known = theirs, Result<void>(); };
  offer({1, 9});
  for (u32 i = 0; i < 2; ++i) {
    create();
    tune();
    EXPECT_EQ(algorithms_of_run(), std::vector<u64>{1});
  }
  EXPECT_EQ(asked, 1u);
  EXPECT_TRUE(choices_.timed.empty());
}

TEST_F(EmulatedProductChoices, AKnownProductIsNotLookedUpAgain) {
  offer({9, 1});
  create();
  tune();
  choices_.before_timing = []() -> Result<void> { return Error{ErrorKind::internal, "asked"}; };
  create();
  tune();
  EXPECT_EQ(algorithms_of_run(), std::vector<u64>{1});
}

TEST_F(EmulatedProductChoices, WithoutTimingAnUnknownProductTakesTheLibrarysFirst) {
  offer({9, 1});
  choices_.may_time = false;
  create();
  emulated_cuda::clear_calls();
  tune();
  EXPECT_EQ(products_run(), 1u) << "once, so that its kernel is loaded";
  EXPECT_EQ(algorithms_of_run(), std::vector<u64>{0});
  EXPECT_TRUE(choices_.known.empty());
  EXPECT_EQ(choices_.used.size(), 1u);
  choices_ = {};
  create();
  tune();
  choices_ = {.known = choices_.known, .may_time = false};
  create();
  tune();
  EXPECT_EQ(algorithms_of_run(), std::vector<u64>{1});
  EXPECT_TRUE(choices_.timed.empty());
}

// In units of 100 us: of the third, 6 calls take less than 2 ms.
TEST_F(EmulatedProductChoices, SlowAlgorithmsAreTimedOnce) {
  offer({4, 5, 3, 10, 10, 10, 10, 10});
  create();
  emulated_cuda::clear_calls();
  tune();
  EXPECT_EQ(products_run(), 8u + 8u + 2u * 3u * 6u) << "only two are within 1.5 times the fastest";
  EXPECT_EQ(algorithms_of_run(), std::vector<u64>{2});
}

TEST_F(EmulatedProductChoices, LongAlgorithmsAreTimedInOneRound) {
  offer({120, 110});
  create();
  emulated_cuda::clear_calls();
  tune();
  EXPECT_EQ(products_run(), 2u + 2u + 2u);
  EXPECT_EQ(algorithms_of_run(), std::vector<u64>{1});
}

TEST_F(EmulatedProductChoices, RefusedAlgorithmsAreNotTaken) {
  offer({0, 4, 0, 2});
  create();
  tune();
  EXPECT_EQ(algorithms_of_run(), std::vector<u64>{3});
}

TEST_F(EmulatedProductChoices, AChoiceStaysWhateverLaterTimes) {
  offer({9, 1, 5});
  create();
  tune();
  const AlgorithmsByProduct chosen = choices_.known;
  offer({1, 9, 5});
  create();
  emulated_cuda::clear_calls();
  tune();
  EXPECT_EQ(products_run(), 1u) << "a known one runs once, so that its kernel is loaded";
  EXPECT_EQ(algorithms_of_run(), std::vector<u64>{1});
  EXPECT_EQ(choices_.known, chosen);
}

TEST_F(EmulatedProductChoices, AStoredChoiceThatTheLibraryRefusesIsMadeAgain) {
  offer({9, 5, 1});
  create();
  tune();
  ASSERT_EQ(choices_.known.size(), 1u);
  offer({9, 5});
  create();
  tune();
  EXPECT_EQ(algorithms_of_run(), std::vector<u64>{1});
  for (const char* damaged : {"", "12", "zz"}) {
    choices_.known.begin()->second = damaged;
    create();
    tune();
    EXPECT_EQ(algorithms_of_run(), std::vector<u64>{1}) << damaged;
  }
}

// Two micro-batches of one device are one of each of two: their sums must not hang on who adds them.
TEST_F(EmulatedProductChoices, AnAccumulatingProductTakesTheAlgorithmOfAPlainOne) {
  Matmul op = product_.on_device();
  op.bias = {};
  const auto tune_op = [&] {
    matmul_->tune(true);
    ASSERT_TRUE(matmul_->matmul(op, stream_));
    matmul_->tune(false);
  };
  offer({9, 1});
  create();
  tune_op();
  const AlgorithmsByProduct chosen = choices_.known;
  offer({1, 9});
  op.accumulate = true;
  tune_op();
  EXPECT_EQ(choices_.known, chosen);
  emulated_cuda::clear_calls();
  ASSERT_TRUE(matmul_->matmul(op, stream_));
  synchronize();
  const auto calls = emulated_cuda::calls();
  const auto product = std::ranges::find(calls, emulated_cuda::CallKind::matmul, &emulated_cuda::Call::kind);
  ASSERT_NE(product, calls.end());
  EXPECT_EQ(product->algorithm, 1u);
}

// Only a refusal rules out an algorithm. After any other error the device is faulty, and a choice would be an
// accident that stays for ever.
TEST_F(EmulatedProductChoices, AFaultOfTheDeviceChoosesNothing) {
  offer({9, 1});
  create();
  emulated_cuda::set_faults({.product = 2});
  matmul_->tune(true);
  const auto tuned = matmul_->matmul(product_.on_device(), stream_);
  ASSERT_FALSE(tuned);
  EXPECT_NE(tuned.error().message.find("CUBLAS_STATUS_INTERNAL_ERROR"), std::string::npos)
      << tuned.error().message;
  EXPECT_TRUE(choices_.known.empty());
}

TEST_F(EmulatedProductChoices, EachCardLibraryAndWorkspaceHasItsOwn) {
  offer({9, 1});
  u64 timed = 0;
  const auto expect_timing = [&](u64 workspace_bytes) {
    create(workspace_bytes);
    tune();
    EXPECT_EQ(choices_.timed.size(), ++timed);
  };
  expect_timing(library_bytes);
  emulated_cuda::change_card("Another GPU", 132, 130000);
  expect_timing(library_bytes);
  emulated_cuda::change_card("Another GPU", 78, 130000);
  expect_timing(library_bytes);
  emulated_cuda::change_card("Another GPU", 78, 130100);
  expect_timing(library_bytes);
  expect_timing(2 * library_bytes);
  create(2 * library_bytes);
  tune();
  EXPECT_EQ(choices_.timed.size(), timed) << "this one is known";
}

TEST_F(CudaProductsTest, ALibraryThatCannotStartSaysWhatToDo) {
  emulated_cuda::set_faults({.device_allocation = 1});
  const auto made = CudaMatmul::create({});
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message.find("Free device memory"), std::string::npos) << made.error().message;
}

TEST_F(CudaProductsTest, AProductRefusedByTheLibraryIsAnErrorAndTheNextOneRuns) {
  create(scratch_default);
  for (const auto& [faults, precision] : {std::pair{emulated_cuda::Faults{.algorithm = 1}, Precision::bf16},
                                          {emulated_cuda::Faults{.product = 1}, Precision::fp16}}) {
    const Product p({precision, precision});
    emulated_cuda::set_faults(faults);
    const auto refused = matmul_->matmul(p.on_device(), stream_);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::io);
    const char* status =
        faults.algorithm > 0 ? "CUBLAS_STATUS_NOT_SUPPORTED" : "CUBLAS_STATUS_INTERNAL_ERROR";
    for (const std::string& word : {std::string("cuBLASLt refuses"), fmt::format("{} x {} x {}", n, m, k),
                                    fmt::format("({0} to {0}", name(precision)), std::string(status)})
      EXPECT_NE(refused.error().message.find(word), std::string::npos) << refused.error().message;
    EXPECT_TRUE(matmul_->matmul(p.on_device(), stream_));
    synchronize();
  }
}

#endif

TEST(CudaMatmulLaunch, FitsTheDeviceAtTheExtremes) {
  for (const u32 rows : {1u, 127u, 1u << 20, 0xffff'0000u}) {
    for (const u32 columns : {1u, 255u, 1u << 18, 1u << 24}) {
      for (const auto& shape : {cuda::column_sums_launch(rows, columns), cuda::sum_of_parts_launch(columns),
                                cuda::convert_launch(rows, columns)}) {
        EXPECT_TRUE(cuda::fits_every_device(shape)) << rows << " x " << columns;
      }
    }
  }
  EXPECT_EQ(cuda::column_sums_parts(1), 1u);
  EXPECT_EQ(cuda::column_sums_parts(1 << 20), cuda::column_sums_parts_max);
}

}  // namespace tidepool::test::matmul_test
