#include <gmock/gmock.h>

#include <filesystem>
#include <sstream>

#include "base/text/rate_text.h"
#include "machine/machine_file.h"
#include "machine/machine_keys.h"
#include "tests/support/file_text.h"
#include "tests/support/places.h"

namespace tidepool::file_test {

using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string source_dir = source_file("");

// The required keys of a machine file.
const std::string small =
    "device:\n"                  // 1
    "  memory: 24GiB\n"          // 2
    "  memory_rate: 907 GB/s\n"  // 3
    "  fp32: 82.6 TFLOP/s\n"     // 4
    "copies:\n"                  // 5
    "  h2d: 24.7 GB/s\n"         // 6
    "  d2h: 24.7e9 B/s\n"        // 7
    "  both: 43.5 gb/s\n"        // 8
    "host:\n"                    // 9
    "  cores: 16\n"              // 10
    "  memory: 128GB\n"          // 11
    "  memory_rate: 49 GB/s\n"   // 12
    "  adam: 45 GB/s\n";         // 13

std::string with(const std::string& from, const std::string& to) {
  std::string text = small;
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string error_of(const std::string& yaml) {
  const auto machine = parse_machine(yaml, "box.yaml");
  if (machine) return "none";
  EXPECT_EQ(machine.error().kind, ErrorKind::usage);
  return machine.error().message;
}

Machine full_machine() {
  Machine m{.name = "a \"box\" \\", .date = "2026-01-31"};
  m.device = {.name = "Tesla: V100 #1", .kind = DeviceKind::cuda, .count = 4, .memory = Bytes{32 * gib}};
  m.device.flops_per_s = {15.7e12, 1.0 / 3 * 1e14, 125e12};
  m.device.block_efficiency = 0.6123456789;
  m.device.processors = 80;
  m.device.op_overhead = Nanos{5'123};
  m.copies = {.h2d_bytes_per_s = 12.3e9, .d2h_bytes_per_s = 12345678901.5, .both_bytes_per_s = 22e9};
  m.copies.switches = {{0, 1}, {2, 3}};
  m.copies.switch_bytes_per_s = 12.5e9;
  m.host = {.name = "", .cores = 48, .numa_nodes = 2, .memory = Bytes{240'000'000'000}};
  m.disk = {.capacity = Bytes{3'000'000'000'000}, .endurance = Bytes{4'840'000'000'000'000}};
  m.disk.points = {{Bytes{64 * kib}, 1, 1e8 / 3, 2e8}, {Bytes{4 * mib}, 32, 3.2e9, 1.8e9}};
  m.network = {.nodes = 4, .bytes_per_s = 12.5e9, .latency = Nanos{5'000}};
  return m;
}

TEST(RateText, ReadsWhatPeopleWrite) {
  const auto bytes = [](std::string_view text) { return parse_rate(text, RateUnit::bytes).value(); };
  const auto flops = [](std::string_view text) { return parse_rate(text, RateUnit::flops).value(); };
  EXPECT_EQ(bytes("53.5 GB/s"), 53.5e9);
  EXPECT_EQ(bytes("53.5GB/s"), 53.5e9);
  EXPECT_EQ(bytes("1.8 tb/s"), 1.8e12);
  EXPECT_EQ(bytes("2 GiB/s"), 2.0 * gib);
  EXPECT_EQ(bytes("1e9 B/s"), 1e9);
  EXPECT_EQ(bytes("0"), 0);
  EXPECT_EQ(bytes("7 B/s"), 7);
  EXPECT_EQ(flops("112 TFLOP/s"), 112e12);
  EXPECT_EQ(flops("112 TFLOPS"), 112e12);
  EXPECT_EQ(flops("1.3 PFLOP/s"), 1.3e15);
  for (const char* bad : {"", "GB/s", "fast", "1 GB", "1 Gbit/s", "1 FLOP/s", "-1 GB/s", "1e400 GB/s", "nan",
                          "inf", "1 2 GB/s", "1 GB/s 2", "1e9", "15.12"})
    EXPECT_FALSE(parse_rate(bad, RateUnit::bytes)) << bad;
}

TEST(RateText, GivesTheSameBitsAgain) {
  EXPECT_EQ(format_rate(53.5e9, RateUnit::bytes), "53.5 GB/s");
  EXPECT_EQ(format_rate(125e12, RateUnit::flops), "125 TFLOP/s");
  EXPECT_EQ(format_rate(1500, RateUnit::bytes), "1.5 KB/s");
  for (double rate = 1e-3; rate < 1e19; rate *= 3.3333)
    for (double value : {rate, rate / 3, rate + 1e-7 * rate})
      EXPECT_EQ(parse_rate(format_rate(value, RateUnit::bytes), RateUnit::bytes).value(), value);
  for (u64 nanos : {u64{0}, u64{7}, u64{2'000}, u64{2'001}, u64{5'000'000}, u64{23'100}, u64{7'000'000'000},
                    u64{1'000'000'001}, u64{123'456'789'012}})
    EXPECT_EQ(parse_duration(format_duration(Nanos{nanos})).value(), Nanos{nanos});
  EXPECT_EQ(parse_duration("1.5 us").value(), Nanos{1'500});
  EXPECT_EQ(format_duration(Nanos{23'100}), "23.1 us");
  EXPECT_EQ(format_duration(Nanos{2'000'000'000}), "2 s");
  EXPECT_EQ(format_rate(0, RateUnit::bytes), "0");
  EXPECT_FALSE(parse_duration("1 hour"));
  EXPECT_FALSE(parse_duration("5"));
  EXPECT_EQ(parse_duration("0").value(), Nanos{0});
}

TEST(MachineFile, TheLeastFileStandsForTheRest) {
  const auto read =
      parse_machine(small + "disk:\n  capacity: 2TB\n  read: 6 GB/s\n  write: 3 GB/s\n", "box.yaml");
  ASSERT_TRUE(read) << read.error().message;
  const Machine& m = *read;
  EXPECT_EQ(m.device.memory, Bytes{24 * gib});
  EXPECT_EQ(m.device.flops_per_s[1], 82.6e12);
  EXPECT_EQ(m.device.flops_per_s[2], 82.6e12);
  EXPECT_EQ(m.copies.d2h_bytes_per_s, 24.7e9);
  EXPECT_EQ(m.copies.both_bytes_per_s, 43.5e9);
  EXPECT_EQ(m.host.checksum_bytes_per_s, 49e9);
  EXPECT_EQ(m.host.memory, Bytes{128'000'000'000});
  EXPECT_DOUBLE_EQ(m.disk.mixed_bytes_per_s, 4e9);
  EXPECT_EQ(parse_machine(small, "box.yaml").value().disk, DiskRates{});
}

TEST(MachineFile, WrittenAndReadAgainItIsTheSame) {
  for (const Machine& machine :
       {full_machine(), Machine{.device = {.memory = Bytes{gib}}, .host = {.memory = Bytes{gib}}}}) {
    const std::string text = to_yaml(machine, {{"copies.h2d", "12.1 to 12.4 GB/s"}, {"name", "ours"}});
    const auto again = parse_machine(text, "box.yaml");
    ASSERT_TRUE(again) << again.error().message << "\n" << text;
    EXPECT_EQ(*again, machine) << text;
    EXPECT_THAT(text, HasSubstr("  # 12.1 to 12.4 GB/s\n  h2d: "));
  }
}

TEST(MachineFile, EveryKeyIsWrittenWithAComment) {
  const std::string text = to_yaml(full_machine());
  for (const MachineKey& key : machine_keys()) EXPECT_THAT(text, HasSubstr("# " + std::string(key.help)));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
}

TEST(MachineFile, TheDocsNameEveryKey) {
  const std::string docs = test::file_text(source_dir + "/docs/machine-files.md");
  for (const MachineKey& key : machine_keys())
    EXPECT_THAT(docs, HasSubstr("`" + std::string(key.section) + (key.section.empty() ? "" : ".") +
                                std::string(key.key) + "`"));
}

TEST(MachineFile, ShippedOnesAreGoodAndSayWhereRatesComeFrom) {
  u32 count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source_dir + "/configs/machines")) {
    ++count;
    const auto machine = load_machine(entry.path().string());
    ASSERT_TRUE(machine) << machine.error().message;
    EXPECT_EQ(machine->name, entry.path().stem().string());
    EXPECT_LE(machine->copies.both_bytes_per_s,
              machine->copies.h2d_bytes_per_s + machine->copies.d2h_bytes_per_s);
    EXPECT_EQ(parse_machine(to_yaml(*machine), "again").value(), *machine);
  }
  EXPECT_GE(count, 5u);
}

TEST(MachineFile, RefusesWrongValues) {
  struct Case {
    const char *from, *to, *says;
  };
  const Case cases[] = {
      {"24.7 GB/s", "0", "box.yaml:6: copies.h2d: '0' must be above 0; `tidepool probe` measures it"},
      {"24.7 GB/s", "0 GB/s", "must be above 0"},
      {"24.7 GB/s", "-1 GB/s", "box.yaml:6: copies.h2d: '-1 GB/s' is negative"},
      {"24.7 GB/s", "fast", "'fast' is not a rate; write it like 12.3 GB/s"},
      {"24.7 GB/s", "24.7 GB", "has the unknown unit 'GB'; write it like 12.3 GB/s"},
      {"24.7 GB/s", "24.7 TFLOP/s", "has the unknown unit 'TFLOP/s'"},
      {"24.7 GB/s", "nan", "is not a rate"},
      {"24.7 GB/s", "1e999", "is not a rate"},
      {"24.7 GB/s", "[1, 2]", "copies.h2d: must be one value (rate)"},
      {"24.7 GB/s", "", "copies.h2d: has no value (rate)"},
      {"82.6 TFLOP/s", "82.6 GB/s",
       "box.yaml:4: device.fp32: '82.6 GB/s' has the unknown unit 'GB/s'; write"},
      {"fp32:", "fp23:", "box.yaml:4: unknown key 'fp23' in section 'device'; did you mean 'fp32'?"},
      {"h2d:", "adam:", "unknown key 'adam' in section 'copies'; it belongs in section 'host'"},
      {"h2d:", "d2h:", "'d2h' is here for the second time"},
      {"  h2d: 24.7 GB/s\n", "", "box.yaml: 'h2d' is missing in section 'copies': host to device"},
      {"copies:", "copis:", "box.yaml:5: unknown key 'copis'; did you mean 'copies'?"},
      {"cores: 16", "cores: \"1\\e[31m6\"", "host.cores: holds a control character"},
      {"cores: 16", "cores: 0", "host.cores: '0' must be above 0"},
      {"cores: 16", "cores: many", "host.cores: 'many' is not a whole number"},
      {"cores: 16", "cores: 99999999", "host.cores: '99999999' is too large"},
      {"24GiB", "24", "device.memory: '24' has no unit"},
      {"24GiB", "0", "device.memory: '0' must be above 0"},
      {"  memory: 24GiB", "  memory: 24GiB\n  kind: gpu", "device.kind: 'gpu' is not one of cpu, cuda"},
      {"  memory: 24GiB", "  memory: 24GiB\n  block_efficiency: 1.5", "must be above 0 and at most 1"},
      {"  memory: 24GiB", "  memory: 24GiB\n  op_overhead: 1 hour", "has the unknown unit 'hour'"},
      {"  memory: 24GiB", "  memory: 24GiB\n  op_overhead: 1e9 s",
       "box.yaml:3: device.op_overhead: '1e9 s' is too long; sensible are 0 to 1 s"},
      {"  memory: 24GiB", "  memory: 24GiB\n  op_overhead: 1e99 s", "op_overhead: '1e99 s' is too long"},
      {"  memory: 24GiB", "  memory: 24GiB\n  op_overhead: 5", "op_overhead: '5' has no unit; use ns, us"},
      {"  memory: 24GiB", "  memory: 24GiB\n  block_efficiency: 1e-300",
       "is too low; sensible are 0.001 to 1"},
      {"24.7 GB/s", "15.12", "box.yaml:6: copies.h2d: '15.12' has no unit; write it like 12.3 GB/s"},
      {"24.7 GB/s", "1e-300 GB/s", "copies.h2d: '1e-300 GB/s' is too low; sensible are 1 MB/s to 10 PB/s"},
      {"24.7 GB/s", "1e30 GB/s", "copies.h2d: '1e30 GB/s' is too high; sensible are 1 MB/s to 10 PB/s"},
      {"82.6 TFLOP/s", "82.6", "device.fp32: '82.6' has no unit; write it like 112 TFLOP/s"},
      {"82.6 TFLOP/s", "1 FLOP/s", "is too low; sensible are 10 MFLOP/s to 1000 PFLOP/s"},
      {"both: 43.5 gb/s", "both: 60 GB/s",
       "box.yaml:8: copies.both: 60 GB/s is more than h2d and d2h add up to (h2d 24.7 GB/s, d2h 24.7 GB/s)"},
      {"both: 43.5 gb/s", "both: 11 GB/s", "copies.both: 11 GB/s is far less than h2d and d2h in turns"},
      {"host:", "disk: {capacity: 1TB, read: 3 GB/s, write: 1 GB/s, mixed: 5 GB/s}\nhost:",
       "box.yaml:9: disk.mixed: 5 GB/s is more than read and write add up to"},
      {"host:", "disk: {capacity: 1TB, read: 3 GB/s, write: 3 GB/s, mixed: 200 MB/s}\nhost:",
       "disk.mixed: 200 MB/s is far less than read and write in turns"},
      {"24.7 GB/s", "400 GB/s", "box.yaml:6: copies.h2d: 400 GB/s is more than the host's memory carries"},
      {"adam: 45 GB/s", "adam: 450 GB/s",
       "box.yaml:13: host.adam: 450 GB/s is more than the host's memory carries (host.memory_rate 49 GB/s)"},
      {"copies:", "copies: 7\nx:", "section 'copies' must hold keys"},
      {"copies:", "copies:\n  switches: [[0, 1]]", "box.yaml:6: copies.switches: there is no device 1"},
      {"copies:", "copies:\n  switches: [[0]]", "copies.switch_rate is missing"},
      {"copies:", "copies:\n  switches: [[0], [0]]", "device 0 stands behind two switches"},
      {"copies:", "copies:\n  switches: 0", "must be lists of device numbers"},
      {"copies:", "copies:\n  switches: [[-1]]", "must be lists of device numbers"},
      {"host:", "disk: {capacity: 1TB}\nhost:", "'read' is missing in section 'disk'"},
      {"host:", "disk: {points: [{block: 1MiB}]}\nhost:", "a point is written {block: 1MiB"},
      {"host:", "disk: {points: [{block: 1MiB, depth: 0, read: 1, write: 1}]}\nhost:", "all above 0"},
      {"host:", "disk: {points: [{block: 1MiB, depth: 1, read: 1 GB/s, write: 1}]}\nhost:",
       "box.yaml:9: disk.points: write: '1' has no unit"},
      {"host:", "disk: {points: [{block: 1MiB, depth: 1, read: 1e-300 GB/s, write: 1 GB/s}]}\nhost:",
       "read: '1e-300 GB/s' is too low; sensible are 1 KB/s to 10 PB/s"},
      {"host:", "disk: {points: [{block: 1MiB, depth: 1, read: 0, write: 1 GB/s}]}\nhost:",
       "read: '0' must be above 0"},
      {"host:", "disk: {points: 3}\nhost:", "must be a list"},
      {"host:", "host: {cores: 1", "not valid YAML"},
      {"device:", "[device]:", "a key must be a plain word"},
  };
  for (const Case& c : cases) EXPECT_THAT(error_of(with(c.from, c.to)), HasSubstr(c.says)) << c.to;
}

TEST(MachineFile, RefusesOtherFiles) {
  for (const char* text : {"", "7", "[]", "null", "- a\n- b",
                           "\x7f"
                           "ELF\x02\x01"})
    EXPECT_THAT(error_of(text), StartsWith("box.yaml:")) << text;
  EXPECT_THAT(error_of(std::string(5000, '[')), HasSubstr("not valid YAML"));
  EXPECT_THAT(error_of("device: {fp32: \"1"), HasSubstr("not valid YAML"));
}

TEST(MachineFile, EveryTruncationAndFlippedByteIsAnErrorOrAMachine) {
  const std::string whole = to_yaml(full_machine());
  for (size_t n = 0; n < whole.size(); n += 7) (void)parse_machine(whole.substr(0, n), "box.yaml");
  for (size_t n = 0; n < whole.size(); n += 5) {
    std::string spoilt = whole;
    spoilt[n] ^= 0x15;
    (void)parse_machine(spoilt, "box.yaml");
  }
}

TEST(MachineFile, UnreadableFilesAreNamed) {
  const auto says = [](const std::string& path) {
    const auto machine = load_machine(path);
    return machine ? "none" : machine.error().message;
  };
  EXPECT_THAT(says("/nonexistent/box.yaml"),
              HasSubstr("/nonexistent/box.yaml: cannot open the machine file: No such"));
  EXPECT_THAT(says(testing::TempDir()), HasSubstr("is a directory"));
  EXPECT_THAT(says("/dev/zero"), HasSubstr("/dev/zero: is a device"));
}

}  // namespace tidepool::file_test
