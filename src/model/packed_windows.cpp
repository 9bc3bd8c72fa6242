// Packed windows are laid out by the names and shapes of their tensors, and unpacked tensor by tensor.
#include "model/packed_windows.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/check.h"
#include "model/block_calls.h"
#include "model/window_builder.h"
#include "tidepool/router_tensor.h"

namespace tidepool {
namespace {

std::string_view take_segment(std::string_view& name) {
  const u64 dot = name.find('.');
  const std::string_view segment = name.substr(0, dot);
  name.remove_prefix(dot == name.npos ? name.size() : dot + 1);
  return segment;
}

bool starts_with_segments(std::string_view name, std::string_view pattern) {
  while (!pattern.empty()) {
    if (name.empty()) return false;
    const std::string_view wanted = take_segment(pattern), found = take_segment(name);
    if (wanted != "*" && wanted != found) return false;
  }
  return true;
}

// True if the segments of `pattern` stand side by side in `name`.
bool has_segments(std::string_view name, std::string_view pattern) {
  for (; !name.empty(); take_segment(name))
    if (starts_with_segments(name, pattern)) return true;
  return false;
}

bool is_expert(const ModelConfig& c, const std::string& tensor) {
  if (c.experts.count == 0) return false;
  const ExpertTensors& names = traits(c.family).experts->tensors;
  return tensor.find(fmt::format(".{}.", names.single.empty() ? names.joined : names.single)) != tensor.npos;
}

// Name in files with joined experts, if the model's files are such: that is how unpacked_modules are spelled.
std::string name_in_files(const ModelConfig& c, const std::string& tensor) {
  if (!c.experts.joined_files) return tensor;
  const ExpertTensors& names = traits(c.family).experts->tensors;
  const auto replaced = [&](std::string_view from, std::string_view to) {
    std::string out = tensor;
    const u64 at = out.find(from);
    return at == out.npos ? out : out.replace(at, from.size(), to);
  };
  if (is_router(c.family, tensor)) return replaced(names.router, names.joined_router);
  return is_expert(c, tensor) ? replaced(names.single, names.joined) : tensor;
}

bool is_packed(const ModelConfig& c, const Tensor& t) {
  const Quantization& q = c.quantization;
  if (t.shape.size() != 2 || !t.name.starts_with(style(c.family).tensors_path)) return false;
  if (!q.from_files && is_router(c.family, t.name)) return false;
  if (!q.from_files && q.packing == Packing::mxfp4 && !is_expert(c, t.name)) return false;
  const std::string name = name_in_files(c, t.name);
  return std::ranges::none_of(q.unpacked_modules,
                              [&](const std::string& module) { return has_segments(name, module); });
}

// Published matrices are [out, in].
PackedMatrix packed_matrix(const Quantization& q, const Tensor& t) {
  PackedMatrix m = {.packing = q.packing,
                    .rows = static_cast<u32>(t.shape[t.packed_transposed]),
                    .columns = static_cast<u32>(t.shape[!t.packed_transposed])};
  if (q.packing == Packing::fp8_block) m.block_rows = q.block_rows, m.block_columns = q.block_columns;
  if (is_nf4(q.packing)) m.block = nf4_block;
  if (q.packing == Packing::nf4_double) m.nested_block = nf4_nested_block;
  return m;
}

Result<void> pack_window(Window& window, const ModelGraph& g) {
  const u64 element = value_bytes(g.precision);
  u64 end = 0;
  for (Tensor& t : window.tensors) {
    if (is_packed(g.config, t)) {
      t.packed_transposed =
          is_expert(g.config, t.name) && traits(g.config.family).experts->tensors.joined_in_out;
      t.packed = packed_matrix(g.config.quantization, t);
    }
    if (t.packed_transposed && t.packed.packing != Packing::mxfp4)
      return Error{ErrorKind::usage,
                   fmt::format("model: experts of {} models are supported in MXFP4 only, not in {}: "
                               "name the model before quantization",
                               name(g.config.family), name(t.packed.packing))};
    if (t.packed.packing == Packing::mxfp4 && t.packed.columns % mxfp4_block != 0)
      return Error{ErrorKind::usage,
                   fmt::format("model: {} has rows of {} numbers, which are no whole blocks of {}, so it "
                               "cannot be MXFP4: name the model before quantization",
                               t.name, t.packed.columns, mxfp4_block)};
    if (t.packed.packing != Packing::none) t.stored_elements = packed_bytes(t.packed) / element;
    t.stored_offset = round_up(end, TensorSpec{}.alignment);
    end = t.stored_offset + t.stored_elements;
  }
  window.unpacked_elements = window.elements;
  window.elements = round_up(end, cut_alignment_elements);
  return {};
}

u64 unpacked_bytes(const ModelGraph& g, const Window& window) {
  return round_up(values_bytes(window.unpacked_elements, g.precision), frame_alignment);
}

// Copies tensors [first, last) of a window, which lie alike before and after.
void copy_tensors(const BlockContext& c, const Window& window, u64 first, u64 last, Param from, Values to) {
  if (first == last) return;
  const Tensor &begin = window.tensors[first], &end = window.tensors[last - 1];
  const u64 elements = end.window_offset + end.elements - begin.window_offset;
  c.kernels.unpack({.matrix = {.rows = 1, .columns = static_cast<u32>(elements)},
                    .packed = from.at(begin.stored_offset).data,
                    .elements = elements,
                    .out = to.at(begin.window_offset)});
}

void unpack_window(const BlockContext& c, const Window& window, const std::byte* stored,
                   std::byte* unpacked) {
  const Param from = {stored, c.graph.precision};
  const Values to = {unpacked, c.graph.precision};
  u64 copied = 0;  // tensors before this one are done
  for (u64 i = 0; i < window.tensors.size(); ++i) {
    const Tensor& t = window.tensors[i];
    const bool packed = t.packed.packing != Packing::none;
    const bool apart = i == copied || t.stored_offset - window.tensors[copied].stored_offset !=
                                          t.window_offset - window.tensors[copied].window_offset;
    if (!packed && !apart) continue;
    copy_tensors(c, window, copied, i, from, to);
    copied = i;
    if (!packed) continue;
    Unpack op = unpack_whole(t.packed, from.at(t.stored_offset).data, to.at(t.window_offset));
    op.transposed = t.packed_transposed;
    c.kernels.unpack(op);
    ++copied;
  }
  copy_tensors(c, window, copied, window.tensors.size(), from, to);
}

}  // namespace

Result<void> pack_windows(ModelGraph& g) {
  if (g.config.quantization.packing == Packing::none) return {};
  if (style(g.config.family).matrices_in_out)
    return Error{
        ErrorKind::usage,
        fmt::format("model: quantized {} models are not supported: name the model before quantization",
                    name(g.config.family))};
  for (Window& window : g.windows) {
    if (window.adapter) continue;
    window.trainable = false;
    if (std::ranges::any_of(window.tensors, [&](const Tensor& t) { return is_packed(g.config, t); }))
      TRY(pack_window(window, g));
  }
  return {};
}

Bytes unpacked_bytes(const ModelGraph& g, const Block& block) {
  Bytes sum{};
  for (const u32 window : block.windows) sum += Bytes{unpacked_bytes(g, g.windows[window])};
  return sum;
}

bool packed_alike(const Window& a, const Window& b) {
  return std::ranges::equal(a.tensors, b.tensors, [](const Tensor& one, const Tensor& other) {
    return one.packed == other.packed && one.stored_offset == other.stored_offset;
  });
}

UnpackedWindows unpack_windows(const BlockContext& c, std::span<const std::byte* const> windows,
                               std::byte* workspace) {
  UnpackedWindows out{.count = static_cast<u32>(windows.size())};
  CHECK(windows.size() <= out.data.size(), windows.size());
  for (u32 w = 0; w < windows.size(); ++w) {
    const Window& window = window_of(c, w);
    out.data[w] = windows[w];
    if (window.unpacked_elements == 0) continue;
    unpack_window(c, window, windows[w], workspace);
    out.data[w] = workspace;
    workspace += unpacked_bytes(c.graph, window);
  }
  return out;
}

}  // namespace tidepool
