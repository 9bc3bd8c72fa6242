// Arithmetic of graphs: whole tensors, one operation after the other, sums in fp32.
#include <bit>
#include <cmath>
#include <limits>

#include "graph.h"
#include "tidepool/fp16.h"

namespace emulated_cuda {
namespace {

using names::DataType;
using names::DescriptorType;
using names::PointwiseMode;
using enum names::Attribute;

using Numbers = std::vector<float>;  // by dimensions, the last one fastest

// The library rounds to nearest, ties to even.
std::uint16_t bf16_of(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = value != value ? 0x7fff'0000u : bits + 0x7fffu + (bits >> 16 & 1);
  return static_cast<std::uint16_t>(rounded >> 16);
}
float of_bf16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

float rounded(float value, DataType type) {
  if (type == DataType::bf16) return of_bf16(bf16_of(value));
  if (type == DataType::fp16) return tidepool::float_from_fp16(tidepool::fp16_from_float(value));
  return value;
}

template <class Fn>
void for_places(const Dimensions& d, Fn fn) {
  std::size_t at = 0;
  for (std::int64_t i = 0; i < d[0]; ++i)
    for (std::int64_t j = 0; j < d[1]; ++j)
      for (std::int64_t k = 0; k < d[2]; ++k)
        for (std::int64_t l = 0; l < d[3]; ++l) fn(Dimensions{i, j, k, l}, at++);
}

std::size_t place(const Dimensions& at, const Dimensions& factors) {
  return static_cast<std::size_t>(at[0] * factors[0] + at[1] * factors[1] + at[2] * factors[2] +
                                  at[3] * factors[3]);
}

Dimensions packed(const Dimensions& d) { return {d[1] * d[2] * d[3], d[2] * d[3], d[3], 1}; }

// A dimension of size one is broadcast.
std::size_t broadcast(const Dimensions& at, const Dimensions& d) {
  Dimensions from = at;
  for (int i = 0; i < 4; ++i) from[i] = d[i] == 1 ? 0 : at[i];
  return place(from, packed(d));
}

class Run {
 public:
  explicit Run(const Execution& e) : execution_(e) {}

  void all() {
    for (const Described& op : execution_.operations) {
      switch (op.type) {
        case DescriptorType::operation_matmul:
          matmul(op);
          break;
        case DescriptorType::operation_reduction:
          reduce(op);
          break;
        case DescriptorType::operation_reshape:
          reshape(op);
          break;
        default:
          pointwise(op);
      }
    }
  }

 private:
  const Described& described(const Described& op, names::Attribute attribute) const {
    return execution_.described.at(op.one<void*>(attribute));
  }
  TensorFacts facts(const Described& op, names::Attribute attribute) const {
    return TensorFacts(described(op, attribute));
  }

  const Numbers& read(const TensorFacts& t) {
    if (const auto found = values_.find(t.uid); found != values_.end()) return found->second;
    if (t.by_value) return values_[t.uid] = {execution_.numbers.at(t.uid)};
    Numbers& out = values_[t.uid];
    out.resize(static_cast<std::size_t>(t.elements()));
    const void* const data = execution_.arrays.at(t.uid);
    for_places(t.dimensions, [&](const Dimensions& at, std::size_t to) {
      const std::size_t from = place(at, t.strides);
      const auto half = [&] { return static_cast<const std::uint16_t*>(data)[from]; };
      out[to] = t.type == DataType::bf16   ? of_bf16(half())
                : t.type == DataType::fp16 ? tidepool::float_from_fp16(half())
                                           : static_cast<const float*>(data)[from];
    });
    return out;
  }

  void write(const TensorFacts& t, Numbers numbers) {
    for (float& number : numbers) number = rounded(number, t.type);
    if (!t.is_virtual) {
      if (execution_.nan) numbers.front() = std::numeric_limits<float>::quiet_NaN();
      void* const data = execution_.arrays.at(t.uid);
      for_places(t.dimensions, [&](const Dimensions& at, std::size_t from) {
        const std::size_t to = place(at, t.strides);
        if (t.type == DataType::fp32)
          static_cast<float*>(data)[to] = numbers[from];
        else
          static_cast<std::uint16_t*>(data)[to] =
              t.type == DataType::bf16 ? bf16_of(numbers[from]) : tidepool::fp16_from_float(numbers[from]);
      });
    }
    values_[t.uid] = std::move(numbers);
  }

  // Tensor cores take 16-bit factors, whatever type the intermediate tensor has.
  void matmul(const Described& op) {
    const TensorFacts a = facts(op, operation_matmul_adesc), b = facts(op, operation_matmul_bdesc),
                      c = facts(op, operation_matmul_cdesc);
    const DataType half = b.type;
    const Numbers x = read(a), y = read(b);
    Numbers out(static_cast<std::size_t>(c.elements()));
    const std::int64_t inner = a.dimensions[3], group = a.dimensions[1] / b.dimensions[1];
    for_places(c.dimensions, [&](const Dimensions& at, std::size_t to) {
      float sum = 0;
      for (std::int64_t i = 0; i < inner; ++i)
        sum += rounded(x[place({at[0], at[1], at[2], i}, packed(a.dimensions))], half) *
               y[place({at[0], at[1] / group, i, at[3]}, packed(b.dimensions))];
      out[to] = sum;
    });
    write(c, std::move(out));
  }

  void reduce(const Described& op) {
    const TensorFacts x = facts(op, operation_reduction_xdesc), y = facts(op, operation_reduction_ydesc);
    const bool max = described(op, operation_reduction_desc).one<names::ReductionMode>(reduction_operator) ==
                     names::ReductionMode::max;
    const Numbers& in = read(x);
    Numbers out(static_cast<std::size_t>(y.elements()), max ? -std::numeric_limits<float>::infinity() : 0.0F);
    for_places(x.dimensions, [&](Dimensions at, std::size_t from) {
      for (int i = 0; i < 4; ++i) at[i] /= x.dimensions[i] / y.dimensions[i];
      float& to = out[place(at, packed(y.dimensions))];
      to = max ? std::max(to, in[from]) : to + in[from];
    });
    write(y, std::move(out));
  }

  // The same elements by their addresses in memory.
  void reshape(const Described& op) {
    const TensorFacts x = facts(op, operation_reshape_xdesc), y = facts(op, operation_reshape_ydesc);
    const Numbers& in = read(x);
    std::map<std::size_t, float> memory;
    for_places(x.dimensions,
               [&](const Dimensions& at, std::size_t from) { memory[place(at, x.strides)] = in[from]; });
    Numbers out(static_cast<std::size_t>(y.elements()));
    for_places(y.dimensions,
               [&](const Dimensions& at, std::size_t to) { out[to] = memory.at(place(at, y.strides)); });
    write(y, std::move(out));
  }

  void pointwise(const Described& op) {
    const Described& how = described(op, operation_pointwise_pw_descriptor);
    const auto mode = how.one<PointwiseMode>(pointwise_mode);
    const TensorFacts x = facts(op, operation_pointwise_xdesc), y = facts(op, operation_pointwise_ydesc);
    const bool two = op.has(operation_pointwise_bdesc), three = op.has(operation_pointwise_tdesc);
    const TensorFacts b = two ? facts(op, operation_pointwise_bdesc) : x,
                      t = three ? facts(op, operation_pointwise_tdesc) : x;
    const Numbers of_x = mode == PointwiseMode::gen_index ? Numbers() : read(x);
    const Numbers of_b = two ? read(b) : Numbers(), of_t = three ? read(t) : Numbers();
    const std::int64_t axis = how.has(pointwise_axis) ? how.one<std::int64_t>(pointwise_axis) : 0;
    Numbers out(static_cast<std::size_t>(y.elements()));
    for_places(y.dimensions, [&](const Dimensions& at, std::size_t to) {
      if (mode == PointwiseMode::gen_index) {
        out[to] = static_cast<float>(at[static_cast<std::size_t>(axis)]);
        return;
      }
      const float u = of_x[broadcast(at, x.dimensions)], v = two ? of_b[broadcast(at, b.dimensions)] : 0;
      out[to] = value(mode, u, v, three && of_t[broadcast(at, t.dimensions)] != 0);
    });
    write(y, std::move(out));
  }

  static float value(PointwiseMode mode, float u, float v, bool chosen) {
    switch (mode) {
      case PointwiseMode::add:
        return u + v;
      case PointwiseMode::sub:
        return u - v;
      case PointwiseMode::mul:
        return u * v;
      case PointwiseMode::div:
        return u / v;
      case PointwiseMode::exp:
        return std::exp(u);
      case PointwiseMode::log:
        return std::log(u);
      case PointwiseMode::cmp_ge:
        return u >= v ? 1 : 0;
      case PointwiseMode::binary_select:
        return chosen ? u : v;
      case PointwiseMode::gen_index:
        break;
    }
    stop("a pointwise operation that is not emulated");
  }

  const Execution& execution_;
  std::map<std::int64_t, Numbers> values_;
};

}  // namespace

void run(const Execution& execution) { Run(execution).all(); }

}  // namespace emulated_cuda
