// Graph describes operations for cuDNN; Plan is an executable plan that cuDNN makes of a graph.
//
//   Graph graph(library);
//   const Tensor q = graph.array({.dimensions = {b, h, t, d}, .strides = ..., .type = DataType::bf16}, uid),
//   ...; const Tensor scores = graph.between({b, h, t, t}); graph.matmul(q, k_transposed, scores);
//   TRY_ASSIGN(const auto plan, Plan::create(library, device, std::move(graph), why_not));
//   plan->execute(handle, arguments, workspace);
//
// As in a chain of stream operators, the graph keeps the library's first refusal, later calls are no-ops, and
// Plan::create returns that refusal.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/cuda/cudnn_library.h"

namespace tidepool::cudnn {

// Owned owns one descriptor of the library.
class Owned {
 public:
  Owned() = default;
  Owned(const Library& library, Descriptor descriptor) : library_(&library), descriptor_(descriptor) {}
  Owned(Owned&& other) noexcept : library_(other.library_), descriptor_(other.release()) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(library_, other.library_);
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Owned() {
    if (descriptor_ != nullptr) library_->calls().destroy_descriptor(descriptor_);
  }
  Descriptor get() const { return descriptor_; }

 private:
  Descriptor release() { return std::exchange(descriptor_, nullptr); }

  const Library* library_ = nullptr;
  Descriptor descriptor_ = nullptr;
};

// The GPU that plans are made for: an existing device, or a described one.
class DeviceProperties {
 public:
  // Errors: the library does not know the device.
  static Result<DeviceProperties> of_device(const Library&, int index);
  // Reads the library's own description (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION).
  static Result<DeviceProperties> of_json(const Library&, const std::string& json);
  Descriptor get() const { return descriptor_.get(); }

 private:
  explicit DeviceProperties(Owned descriptor) : descriptor_(std::move(descriptor)) {}
  static Result<DeviceProperties> finish(const Library&, Owned);

  Owned descriptor_;
};

using Dimensions = std::array<i64, 4>;  // batch, heads, rows, columns

struct Tensor {
  Descriptor descriptor = nullptr;
  Dimensions dimensions{}, strides{};
};

class Graph {
 public:
  explicit Graph(const Library& library) : library_(library) {}

  struct Layout {
    Dimensions dimensions{}, strides{};  // strides in elements
    DataType type = DataType::fp32;
    i64 alignment = 16;  // bytes
  };
  // A tensor in device memory; `uid` names it when the plan is executed.
  Tensor array(const Layout&, i64 uid);
  // One fp32 number in host memory, read at each execution.
  Tensor number(i64 uid);
  // An intermediate tensor, inside the plan: packed rows of columns.
  Tensor between(const Dimensions&, DataType = DataType::fp32);
  Tensor between(const Layout&);

  void matmul(Tensor a, Tensor b, Tensor c);
  // Reduces the columns of each row.
  void reduce(ReductionMode, Tensor x, Tensor y);
  // Views the same elements with other dimensions or strides.
  void reshape(Tensor x, Tensor y);

  struct Pointwise {
    PointwiseMode mode;
    DataType math = DataType::fp32;
    std::optional<i64> axis{};  // axis of gen_index
  };
  void pointwise(const Pointwise&, Tensor x, Tensor y);
  void pointwise(const Pointwise&, Tensor x, Tensor b, Tensor y);
  // y = t ? x : b.
  void select(Tensor x, Tensor b, Tensor t, Tensor y);

 private:
  friend class Plan;
  Tensor tensor(const Layout&, i64 uid, bool is_virtual, bool by_value);
  Descriptor make(DescriptorType);
  template <class T>
  void set(Descriptor, Attribute, AttributeType, std::span<const T>);
  template <class T>
  void set(Descriptor d, Attribute a, AttributeType t, const T& value) {
    set(d, a, t, std::span<const T>(&value, 1));
  }
  void set(Descriptor d, Attribute a, Tensor tensor) {
    set(d, a, AttributeType::backend_descriptor, tensor.descriptor);
  }
  void finalize(Descriptor);
  void add_pointwise(const Pointwise&, Tensor x, const Tensor* b, const Tensor* t, Tensor y);

  const Library& library_;
  std::vector<Owned> owned_;
  std::vector<Descriptor> operations_;
  i64 next_uid_ = 1'000'000;  // uids of intermediate tensors; callers' uids are small
  int status_ = success;
};

// Plan runs a graph with one engine: the first of the library's choices that is available and not marked as
// nondeterministic.
class Plan {
 public:
  // Compiles kernels, which takes up to seconds.
  // RETURNS: null, with the library's reason in `why_not`, if the library has no such engine for this graph
  // on this device, or lacks something the engine needs (NVRTC).
  // Errors: the library fails.
  static Result<std::unique_ptr<Plan>> create(const Library&, const DeviceProperties&, Graph,
                                              std::string& why_not);

  Bytes workspace() const { return workspace_; }

  struct Argument {
    i64 uid;
    void* data;  // device memory; for a number, host memory
  };
  // Returns at once.
  // REQUIRES: `workspace` has at least workspace() bytes and is aligned to 256.
  int execute(cudnnContext*, std::span<const Argument>, std::byte* workspace) const;

 private:
  explicit Plan(const Library& library) : library_(library) {}
  // RETURNS: 0, or the library's status if no engine can be used.
  int choose(const DeviceProperties&, Graph&);
  int finish(const DeviceProperties&, Descriptor config);
  bool says_deterministic(Descriptor config) const;

  const Library& library_;
  std::vector<Owned> owned_;
  Owned plan_;
  bool tried_ = false;  // at least one engine was tried
  Bytes workspace_{};
};

}  // namespace tidepool::cudnn
