// Reference of output gates, by definition, in double; with shapes for CPU and GPUs.
#pragma once

#include <vector>

#include "kernels/gate/sigmoid_gate.h"
#include "tests/support/kernel_fixture.h"

namespace tidepool::test {

inline const GateShape gate_shapes[] = {
    {.rows = 1, .heads = 1, .head_size = 1, .gate_size = 1, .row_stride = 1, .head_stride = 1},
    {.rows = 3, .heads = 1, .head_size = 7, .gate_size = 7, .row_stride = 7, .head_stride = 7},
    {.rows = 33, .heads = 3, .head_size = 5, .gate_size = 5, .row_stride = 37, .head_stride = 11},
    {.rows = 65, .heads = 3, .head_size = 40, .gate_size = 40, .row_stride = 304, .head_stride = 80},
    {.rows = 34, .heads = 5, .head_size = 256, .gate_size = 256, .row_stride = 3072, .head_stride = 512},
    {.rows = 10, .heads = 2, .head_size = 16, .gate_size = 16, .row_stride = 33, .head_stride = 16},
    // One gate for a whole head.
    {.rows = 1, .heads = 1, .head_size = 9, .gate_size = 1, .row_stride = 1, .head_stride = 0},
    {.rows = 35, .heads = 3, .head_size = 21, .gate_size = 1, .row_stride = 3, .head_stride = 1},
    {.rows = 70, .heads = 5, .head_size = 64, .gate_size = 1, .row_stride = 13, .head_stride = 2},
    {.rows = 31, .heads = 1, .head_size = 2056, .gate_size = 1, .row_stride = 1, .head_stride = 1},
    {.rows = 7, .heads = 2, .head_size = 8, .gate_size = 1, .row_stride = 48, .head_stride = 24}};

// Columns beside the gates hold this number.
inline constexpr float untouched_gate = -7;

struct GateArrays {
  ConstValues x, gates, dy;
  Values dx, dgates;
};

struct GateData {
  explicit GateData(const GateShape& s)
      : x(random_floats(u64{s.rows} * s.columns(), 1)),
        dy(random_floats(x.size(), 2)),
        gates(u64{s.rows} * s.row_stride, untouched_gate) {
    const auto random = random_floats(gates.size(), 3, 3.0f);
    for (u32 row = 0; row < s.rows; ++row)
      for (u32 head = 0; head < s.heads; ++head)
        for (u32 c = 0; c < s.gate_size; ++c)
          gates[s.gate_at(row, head) + c] = random[s.gate_at(row, head) + c];
  }

  static SigmoidGate forward(const GateShape& s, ConstValues from, ConstValues by, Values to) {
    return {.shape = s, .x = from, .gates = by, .y = to};
  }
  static SigmoidGateBackward backward(const GateShape& s, const GateArrays& a) {
    return {.shape = s, .x = a.x, .gates = a.gates, .dy = a.dy, .dx = a.dx, .dgates = a.dgates};
  }

  std::vector<float> x, dy, gates;
};

struct GateReference {
  std::vector<double> y, dx, dgates;
  std::vector<bool> is_gate;  // of an element of the gates' rows
};

inline GateReference gate_reference(const GateShape& s, const GateData& d) {
  GateReference r = {std::vector<double>(d.x.size()), std::vector<double>(d.x.size()),
                     std::vector<double>(d.gates.size(), untouched_gate),
                     std::vector<bool>(d.gates.size(), false)};
  for (u32 row = 0; row < s.rows; ++row) {
    for (u32 head = 0; head < s.heads; ++head) {
      for (u32 c = 0; c < s.head_size; ++c) {
        const u64 at = u64{row} * s.columns() + u64{head} * s.head_size + c;
        const u64 gate = s.gate_at(row, head) + (s.gate_size == 1 ? 0 : c);
        const double open = 1 / (1 + std::exp(-double{d.gates[gate]}));
        r.y[at] = d.x[at] * open;
        r.dx[at] = d.dy[at] * open;
        if (!r.is_gate[gate]) r.dgates[gate] = 0;
        r.is_gate[gate] = true;
        r.dgates[gate] += double{d.dy[at]} * d.x[at] * open * (1 - open);
      }
    }
  }
  return r;
}

}  // namespace tidepool::test
