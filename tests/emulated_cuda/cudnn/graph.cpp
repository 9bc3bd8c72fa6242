// Checks of graphs, without their arithmetic: matching tensors, and memory needed.
#include "graph.h"

#include <cstdio>
#include <cstring>
#include <set>

#include "failure.h"

namespace emulated_cuda {

using names::DescriptorType;
using enum names::Attribute;

void stop(const std::string& why) { fail("cuDNN: " + why); }

template <class T>
std::vector<T> Described::all(names::Attribute attribute) const {
  const auto found = attributes.find(attribute);
  if (found == attributes.end())
    stop("attribute " + std::to_string(static_cast<int>(attribute)) + " was not set");
  const Attribute& a = found->second;
  if (a.bytes.size() != static_cast<std::size_t>(a.count) * sizeof(T))
    stop("attribute " + std::to_string(static_cast<int>(attribute)) + " is of another type");
  std::vector<T> values(static_cast<std::size_t>(a.count));
  if constexpr (std::is_same_v<T, bool>) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = a.bytes[i] != std::byte{0};
  } else {
    std::memcpy(values.data(), a.bytes.data(), a.bytes.size());
  }
  return values;
}
template std::vector<void*> Described::all(names::Attribute) const;
template std::vector<std::int64_t> Described::all(names::Attribute) const;
template std::vector<std::int32_t> Described::all(names::Attribute) const;
template std::vector<bool> Described::all(names::Attribute) const;
template std::vector<names::DataType> Described::all(names::Attribute) const;
template std::vector<names::PointwiseMode> Described::all(names::Attribute) const;
template std::vector<names::ReductionMode> Described::all(names::Attribute) const;

namespace {

Dimensions four(const std::vector<std::int64_t>& of) {
  if (of.size() != 4) stop("tensors have four dimensions");
  return {of[0], of[1], of[2], of[3]};
}

// Input and output tensors of an operation.
struct Ends {
  std::vector<const Described*> in;
  const Described* out;
};
Ends ends_of(const Described& op) {
  switch (op.type) {
    case DescriptorType::operation_matmul:
      return {{&op.child(operation_matmul_adesc), &op.child(operation_matmul_bdesc)},
              &op.child(operation_matmul_cdesc)};
    case DescriptorType::operation_reduction:
      return {{&op.child(operation_reduction_xdesc)}, &op.child(operation_reduction_ydesc)};
    case DescriptorType::operation_reshape:
      return {{&op.child(operation_reshape_xdesc)}, &op.child(operation_reshape_ydesc)};
    case DescriptorType::operation_pointwise: {
      Ends ends{{&op.child(operation_pointwise_xdesc)}, &op.child(operation_pointwise_ydesc)};
      if (op.has(operation_pointwise_bdesc)) ends.in.push_back(&op.child(operation_pointwise_bdesc));
      if (op.has(operation_pointwise_tdesc)) ends.in.push_back(&op.child(operation_pointwise_tdesc));
      return ends;
    }
    default:
      stop("no operation: descriptor " + std::to_string(static_cast<int>(op.type)));
  }
}

}  // namespace

TensorFacts::TensorFacts(const Described& d)
    : uid(d.one<std::int64_t>(tensor_unique_id)),
      alignment(d.one<std::int64_t>(tensor_byte_alignment)),
      dimensions(four(d.all<std::int64_t>(tensor_dimensions))),
      strides(four(d.all<std::int64_t>(tensor_strides))),
      type(d.one<names::DataType>(tensor_data_type)),
      is_virtual(d.one<bool>(tensor_is_virtual)),
      by_value(d.one<bool>(tensor_is_by_value)) {
  for (int i = 0; i < 4; ++i)
    if (dimensions[i] < 1 || strides[i] < 1) stop("a tensor without elements");
  if (element_bytes() == 2 && alignment % 16 != 0) stop("halves are read 16 bytes at a time");
}

std::int64_t TensorFacts::elements() const {
  return dimensions[0] * dimensions[1] * dimensions[2] * dimensions[3];
}
std::int64_t TensorFacts::extent() const {
  std::int64_t last = 0;
  for (int i = 0; i < 4; ++i) last += (dimensions[i] - 1) * strides[i];
  return last + 1;
}
std::size_t TensorFacts::element_bytes() const {
  return type == names::DataType::bf16 || type == names::DataType::fp16 ? 2
         : type == names::DataType::boolean                             ? 1
                                                                        : 4;
}

void check_operation(const Described& op) {
  const Ends ends = ends_of(op);
  const TensorFacts out(*ends.out);
  const Dimensions& y = out.dimensions;
  for (const Described* const tensor : ends.in)
    if (!tensor->finalized) stop("an operation on a tensor that is not finalized");
  const TensorFacts first(*ends.in[0]);
  const Dimensions& x = first.dimensions;
  switch (op.type) {
    case DescriptorType::operation_matmul: {
      const TensorFacts second(*ends.in[1]);
      const Dimensions& b = second.dimensions;
      if (x[3] != b[2] || y[2] != x[2] || y[3] != b[3] || y[0] != x[0] || b[0] != x[0] || y[1] != x[1] ||
          x[1] % b[1] != 0)
        stop("a product of tensors that do not fit");
      if (!first.is_virtual && (first.element_bytes() != 2 || second.element_bytes() != 2))
        stop("a product of other than halves");
      break;
    }
    case DescriptorType::operation_reshape:
      if (first.elements() != out.elements()) stop("a reshape that loses elements");
      break;
    case DescriptorType::operation_reduction:
      for (int i = 0; i < 4; ++i)
        if (y[i] != x[i] && x[i] % y[i] != 0) stop("a reduction to what is no part");
      break;
    default:
      for (const Described* const tensor : ends.in) {
        const TensorFacts in(*tensor);
        for (int i = 0; i < 4; ++i)
          if (in.dimensions[i] != 1 && in.dimensions[i] != y[i])
            stop("a pointwise operation that does not fit");
      }
  }
}

void check_graph(const std::vector<const Described*>& operations) {
  std::set<std::int64_t> made, uids;
  for (const Described* const op : operations) {
    const Ends ends = ends_of(*op);
    for (const Described* const tensor : ends.in) {
      const TensorFacts facts(*tensor);
      if (facts.is_virtual && !made.contains(facts.uid)) stop("a graph reads what it has not made");
    }
    const TensorFacts out(*ends.out);
    if (out.by_value || !made.insert(out.uid).second) stop("a graph makes a tensor twice, or a number");
  }
}

std::int64_t workspace_of(const std::vector<const Described*>& operations) {
  constexpr std::int64_t least = 256;
  const auto up = [](std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; };
  std::int64_t bytes = least;
  const Described* scores_of = nullptr;
  bool is_backward = false;
  for (const Described* const op : operations) {
    is_backward = is_backward || op->type == DescriptorType::operation_reshape;
    if (scores_of == nullptr && op->type == DescriptorType::operation_matmul) scores_of = op;
  }
  if (!is_backward || scores_of == nullptr) return bytes;
  const TensorFacts scores(scores_of->child(operation_matmul_cdesc));
  const Dimensions& s = scores.dimensions;
  bytes += s[0] * s[1] * up(s[2], 64) * up(s[3], 128) * 2;
  for (const Described* const op : operations) {
    if (op->type != DescriptorType::operation_reduction) continue;
    const TensorFacts x(op->child(operation_reduction_xdesc));
    if (x.element_bytes() == 2) bytes += x.elements() * 2;
  }
  return bytes;
}

Execution copy_of(const std::vector<const Described*>& operations) {
  Execution out;
  const auto keep = [&](const Described& d) { out.described.emplace(&d, d); };
  for (const Described* const op : operations) {
    out.operations.push_back(*op);
    const Ends ends = ends_of(*op);
    for (const Described* const tensor : ends.in) keep(*tensor);
    keep(*ends.out);
    if (op->type == DescriptorType::operation_pointwise) keep(op->child(operation_pointwise_pw_descriptor));
    if (op->type == DescriptorType::operation_reduction) keep(op->child(operation_reduction_desc));
  }
  return out;
}

}  // namespace emulated_cuda
