#include "run/weights/init_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "base/mix_bits.h"
#include "kernels/gradient/gradient.h"
#include "tidepool/fp16.h"

namespace tidepool {
namespace {

// The random numbers of one tensor: 64 bits for each element.
u64 stream_of(u64 seed, u64 tensor) { return mix_count(seed ^ (tensor * 0xd1342543de82ef95)); }
u64 bits_at(u64 stream, u64 element) { return mix_count(stream ^ element); }

// RETURNS: a number from a standard normal distribution (Box-Muller).
float normal_of(u64 bits) {
  const float u = (static_cast<float>(bits >> 40) + 1.0f) * 0x1p-24f;  // (0, 1]
  const float v = static_cast<float>((bits >> 8) & 0xffffff) * 0x1p-24f;
  return std::sqrt(-2.0f * std::log(u)) * std::cos(2.0f * std::numbers::pi_v<float> * v);
}

// RETURNS: a uniform number in (-1, 1), symmetric around 0.
float uniform_of(u64 bits) { return (static_cast<float>(bits >> 40) + 0.5f) * 0x1p-23f - 1.0f; }

float value_at(const Tensor& tensor, u64 stream, u64 element) {
  switch (tensor.init) {
    case Init::normal:
      return static_cast<float>(tensor.init_std) * normal_of(bits_at(stream, element));
    case Init::uniform:
      return static_cast<float>(tensor.init_bound) * uniform_of(bits_at(stream, element));
    case Init::log_uniform: {
      constexpr float least = 0.01f, most = 16;
      const float share = (uniform_of(bits_at(stream, element)) + 1) / 2;
      return std::log(least + (most - least) * share);
    }
    case Init::log_number:
      return std::log(static_cast<float>(element + 1));
    case Init::ones:
      return 1.0f;
    case Init::zeros:
      return 0.0f;
  }
  return 0.0f;
}

constexpr u64 elements_per_task = 4 * kib;  // some 100 us
constexpr u64 bytes_per_element = 8;        // in a buffer

// True if init_weights() makes this window: with LoRA the adapters, because the model is loaded; else the
// model.
bool is_made(const ModelGraph& graph, const Window& window, bool score_alone) {
  return score_alone ? window.name == "score" : window.adapter == graph.lora.on();
}

}  // namespace

Bytes init_buffer(const CorePool& pool) {
  constexpr u64 tasks_of_each = 4, most = 4 * mib;
  return Bytes{std::min(pool.workers() * tasks_of_each * elements_per_task * bytes_per_element, most)};
}

Result<void> init_weights(const ModelGraph& graph, u64 seed, bool score_alone, StateWriter& state,
                          std::span<std::byte> buffer, CorePool& pool,
                          const std::function<void(double)>& progress) {
  const u64 piece_elements = buffer.size() / bytes_per_element;
  float* values = reinterpret_cast<float*>(buffer.data());
  u16* halves = reinterpret_cast<u16*>(values + piece_elements);
  u16* low = halves + piece_elements;
  u64 first = 0, done = 0;  // number of the window's first tensor, in an order that no optimizer changes
  for (u32 w = 0; w < graph.windows.size(); ++w) {
    if (!is_made(graph, graph.windows[w], score_alone)) continue;
    for (const Tensor& tensor : graph.windows[w].tensors) {
      const u64 stream = stream_of(seed, first + tensor.number);
      for (u64 begin = 0; begin < tensor.elements; begin += piece_elements) {
        const u64 count = std::min(piece_elements, tensor.elements - begin);
        parallel_for(pool, Priority::normal, static_cast<u32>(div_up(count, elements_per_task)),
                     [&](u32 task, u32) {
                       const u64 end = std::min(count, (task + 1) * elements_per_task);
                       for (u64 i = task * elements_per_task; i < end; ++i) {
                         const float x = value_at(tensor, stream, begin + i);
                         switch (graph.precision) {
                           case Precision::fp32:
                             values[i] = x;
                             break;
                           case Precision::bf16:
                             halves[i] = bf16_from_float(x), low[i] = low_from_float(x);
                             break;
                           case Precision::fp16:
                             halves[i] = fp16_from_float(x), values[i] = x;
                             break;
                         }
                       }
                     });
        const u64 at = tensor.window_offset + begin;
        const auto words = std::as_bytes(std::span(values, count));
        const bool fp32 = graph.precision == Precision::fp32;
        TRY(state.write(w, Kind::param, at, fp32 ? words : std::as_bytes(std::span(halves, count))));
        const bool bf16 = graph.precision == Precision::bf16;
        if (graph.state_slots.has_master())
          TRY(state.write(w, graph.state_slots.master(), at,
                          bf16 ? std::as_bytes(std::span(low, count)) : words));
        done += count;
        progress(static_cast<double>(done) / static_cast<double>(graph.parameters));
      }
    }
    first += graph.windows[w].tensors.size();
  }
  return state.finish();
}

}  // namespace tidepool
