// What happens on a GPU before the first step: kernels are loaded, and products choose their algorithms.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "config/config.h"
#include "executor/cuda/cuda_devices.h"
#include "executor/product_file.h"
#include "fit/plan_inputs.h"
#include "session/session.h"
#include "tests/cuda/recorded_run.h"
#include "tests/support/segments.h"

namespace tidepool {
namespace {

using emulated_cuda::Call;
using emulated_cuda::CallKind;
using test::first_gpus;
using test::gpu_config;
using test::NoData;
using test::Numbers;
using test::TrainDir;
using ::testing::HasSubstr;

class EmulatedProductTuning : public ::testing::TestWithParam<Precision> {
 protected:
  EmulatedProductTuning() { register_cuda(); }

  Config config(const std::string& run = "run") const {
    Config c = gpu_config(dir_, GetParam(), run);
    c.machine.tune_products = true;
    return c;
  }
  // Of all products that ran by then.
  static std::set<u64> algorithms() {
    std::set<u64> out;
    for (const Call& call : emulated_cuda::calls())
      if (call.kind == CallKind::matmul) out.insert(call.algorithm);
    return out;
  }
  static std::string text_of(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  // All that it prints.
  static std::string words_of_run(const Config& config, const std::string& resume = "") {
    ::testing::internal::CaptureStdout();
    const auto report = train_model({.config = config, .resume = resume, .command = "test"});
    std::string words = ::testing::internal::GetCapturedStdout();
    EXPECT_TRUE(report) << report.error().message;
    return words;
  }

  const TrainDir dir_;
};

TEST_P(EmulatedProductTuning, StepsChooseAndLoadNothing) {
  emulated_cuda::reset({.operation_us = 100, .algorithms = {3, 1}});
  const Config c = config();
  const ModelGraph graph = make_graph(c).value();
  NoData source;
  const auto session = Session::create(c, graph, make_plan(graph, plan_options(c)).value(), source,
                                       {.product_timing = ProductTiming::keep})
                           .value();
  const u64 loaded = emulated_cuda::loaded_kernels(0);
  const AlgorithmsByProduct chosen = read_product_file(product_file(c)).value();
  EXPECT_GT(chosen.size(), 5u);
  emulated_cuda::clear_calls();
  test::Recorder recorder(session->executor());
  const auto engine = Engine::create(session->plan(), recorder, {});
  test::SegmentList list(test::training_runs(2, true));
  EngineObserver nobody;
  ASSERT_TRUE(engine->run(list, nobody));
  EXPECT_EQ(algorithms(), std::set<u64>{1}) << "evaluation's products are the plan's too";
  EXPECT_EQ(emulated_cuda::loaded_kernels(0), loaded);
  EXPECT_EQ(read_product_file(product_file(c)).value(), chosen);
}

TEST_P(EmulatedProductTuning, LeavesNoTraceInARun) {
  for (const u32 devices : {1u, 2u}) {
    SCOPED_TRACE(devices);
    test::change_timing(0, static_cast<int>(devices));
    Config c = config("plain" + std::to_string(devices));
    c.machine.executor = first_gpus(devices);
    c.machine.tune_products = false;
    const Numbers plain = test::train_numbers(c);
    ASSERT_FALSE(plain.losses.empty());
    c.machine.tune_products = true;
    for (const char* run : {"timed", "known"}) {
      test::change_timing(1, static_cast<int>(devices));
      c.output.dir = dir_ / ("of" + std::to_string(devices)) + "/" + run;
      EXPECT_EQ(test::train_numbers(c), plain) << run;
    }
  }
}

TEST_P(EmulatedProductTuning, ASecondRunTakesWhatTheFirstChose) {
  emulated_cuda::reset({.operation_us = 100, .algorithms = {9, 1}});
  const Config first = config("first");
  test::train_numbers(first);
  const std::string kept = text_of(product_file(first));
  emulated_cuda::reset({.operation_us = 100, .algorithms = {1, 9}});
  test::train_numbers(config("second"));
  EXPECT_EQ(algorithms(), std::set<u64>{1});
  EXPECT_EQ(text_of(product_file(first)), kept);
}

TEST_P(EmulatedProductTuning, AlgorithmsDecideBitsAndOneFileDecidesAlgorithms) {
  test::change_timing(0);
  const Numbers advised = test::train_numbers([&] {
    Config c = config("advised");
    c.machine.tune_products = false;
    return c;
  }());
  // All but the first take equal time, so chance decides between them.
  const auto offer_equal_ones = [](u32 devices) {
    test::change_timing(1, static_cast<int>(devices));
    emulated_cuda::offer_algorithms(0, {200, 1, 1, 1, 1});
  };
  offer_equal_ones(1);
  Config one = config("one");
  const Numbers timed = test::train_numbers(one);
  EXPECT_NE(timed, advised) << "or this test would show nothing";
  for (const u32 devices : {1u, 2u}) {
    offer_equal_ones(devices);
    Config again = config("again" + std::to_string(devices));
    again.machine.executor = first_gpus(devices);
    again.train.gradient_accumulation_steps = 2 / devices;
    EXPECT_EQ(test::train_numbers(again), timed) << devices;
  }
}

TEST_P(EmulatedProductTuning, ARunThatLeavesNothingTimesForItselfAlone) {
  emulated_cuda::reset({.operation_us = 100, .algorithms = {9, 1}});
  Config c = config();
  c.output.save = false;
  test::train_numbers(c);
  EXPECT_TRUE(algorithms().contains(1));
  EXPECT_FALSE(std::filesystem::exists(product_file(c)));
}

TEST_P(EmulatedProductTuning, WithoutAFileToKeepThemInNothingIsTimed) {
  emulated_cuda::reset({.operation_us = 100, .algorithms = {9, 1}});
  const Config c = config();
  std::filesystem::create_symlink(dir_ / "nowhere/at-all", product_file(c));
  const std::string said = words_of_run(c);
  EXPECT_EQ(algorithms(), std::set<u64>{0});
  EXPECT_THAT(said, HasSubstr("made by cuBLASLt's first advice: cannot open"));
}

TEST_P(EmulatedProductTuning, ASessionThatOnlyReadsTimesNothing) {
  emulated_cuda::reset({.operation_us = 100, .algorithms = {9, 1}});
  const Config c = config();
  const ModelGraph graph = make_graph(c).value();
  NoData source;
  for (const u64 expected : {0u, 1u}) {
    emulated_cuda::clear_calls();
    Session::create(c, graph, make_plan(graph, plan_options(c)).value(), source).value();
    EXPECT_EQ(algorithms(), std::set<u64>{expected});
    EXPECT_EQ(std::filesystem::exists(product_file(c)), expected == 1);
    if (expected == 0) test::train_numbers(c);
  }
}

TEST_P(EmulatedProductTuning, AResumeWithOtherAlgorithmsSaysSo) {
  emulated_cuda::reset({.operation_us = 100, .algorithms = {9, 1}});
  Config c = config();
  c.output.save_steps = 3;
  test::train_numbers(c);
  c.train.max_steps = 4;
  const char* changed = "changed since the checkpoint: algorithms of matrix products";
  EXPECT_THAT(words_of_run(c, "auto"), ::testing::Not(HasSubstr(changed)));
  std::filesystem::remove(product_file(c));
  emulated_cuda::reset({.operation_us = 100, .algorithms = {9, 5, 1}});
  c.train.max_steps = 5;
  EXPECT_THAT(words_of_run(c, "auto"), HasSubstr(changed));
  c.machine.tune_products = false;
  c.train.max_steps = 6;
  EXPECT_THAT(words_of_run(c, "auto"), HasSubstr("first advice now"));
}

TEST_P(EmulatedProductTuning, AFileOfSomethingElseIsNamedAndLeftAlone) {
  emulated_cuda::reset();
  const Config c = config();
  const std::string text = "a recipe\n";
  std::ofstream(product_file(c)) << text;
  test::expect_run_error(c, ErrorKind::usage, {"tuned-products.txt is no file", "Remove it"});
  EXPECT_EQ(text_of(product_file(c)), text);
}

TEST_P(EmulatedProductTuning, AProductThatTheLibraryRefusesEndsTheRunBeforeItsFirstStep) {
  emulated_cuda::reset({.algorithms = {0}});
  test::expect_run_error(config(), ErrorKind::io, {"cuBLASLt refuses the product", "NOT_SUPPORTED"});
}

TEST_P(EmulatedProductTuning, AProgramWithoutKernelsForTheCardSaysSo) {
  emulated_cuda::reset();
  emulated_cuda::set_faults({.kernel_load = 5});
  test::expect_run_error(config(), ErrorKind::usage, {"loading", "kernels"});
}

INSTANTIATE_TEST_SUITE_P(Precisions, EmulatedProductTuning,
                         ::testing::Values(Precision::fp32, Precision::bf16, Precision::fp16),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace
}  // namespace tidepool
