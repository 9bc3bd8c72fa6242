// Probing a GPU, and deriving rates from the measurements, in virtual time.
#include <gmock/gmock.h>

#include "cli/bench/bench_device.h"
#include "cli/bench/measured_choice.h"
#include "cli/probe_text.h"
#include "machine/machine_file.h"
#include "probe/benches.h"
#include "probe/gpu_meters.h"
#include "probe/machine_of.h"
#include "tests/support/fake_device.h"

namespace tidepool::gpu_test {

using test::FakeDevice;
using test::FakeRates;
using ::testing::HasSubstr;

constexpr double close = 0.003;  // relative to a rate: waits are 20 us of slices of 20 ms

const DeviceFacts card{.name = "Card", .count = 2, .memory = Bytes{80 * gib}, .processors = 132};

GpuWork small_work() {
  return {.products = {{64, 64, 64}, {128, 64, 64}},
          .layer = {.vocab_size = 64, .positions = 32, .width = 64, .layers = 1, .attention = {.heads = 1}},
          .batch = {.sequences = 1, .tokens = 32},
          .elements = 4096,
          .copies = {.bytes = Bytes{128 * kib}, .piece = Bytes{64 * kib}}};
}

FakeDevice make_device(const FakeRates& rates = {}, const DeviceFacts& facts = card) {
  return FakeDevice(rates, facts, small_work().memory(), small_work().host_memory());
}

Rates measure(FakeDevice& device, u32 rounds = 2) {
  const GpuMeterOptions options{.work = small_work(), .now = device.clock()};
  Rates rates;
  const auto compute = create_gpu_compute_meter(device, options).value(),
             copy = create_copy_meter(device, {.work = options.work.copies, .now = options.now});
  for (u32 round = 0; round < rounds; ++round) {
    EXPECT_TRUE(compute->measure(rates));
    EXPECT_TRUE(copy->measure(rates));
  }
  return rates;
}

void expect_rate(const Rates& rates, std::string_view key, double value) {
  ASSERT_NE(rates.find(key), nullptr) << key;
  EXPECT_NEAR(rates.median(key), value, close * value) << key;
}

TEST(ProbeGpu, RatesAreThoseOfTheDevice) {
  FakeDevice device = make_device();
  const Rates rates = measure(device);
  for (const u32 i : {0u, 1u}) {
    expect_rate(rates, product_key(Precision::fp32, i), 50e9);
    expect_rate(rates, product_key(Precision::bf16, i), 800e9);
  }
  expect_rate(rates, "device.memory_rate", 4e9);
  expect_rate(rates, "device.update", 4e9);
  expect_rate(rates, "copies.h2d", 50e9);
  expect_rate(rates, "copies.d2h", 40e9);
  expect_rate(rates, "copies.both", 80e9);
  EXPECT_EQ(rates.find("copies.both")->samples.size(), 2u);
}

// Each 64 KiB takes 1.3 us h2d and 1.6 us d2h, plus 5 us per copy.
TEST(ProbeGpu, OverheadOfEachCopyAndKernelCounts) {
  FakeDevice device = make_device({.kernel = 2e-6, .copy = 5e-6});
  const Rates rates = measure(device);
  const double bytes = 64 * 1024;
  expect_rate(rates, "copies.h2d", bytes / (bytes / 50e9 + 5e-6));
  expect_rate(rates, "copies.both", 2 * bytes / (bytes / 40e9 + 5e-6));
  expect_rate(rates, launch_key, 2e-6);
  expect_rate(rates, "device.memory_rate", 6 * 4096 / (6 * 4096 / 4e9 + 2e-6));
}

MachineFacts facts_of(const DeviceFacts& gpu) {
  const Precision precision = layer_precision(gpu);
  return {.cpu = "Host",
          .cores = 16,
          .memory = Bytes{128 * gib},
          .gpu = gpu,
          .layer = layer_costs(small_work(), precision),
          .layer_precision = precision};
}

void add_host(Rates& rates) {
  for (const char* key : {"host.memory_rate", "host.adam", "host.checksum"})
    rates.add(key, key, SampleUnit::bytes_per_s, 200e9);
}

TEST(ProbeGpu, AMachineFileForThePlanner) {
  FakeDevice device = make_device({.kernel = 2e-6});
  ProbeResult result{.rates = measure(device), .rounds = 2, .seconds = 40};
  add_host(result.rates);
  result.machine = machine_of(result.rates, facts_of(card));
  result.machine.name = "box";
  const DeviceRates& d = result.machine.device;
  EXPECT_EQ(d.kind, DeviceKind::cuda);
  EXPECT_EQ(d.name, "Card");
  EXPECT_EQ(d.count, 2u);
  EXPECT_EQ(d.processors, 132u);
  EXPECT_EQ(d.memory, Bytes{80 * gib});
  EXPECT_EQ(d.op_overhead, Nanos{2000});
  EXPECT_EQ(d.flops_per_s[2], d.flops_per_s[1]) << "fp16 as bf16";
  EXPECT_GT(d.block_efficiency, 0);
  const std::string yaml = probe_yaml(result, "");
  const auto read = parse_machine(yaml, "box.yaml");
  ASSERT_TRUE(read) << read.error().message << "\n" << yaml;
  EXPECT_EQ(read->device, result.machine.device);
  EXPECT_EQ(read->copies, result.machine.copies);
  EXPECT_THAT(probe_table(result), HasSubstr("2 x Card, 80.00 GiB of memory each, 132 processors"));
  EXPECT_THAT(probe_table(result), HasSubstr("AdamW on the device"));
  EXPECT_THAT(probe_json(result, ""), HasSubstr("\"device_kind\":\"cuda\""));
  std::istringstream lines(probe_table(result));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
}

TEST(ProbeGpu, ACardWithoutBf16) {
  DeviceFacts old = card;
  old.has_bf16 = false;
  FakeDevice device = make_device({}, old);
  Rates rates = measure(device, 1);
  EXPECT_EQ(best_product(rates, Precision::bf16), nullptr);
  add_host(rates);
  const Machine machine = machine_of(rates, facts_of(old));
  EXPECT_EQ(machine.device.flops_per_s[1], machine.device.flops_per_s[0]);
}

TEST(ProbeGpu, ARefusalOfTheDeviceEndsTheProbe) {
  FakeDevice device = make_device();
  const auto meter = create_gpu_compute_meter(device, {.work = small_work(), .now = device.clock()}).value();
  device.failure = {ErrorKind::io, "the card is gone"};
  Rates rates;
  const auto measured = meter->measure(rates);
  ASSERT_FALSE(measured);
  EXPECT_EQ(measured.error().message, "the card is gone");
}

TEST(ProbeGpu, WorkShrinksUntilItFits) {
  EXPECT_LT(GpuWork{}.memory(), Bytes{7 * gib}) << "what a card of 8 GiB has free";
  for (const u64 memory : {16 * gib, 4 * gib, gib, gib / 4}) {
    const GpuWork work = work_within({}, Bytes{memory});
    EXPECT_LE(work.memory(), Bytes{memory});
    EXPECT_GE(work.products[0].m, 256u);
  }
}

TEST(ProbeGpu, ChoosesTheDeviceByName) {
  const auto cores = choose_measured("cpu"), any = choose_measured("auto");
  ASSERT_TRUE(cores && any);
  EXPECT_FALSE(cores->gpu);
  for (const char* wrong : {"gpu", "cuda:", "cuda:x", "cuda:99999", "cudax"}) {
    const auto choice = choose_measured(wrong);
    ASSERT_FALSE(choice) << wrong;
    EXPECT_EQ(choice.error().kind, ErrorKind::usage);
  }
}

// ---- benchmarks

TEST(BenchDevice, CopiesAgainstAPlainOne) {
  constexpr Bytes plain{mib}, piece{64 * kib};
  FakeDevice device({.copy = 10e-6}, card, plain * 2, plain * 2);
  const auto result = bench_copies(device, plain, {piece}, {.repetitions = 3, .now = device.clock()});
  ASSERT_TRUE(result);
  const auto seconds = [](double copies, double rate) { return 1048576 / rate + copies * 10e-6; };
  ASSERT_EQ(result->rows.size(), 1u);
  EXPECT_NEAR(result->rows[0].ways[0].fraction, seconds(1, 50e9) / seconds(16, 50e9), close);
  EXPECT_NEAR(result->rows[0].ways[1].fraction, seconds(1, 40e9) / seconds(16, 40e9), close);
  EXPECT_EQ(result->rows[0].ways[2].samples.size(), 3u);
  EXPECT_EQ(result->plain_rows[2].fraction, 1);
  const std::string table = copy_table(*result);
  EXPECT_THAT(table, HasSubstr("64KiB"));
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
}

TEST(BenchDevice, ProductsOfALayerAgainstTheBestOfThem) {
  const auto products = layer_products(64, 32);
  ASSERT_EQ(products.size(), 15u);
  FakeDevice device({.kernel = 1e-6}, card, product_memory(products, Precision::bf16), Bytes{64 * kib});
  const auto rows =
      bench_products(device, products, Precision::bf16, {.repetitions = 3, .now = device.clock()});
  ASSERT_TRUE(rows);
  // The larger the product, the less its extra microsecond counts: "mlp in" and "mlp out" are the largest.
  for (u32 i = 0; i < rows->size(); ++i) {
    const double flops = products[i].shape.flops();
    const double rate = flops / (flops / 800e9 + 1e-6), best = 8 * 32 * 32 * 64;
    EXPECT_NEAR((*rows)[i].rate(), rate, close * rate) << products[i].name;
    EXPECT_NEAR((*rows)[i].fraction, rate / (best / (best / 800e9 + 1e-6)), close) << products[i].name;
  }
  std::istringstream lines(gemm_table(layer_products(8192, 4096), *rows));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
}

TEST(BenchDevice, AttentionsFlopsByTheStatedFormula) {
  const AttentionWork work{.shape = {.sequences = 2, .tokens = 64, .heads = 2, .head_size = 32},
                           .peak_side = 64};
  EXPECT_EQ(work.forward_flops(), 4.0 * 2 * 2 * 64 * 64 * 32 / 2);
  FakeDevice device({.kernel = 1e-6}, card, work.memory(), Bytes{64 * kib});
  const auto result = bench_attention(device, work, {.repetitions = 3, .now = device.clock()});
  ASSERT_TRUE(result);
  ASSERT_EQ(result->rows.size(), 3u);
  EXPECT_NEAR(result->rows[0].rate(), work.forward_flops() / 1e-6, close * work.forward_flops() / 1e-6);
  EXPECT_NEAR(result->rows[2].rate(), 3.5 * work.forward_flops() / 2e-6,
              close * 2 * work.forward_flops() / 1e-6);
  EXPECT_NEAR(result->rows[0].fraction, result->rows[0].rate() / result->peak, 1e-12);
  std::istringstream lines(attention_table(work, *result));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
}

TEST(BenchDevice, AttentionInTilesCopiesAndComputesEachTile) {
  const AttentionWork work{.shape = {.sequences = 1, .tokens = 64, .heads = 2, .head_size = 32},
                           .peak_side = 64,
                           .tile_tokens = 24};
  FakeDevice device({.kernel = 1e-6}, card, work.memory(), Bytes{64 * kib});
  const auto result = bench_attention(device, work, {.repetitions = 3, .now = device.clock()});
  ASSERT_TRUE(result);
  constexpr double tiles = 3, forward = 2 * tiles * 1e-6, backward = tiles * 1e-6;
  EXPECT_NEAR(result->rows[0].rate(), work.forward_flops() / forward, close * work.forward_flops() / forward);
  EXPECT_NEAR(result->rows[1].rate(), work.backward_flops() / backward,
              close * work.backward_flops() / backward);
}

}  // namespace tidepool::gpu_test
