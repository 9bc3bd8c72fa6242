#include <fmt/format.h>
#include <gmock/gmock.h>

#include <sstream>

#include "cli/probe_text.h"
#include "machine/machine_file.h"
#include "probe/disk_meter.h"
#include "probe/machine_of.h"
#include "probe/meter.h"
#include "probe/products.h"

namespace tidepool::rates_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr SampleUnit bytes = SampleUnit::bytes_per_s, flops = SampleUnit::flops_per_s;

Rates some_rates() {
  Rates rates;
  for (u32 i = 0; i < std::size(products); ++i) {
    rates.add(product_key(Precision::fp32, i), "", flops, 100e9 + 10e9 * i);
    rates.add(product_key(Precision::bf16, i), "", flops, 200e9 - 20e9 * i);
  }
  rates.add(layer_key, "", flops, 150e9);
  rates.add(wake_up_key, "", SampleUnit::seconds, 5.06e-6);
  for (const char* key : {"device.memory_rate", "copies.h2d", "copies.d2h", "copies.both", "host.memory_rate",
                          "host.adam", "host.checksum"})
    rates.add(key, "", bytes, 12345678901.0);
  return rates;
}

TEST(ProbeRates, SamplesReadAsPeopleReadThem) {
  EXPECT_EQ(sample_text(bytes, 12.34e9), "12.3 GB/s");
  EXPECT_EQ(sample_text(bytes, 999.6e6), "1.00 GB/s");
  EXPECT_EQ(sample_text(bytes, 5), "5.00 B/s");
  EXPECT_EQ(sample_text(flops, 131.4e9), "131 GFLOP/s");
  EXPECT_EQ(sample_text(flops, 99.96e12), "100 TFLOP/s");
  EXPECT_EQ(sample_text(SampleUnit::seconds, 5.06e-6), "5.06 us");
  EXPECT_EQ(sample_text(SampleUnit::seconds, 2), "2.00 s");
}

TEST(ProbeRates, MedianAndSpreadAreOfAllRounds) {
  Rates rates;
  for (double value : {3.0, 9.0, 1.0, 4.0}) rates.add("a", "what", bytes, value);
  EXPECT_EQ(rates.median("a"), 3.5);
  EXPECT_EQ(rates.find("a")->least(), 1);
  EXPECT_EQ(rates.find("a")->most(), 9);
  EXPECT_EQ(rates.find("b"), nullptr);
}

TEST(ProbeRates, AMachineHasTheBestProductsAndRoundedMedians) {
  const MachineFacts facts{.cpu = "a CPU", .cores = 8, .numa_nodes = 2, .memory = Bytes{gib}};
  const Machine m = machine_of(some_rates(), facts);
  EXPECT_EQ(m.device.kind, DeviceKind::cpu);
  EXPECT_EQ(m.device.flops_per_s[0], 110e9);
  EXPECT_EQ(m.device.flops_per_s[1], 200e9);
  EXPECT_GT(m.device.block_efficiency, 0.75);  // 150 of 200 with memory-bound kernels
  EXPECT_LE(m.device.block_efficiency, 1.0);
  EXPECT_EQ(m.device.op_overhead, Nanos{5'100});
  EXPECT_EQ(m.copies.h2d_bytes_per_s, 1.235e10);
  EXPECT_EQ(m.host.cores, 8u);
  EXPECT_EQ(m.disk, DiskRates{});  // no disk was measured
}

TEST(ProbeRates, ALayerIsNeverFasterThanItsProducts) {
  Rates rates = some_rates();
  for (int i = 0; i < 3; ++i) rates.add(layer_key, "", flops, 300e9);
  EXPECT_EQ(machine_of(rates, {}).device.block_efficiency, 1.0);
}

TEST(ProbeRates, EveryPointOfTheDiskIsInTheMachine) {
  Rates rates = some_rates();
  for (const char* key : {"disk.read", "disk.write", "disk.mixed"}) rates.add(key, "", bytes, 2e9);
  for (Bytes block : point_blocks)
    for (u32 depth : point_depths)
      for (DiskPattern pattern : {DiskPattern::read, DiskPattern::write})
        rates.add(point_key(block, depth, pattern), "", bytes, 1e6 * depth);
  const DiskRates disk = machine_of(rates, {.disk_free = Bytes{gib + 1}}).disk;
  EXPECT_EQ(disk.capacity, Bytes{gib});
  ASSERT_EQ(disk.points.size(), point_blocks.size() * point_depths.size());
  EXPECT_EQ(disk.points[1], (DiskPoint{point_blocks[0], point_depths[1], 8e6, 8e6}));
}

// The layer is bf16. Even if bf16 products are slower than fp32 products, its share is relative to bf16
// products.
TEST(ProbeRates, ALayerOfBf16IsComparedWithBf16Products) {
  Rates rates = some_rates();
  for (u32 i = 0; i < std::size(products); ++i)
    for (int round = 0; round < 3; ++round) rates.add(product_key(Precision::fp32, i), "", flops, 400e9);
  const Machine machine = machine_of(rates, {});
  EXPECT_EQ(machine.device.flops_per_s[0], 400e9);
  EXPECT_NEAR(machine.device.block_efficiency, machine_of(some_rates(), {}).device.block_efficiency, 0.01);
  EXPECT_THAT(probe_table({.machine = machine, .rates = rates}), HasSubstr("of the best bf16 product"));
}

TEST(ProbeRates, WideSpreadsAreMarkedAndSaidWhatToDoAbout) {
  ProbeResult result{.rates = some_rates()};
  EXPECT_THAT(probe_table(result), Not(HasSubstr("!")));
  EXPECT_THAT(probe_yaml(result, ""), Not(HasSubstr("wide")));
  for (double value : {2e9, 10e9}) result.rates.add("host.adam", "", bytes, value);
  EXPECT_THAT(probe_table(result),
              AllOf(HasSubstr("6.17 !"), HasSubstr("!  1 of the 13 rates above: the most"),
                    HasSubstr("--seconds=120")));
  EXPECT_THAT(probe_yaml(result, ""), HasSubstr("wide, probe again"));
  EXPECT_THAT(probe_json(result, ""), HasSubstr("\"spread\":6.17"));
}

// Regression: the count included rates that the table does not show.
TEST(ProbeRates, WideRatesAreCountedByTheTableTheyStandIn) {
  ProbeResult result{.rates = some_rates(), .disk = "a disk"};
  for (const char* key : {"disk.read", "disk.write", "disk.mixed"}) result.rates.add(key, "", bytes, 2e9);
  for (Bytes block : point_blocks)
    for (u32 depth : point_depths)
      for (DiskPattern pattern : {DiskPattern::read, DiskPattern::write})
        result.rates.add(point_key(block, depth, pattern), "", bytes, 1e6);
  const u64 shown = result.rates.all().size() - 2 * point_blocks.size() * point_depths.size();
  result.rates.add(point_key(point_blocks[0], point_depths[0], DiskPattern::read), "", bytes, 9e6);
  const std::string points =
      fmt::format("1 of the {} rates in the disk's", 2 * point_blocks.size() * point_depths.size());
  EXPECT_THAT(probe_table(result), HasSubstr("  !  " + points));
  result.rates.add("host.adam", "", bytes, 2e9);
  const std::string table = probe_table(result);
  EXPECT_THAT(table, HasSubstr(fmt::format("  !  1 of the {} rates above, and {}", shown, points)));
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
}

// Samples of a busy machine may exceed the sum; machine files may not.
TEST(ProbeRates, BothAtOnceIsNotMoreThanTheSum) {
  Rates rates = some_rates();
  for (int i = 0; i < 3; ++i) rates.add("copies.both", "", bytes, 90e9);
  const Machine machine = machine_of(rates, {});
  EXPECT_EQ(machine.copies.both_bytes_per_s, machine.copies.h2d_bytes_per_s + machine.copies.d2h_bytes_per_s);
}

// Beside other work any rate may be measured too high or too low; the machine file of probe must still be
// accepted.
TEST(ProbeRates, AMeasuredMachineIsNeverRefused) {
  const char* keys[] = {"copies.h2d",       "copies.d2h", "copies.both",
                        "host.memory_rate", "host.adam",  "disk.mixed"};
  for (const char* odd : keys) {
    for (double factor : {0.02, 0.5, 1.6, 50.0}) {
      Rates rates = some_rates();
      for (const char* key : {"disk.read", "disk.write", "disk.mixed"})
        rates.add(key, "", bytes, 2.3456789e9);
      for (Bytes block : point_blocks)
        for (u32 depth : point_depths)
          for (DiskPattern pattern : {DiskPattern::read, DiskPattern::write})
            rates.add(point_key(block, depth, pattern), "", bytes, 1e9);
      const double usual = rates.median(odd);
      for (int i = 0; i < 3; ++i) rates.add(odd, "", bytes, factor * usual);
      const Machine machine =
          machine_of(rates, {.cores = 2, .numa_nodes = 1, .memory = Bytes{gib}, .disk_free = Bytes{gib}});
      const auto read = parse_machine(to_yaml(machine), "probed");
      EXPECT_TRUE(read) << read.error().message;
    }
  }
}

}  // namespace tidepool::rates_test
