// Times the unpacking of each format of frozen weights beside a copy of as many bytes, in GB of output per
// second, and per second of CPU time, which other programs disturb less: medians of interleaved runs. Usage:
// unpack_bench [workers] [rounds]
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "base/median.h"
#include "base/steady_seconds.h"
#include "tests/support/kernel_fixture.h"
#include "tests/support/packed_matrix.h"

namespace tidepool::test {
namespace {

constexpr u32 rows = 4096, columns = 8192;  // 64 MiB of bf16

std::vector<PackedMatrix> matrices() {
  return {
      {.packing = Packing::fp8_block,
       .rows = rows,
       .columns = columns,
       .block_rows = 128,
       .block_columns = 128},
      {.packing = Packing::mxfp4, .rows = rows, .columns = columns},
      {.packing = Packing::nf4, .rows = rows, .columns = columns, .block = 64},
      {.packing = Packing::nf4_double, .rows = rows, .columns = columns, .block = 64, .nested_block = 256},
      {.packing = Packing::int8_row, .rows = rows, .columns = columns}};
}

void copy(const std::byte* from, Values to, u64 bytes, CorePool& pool) {
  constexpr u64 piece = 128 * kib;  // as unpack_cpu()
  parallel_for(pool, Priority::normal, static_cast<u32>(bytes / piece),
               [&](u32 task, u32) { std::memcpy(to.data + task * piece, from + task * piece, piece); });
}

double cpu_seconds() { return double(std::clock()) / CLOCKS_PER_SEC; }

struct Times {
  std::vector<double> wall, cpu;
};

void print(std::string_view precision, std::string_view what, u64 bytes, const Times& times) {
  const double gb = double(bytes) * 1e-9;
  std::printf("%-5s %-11s %6.2f GB/s, %6.2f GB per CPU second\n", std::string(precision).c_str(),
              std::string(what).c_str(), gb / median(times.wall), gb / median(times.cpu));
}

// Random, without the codes of e4m3 for NaN, which models do not have.
std::vector<std::byte> finite_packed(const PackedMatrix& m) {
  std::vector<std::byte> out = random_packed(m, 1);
  if (m.packing != Packing::fp8_block) return out;
  for (u64 i = 0; i < m.elements(); ++i)
    if ((out[i] & std::byte{0x7f}) == std::byte{0x7f}) out[i] = std::byte{0};
  return out;
}

int run(u32 workers, u32 rounds) {
  const auto pool = make_pool(workers);
  const std::vector<PackedMatrix> all = matrices();
  std::vector<std::vector<std::byte>> packed;
  for (const PackedMatrix& m : all) packed.push_back(finite_packed(m));
  for (const Precision precision : {Precision::bf16, Precision::fp32}) {
    const u64 bytes = values_bytes(u64{rows} * columns, precision);
    std::vector<std::byte> from(bytes, std::byte{1}), to(bytes, std::byte{1});
    const Values out(to.data(), precision);
    std::vector<Times> times(all.size() + 1);
    for (u32 round = 0; round <= rounds; ++round) {
      for (u64 i = 0; i <= all.size(); ++i) {
        const double wall = steady_seconds(), cpu = cpu_seconds();
        if (i < all.size())
          unpack_cpu(unpack_whole(all[i], packed[i].data(), out), *pool);
        else
          copy(from.data(), out, bytes, *pool);
        if (round == 0) continue;  // warm-up
        times[i].wall.push_back(steady_seconds() - wall);
        times[i].cpu.push_back(cpu_seconds() - cpu);
      }
    }
    for (u64 i = 0; i < all.size(); ++i) print(name(precision), name(all[i].packing), bytes, times[i]);
    print(name(precision), "copy", bytes, times.back());
  }
  return 0;
}

}  // namespace
}  // namespace tidepool::test

int main(int argc, char** argv) {
  return tidepool::test::run(argc > 1 ? static_cast<tidepool::u32>(std::atoi(argv[1])) : 0,
                             argc > 2 ? static_cast<tidepool::u32>(std::atoi(argv[2])) : 21);
}
