#include "huggingface/weights/interleaved_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "huggingface/weights/convert.h"
#include "huggingface/weights/split.h"

namespace tidepool {
namespace {

std::span<u32> words_of(std::vector<float>& values) {
  return {reinterpret_cast<u32*>(values.data()), values.size()};
}

Error wrong(const PartSource& source, std::string_view reason) {
  return {ErrorKind::bad_input,
          fmt::format("{}: tensor {} {}", source.at.file->path(), source.at.tensor->name, reason)};
}

Result<std::vector<float>> read(const PartSource& source, u64 elements, InterleavedParts& interleaved) {
  const Dtype dtype = source.at.tensor->dtype;
  std::vector<std::byte> bytes(elements * dtype_bytes(dtype));
  if (source.file->interleaved) {
    TRY_ASSIGN(bytes, interleaved.read(source.at, *source.file, source.number));
  } else {
    TRY(source.at.file->read(*source.at.tensor, source.begin * dtype_bytes(dtype), bytes));
  }
  std::vector<float> values(elements);
  to_floats(dtype, bytes, values);
  if (!std::ranges::all_of(values, [](float x) { return std::isfinite(x); }))
    return wrong(source, "has a value that is NaN or infinite; use an undamaged adapter");
  return values;
}

}  // namespace

Result<void> load_interleaved(const std::vector<PartSource>& sources, const ModelGraph& graph,
                              StateWriter& writer) {
  InterleavedParts interleaved;
  std::vector<u16> halves, low;
  for (const PartSource& source : sources) {
    const Tensor& t = graph.windows[source.part.window].tensors[source.part.tensor];
    TRY_ASSIGN(std::vector<float> values, read(source, t.elements, interleaved));
    halves.resize(values.size()), low.resize(values.size());
    const auto write = [&](Kind kind, std::span<const std::byte> bytes) {
      return writer.write(source.part.window, kind, t.window_offset, bytes);
    };
    switch (graph.precision) {
      case Precision::fp32:
        TRY(write(Kind::param, std::as_bytes(std::span(values))));
        break;
      case Precision::fp16:
        if (overflows_fp16(values))
          return wrong(source,
                       "has values beyond fp16's 65504, which would become infinite; set precision=bf16");
        round_to_fp16(words_of(values), halves);
        TRY(write(Kind::param, std::as_bytes(std::span(halves))));
        TRY(write(graph.state_slots.master(), std::as_bytes(std::span(values))));
        break;
      case Precision::bf16:
        split_bits(words_of(values), halves, low);
        TRY(write(Kind::param, std::as_bytes(std::span(halves))));
        TRY(write(graph.state_slots.master(), std::as_bytes(std::span(low))));
        break;
    }
  }
  return {};
}

}  // namespace tidepool
