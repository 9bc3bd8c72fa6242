// The basis of the report's "% of peak": measured with varying numbers, because constants would flatter a
// GPU.
#include "probe/step/measure_peak.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "fit/job.h"
#include "kernels/uniform_values.h"
#include "planner/planner.h"
#include "session/session.h"
#include "tests/support/asked_plan.h"
#include "tests/support/kernel_fixture.h"
#include "tests/support/train_fixture.h"

namespace tidepool::measure_peak_test {

struct NoData final : StepSource {
  Result<void> load_batch(const BatchRequest&, const BatchArrays&) override { return {}; }
  StepSettings settings(u64) const override { return {}; }
};

TEST(MeasurePeak, MultipliesNumbersThatDiffer) {
  const test::TrainDir dir;
  const Config config = test::small_config(dir);
  const Job job = make_job(config).value();
  NoData source;
  const auto session = Session::create(job, make_plan(job.graph, job.options).value(), source).value();
  const auto peak = measure_peak(*session);
  ASSERT_TRUE(peak) << peak.error().message;
  EXPECT_GT(*peak, 0);
  const std::span<const std::byte> memory = session->devices().at(0).memory();
  u64 side = 1024;
  while (3 * side * side * sizeof(float) > memory.size()) side /= 2;
  std::set<float> different;
  u64 zeros = 0;
  for (u64 i = 0; i < 2 * side * side; ++i) {
    float x = 0;
    std::memcpy(&x, memory.data() + i * sizeof x, sizeof x);
    ASSERT_LE(std::abs(x), 0.5f) << i;
    different.insert(x);
    zeros += x == 0;
  }
  EXPECT_LT(zeros, side);
  EXPECT_GT(different.size(), std::min<u64>(side * side, 100'000));
}

TEST(UniformValues, AreOfTheirRangeInEveryPrecision) {
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    SCOPED_TRACE(name(precision));
    std::vector<std::byte> array(values_bytes(10'000, precision));
    make_uniform(array, precision, 0.5f);
    double sum = 0, most = 0;
    for (u64 i = 0; i < 10'000; ++i) {
      u16 half = 0;
      float x = 0;
      std::memcpy(&half, array.data() + values_bytes(i, precision), 2);
      std::memcpy(&x, array.data() + values_bytes(i, precision), precision == Precision::fp32 ? 4 : 2);
      if (precision != Precision::fp32) x = test::value_of_half(half, precision);
      sum += x, most = std::max<double>(most, std::abs(x));
    }
    EXPECT_NEAR(sum / 10'000, 0, 0.01);
    EXPECT_NEAR(most, 0.5, 0.001);
  }
}

}  // namespace tidepool::measure_peak_test
