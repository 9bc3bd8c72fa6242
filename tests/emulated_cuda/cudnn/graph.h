// Descriptors of the emulated cuDNN, and the graphs that it executes operation by operation.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/cudnn_library.h"

namespace emulated_cuda {

namespace names = tidepool::cudnn;

struct Attribute {
  names::AttributeType type{};
  std::int64_t count = 0;
  std::vector<std::byte> bytes;
};

// One type for all descriptors: the attributes that were set before it is finalized.
struct Described {
  names::DescriptorType type{};
  bool finalized = false;
  std::map<names::Attribute, Attribute> attributes{};
  int engine = 0;  // for engines and configs: 0 sums in any order, 1 in a fixed order

  template <class T>
  std::vector<T> all(names::Attribute) const;
  template <class T>
  T one(names::Attribute attribute) const {
    return all<T>(attribute).at(0);
  }
  bool has(names::Attribute attribute) const { return attributes.contains(attribute); }
  const Described& child(names::Attribute attribute) const {
    return *static_cast<const Described*>(one<void*>(attribute));
  }
};

using Dimensions = std::array<std::int64_t, 4>;

struct TensorFacts {
  explicit TensorFacts(const Described&);
  std::int64_t uid, alignment;
  Dimensions dimensions, strides;
  names::DataType type;
  bool is_virtual, by_value;

  std::int64_t elements() const;
  std::int64_t extent() const;  // elements from the first to the last, inclusive
  std::size_t element_bytes() const;
};

// Stops the process if an operation's tensors do not match.
void check_operation(const Described&);
// Stops the process if a graph reads a tensor that it has not made, or makes a tensor twice.
void check_graph(const std::vector<const Described*>& operations);
// RETURNS: the workspace of NVIDIA's engines for sm_90.
std::int64_t workspace_of(const std::vector<const Described*>& operations);

// One execution: copies of descriptors, because callers may destroy theirs.
struct Execution {
  std::vector<Described> operations;
  std::map<const void*, Described> described;  // their tensors and modes, by the caller's address
  std::map<std::int64_t, void*> arrays;        // by uid
  std::map<std::int64_t, float> numbers;
  bool nan = false;  // Options::cudnn_nan
};
// RETURNS: copies of everything that the operations refer to.
Execution copy_of(const std::vector<const Described*>& operations);
void run(const Execution&);

[[noreturn]] void stop(const std::string& why);

}  // namespace emulated_cuda
