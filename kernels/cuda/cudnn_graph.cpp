// Graph and Plan build cuDNN's descriptors, attribute by attribute.
#include "kernels/cuda/cudnn_graph.h"

#include <algorithm>

#include "base/check.h"

namespace tidepool::cudnn {
namespace {

constexpr i64 configs_max = 16;  // configurations of an engine that are examined
constexpr int not_supported = 3000;
bool is_not_supported(int status) { return status / 1000 == not_supported / 1000; }  // or a sub-status of it

template <class T>
int set_attribute(const Library& library, Descriptor d, Attribute a, AttributeType type,
                  std::span<const T> v) {
  return library.calls().set_attribute(d, a, type, static_cast<i64>(v.size()), v.data());
}
template <class T>
int set_attribute(const Library& library, Descriptor d, Attribute a, AttributeType type, const T& value) {
  return set_attribute(library, d, a, type, std::span<const T>(&value, 1));
}

int make_descriptor(const Library& library, DescriptorType type, Owned& owned) {
  Descriptor made = nullptr;
  const int status = library.calls().create_descriptor(type, &made);
  owned = Owned(library, made);
  return status;
}

}  // namespace

// ---- device

Result<DeviceProperties> DeviceProperties::finish(const Library& library, Owned descriptor) {
  if (const int status = library.calls().finalize(descriptor.get()); status != success)
    return library.error(status, "describing a GPU");
  return DeviceProperties(std::move(descriptor));
}

Result<DeviceProperties> DeviceProperties::of_device(const Library& library, int index) {
  Owned descriptor;
  int status = make_descriptor(library, DescriptorType::deviceprop, descriptor);
  const i32 id = index;
  if (status == success)
    status =
        set_attribute(library, descriptor.get(), Attribute::deviceprop_device_id, AttributeType::int32, id);
  if (status != success) return library.error(status, "asking what cuda:" + std::to_string(index) + " is");
  return finish(library, std::move(descriptor));
}

Result<DeviceProperties> DeviceProperties::of_json(const Library& library, const std::string& json) {
  Owned descriptor;
  int status = make_descriptor(library, DescriptorType::deviceprop, descriptor);
  if (status == success)
    status = set_attribute(library, descriptor.get(), Attribute::deviceprop_json_representation,
                           AttributeType::text, std::span<const char>(json));
  if (status != success) return library.error(status, "reading what a GPU is");
  return finish(library, std::move(descriptor));
}

// ---- graph

Descriptor Graph::make(DescriptorType type) {
  if (status_ != success) return nullptr;
  status_ = make_descriptor(library_, type, owned_.emplace_back());
  return owned_.back().get();
}

template <class T>
void Graph::set(Descriptor d, Attribute attribute, AttributeType type, std::span<const T> values) {
  if (status_ == success) status_ = set_attribute(library_, d, attribute, type, values);
}

void Graph::finalize(Descriptor d) {
  if (status_ == success) status_ = library_.calls().finalize(d);
}

Tensor Graph::tensor(const Layout& layout, i64 uid, bool is_virtual, bool by_value) {
  using enum AttributeType;
  const Descriptor d = make(DescriptorType::tensor);
  set(d, Attribute::tensor_data_type, data_type, layout.type);
  set(d, Attribute::tensor_dimensions, int64, std::span<const i64>(layout.dimensions));
  set(d, Attribute::tensor_strides, int64, std::span<const i64>(layout.strides));
  set(d, Attribute::tensor_unique_id, int64, uid);
  set(d, Attribute::tensor_byte_alignment, int64, layout.alignment);
  set(d, Attribute::tensor_is_virtual, boolean, is_virtual);
  set(d, Attribute::tensor_is_by_value, boolean, by_value);
  finalize(d);
  return {d, layout.dimensions, layout.strides};
}

Tensor Graph::array(const Layout& layout, i64 uid) { return tensor(layout, uid, false, false); }
Tensor Graph::number(i64 uid) {
  return tensor({.dimensions = {1, 1, 1, 1}, .strides = {1, 1, 1, 1}}, uid, false, true);
}
Tensor Graph::between(const Layout& layout) { return tensor(layout, next_uid_++, true, false); }
Tensor Graph::between(const Dimensions& d, DataType type) {
  return between({.dimensions = d, .strides = {d[1] * d[2] * d[3], d[2] * d[3], d[3], 1}, .type = type});
}

void Graph::matmul(Tensor a, Tensor b, Tensor c) {
  const Descriptor how = make(DescriptorType::matmul);
  set(how, Attribute::matmul_comp_type, AttributeType::data_type, DataType::fp32);
  finalize(how);
  const Descriptor d = make(DescriptorType::operation_matmul);
  set(d, Attribute::operation_matmul_desc, AttributeType::backend_descriptor, how);
  set(d, Attribute::operation_matmul_adesc, a);
  set(d, Attribute::operation_matmul_bdesc, b);
  set(d, Attribute::operation_matmul_cdesc, c);
  finalize(d);
  operations_.push_back(d);
}

void Graph::reduce(ReductionMode mode, Tensor x, Tensor y) {
  const Descriptor how = make(DescriptorType::reduction);
  set(how, Attribute::reduction_comp_type, AttributeType::data_type, DataType::fp32);
  set(how, Attribute::reduction_operator, AttributeType::reduction_operator_type, mode);
  finalize(how);
  const Descriptor d = make(DescriptorType::operation_reduction);
  set(d, Attribute::operation_reduction_desc, AttributeType::backend_descriptor, how);
  set(d, Attribute::operation_reduction_xdesc, x);
  set(d, Attribute::operation_reduction_ydesc, y);
  finalize(d);
  operations_.push_back(d);
}

void Graph::reshape(Tensor x, Tensor y) {
  const Descriptor d = make(DescriptorType::operation_reshape);
  set(d, Attribute::operation_reshape_xdesc, x);
  set(d, Attribute::operation_reshape_ydesc, y);
  finalize(d);
  operations_.push_back(d);
}

void Graph::add_pointwise(const Pointwise& what, Tensor x, const Tensor* b, const Tensor* t, Tensor y) {
  const Descriptor how = make(DescriptorType::pointwise);
  set(how, Attribute::pointwise_mode, AttributeType::pointwise_mode, what.mode);
  set(how, Attribute::pointwise_math_prec, AttributeType::data_type, what.math);
  if (what.axis) set(how, Attribute::pointwise_axis, AttributeType::int64, *what.axis);
  finalize(how);
  const Descriptor d = make(DescriptorType::operation_pointwise);
  set(d, Attribute::operation_pointwise_pw_descriptor, AttributeType::backend_descriptor, how);
  set(d, Attribute::operation_pointwise_xdesc, x);
  if (b != nullptr) set(d, Attribute::operation_pointwise_bdesc, *b);
  if (t != nullptr) set(d, Attribute::operation_pointwise_tdesc, *t);
  set(d, Attribute::operation_pointwise_ydesc, y);
  finalize(d);
  operations_.push_back(d);
}

void Graph::pointwise(const Pointwise& what, Tensor x, Tensor y) {
  add_pointwise(what, x, nullptr, nullptr, y);
}
void Graph::pointwise(const Pointwise& what, Tensor x, Tensor b, Tensor y) {
  add_pointwise(what, x, &b, nullptr, y);
}
void Graph::select(Tensor x, Tensor b, Tensor t, Tensor y) {
  add_pointwise({.mode = PointwiseMode::binary_select}, x, &b, &t, y);
}

// ---- plan

Result<std::unique_ptr<Plan>> Plan::create(const Library& library, const DeviceProperties& device,
                                           Graph graph, std::string& why_not) {
  std::unique_ptr<Plan> plan(new Plan(library));
  const int status = graph.status_ != success ? graph.status_ : plan->choose(device, graph);
  if (is_not_supported(status)) {
    why_not = plan->tried_ ? library.last_error() : "none of its engines is there, or all say that bits vary";
    return std::unique_ptr<Plan>();
  }
  if (status != success) return library.error(status, "planning attention");
  return plan;
}

int Plan::choose(const DeviceProperties& device, Graph& graph) {
  const Library::Calls& calls = library_.calls();
  using enum AttributeType;
  Owned all, heuristics;
  int status = make_descriptor(library_, DescriptorType::operationgraph, all);
  const auto set = [&](Descriptor d, Attribute attribute, AttributeType type, const auto& value) {
    if (status == success) status = set_attribute(library_, d, attribute, type, value);
  };
  set(all.get(), Attribute::operationgraph_ops, backend_descriptor,
      std::span<const Descriptor>(graph.operations_));
  if (status == success) status = calls.finalize(all.get());
  if (status == success) status = make_descriptor(library_, DescriptorType::engineheur, heuristics);
  set(heuristics.get(), Attribute::engineheur_operation_graph, backend_descriptor, all.get());
  set(heuristics.get(), Attribute::engineheur_mode, heur_mode, HeuristicsMode::a);
  set(heuristics.get(), Attribute::engineheur_deviceprop, backend_descriptor, device.get());
  if (status == success) status = calls.finalize(heuristics.get());
  if (status != success) return status;

  std::vector<Owned> configs(configs_max);
  std::vector<Descriptor> found;
  for (Owned& config : configs) {
    if ((status = make_descriptor(library_, DescriptorType::enginecfg, config)) != success) return status;
    found.push_back(config.get());
  }
  i64 count = 0;
  status = calls.get_attribute(heuristics.get(), Attribute::engineheur_results, backend_descriptor,
                               configs_max, &count, found.data());
  if (status != success) return status;
  status = not_supported;
  for (i64 i = 0; i < std::min(count, configs_max); ++i) {
    if (!says_deterministic(found[static_cast<u64>(i)])) continue;
    tried_ = true;
    // Another engine has other bits, so it must not take over after a failure that may be temporary.
    if (!is_not_supported(status = finish(device, found[static_cast<u64>(i)]))) break;
  }
  owned_ = std::move(graph.owned_);  // the plan refers to the graph's descriptors
  owned_.push_back(std::move(all));
  for (Owned& config : configs) owned_.push_back(std::move(config));
  return status;
}

bool Plan::says_deterministic(Descriptor config) const {
  const Library::Calls& calls = library_.calls();
  Owned engine;
  if (make_descriptor(library_, DescriptorType::engine, engine) != success) return false;
  Descriptor found = engine.get();
  i64 count = 0;
  if (calls.get_attribute(config, Attribute::enginecfg_engine, AttributeType::backend_descriptor, 1, &count,
                          &found) != success)
    return false;
  std::array<NumericalNote, numerical_notes> notes{};
  if (calls.get_attribute(found, Attribute::engine_numerical_note, AttributeType::numerical_note,
                          numerical_notes, &count, notes.data()) != success)
    return false;
  const auto end = notes.begin() + std::clamp<i64>(count, 0, numerical_notes);
  return std::find(notes.begin(), end, NumericalNote::nondeterministic) == end;
}

int Plan::finish(const DeviceProperties& device, Descriptor config) {
  const Library::Calls& calls = library_.calls();
  int status = make_descriptor(library_, DescriptorType::execution_plan, plan_);
  if (status == success)
    status = set_attribute(library_, plan_.get(), Attribute::execution_plan_engine_config,
                           AttributeType::backend_descriptor, config);
  if (status == success)
    status = set_attribute(library_, plan_.get(), Attribute::execution_plan_deviceprop,
                           AttributeType::backend_descriptor, device.get());
  if (status == success) status = calls.finalize(plan_.get());
  i64 bytes = 0, count = 0;
  if (status == success)
    status = calls.get_attribute(plan_.get(), Attribute::execution_plan_workspace_size, AttributeType::int64,
                                 1, &count, &bytes);
  workspace_ = Bytes{static_cast<u64>(bytes)};
  return status;
}

int Plan::execute(cudnnContext* context, std::span<const Argument> arguments, std::byte* workspace) const {
  using enum AttributeType;
  constexpr u64 arguments_max = 16;
  CHECK(arguments.size() <= arguments_max, arguments.size());
  std::array<i64, arguments_max> uids{};
  std::array<void*, arguments_max> pointers{};
  for (u64 i = 0; i < arguments.size(); ++i) {
    uids[i] = arguments[i].uid;
    pointers[i] = arguments[i].data;
  }
  Owned pack;
  int status = make_descriptor(library_, DescriptorType::variant_pack, pack);
  const auto set = [&](Attribute attribute, AttributeType type, const auto& value) {
    if (status == success) status = set_attribute(library_, pack.get(), attribute, type, value);
  };
  set(Attribute::variant_pack_unique_ids, int64, std::span<const i64>(uids).first(arguments.size()));
  set(Attribute::variant_pack_data_pointers, void_ptr,
      std::span<void* const>(pointers).first(arguments.size()));
  void* const at = workspace;
  set(Attribute::variant_pack_workspace, void_ptr, at);
  if (status == success) status = library_.calls().finalize(pack.get());
  return status == success ? library_.calls().execute(context, plan_.get(), pack.get()) : status;
}

}  // namespace tidepool::cudnn
