// WeightReader reads parts of tensors, large ones with O_DIRECT, and converts them in a few threads.
#include "huggingface/weights/weight_reader.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <optional>

#include "base/check.h"
#include "base/open_file.h"
#include "base/process/limits.h"
#include "base/process/start_thread.h"
#include "base/read_file.h"
#include "base/text/hash.h"
#include "huggingface/weights/convert.h"
#include "huggingface/weights/split.h"
#include "huggingface/weights/tensor_hashes.h"

namespace tidepool {
namespace {

constexpr u32 threads_max = 6;
constexpr u32 buffers_max = 11;
constexpr u64 raw_bytes_max = hashed_part_bytes;
// Limit of a part that the caller hashes: a copy of its bytes then fits behind the converted elements.
constexpr u64 unhashed_bytes_max = raw_bytes_max / 2;
constexpr u64 page = frame_alignment;
// Room for a part and the rest of its first and last pages. Behind it: space for as many elements as fp32
// words and as 16-bit halves.
constexpr u64 raw_room = raw_bytes_max + 2 * page;
constexpr u64 buffer_bytes = raw_room + 3 * raw_bytes_max;
static_assert(buffers_max * buffer_bytes <= WeightReader::memory_max.value);
constexpr u64 direct_bytes_min = 256 * kib;  // smaller reads go through the page cache

template <class T>
std::span<T> words_of(std::span<std::byte> bytes) {
  return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}

// Finds the first NaN or infinity: its exponent bits, `exponent`, are all set.
template <class Word, Word exponent>
std::optional<u64> first_not_finite(std::span<const Word> words) {
  bool any = false;  // the first pass has no branch, because nearly all weights are finite
  for (const Word word : words) any |= (word & exponent) == exponent;
  if (!any) return std::nullopt;
  return std::ranges::find_if(words, [](Word word) { return (word & exponent) == exponent; }) - words.begin();
}

std::optional<u64> first_not_finite(Dtype dtype, std::span<std::byte> raw) {
  if (dtype == Dtype::f32) return first_not_finite<u32, 0x7f80'0000>(words_of<const u32>(raw));
  if (dtype == Dtype::f64) return first_not_finite<u64, 0x7ff0'0000'0000'0000>(words_of<const u64>(raw));
  if (dtype == Dtype::bf16) return first_not_finite<u16, 0x7f80>(words_of<const u16>(raw));
  return first_not_finite<u16, 0x7c00>(words_of<const u16>(raw));
}

}  // namespace

WeightReader::WeightReader(std::vector<WeightSource> sources, Precision of_state)
    : sources_(std::move(sources)), precision_(of_state) {
  for (u32 s = 0; s < sources_.size(); ++s) {
    const auto& [file, tensor] = sources_[s].at;
    add_parts(s);
    if (tensor->bytes() >= direct_bytes_min && !direct_.contains(file))
      direct_.emplace(file, open_to_read(file->path(), O_DIRECT).fd);
  }
}

// Cuts a source at the ends of the parts of TensorHash.
void WeightReader::add_parts(u32 source) {
  const WeightSource& s = sources_[source];
  const u64 size = dtype_bytes(s.at.tensor->dtype), all = s.at.tensor->bytes() / size,
            most = raw_bytes_max / size, end = s.begin + s.elements;
  CHECK(end <= all, s.at.tensor->name, end, all);
  for (u64 begin = s.begin; begin < end;) {
    const u64 whole_end = std::min((begin / most + 1) * most, all);
    Part part = {.source = source, .begin = begin, .hashed = begin % most == 0 && whole_end <= end};
    part.elements = std::min(whole_end, end) - begin;
    if (!part.hashed) part.elements = std::min(part.elements, unhashed_bytes_max / size);
    begin += part.elements;
    parts_.push_back(part);
  }
}

Result<std::unique_ptr<WeightReader>> WeightReader::create(std::vector<WeightSource> sources,
                                                           Precision of_state) {
  std::unique_ptr<WeightReader> reader(new WeightReader(std::move(sources), of_state));
  TRY(reader->start());
  return reader;
}

Result<void> WeightReader::start() {
  buffers_.resize(std::min<u64>(buffers_max, parts_.size()));
  for (Buffer& buffer : buffers_) {
    buffer.memory = {static_cast<std::byte*>(std::aligned_alloc(page, buffer_bytes)), std::free};
    if (buffer.memory == nullptr)
      return no_memory("weights that are read ahead", Bytes{buffer_bytes}, ENOMEM, "lower memory.host");
  }
  for (u32 i = 0; i < std::min<u64>(threads_max, parts_.size()); ++i) {
    TRY_ASSIGN(std::thread thread, start_thread("tp-weights", [this] { serve(); }));
    threads_.push_back(std::move(thread));
  }
  return {};
}

WeightReader::~WeightReader() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

Result<const WeightPiece*> WeightReader::next() {
  std::unique_lock lock(mutex_);
  given_back_ = taken_;
  changed_.notify_all();
  if (taken_ == parts_.size()) return static_cast<const WeightPiece*>(nullptr);
  Buffer& buffer = buffers_[taken_ % buffers_.size()];
  changed_.wait(lock, [&] { return buffer.full; });
  buffer.full = false;
  ++taken_;
  if (buffer.error) return *buffer.error;
  return &buffer.piece;
}

void WeightReader::serve() {
  std::unique_lock lock(mutex_);
  while (!stop_ && claimed_ < parts_.size()) {
    const u64 number = claimed_++;
    changed_.wait(lock, [&] { return number < given_back_ + buffers_.size() || stop_; });
    if (stop_) return;
    lock.unlock();
    Buffer& buffer = buffers_[number % buffers_.size()];
    const Result<void> filled = fill(parts_[number], buffer);
    lock.lock();
    if (!filled) buffer.error = filled.error();
    buffer.full = true;
    changed_.notify_all();
  }
}

Result<void> WeightReader::fill(const Part& part, Buffer& buffer) const {
  const WeightSource& source = sources_[part.source];
  const Dtype dtype = source.at.tensor->dtype;
  const u64 size = dtype_bytes(dtype);
  TRY_ASSIGN(const std::span<std::byte> raw,
             read(source.at, part.begin * size, part.elements * size, buffer));
  if (const std::optional<u64> at = first_not_finite(dtype, raw))
    return Error{ErrorKind::bad_input,
                 fmt::format("{}: tensor {} is NaN or infinite at element {}, and so would be every value "
                             "computed from it; use undamaged weights, such as an earlier checkpoint",
                             source.at.file->path(), source.at.tensor->name_in_file(), part.begin + *at)};
  // Hashed or copied before convert() overwrites the bytes.
  const u64 hash =
      part.hashed ? hash_of(std::string_view(reinterpret_cast<const char*>(raw.data()), raw.size())) : 0;
  const std::span<std::byte> copy(buffer.memory.get() + buffer_bytes - unhashed_bytes_max,
                                  part.hashed ? 0 : raw.size());
  if (!part.hashed) std::ranges::copy(raw, copy.begin());
  TRY(convert(part, dtype, raw, buffer));
  buffer.piece.source = part.source;
  buffer.piece.xxh3 = hash;
  buffer.piece.unhashed = copy;
  return {};
}

// Reads whole pages around the range with O_DIRECT; where that is impossible, only the range.
Result<std::span<std::byte>> WeightReader::read(const SafetensorsModel::Location& at, u64 begin, u64 bytes,
                                                Buffer& buffer) const {
  const auto direct = direct_.find(at.file);
  if (direct != direct_.end() && direct->second && bytes >= direct_bytes_min) {
    const u64 offset = at.file->offset_of(*at.tensor) + begin, first = offset / page * page,
              lead = offset - first;
    const u64 wanted = round_up(lead + bytes, page);
    const bool aligned =
        lead % dtype_bytes(at.tensor->dtype) == 0;  // files written by old tools may be misaligned
    const ssize_t got =
        aligned ? ::pread(direct->second.get(), buffer.memory.get(), wanted, static_cast<off_t>(first)) : -1;
    if (got >= 0 && static_cast<u64>(got) >= lead + bytes)
      return std::span(buffer.memory.get() + lead, bytes);
  }
  const std::span<std::byte> out(buffer.memory.get(), bytes);
  TRY(at.file->read(*at.tensor, begin, out));
  return out;
}

Result<void> WeightReader::convert(const Part& part, Dtype dtype, std::span<std::byte> raw,
                                   Buffer& buffer) const {
  const WeightSource& source = sources_[part.source];
  const u64 n = part.elements;
  const std::span<std::byte> room(buffer.memory.get() + raw_room, 3 * raw_bytes_max);
  buffer.piece = {.window = source.window,
                  .begin = source.window_offset + (part.begin - source.begin),
                  .param = raw,
                  .master = {}};
  WeightPiece& piece = buffer.piece;
  if (precision_ == Precision::fp32 && dtype == Dtype::f32) return {};
  if (precision_ == Precision::bf16 && dtype == Dtype::bf16)
    return {};  // bf16 in the file: the lower half of the fp32 master is zero
  std::span<std::byte> words = raw;
  if (dtype != Dtype::f32) {
    words = room.first(4 * n);
    to_floats(dtype, raw, words_of<float>(words));
  }
  if (dtype == Dtype::f64 && first_not_finite(Dtype::f32, words))
    return Error{ErrorKind::bad_input,
                 fmt::format("{}: tensor {} has values beyond F32's 3.4e38, which would become infinite; use "
                             "undamaged weights, such as an earlier checkpoint",
                             source.at.file->path(), source.at.tensor->name_in_file())};
  const std::span<std::byte> halves = (dtype == Dtype::f32 ? room.subspan(2 * n) : raw).first(2 * n);
  const std::span<std::byte> low = (dtype == Dtype::f32 ? room : room.subspan(4 * n)).first(2 * n);
  switch (precision_) {
    case Precision::fp32:
      piece.param = words;
      return {};
    case Precision::fp16:
      if (dtype != Dtype::f16 && overflows_fp16(words_of<const float>(words)))
        return Error{ErrorKind::bad_input,
                     fmt::format("{}: tensor {} has values beyond fp16's 65504, which "
                                 "would become infinite; set precision=bf16",
                                 source.at.file->path(), source.at.tensor->name_in_file())};
      round_to_fp16(words_of<u32>(words), words_of<u16>(halves));
      piece.param = halves, piece.master = words;
      return {};
    case Precision::bf16:
      split_bits(words_of<u32>(words), words_of<u16>(halves), words_of<u16>(low));
      piece.param = halves, piece.master = low;
      return {};
  }
  return {};
}

}  // namespace tidepool
