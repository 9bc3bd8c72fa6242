#include "model/adapters.h"

#include <algorithm>

#include "model/block_calls.h"
#include "model/layer_tensors.h"

namespace tidepool {
namespace {

constexpr u32 second_window = 1;  // of a block, if it has adapters

bool has_adapters(const BlockContext& c) { return block_of(c).windows.size() > second_window; }

// Routers' adapters have no dropout. A model with experts counts the MLP of a dense layer even if it has
// none.
u32 widest_input(const ModelGraph& g) {
  const ModelConfig& c = g.config;
  u32 widest = 0;
  for (const MlpKind mlp : {style(c.family).mlp, MlpKind::experts}) {
    LinearModules modules;
    for (u32 layer = 0; layer < c.layers; ++layer) {
      if (layer == 0 || c.mixer_kind(layer) != c.mixer_kind(layer - 1) ||
          c.is_global(layer) != c.is_global(layer - 1) || c.reads_keys(layer) != c.reads_keys(layer - 1))
        modules = LayerTensors(c, layer, LayerPart{.mixer = c.mixer_kind(layer), .mlp = mlp}).modules();
      for (u32 m = 0; m < modules.count; ++m)
        if (!modules.of[m].router && is_target(g, layer, modules.of[m]))
          widest = std::max(widest, modules.of[m].in);
    }
    if (c.experts.count == 0) break;
  }
  return widest;
}

}  // namespace

AdapterSize adapter_size(const ModelGraph& g, u32 layer, const LinearModule& module) {
  const LoraConfig& lora = g.lora;
  if (!lora.on()) return {};
  const std::string_view path = module.router ? g.adapters[layer].router : module.path;
  if (!lora.modules.empty()) {
    const ModuleAdapter* own = lora.find(layer, path);
    return own == nullptr ? AdapterSize{} : AdapterSize{own->r, lora.scale_of(own->r, own->alpha)};
  }
  const bool is_named =
      module.router ? !path.empty() : lora.all_linear() || names_path(lora.target_modules, path);
  return is_named ? AdapterSize{lora.r, lora.scale()} : AdapterSize{};
}

AdapterScratch adapter_scratch(const ModelGraph& g, WorkspaceCutter& layout) {
  if (!g.lora.on()) return {};
  const u64 rows = g.batch.tile_rows(), elements = rows * g.lora.rank_max();
  AdapterScratch scratch = {.low = layout.take_values(g.activations, elements),
                            .low_grad = layout.take_values(g.activations, elements)};
  if (g.lora.dropout > 0) scratch.dropped = layout.take_values(g.activations, rows * widest_input(g));
  return scratch;
}

AdapterGradients adapter_gradients_of(const BlockContext& c, const BlockBackward& b) {
  if (!has_adapters(c) || b.grad_accum.empty()) return {};
  return {.window = b.grad_accum[second_window], .accumulate = b.accumulate};
}

Adapters::Adapters(const BlockContext& c, const LinearModules& modules,
                   std::span<const std::byte* const> windows, const AdapterScratch& scratch)
    : c_(c), modules_(modules), scratch_(scratch) {
  if (!has_adapters(c)) return;
  window_ = &window_of(c, second_window);
  data_ = windows[second_window];
}

u32 Adapters::tensor(u32 module) const {
  const u32 layer = block_of(c_).layer;
  if (window_ == nullptr || !is_target(c_.graph, layer, modules_.of[module])) return none;
  u32 before = 0;
  for (u32 m = 0; m < module; ++m) before += is_target(c_.graph, layer, modules_.of[m]);
  return 2 * before;
}

AdapterSize Adapters::size(u32 module) const {
  return adapter_size(c_.graph, block_of(c_).layer, modules_.of[module]);
}

Param Adapters::param(u32 tensor) const {
  return Param{data_, c_.graph.precision}.at(window_->tensor(tensor).window_offset);
}

template <class Fn>
void Adapters::for_targets(FusedModules fused, Fn fn) const {
  if (window_ == nullptr) return;
  u32 column = 0;
  for (u32 m = fused.first; m < fused.first + fused.count; ++m) {
    if (has(m)) fn(Place{m, column});
    column += modules_.of[m].out;
  }
}

u32 Adapters::columns(FusedModules fused) const {
  u32 sum = 0;
  for (u32 m = fused.first; m < fused.first + fused.count; ++m) sum += modules_.of[m].out;
  return sum;
}

Dropout Adapters::dropout_of(u32 module) const {
  return dropout_of_adapter(c_, module, modules_.of[module].router ? 0 : c_.graph.lora.dropout);
}

ConstValues Adapters::make_low(u32 module, ConstValues x) const {
  if (const Dropout dropout = dropout_of(module); dropout.on()) {
    c_.kernels.dropout(dropout, x, scratch_.dropped, u64{rows_of(c_)} * modules_.of[module].in);
    x = scratch_.dropped;
  }
  c_.kernels.matmul({.m = rows_of(c_),
                     .n = size(module).r,
                     .k = modules_.of[module].in,
                     .x = x,
                     .weight = param(tensor(module)),
                     .transposed = true,
                     .scale = static_cast<float>(size(module).scale),
                     .y = scratch_.low});
  return x;
}

void Adapters::make_low_grad(u32 module, ConstValues dy, u32 dy_stride) const {
  c_.kernels.matmul({.m = rows_of(c_),
                     .n = size(module).r,
                     .k = modules_.of[module].out,
                     .x = dy,
                     .x_stride = dy_stride,
                     .weight = param(tensor(module) + 1),
                     .scale = static_cast<float>(size(module).scale),
                     .y = scratch_.low_grad});
}

Matmul Adapters::up(u32 module, ConstValues x) const {
  make_low(module, x);
  return {.m = rows_of(c_),
          .n = modules_.of[module].out,
          .k = size(module).r,
          .x = scratch_.low,
          .weight = param(tensor(module) + 1),
          .transposed = true};
}

Matmul Adapters::product_of_low_grad(u32 module) const {
  return {.m = rows_of(c_),
          .n = modules_.of[module].in,
          .k = size(module).r,
          .x = scratch_.low_grad,
          .weight = param(tensor(module))};
}

void Adapters::add_low_grad(u32 module, Values dx) const {
  Matmul product = product_of_low_grad(module);
  product.y = dx;
  product.dropout = dropout_of(module);
  if (product.dropout.on()) {
    product.epilogue = Epilogue::residual;
    product.residual = dx;
  } else {
    product.accumulate = true;
  }
  c_.kernels.matmul(product);
}

void Adapters::add_to(FusedModules fused, ConstValues x, Values y) const {
  for_targets(fused, [&](Place p) {
    Matmul product = up(p.module, x);
    product.accumulate = true;
    product.y = y.at(p.column);
    product.y_stride = columns(fused);
    c_.kernels.matmul(product);
  });
}

void Adapters::add_input_gradient(FusedModules fused, ConstValues dy, Values dx) const {
  for_targets(fused, [&](Place p) {
    make_low_grad(p.module, dy.at(p.column), columns(fused));
    add_low_grad(p.module, dx);
  });
}

void Adapters::input_gradient(u32 module, ConstValues dy, Values dx) const {
  make_low_grad(module, dy, 0);
  Matmul product = product_of_low_grad(module);
  product.y = dx;
  c_.kernels.matmul(product);
  if (const Dropout dropout = dropout_of(module); dropout.on())
    c_.kernels.dropout(dropout, dx, dx, u64{product.m} * product.n);
}

// Leaves the module's low_grad in the scratch, for the input gradient.
void Adapters::module_weight_gradients(Place p, FusedModules fused, ConstValues x, ConstValues dy,
                                       const AdapterGradients& g) const {
  const u32 a = tensor(p.module);
  const ConstValues dy_of_module = dy.at(p.column);
  const ConstValues seen = make_low(p.module, x);
  c_.kernels.weight_gradient({.m = rows_of(c_),
                              .n = modules_.of[p.module].out,
                              .k = size(p.module).r,
                              .x = scratch_.low,
                              .dy = dy_of_module,
                              .dy_stride = columns(fused),
                              .dw = g.window + window_->tensor(a + 1).window_offset,
                              .accumulate = g.accumulate,
                              .transposed = true});
  make_low_grad(p.module, dy_of_module, columns(fused));
  c_.kernels.weight_gradient({.m = rows_of(c_),
                              .n = size(p.module).r,
                              .k = modules_.of[p.module].in,
                              .x = seen,
                              .dy = scratch_.low_grad,
                              .dw = g.window + window_->tensor(a).window_offset,
                              .accumulate = g.accumulate,
                              .transposed = true});
}

void Adapters::weight_gradients(FusedModules fused, ConstValues x, ConstValues dy,
                                const AdapterGradients& g) const {
  for_targets(fused, [&](Place p) { module_weight_gradients(p, fused, x, dy, g); });
}

void Adapters::gradients(FusedModules fused, ConstValues x, ConstValues dy, Values dx,
                         const AdapterGradients& g) const {
  for_targets(fused, [&](Place p) {
    module_weight_gradients(p, fused, x, dy, g);
    add_low_grad(p.module, dx);
  });
}

}  // namespace tidepool
