#include "grid.h"

#include <numeric>

#include "base/mix_bits.h"
#include "block_runner.h"

namespace emulated_cuda {
namespace {

// i -> (i * step + first) mod n visits every number once if step and n are coprime.
struct Shuffle {
  std::uint64_t n, step, first;

  Shuffle(std::uint64_t count, std::uint64_t seed)
      : n(count), step(seed % n), first(tidepool::mix_bits(seed) % n) {
    while (step == 0 || std::gcd(step, n) != 1) ++step;
  }
  std::uint64_t operator()(std::uint64_t i) const { return (i * step + first) % n; }  // n, step < 2^32
};

}  // namespace

void run_grid(const Grid& grid, const std::function<void()>& kernel) {
  const std::uint64_t blocks = std::uint64_t{grid.grid.x} * grid.grid.y * grid.grid.z;
  const Shuffle order(blocks, tidepool::mix_bits(grid.seed));
  for (std::uint64_t i = 0; i < blocks; ++i) {
    const std::uint64_t block = order(i), row = block / grid.grid.x;
    block_runner().run(grid,
                       {static_cast<unsigned>(block % grid.grid.x), static_cast<unsigned>(row % grid.grid.y),
                        static_cast<unsigned>(row / grid.grid.y)},
                       grid.seed + i, kernel);
  }
}

}  // namespace emulated_cuda
