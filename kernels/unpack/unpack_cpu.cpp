#include "kernels/unpack/unpack.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/unpack/unpack_range.h"

namespace tidepool {
namespace {

// A task's elements: 128 KiB of bf16, about 10 us.
constexpr u64 piece_elements = 64 * kib;

}  // namespace

void unpack_cpu(const Unpack& op, CorePool& pool) {
  CHECK(op.matrix.packing != Packing::none);
  CHECK(op.begin + op.elements <= op.matrix.elements(), op.begin, op.elements, op.matrix.rows,
        op.matrix.columns);
  const u64 pieces = div_up(op.elements, piece_elements);
  if (op.count == 0 || pieces == 0) return;
  const u32 tasks = static_cast<u32>(op.count * pieces);
  parallel_for(pool, Priority::normal, tasks, [&](u32 task, u32) {
    const u64 matrix = task / pieces, at = task % pieces * piece_elements;
    unpack_range(op.matrix, op.packed + matrix * op.packed_stride, op.begin + at,
                 std::min(piece_elements, op.elements - at), op.out.at(matrix * op.out_stride + at));
  });
}

}  // namespace tidepool
