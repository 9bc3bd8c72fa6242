// libcudnn.so.9 for the emulation: the functions that we call, on streams of emulated devices, loaded like
// the real library. It accepts graphs of attention's operations and has three engines for each, the first of
// which says that its sums have no fixed order. Undefined behaviour of the real library stops the process.
#include <algorithm>
#include <cstring>
#include <limits>

#include "failure.h"
#include "graph.h"
#include "runtime.h"

struct cudnnContext {
  int device = 0;
  cudaStream_t stream = nullptr;
};

namespace emulated_cuda {
namespace {

using names::AttributeType;
using names::DescriptorType;
using names::NumericalNote;
using enum names::Attribute;

constexpr int success = 0, bad_param = 2000, not_supported = 3000, failed = 5000;
constexpr int version = 91900;

std::size_t bytes_of(AttributeType type) {
  switch (type) {
    case AttributeType::boolean:
    case AttributeType::text:
      return 1;
    case AttributeType::int64:
    case AttributeType::void_ptr:
    case AttributeType::backend_descriptor:
      return 8;
    default:
      return 4;
  }
}

bool is_operation(DescriptorType type) {
  return type == DescriptorType::operation_matmul || type == DescriptorType::operation_pointwise ||
         type == DescriptorType::operation_reduction || type == DescriptorType::operation_reshape;
}

std::vector<const Described*> operations_of(const Described& graph) {
  std::vector<const Described*> out;
  for (void* const op : graph.all<void*>(operationgraph_ops)) out.push_back(static_cast<Described*>(op));
  return out;
}

int finish(Described& d) {
  if (is_operation(d.type)) check_operation(d);
  if (d.type == DescriptorType::tensor) TensorFacts{d};
  if (d.type == DescriptorType::operationgraph) check_graph(operations_of(d));
  if (d.type == DescriptorType::engineheur && !d.child(engineheur_deviceprop).finalized)
    stop("heuristics without a device");
  if (d.type == DescriptorType::execution_plan) {
    if (d.child(execution_plan_engine_config).engine == 0) stop("a plan of an engine whose bits vary");
    if (fires(runtime().faults.attention_plan)) return runtime().faults.attention_plan_status;
  }
  d.finalized = true;
  return success;
}

// RETURNS: the graph of a plan; heuristics store it in their engine's config.
const Described& graph_of(const Described& config) { return config.child(engineheur_operation_graph); }

// Children: the config's engine; for heuristics, both configs.
int get_children(Described& d, names::Attribute attribute, std::int64_t room, std::int64_t* count,
                 void* out) {
  void** const children = static_cast<void**>(out);
  if (attribute == enginecfg_engine) {
    static_cast<Described*>(children[0])->engine = d.engine;
    *count = 1;
    return success;
  }
  if (attribute != engineheur_results || !d.finalized || room < 3) return bad_param;
  const int engines = runtime().options.cudnn_deterministic ? 3 : 1;
  for (int i = 0; i < engines; ++i) {
    auto* const config = static_cast<Described*>(children[i]);
    config->engine = i;
    config->attributes[engineheur_operation_graph] = d.attributes.at(engineheur_operation_graph);
    config->finalized = true;
  }
  *count = engines;
  return success;
}

struct Pack {
  std::map<std::int64_t, void*> pointers;
  std::byte* workspace = nullptr;

  explicit Pack(const Described& d) {
    const auto uids = d.all<std::int64_t>(variant_pack_unique_ids);
    const auto data = d.all<void*>(variant_pack_data_pointers);
    if (uids.size() != data.size()) stop("as many arrays as names");
    for (std::size_t i = 0; i < uids.size(); ++i) pointers[uids[i]] = data[i];
    workspace = static_cast<std::byte*>(d.one<void*>(variant_pack_workspace));
  }
};

// Binds arguments. Arrays must be device memory to their last element; numbers are read now.
void bind(Execution& execution, const Pack& pack) {
  for (const auto& [address, d] : execution.described) {
    if (d.type != DescriptorType::tensor) continue;
    const TensorFacts facts(d);
    if (facts.is_virtual) continue;
    if (!pack.pointers.contains(facts.uid)) stop("no array is named " + std::to_string(facts.uid));
    void* const data = pack.pointers.at(facts.uid);
    if (facts.by_value) {
      execution.numbers[facts.uid] = *static_cast<const float*>(data);
      continue;
    }
    if (reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(facts.alignment) != 0)
      stop("an array that is less aligned than it says");
    require_device_memory(data, static_cast<std::size_t>(facts.extent()) * facts.element_bytes(),
                          "an array of attention");
    execution.arrays[facts.uid] = data;
  }
}

}  // namespace
}  // namespace emulated_cuda

using namespace emulated_cuda;

extern "C" {

size_t cudnnGetVersion() { return static_cast<size_t>(runtime().options.cudnn_version); }
const char* cudnnGetErrorString(int status) {
  return status == success         ? "CUDNN_STATUS_SUCCESS"
         : status == bad_param     ? "CUDNN_STATUS_BAD_PARAM"
         : status == not_supported ? "CUDNN_STATUS_NOT_SUPPORTED"
                                   : "CUDNN_STATUS_EXECUTION_FAILED";
}
void cudnnGetLastErrorString(char* message, size_t room) {
  std::snprintf(
      message, room,
      "{\"engineId\":2,\"smVersion\":900}\nWarning: CUDNN_STATUS_X; Reason: as the test asks at: a check\n"
      "Warning: CUDNN_STATUS_X; Reason: what follows from it");
}

int cudnnCreate(cudnnContext** context) {
  *context = new cudnnContext{.device = current_device()};
  return success;
}
int cudnnDestroy(cudnnContext* context) {
  delete context;
  return success;
}
int cudnnSetStream(cudnnContext* context, cudaStream_t stream) {
  if (stream->device != context->device) stop("a stream of another device");
  context->stream = stream;
  return success;
}

int cudnnBackendCreateDescriptor(DescriptorType type, void** descriptor) {
  *descriptor = new Described{.type = type};
  return success;
}
int cudnnBackendDestroyDescriptor(void* descriptor) {
  delete static_cast<Described*>(descriptor);
  return success;
}
int cudnnBackendFinalize(void* descriptor) { return finish(*static_cast<Described*>(descriptor)); }

int cudnnBackendSetAttribute(void* descriptor, names::Attribute attribute, AttributeType type,
                             std::int64_t count, const void* values) {
  auto& d = *static_cast<Described*>(descriptor);
  if (d.finalized) return bad_param;
  const auto* const bytes = static_cast<const std::byte*>(values);
  d.attributes[attribute] = {type, count, {bytes, bytes + static_cast<std::size_t>(count) * bytes_of(type)}};
  return success;
}

int cudnnBackendGetAttribute(void* descriptor, names::Attribute attribute, AttributeType type,
                             std::int64_t room, std::int64_t* count, void* out) {
  auto& d = *static_cast<Described*>(descriptor);
  if (type == AttributeType::backend_descriptor) return get_children(d, attribute, room, count, out);
  if (attribute == engine_numerical_note && room >= 1) {
    *count = d.engine == 0 ? 1 : 0;
    static_cast<NumericalNote*>(out)[0] = NumericalNote::nondeterministic;
    return success;
  }
  if (attribute != execution_plan_workspace_size || !d.finalized) return bad_param;
  *count = 1;
  const std::int64_t bytes = workspace_of(operations_of(graph_of(d.child(execution_plan_engine_config))));
  *static_cast<std::int64_t*>(out) = bytes + static_cast<std::int64_t>(runtime().options.cudnn_workspace);
  return success;
}

int cudnnBackendExecute(cudnnContext* context, void* plan, void* variant_pack) {
  const auto& p = *static_cast<Described*>(plan);
  if (!p.finalized || !static_cast<Described*>(variant_pack)->finalized) return bad_param;
  if (context->stream == nullptr) stop("execution without a stream");
  const auto operations = operations_of(graph_of(p.child(execution_plan_engine_config)));
  const Pack pack(*static_cast<Described*>(variant_pack));
  const auto workspace_bytes = static_cast<std::size_t>(workspace_of(operations));
  require_device_memory(pack.workspace, workspace_bytes, "attention's workspace");
  Execution execution = copy_of(operations);
  bind(execution, pack);
  Runtime& r = runtime();
  Lock lock(r.mutex);
  for (auto& [uid, number] : execution.numbers) number *= r.options.cudnn_scale;
  r.options.cudnn_scale += r.options.cudnn_drift;
  execution.nan = r.options.cudnn_nan;
  if (fires(r.faults.attention)) return failed;
  r.calls.push_back(
      {.kind = CallKind::attention, .device = context->device, .stream = context->stream->number});
  enqueue(lock, context->stream, [execution, workspace = pack.workspace, workspace_bytes] {
    // fills it with NaN, in case another user keeps data there
    std::memset(workspace, 0xff, workspace_bytes);
    run(execution);
  });
  return success;
}

}  // extern "C"
