// Compares a whole layer of experts, router included, with central differences of plain double code: outputs,
// and gradients of tokens, router, matrices and biases, in groups from one expert up to all.
#include <functional>

#include "kernels/experts/grouped_matmul.h"
#include "kernels/glu/glu.h"
#include "kernels/router/router.h"
#include "tests/support/expert_routes.h"

namespace tidepool::test::experts_chain_test {

struct ChainCase {
  RouteShape shape;
  u32 hidden, inner;
  RouterRule rule;
  GluGate gate;
  bool interleaved, transposed;
};

// Offsets in one list of all parameters; an expert's tensors are adjacent.
struct Layout {
  explicit Layout(const ChainCase& c)
      : h(c.hidden), i(c.inner), experts(c.shape.experts), transposed(c.transposed) {}
  u64 h, i, experts;
  bool transposed;
  u64 gate_up_bias() const { return 2 * i * h; }
  u64 down() const { return gate_up_bias() + 2 * i; }
  u64 down_bias() const { return down() + h * i; }
  u64 stride() const { return down_bias() + h; }
  u64 router() const { return experts * stride(); }  // [E, H], after the experts
  u64 tokens() const { return router() + experts * h; }
  // Place of a matrix's element.
  u64 at(u64 in, u64 out, u64 ins, u64 outs) const { return transposed ? out * ins + in : in * outs + out; }
};

std::vector<double> softmax(std::vector<double> x) {
  double sum = 0;
  for (double& v : x) sum += v = std::exp(v);
  for (double& v : x) v /= sum;
  return x;
}

// y of the experts of fixed choices, [R, H], from parameters and tokens in double.
struct Reference {
  const ChainCase& c;
  const Layout l{c};
  std::vector<i32> choices;

  std::vector<double> weights(const std::vector<double>& logits, const i32* chosen) const {
    std::vector<double> w;
    for (u32 j = 0; j < c.rule.chosen; ++j) w.push_back(logits[static_cast<u32>(chosen[j])]);
    if (c.rule.scores == RouterScores::sigmoid) {
      for (double& v : w) v = 1 / (1 + std::exp(-v));
    } else if (c.rule.scores == RouterScores::chosen_softmax) {
      return softmax(w);
    } else {
      const auto p = softmax(logits);
      for (u32 j = 0; j < c.rule.chosen; ++j) w[j] = p[static_cast<u32>(chosen[j])];
    }
    double sum = 0;
    for (double v : w) sum += v;
    for (double& v : w) v *= c.rule.scale / (c.rule.normalise ? sum : 1);
    return w;
  }
  std::vector<double> expert(const std::vector<double>& all, u64 e, const double* x) const {
    const double* p = &all[e * l.stride()];
    std::vector<double> gate_up(p + l.gate_up_bias(), p + l.down()), out(p + l.down_bias(), p + l.stride());
    for (u64 o = 0; o < 2 * l.i; ++o)
      for (u64 h = 0; h < l.h; ++h) gate_up[o] += p[l.at(h, o, l.h, 2 * l.i)] * x[h];
    for (u64 i = 0; i < l.i; ++i) {
      double gate = gate_up[c.interleaved ? 2 * i : i], up = gate_up[c.interleaved ? 2 * i + 1 : l.i + i];
      double slope = 1;
      if (c.gate == GluGate::clamped) {
        gate = std::min(gate, 7.0), up = std::min(std::max(up, -7.0), 7.0) + 1, slope = 1.702;
      }
      const double y = up * gate / (1 + std::exp(-slope * gate));
      for (u64 h = 0; h < l.h; ++h) out[h] += p[l.down() + l.at(i, h, l.i, l.h)] * y;
    }
    return out;
  }
  std::vector<double> operator()(const std::vector<double>& all) const {
    std::vector<double> y(c.shape.rows * l.h, 0.0);
    for (u64 t = 0; t < c.shape.rows; ++t) {
      const double* x = &all[l.tokens() + t * l.h];
      std::vector<double> logits(l.experts, 0.0);
      for (u64 e = 0; e < l.experts; ++e)
        for (u64 h = 0; h < l.h; ++h) logits[e] += all[l.router() + e * l.h + h] * x[h];
      const i32* chosen = &choices[t * c.rule.chosen];
      const auto w = weights(logits, chosen);
      for (u32 j = 0; j < c.rule.chosen; ++j) {
        const auto out = expert(all, static_cast<u32>(chosen[j]), x);
        for (u64 h = 0; h < l.h; ++h) y[t * l.h + h] += w[j] * out[h];
      }
    }
    return y;
  }
};

class ExpertsChainTest : public testing::TestWithParam<ChainCase> {
 protected:
  const ChainCase c = GetParam();
  const Layout l{c};
  const u32 rows = c.shape.rows, k = c.rule.chosen;
  const std::vector<float> all = random_floats(l.tokens() + rows * l.h, 1, 0.7f);
  const std::vector<float> dout = random_floats(rows * l.h, 2);
  std::vector<i32> choices = std::vector<i32>(u64{rows} * k, -1);
  std::vector<float> weights = std::vector<float>(u64{rows} * k, NAN);
  std::vector<float> logits = std::vector<float>(u64{rows} * c.shape.experts, NAN);
  std::unique_ptr<CorePool> pool = make_pool(2);
  std::unique_ptr<Kernels> kernels = create_cpu_kernels(*pool);

  const float* tokens() const { return &all[l.tokens()]; }
  Param param(u64 expert, u64 place) const { return param_of(all).at(expert * l.stride() + place); }

  void route() {
    kernels->matmul({.m = rows,
                     .n = c.shape.experts,
                     .k = c.hidden,
                     .x = tokens(),
                     .weight = param_of(all).at(l.router()),
                     .transposed = true,
                     .y = logits.data()});
    kernels->router({.rule = c.rule,
                     .rows = rows,
                     .logits = logits.data(),
                     .experts = choices.data(),
                     .weights = weights.data()});
  }

  // Rows of one range, as a block of the model has them.
  struct Rows {
    SortedRange sorted;
    std::vector<float> x, gate_up, y, out;
  };
  GroupedMatmul product(const Rows& r, u64 matrix, ConstValues x, Values y, u32 n, u32 in) const {
    return {.offsets = r.sorted.offsets.data(),
            .experts = r.sorted.range.count,
            .rows_max = r.sorted.rows_max,
            .n = n,
            .k = in,
            .x = x,
            .weight = param(r.sorted.range.first, matrix),
            .expert_stride = l.stride(),
            .transposed = c.transposed,
            .y = y};
  }
  void gather(const Rows& r, const float* x, std::vector<float>& y) {
    kernels->gather_rows({.rows_max = r.sorted.rows_max,
                          .columns = c.hidden,
                          .chosen = k,
                          .row_count = &r.sorted.offsets.back(),
                          .slots = r.sorted.slots.data(),
                          .x = x,
                          .y = y.data()});
  }
  Rows up_to_gate(const ExpertRange& range) {
    Rows r = {
        .sorted = SortedRange(c.shape, choices, range, *pool), .x = {}, .gate_up = {}, .y = {}, .out = {}};
    r.x.assign(r.sorted.rows_max * l.h, NAN), r.out = r.x;
    r.gate_up.assign(r.sorted.rows_max * 2 * l.i, NAN), r.y.assign(r.sorted.rows_max * l.i, NAN);
    gather(r, tokens(), r.x);
    GroupedMatmul up = product(r, 0, r.x.data(), r.gate_up.data(), 2 * c.inner, c.hidden);
    up.bias = param(range.first, l.gate_up_bias());
    kernels->grouped_matmul(up);
    return r;
  }
  void forward(const ExpertRange& range, std::vector<float>& sum) {
    Rows r = up_to_gate(range);
    kernels->glu({.rows = r.sorted.rows_max,
                  .columns = c.inner,
                  .gate = c.gate,
                  .interleaved = c.interleaved,
                  .row_count = &r.sorted.offsets.back(),
                  .gate_up = r.gate_up.data(),
                  .y = r.y.data()});
    GroupedMatmul down = product(r, l.down(), r.y.data(), r.out.data(), c.hidden, c.inner);
    down.bias = param(range.first, l.down_bias());
    kernels->grouped_matmul(down);
    kernels->combine_experts({.rows = rows,
                              .chosen = k,
                              .columns = c.hidden,
                              .places = r.sorted.places.data(),
                              .experts = choices.data(),
                              .weights = weights.data(),
                              .x = r.out.data(),
                              .sum_in = sum.data(),
                              .sum_out = sum.data()});
  }

  GroupedWeightGradient gradient(const Rows& r, float* dw, u64 bias) const {
    return {.offsets = r.sorted.offsets.data(),
            .experts = r.sorted.range.count,
            .rows_max = r.sorted.rows_max,
            .dw = dw,
            .expert_stride = l.stride(),
            .dbias = dw + bias,
            .accumulate = false,
            .transposed = c.transposed};
  }
  // `first`: gradients of the range's first expert.
  void matrix_gradients(const Rows& r, float* first) {
    GroupedWeightGradient down = gradient(r, first + l.down(), l.down_bias() - l.down());
    down.n = c.hidden, down.k = c.inner, down.x = r.y.data(), down.dy = r.out.data();
    down.bias_factors = weights.data(), down.slots = r.sorted.slots.data();
    kernels->grouped_weight_gradient(down);
    GroupedWeightGradient up = gradient(r, first, l.gate_up_bias());
    up.n = 2 * c.inner, up.k = c.hidden, up.x = r.x.data(), up.dy = r.gate_up.data();
    kernels->grouped_weight_gradient(up);
  }
  // Gradients of the range's parameters and of dweights; adds to dx.
  void backward(const ExpertRange& range, std::vector<float>& grad, std::vector<float>& dweights, float* dx) {
    Rows r = up_to_gate(range);
    gather(r, dout.data(), r.out);
    kernels->grouped_matmul([&] {
      GroupedMatmul op = product(r, l.down(), r.out.data(), r.y.data(), c.inner, c.hidden);
      op.transposed = !op.transposed;
      return op;
    }());
    kernels->glu_backward({.rows = r.sorted.rows_max,
                           .columns = c.inner,
                           .gate = c.gate,
                           .interleaved = c.interleaved,
                           .row_count = &r.sorted.offsets.back(),
                           .gate_up = r.gate_up.data(),
                           .dy = r.y.data(),
                           .dgate_up = r.gate_up.data(),
                           .value = r.y.data(),
                           .slots = r.sorted.slots.data(),
                           .weights = weights.data(),
                           .dweights = dweights.data()});
    kernels->route_bias_gradient({.offsets = r.sorted.offsets.data(),
                                  .range_count = range.count,
                                  .rows_max = r.sorted.rows_max,
                                  .columns = c.hidden,
                                  .slots = r.sorted.slots.data(),
                                  .dy = r.out.data(),
                                  .bias = param(range.first, l.down_bias()),
                                  .expert_stride = l.stride(),
                                  .dweights = dweights.data()});
    matrix_gradients(r, &grad[range.first * l.stride()]);
    GroupedMatmul op = product(r, 0, r.gate_up.data(), r.x.data(), c.hidden, 2 * c.inner);
    op.transposed = !op.transposed;
    kernels->grouped_matmul(op);
    kernels->combine_experts({.rows = rows,
                              .chosen = k,
                              .columns = c.hidden,
                              .places = r.sorted.places.data(),
                              .experts = choices.data(),
                              .descending = true,
                              .x = r.x.data(),
                              .sum_in = dx,
                              .sum_out = dx});
  }
  // Gradient of the router's matrix, and its part of dx.
  void backward_of_router(std::vector<float>& grad, const std::vector<float>& dweights, float* dx) {
    std::vector<float> dlogits(logits.size(), NAN);
    kernels->router_backward({.rule = c.rule,
                              .rows = rows,
                              .logits = logits.data(),
                              .experts = choices.data(),
                              .dweights = dweights.data(),
                              .dlogits = dlogits.data()});
    kernels->weight_gradient({.m = rows,
                              .n = c.shape.experts,
                              .k = c.hidden,
                              .x = tokens(),
                              .dy = dlogits.data(),
                              .dw = &grad[l.router()],
                              .accumulate = false,
                              .transposed = true});
    kernels->matmul({.m = rows,
                     .n = c.hidden,
                     .k = c.shape.experts,
                     .x = dlogits.data(),
                     .weight = param_of(all).at(l.router()),
                     .accumulate = true,
                     .y = dx});
  }
};

TEST_P(ExpertsChainTest, MatchesDoubleWithTheSameBitsInAnyGroups) {
  route();
  const Reference reference = {.c = c, .choices = choices};
  std::vector<double> values(all.begin(), all.end()), want(all.size());
  const auto want_y = reference(values);
  const auto loss = [&] {
    const auto y = reference(values);
    double sum = 0;
    for (u64 i = 0; i < y.size(); ++i) sum += dout[i] * y[i];
    return sum;
  };
  for (u64 i = 0; i < values.size(); ++i) {
    constexpr double step = 1e-5;
    const double value = values[i];
    values[i] = value + step;
    const double above = loss();
    values[i] = value - step;
    want[i] = (above - loss()) / (2 * step);
    values[i] = value;
  }
  std::vector<float> first_y, first_grad;
  for (u32 size = c.shape.experts; size >= 1; size = size > 4 ? size / 2 : size - 1) {
    std::vector<float> y(rows * l.h, 0.0f), grad(all.size(), NAN), dweights(choices.size(), NAN);
    float* dx = &grad[l.tokens()];
    std::fill_n(dx, rows * l.h, 0.0f);
    auto ranges = ranges_of(c.shape.experts, size);
    for (const ExpertRange& range : ranges) forward(range, y);
    std::reverse(ranges.begin(), ranges.end());
    for (const ExpertRange& range : ranges) backward(range, grad, dweights, dx);
    backward_of_router(grad, dweights, dx);
    EXPECT_LE(relative_error(y, want_y), 1e-6);
    EXPECT_LE(relative_error(grad, want), 2e-6);
    const auto part = [&](const auto& v, u64 begin, u64 end) {
      return std::vector<double>(v.begin() + static_cast<i64>(begin), v.begin() + static_cast<i64>(end));
    };
    EXPECT_LE(relative_error(part(grad, l.router(), l.tokens()), part(want, l.router(), l.tokens())), 1e-5);
    EXPECT_LE(relative_error(part(grad, l.tokens(), all.size()), part(want, l.tokens(), all.size())), 2e-6);
    if (first_y.empty()) first_y = y, first_grad = grad;
    EXPECT_TRUE(same_bits(y, first_y)) << "groups of " << size;
    EXPECT_TRUE(same_bits(grad, first_grad)) << "groups of " << size;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Families, ExpertsChainTest,
    testing::Values(
        ChainCase{
            {9, 6, 2}, 7, 5, {.experts = 6, .chosen = 2, .normalise = true}, GluGate::silu, false, true},
        ChainCase{
            {6, 3, 3}, 5, 4, {.experts = 3, .chosen = 3, .normalise = false}, GluGate::silu, false, true},
        ChainCase{
            {8, 9, 1}, 6, 3, {.experts = 9, .chosen = 1, .normalise = false}, GluGate::silu, false, true},
        ChainCase{{9, 5, 3},
                  6,
                  4,
                  {.experts = 5, .chosen = 3, .scores = RouterScores::chosen_softmax},
                  GluGate::clamped,
                  true,
                  false},
        ChainCase{{7, 8, 3},
                  5,
                  6,
                  {.experts = 8,
                   .chosen = 3,
                   .scores = RouterScores::sigmoid,
                   .normalise = true,
                   .scale = 2.5f,
                   .groups = 4,
                   .chosen_groups = 2},
                  GluGate::silu,
                  false,
                  true}));

}  // namespace tidepool::test::experts_chain_test
