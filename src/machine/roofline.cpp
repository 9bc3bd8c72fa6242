#include "machine/roofline.h"

#include <algorithm>
#include <cmath>

namespace tidepool {
namespace {

struct Tile {
  u64 m, n;
};
constexpr Tile tiles[] = {{256, 128}, {128, 128}, {128, 64}, {64, 64}};

// Attention's products are small and wait for the softmax. Where large products reach 80 to 90 % of an A100's
// peak, FlashAttention reaches 25 to 40 % and FlashAttention-2 50 to 73 % (Dao, arXiv:2307.08691): one half
// lies between the two. It is taken for the small products of a gated delta rule too, which were never timed
// on a GPU.
constexpr double small_products_share = 0.5;

// Experts' products at once. Those of MegaBlocks, in tiles of 128 too, reach 0.91 to 1.04 of cuBLAS's rate on
// an A100 (Gale et al., arXiv:2211.15841). Ours were never timed: 0.8 is assumed, and no more than what the
// cache feeds (kernels/experts/grouped_launch.h).
constexpr double grouped_products_share = 0.8, grouped_flops_per_s_most = 350e12;
constexpr u64 grouped_tile = 128;

constexpr double least_efficiency = 0.01;
constexpr u32 halvings = 40;  // bisection steps when searching an efficiency

MathType math_type(Precision precision) {
  switch (precision) {
    case Precision::bf16:
      return MathType::bf16;
    case Precision::fp16:
      return MathType::fp16;
    case Precision::fp32:
      break;
  }
  return MathType::fp32;
}

double bytes_of(const KernelCost& c, const Machine& machine, Precision precision) {
  const bool wide = precision == Precision::fp32 || machine.device.kind == DeviceKind::cpu;
  return static_cast<double>(c.elements) * (wide ? 4 : 2) + static_cast<double>(c.bytes);
}

}  // namespace

double matmul_rate(const Machine& machine, Precision precision) {
  return machine.device.flops_per_s[static_cast<u32>(math_type(precision))];
}

bool lacks_bf16(const Machine& machine) {
  return machine.device.kind == DeviceKind::cuda &&
         matmul_rate(machine, Precision::bf16) <= matmul_rate(machine, Precision::fp32);
}

double filled_share(u64 m, u64 n, u32 processors) {
  if (processors == 0) return 1;
  double best = 0;
  for (const Tile& tile : tiles) {
    const u64 count = div_up(m, tile.m) * div_up(n, tile.n);
    const double made = static_cast<double>(round_up(count, u64{processors}) * tile.m * tile.n);
    best = std::max(best, static_cast<double>(m) * static_cast<double>(n) / made);
  }
  return best;
}

namespace {

// As filled_share(). Experts have rows of any number, so on average half of the last tile of each is empty.
double filled_share_of_groups(const KernelCost& c, u32 processors) {
  if (processors == 0) return 1;
  const double rows = static_cast<double>(c.m) / static_cast<double>(c.groups),
               tile = static_cast<double>(grouped_tile);
  const double count = static_cast<double>(c.groups * div_up(c.n, grouped_tile)) * (rows / tile + 0.5);
  const double waves = std::ceil(count / processors) * processors;
  return static_cast<double>(c.m) * static_cast<double>(c.n) / (waves * tile * tile);
}

double product_flops_per_s(const KernelCost& c, const Machine& machine, Precision precision) {
  const Precision computed = c.fp32_products ? Precision::fp32 : precision;
  const double rate = matmul_rate(machine, computed) * machine.device.block_efficiency;
  const u32 processors = machine.device.processors;
  if (c.groups > 0)
    return std::min(rate * grouped_products_share * filled_share_of_groups(c, processors),
                    grouped_flops_per_s_most);
  return rate * (c.m > 0 ? filled_share(c.m, c.n, processors) : small_products_share);
}

}  // namespace

double kernel_seconds(const KernelCost& c, const Machine& machine, Precision precision) {
  const DeviceRates& device = machine.device;
  const double products = c.product_flops == 0 ? 0
                                               : static_cast<double>(c.product_flops) /
                                                     product_flops_per_s(c, machine, precision);
  const double vectors =
      static_cast<double>(c.vector_flops) / device.flops_per_s[static_cast<u32>(MathType::fp32)];
  return std::max(products + vectors, bytes_of(c, machine, precision) / device.memory_bytes_per_s);
}

double kernel_seconds(std::span<const KernelCost> kernels, const Machine& machine, Precision precision) {
  double sum = 0;
  for (const KernelCost& kernel : kernels) sum += kernel_seconds(kernel, machine, precision);
  return sum;
}

double efficiency_of(std::span<const KernelCost> kernels, double seconds, Machine machine,
                     Precision precision) {
  double low = least_efficiency, high = 1;
  const auto takes = [&](double efficiency) {
    machine.device.block_efficiency = efficiency;
    return kernel_seconds(kernels, machine, precision);
  };
  if (takes(high) >= seconds) return high;
  for (u32 i = 0; i < halvings; ++i) {
    const double middle = (low + high) / 2;
    (takes(middle) > seconds ? low : high) = middle;
  }
  return high;
}

}  // namespace tidepool
