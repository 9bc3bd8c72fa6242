#include "model/experts/expert_windows.h"

#include <fmt/format.h>

#include "base/check.h"
#include "kernels/gradient/gradient.h"

namespace tidepool {
namespace {

std::vector<TensorSpec> specs_of(const ModelConfig& c, u32 layer, u32 expert) {
  const ExpertTensors& names = traits(c.family).experts->tensors;
  const u64 h = c.width, inner = c.expert_inner();
  const auto spec = [&](std::string_view matrix, std::vector<u64> shape) {
    return TensorSpec{.name = fmt::format("{}.{}.{}.{}.{}.weight", style(c.family).layers_path, layer,
                                          names.single, expert, matrix),
                      .shape = std::move(shape),
                      .init = Init::normal,
                      .init_std = c.initializer_range};
  };
  std::vector<TensorSpec> specs = {spec(names.gate, {inner, h}), spec(names.up, {inner, h}),
                                   spec(names.down, {h, inner})};
  specs[0].alignment = norm_granule_elements;
  specs[1].joined = true;
  return specs;
}

}  // namespace

ExpertPlaces expert_places(const ModelConfig& c) {
  const u64 matrix = u64{c.width} * c.expert_inner();
  const u64 down = round_up(2 * matrix, TensorSpec{}.alignment);
  return {.down = down, .stride = round_up(down + matrix, norm_granule_elements)};
}

u32 expert_groups(const ModelGraph& g) {
  return static_cast<u32>(div_up(g.config.experts.count, g.experts_per_group));
}

ExpertRange experts_of_group(const ModelGraph& g, u32 group) {
  const u32 first = group * g.experts_per_group;
  return {first, std::min(g.experts_per_group, g.config.experts.count - first)};
}

Window expert_window(const ModelGraph& g, u32 layer, ExpertRange range) {
  std::vector<TensorSpec> specs;
  for (u32 expert = range.first; expert < range.first + range.count; ++expert)
    for (TensorSpec& spec : specs_of(g.config, layer, expert)) specs.push_back(std::move(spec));
  const u32 last = range.first + range.count - 1;
  const std::string numbers =
      range.count == 1 ? fmt::format("{}", last) : fmt::format("{}-{}", range.first, last);
  Window window = make_window(fmt::format("layers.{}.experts.{}", layer, numbers), std::move(specs));
  const ExpertPlaces places = expert_places(g.config);
  for (u32 i = 0; i < range.count; ++i) {
    CHECK(window.tensors[3 * i].window_offset == i * places.stride, i);
    CHECK(window.tensors[3 * i + 2].window_offset == i * places.stride + places.down, i);
  }
  return window;
}

}  // namespace tidepool
