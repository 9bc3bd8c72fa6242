// Work of a GPU before the first step: kernels are loaded, and algorithms of products are chosen.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "config/config.h"
#include "executor/cuda/cuda_devices.h"
#include "executor/product_file.h"
#include "fit/job.h"
#include "session/session.h"
#include "tests/cuda/recorded_run.h"
#include "tests/support/asked_plan.h"
#include "tests/support/file_text.h"
#include "tests/support/segments.h"

namespace tidepool::emulated_product_tuning_test {

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
  // Algorithms of all products that have run.
  static std::set<u64> algorithms() {
    std::set<u64> out;
    for (const Call& call : emulated_cuda::calls())
      if (call.kind == CallKind::matmul) out.insert(call.algorithm);
    return out;
  }
  Result<std::unique_ptr<Session>> try_to_open(const Config& c, const SessionOptions& options) {
    const Job job = make_job(c).value();
    return Session::create(job, make_plan(job.graph, job.options).value(), source_, options);
  }
  std::unique_ptr<Session> open(const Config& c, const SessionOptions& options) {
    auto session = try_to_open(c, options);
    EXPECT_TRUE(session) << session.error().message;
    return std::move(session).value();
  }
  // Algorithms of the products of two steps.
  static std::set<u64> algorithms_of_steps(Session& session) {
    emulated_cuda::clear_calls();
    test::Recorder recorder(session.executor());
    const auto engine = Engine::create(session.plan(), recorder, {});
    test::SegmentList list(test::training_runs(2, true));
    EngineObserver nobody;
    EXPECT_TRUE(engine->run(list, nobody));
    return algorithms();
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
  NoData source_;
};

TEST_P(EmulatedProductTuning, StepsChooseAndLoadNothing) {
  emulated_cuda::reset({.operation_us = 100, .algorithms = {3, 1}});
  const Config c = config();
  const auto session = open(c, {.product_timing = ProductTiming::keep});
  const u64 loaded = emulated_cuda::loaded_kernels(0);
  const AlgorithmsByProduct chosen = read_product_file(product_file(c)).value();
  EXPECT_GT(chosen.size(), 5u);
  EXPECT_EQ(algorithms_of_steps(*session), std::set<u64>{1});
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

TEST_P(EmulatedProductTuning, ASecondRunReusesTheChoicesOfTheFirst) {
  emulated_cuda::reset({.operation_us = 100, .algorithms = {9, 1}});
  const Config first = config("first");
  test::train_numbers(first);
  const std::string kept = test::file_text(product_file(first));
  emulated_cuda::reset({.operation_us = 100, .algorithms = {1, 9}});
  test::train_numbers(config("second"));
  EXPECT_EQ(algorithms(), std::set<u64>{1});
  EXPECT_EQ(test::file_text(product_file(first)), kept);
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

TEST_P(EmulatedProductTuning, ARunThatKeepsNothingTimesForItselfAlone) {
  emulated_cuda::reset({.operation_us = 100, .algorithms = {9, 1}});
  Config c = config();
  EXPECT_EQ(algorithms_of_steps(*open(c, {.product_timing = ProductTiming::for_now})), std::set<u64>{1});
  c.output.save = false;
  EXPECT_THAT(words_of_run(c), HasSubstr("timed for this run only, because it keeps nothing for later runs"));
  EXPECT_FALSE(std::filesystem::exists(product_file(c)));
}

TEST_P(EmulatedProductTuning, TheFileIsHeldOnlyWhileProductsAreTimed) {
  emulated_cuda::reset({.operation_us = 100, .algorithms = {9, 1}});
  const Config c = config();
  std::optional<bool> held;
  const auto open_disk = [&](const DiskSink&) -> Result<std::unique_ptr<Disk>> {
    held = !ProductFile::open(product_file(c), {.patience = Nanos{}});
    return Error{ErrorKind::io, "no disk"};
  };
  const auto session = try_to_open(c, {.open_disk = open_disk, .product_timing = ProductTiming::keep});
  ASSERT_FALSE(session);
  EXPECT_EQ(session.error().message, "no disk");
  EXPECT_EQ(held, false) << "opening the disk may take long";
  EXPECT_FALSE(read_product_file(product_file(c)).value().empty());
}

TEST_P(EmulatedProductTuning, ARunWithKnownProductsDoesNotWaitForTheLock) {
  emulated_cuda::reset({.operation_us = 100, .algorithms = {9, 1}});
  const Config c = config();
  open(c, {.product_timing = ProductTiming::keep});
  const ProductFile other = ProductFile::open(product_file(c)).value();
  const auto session = open(c, {.product_timing = ProductTiming::keep,
                                .say = [](const std::string& line) { ADD_FAILURE() << line; }});
  EXPECT_THAT(session->notes(), ::testing::Not(::testing::Contains(HasSubstr("first advice"))));
  EXPECT_EQ(algorithms_of_steps(*session), std::set<u64>{1});
}

TEST_P(EmulatedProductTuning, AWaitingRunSaysSoAndTakesTheChoicesOfTheOther) {
  emulated_cuda::reset({.operation_us = 100, .algorithms = {9, 1}});
  const Config other = config("elsewhere/run"), c = config();
  open(other, {.product_timing = ProductTiming::keep});
  const AlgorithmsByProduct timed = read_product_file(product_file(other)).value();
  std::optional<ProductFile> holder = ProductFile::open(product_file(c)).value();
  std::vector<std::string> said;
  emulated_cuda::reset({.operation_us = 100, .algorithms = {1, 9}});
  const auto end_timing = [&](const std::string& line) {
    said.push_back(line);
    EXPECT_TRUE(holder->append(timed));
    holder.reset();
  };
  const auto session = open(c, {.product_timing = ProductTiming::keep, .say = end_timing});
  EXPECT_THAT(said, ::testing::ElementsAre(HasSubstr("waiting for " + product_file(c))));
  EXPECT_EQ(algorithms_of_steps(*session), std::set<u64>{1});
}

TEST_P(EmulatedProductTuning, ARunWhoseChoicesAreNotKeptSaysSo) {
  emulated_cuda::reset({.operation_us = 100, .algorithms = {9, 1}});
  const Config c = config();
  const std::string full = "# tidepool tuned products 1\n# " + std::string(16 * mib - 100, '-') + "\n";
  std::ofstream(product_file(c)) << full;
  EXPECT_THAT(words_of_run(c),
              HasSubstr("timed, but not kept, so a later run may choose other algorithms and differ in its "
                        "last bits: " +
                        product_file(c) + " would be larger"));
  EXPECT_EQ(test::file_text(product_file(c)), full);
}

TEST_P(EmulatedProductTuning, WithoutAFileToKeepThemInNothingIsTimed) {
  emulated_cuda::reset({.operation_us = 100, .algorithms = {9, 1}});
  const Config c = config();
  std::filesystem::create_symlink(dir_ / "nowhere/at-all", product_file(c));
  const std::string said = words_of_run(c);
  EXPECT_EQ(algorithms(), std::set<u64>{0});
  EXPECT_THAT(said, HasSubstr("use cuBLASLt's first advice: cannot write"));
}

TEST_P(EmulatedProductTuning, ASessionThatOnlyReadsTimesNothing) {
  emulated_cuda::reset({.operation_us = 100, .algorithms = {9, 1}});
  const Config c = config();
  for (const u64 expected : {0u, 1u}) {
    emulated_cuda::clear_calls();
    open(c, {});
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
  EXPECT_THAT(words_of_run(c, "auto"),
              ::testing::AllOf(HasSubstr(changed),
                               HasSubstr("for the same bits restore that run's tuned-products.txt "
                                         "as " +
                                         product_file(c))));
  c.machine.tune_products = false;
  c.train.max_steps = 6;
  EXPECT_THAT(words_of_run(c, "auto"),
              HasSubstr("first advice now; for the same bits set machine.tune_products=true"));
  c.machine.tune_products = true;
  c.train.max_steps = 7;
  EXPECT_THAT(words_of_run(c, "auto"), HasSubstr("; for the same bits set machine.tune_products=false"));
}

TEST_P(EmulatedProductTuning, AResumeWithOtherBudgetsHasTheSameAlgorithms) {
  emulated_cuda::reset({.operation_us = 100, .algorithms = {9, 1}});
  Config c = config();
  c.output.save_steps = 3;
  test::train_numbers(c);
  const std::string kept = test::file_text(product_file(c));
  c.memory.budgets.device = Bytes{128 * mib};
  c.memory.budgets.host = Bytes{48 * mib};
  c.memory.home = HomePolicy::host;
  c.train.max_steps = 4;
  EXPECT_THAT(words_of_run(c, "auto"), ::testing::Not(HasSubstr("algorithms of matrix products")));
  EXPECT_EQ(test::file_text(product_file(c)), kept);
}

TEST_P(EmulatedProductTuning, AFileThatCannotBeReadEndsTheRun) {
  emulated_cuda::reset();
  const Config c = config();
  std::filesystem::create_directory(product_file(c));
  test::expect_run_error(
      c, ErrorKind::usage,
      {"tuned-products.txt: is not a regular file but a directory", "make it readable, or remove it"});
}

TEST_P(EmulatedProductTuning, AFileInAnotherFormatIsNamedAndNotChanged) {
  emulated_cuda::reset();
  const Config c = config();
  const std::string text = "a recipe\n";
  std::ofstream(product_file(c)) << text;
  test::expect_run_error(c, ErrorKind::usage, {"tuned-products.txt is no file", "Remove it"});
  EXPECT_EQ(test::file_text(product_file(c)), text);
}

TEST_P(EmulatedProductTuning, AProductThatTheLibraryRefusesEndsTheRunBeforeItsFirstStep) {
  emulated_cuda::reset({.algorithms = {0}});
  test::expect_run_error(config(), ErrorKind::io, {"cuBLASLt refuses the product", "NOT_SUPPORTED"});
}

TEST_P(EmulatedProductTuning, AProgramWithoutKernelsForTheCardIsAnError) {
  emulated_cuda::reset();
  emulated_cuda::set_faults({.kernel_load = 5});
  test::expect_run_error(config(), ErrorKind::usage, {"loading", "kernels"});
}

INSTANTIATE_TEST_SUITE_P(Precisions, EmulatedProductTuning,
                         ::testing::Values(Precision::fp32, Precision::bf16, Precision::fp16),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace tidepool::emulated_product_tuning_test
