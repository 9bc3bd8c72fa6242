// ModelExport checks config, shards and the list of tensors before it writes the first tensor.
#include "checkpoint/export_model.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include "base/check.h"
#include "base/json/json_check.h"
#include "base/read_file.h"
#include "base/text/path_text.h"
#include "checkpoint/export_fp8.h"
#include "huggingface/directory/hf_config.h"
#include "huggingface/directory/quantization.h"
#include "huggingface/weights/convert.h"
#include "huggingface/weights/model_weights.h"
#include "huggingface/weights/wrapped_names.h"

namespace tidepool {
namespace {

namespace fs = std::filesystem;

constexpr u64 piece_elements = 1 * mib;  // 4 MiB as floats, and at most as much each for input and output
static_assert(3 * piece_elements * sizeof(float) <= ModelExport::memory_max.value);
constexpr u64 copy_bytes = 4 * mib;
constexpr const char* scales_suffix = "_scale_inv";
constexpr std::array<Dtype, precision_count> dtypes = {Dtype::f32, Dtype::bf16, Dtype::f16};

std::string parent_of(const std::string& path) {
  const std::string parent = fs::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

Result<void> must_be_new(const std::string& out) {
  std::error_code unused;
  if (!fs::exists(fs::symlink_status(out, unused))) return {};
  return Error{ErrorKind::usage,
               fmt::format("{} exists already: name a new directory, or move this one away", out)};
}

Result<void> check_finite(const std::string& path, const std::string& tensor, u64 begin,
                          std::span<const float> floats) {
  const auto at = std::ranges::find_if_not(floats, [](float x) { return std::isfinite(x); });
  if (at == floats.end()) return {};
  return Error{ErrorKind::bad_input,
               fmt::format("{}: tensor {} would be NaN or infinite at element {}: use undamaged weights and "
                           "adapters",
                           path, tensor, begin + static_cast<u64>(at - floats.begin()))};
}

}  // namespace

struct ModelExport::Buffers {
  std::vector<float> floats = std::vector<float>(piece_elements);
  std::vector<std::byte> in = std::vector<std::byte>(copy_bytes);
  std::vector<std::byte> out = std::vector<std::byte>(copy_bytes);

  // Enlarges the buffers: a change is applied to whole rows, of any length.
  void hold(u64 elements, u64 element_bytes) {
    floats.resize(std::max<u64>(floats.size(), elements));
    for (std::vector<std::byte>* bytes : {&in, &out})
      bytes->resize(std::max<u64>(bytes->size(), elements * element_bytes));
  }
};

Result<std::unique_ptr<ModelExport>> ModelExport::open(const std::string& source,
                                                       const ExportOptions& options) {
  std::unique_ptr<ModelExport> out(new ModelExport(source, options));
  // A classifier is another model than the directory's, so it is written alone.
  const bool alone = options.text_only || out->new_score() != nullptr;
  TRY_ASSIGN(out->form_, ExportForm::open(source, alone ? "" : options.base, alone));
  TRY(out->read_config());
  TRY(out->list_tensors());
  return out;
}

const NewScore* ModelExport::new_score() const {
  return options_.change != nullptr ? options_.change->score() : nullptr;
}

Result<void> ModelExport::read_config() {
  const std::string path = source_ + "/" + model_config_file;
  std::string text = form_.config();
  if (options_.fp8) TRY(find_model());
  if (options_.dtype || options_.fp8 || options_.change != nullptr) {
    TRY_ASSIGN(quantization_, parse_quantization(text, ErrorKind::bad_input, path));
  }
  if (quantization_) {
    TRY_ASSIGN(text, without_quantization(text, path));
  }
  if (options_.dtype || quantization_) {
    TRY_ASSIGN(text, with_dtype(text, options_.dtype.value_or(Precision::bf16), path));
  }
  if (const NewScore* score = new_score()) {
    TRY_ASSIGN(text, with_score(text, score->head, path));
  }
  small_ = form_.files();
  if (!options_.adapter.empty()) {
    TRY_ASSIGN(std::vector<CarriedFile> beside, carried_files(options_.adapter));
    for (CarriedFile& file : beside) {
      std::erase_if(small_, [&](const CarriedFile& other) { return other.name == file.name; });
      small_.push_back(std::move(file));
    }
  }
  TRY(check_json_files());
  small_.insert(small_.begin(), {.name = model_config_file, .path = {}, .text = std::move(text)});
  return {};
}

Result<void> ModelExport::check_json_files() const {
  std::vector<char> piece(64 * kib);
  for (const CarriedFile& file : small_) {
    if (!file.name.ends_with(".json")) continue;
    TRY_ASSIGN(const InputFile in, open_input(file.path, ErrorKind::bad_input));
    JsonCheck check(ErrorKind::bad_input, file.path);
    for (u64 at = 0; at < in.bytes; at += piece.size()) {
      const auto some = std::span(piece).first(std::min<u64>(piece.size(), in.bytes - at));
      TRY(read_exactly(in.fd, file.path, at, std::as_writable_bytes(some), ErrorKind::io));
      TRY(check.feed({some.data(), some.size()}));
    }
    TRY(check.finish());
  }
  return {};
}

Result<void> ModelExport::find_model() {
  TRY_ASSIGN(const std::optional<Family> family, family_of_directory(source_));
  if (!family || style(*family).matrices_in_out)
    return Error{ErrorKind::usage,
                 fmt::format("--dtype fp8: {} holds no model of a family that can be quantized: choose bf16, "
                             "or a model of another family, such as llama",
                             source_)};
  TRY_ASSIGN(config_, read_model_directory(source_));
  if (config_.experts.count == 0) return {};
  const bool joined = config_.experts.joined_files || !traits(*family).experts->tensors.has_single_files();
  if (!joined) return {};
  return Error{ErrorKind::usage,
               fmt::format("--dtype fp8: {} holds all experts of a layer in one tensor, and only tensors of "
                           "single experts become FP8: choose bf16, or a model with a tensor per expert",
                           source_)};
}

// Adds the quantization to the config.json that is written.
Result<void> ModelExport::add_fp8_to_config(const std::vector<StoredTensor>& written) {
  std::vector<std::string> plain;  // modules with a matrix that stays as it is
  for (const StoredTensor& t : written)
    if (t.shape.size() > 1 && t.dtype != Dtype::f8_e4m3 && !t.name.ends_with(scales_suffix))
      plain.push_back(t.name.ends_with(".weight") ? t.name.substr(0, t.name.rfind('.')) : t.name);
  TRY_ASSIGN(small_[0].text, with_fp8_blocks(small_[0].text, fp8_block_size, plain, small_[0].name));
  return {};
}

Result<ModelExport::Item> ModelExport::item_of(const FormTensor& tensor) const {
  const StoredTensor& t = *tensor.from.tensor;
  Item item{.from = tensor.from, .to = tensor.dtype, .written_name = tensor.name, .added = tensor.carried};
  item.packed = matrices_.of_codes(t.name);
  if (item.packed != nullptr) item.written_name = name_in_file_of(t, item.packed->name);
  const bool is_old_head = new_score() != nullptr && t.name == head_tensor;
  item.dropped = tensor.dropped || is_old_head || (item.packed == nullptr && matrices_.is_side(t.name));
  if (item.dropped) return item;
  if (item.packed != nullptr) item.to = Dtype::bf16;
  if (tensor.beside) return item;
  if (options_.change != nullptr) {
    TRY(options_.change->check(item.name()));
    item.changed = options_.change->changes(item.name());
  }
  const bool whole_number =
      t.dtype == Dtype::boolean || (t.dtype >= Dtype::i16 && t.dtype != Dtype::f16 &&
                                    t.dtype != Dtype::bf16 && t.dtype != Dtype::f32 && t.dtype != Dtype::f64);
  item.fp8 = options_.fp8 && (item.packed != nullptr || is_float_weight(t.dtype)) &&
             is_fp8_matrix(config_, item.name(), item.shape());
  if (options_.dtype && !whole_number) item.to = dtypes[static_cast<u32>(*options_.dtype)];
  if (item.packed == nullptr && (item.changed || item.to != t.dtype) && !is_float_weight(t.dtype))
    return Error{ErrorKind::bad_input,
                 fmt::format("{}: tensor {} is {}, but only F32, BF16, F16 and F64 are converted",
                             tensor.from.file->path(), t.name, name(t.dtype))};
  return item;
}

Result<void> ModelExport::list_tensors() {
  if (quantization_) {
    TRY_ASSIGN(matrices_, PackedMatrices::find(form_.model(), *quantization_));
  }
  std::vector<FormTensor> tensors(form_.tensors().begin(), form_.tensors().end());
  if (const NewScore* score = new_score())
    for (const SafetensorsModel::Location& from : score->from)
      tensors.push_back(
          {.from = from, .name = from.tensor->name, .dtype = from.tensor->dtype, .carried = true});
  std::vector<StoredTensor> written;
  for (const FormTensor& tensor : tensors) {
    TRY_ASSIGN(Item item, item_of(tensor));
    if (item.fp8) {
      const std::vector<u64>& shape = item.shape();
      const Fp8Matrix matrix(static_cast<u32>(shape[0]), static_cast<u32>(shape[1]));
      written.push_back({.name = item.written_name, .dtype = Dtype::f8_e4m3, .shape = shape});
      written.push_back(
          {.name = item.written_name + scales_suffix, .dtype = Dtype::f32, .shape = matrix.scales_shape()});
    } else if (!item.dropped) {
      written.push_back({.name = item.written_name, .dtype = item.to, .shape = item.shape()});
    }
    items_.push_back(std::move(item));
  }
  if (options_.fp8) TRY(add_fp8_to_config(written));
  shards_ = shards_of(std::move(written), options_.max_shard_size);
  for (const Shard& shard : shards_) bytes_ += Bytes{shard.file_bytes()};
  std::error_code unused;
  for (const CarriedFile& file : small_)
    bytes_ +=
        Bytes{file.path.empty() ? file.text.size() : static_cast<u64>(fs::file_size(file.path, unused))};
  return {};
}

// Writes elements from `begin` on, as they are to be written.
Result<void> ModelExport::put(const Item& item, u64 begin, std::span<float> floats, Buffers& buffers,
                              const TensorSink& sink) const {
  if (item.changed) TRY(options_.change->apply(item.name(), item.shape(), begin, floats));
  if (item.changed || item.from.tensor->dtype == Dtype::f64)
    TRY(check_finite(item.from.file->path(), item.name(), begin, floats));
  const auto out = std::span(buffers.out).first(floats.size() * dtype_bytes(item.to));
  if (item.to == Dtype::f16 && overflows_fp16(floats))
    return Error{ErrorKind::bad_input,
                 fmt::format("{}: tensor {} has values beyond fp16's 65504, which would become infinite; "
                             "export as bf16 or fp32",
                             item.from.file->path(), item.name())};
  from_floats(floats, item.to, out);
  return sink(out);
}

Result<void> ModelExport::hash_only(const Item& item, TensorHashes& hashes) const {
  if (options_.weights_xxh3.empty()) return {};
  TRY_ASSIGN(const u64 hash, hash_of_tensor(*item.from.file, *item.from.tensor));
  hashes.add(*item.from.tensor, hash);
  return {};
}

Result<void> ModelExport::write_unpacked(const Item& item, Buffers& buffers, const TensorSink& sink) const {
  const std::vector<u64>& shape = item.shape();
  const u64 row = shape.back(), matrix = row * shape[shape.size() - 2];
  const u64 most = std::max(piece_elements / row, u64{1}) * row;
  buffers.hold(most, sizeof(float));
  UnpackedReader reader(*item.packed);
  const u64 matrices = shape.size() == 3 ? shape[0] : 1;
  for (u64 first = 0; first < matrices * matrix; first += matrix)
    for (u64 begin = first; begin < first + matrix; begin += most) {
      const auto floats = std::span(buffers.floats).first(std::min(most, first + matrix - begin));
      TRY(reader.read(begin, floats));
      TRY(put(item, begin, floats, buffers, sink));
    }
  return {};
}

Result<void> ModelExport::write_fp8(const Item& item, Buffers& buffers, TensorHashes& hashes,
                                    const TensorSink& sink) const {
  const StoredTensor& t = *item.from.tensor;
  const std::vector<u64>& shape = item.shape();
  const u64 band = fp8_block_size * shape[1], elements = shape[0] * shape[1];
  buffers.hold(band, dtype_bytes(t.dtype));
  Fp8Matrix matrix(static_cast<u32>(shape[0]), static_cast<u32>(shape[1]));
  std::optional<UnpackedReader> reader;
  if (item.packed != nullptr) reader.emplace(*item.packed);
  TensorHash hash;
  for (u64 begin = 0; begin < elements; begin += band) {
    const auto floats = std::span(buffers.floats).first(std::min(band, elements - begin));
    if (reader) {
      TRY(reader->read(begin, floats));
    } else {
      const u64 size = dtype_bytes(t.dtype);
      const auto in = std::span(buffers.in).first(floats.size() * size);
      TRY(item.from.file->read(t, begin * size, in));
      hash.update(in);
      to_floats(t.dtype, in, floats);
    }
    if (item.changed) TRY(options_.change->apply(item.name(), shape, begin, floats));
    TRY(check_finite(item.from.file->path(), item.name(), begin, floats));
    TRY(sink(std::as_bytes(matrix.put(floats))));
  }
  TRY(sink(std::as_bytes(matrix.scales())));
  if (reader) return hash_only(item, hashes);
  hashes.add(t, hash.digest());
  return {};
}

Result<void> ModelExport::write_tensor(const Item& item, Buffers& buffers, TensorHashes& hashes,
                                       const TensorSink& sink) const {
  if (item.fp8) return write_fp8(item, buffers, hashes, sink);
  if (item.packed != nullptr) TRY(write_unpacked(item, buffers, sink));
  if (item.packed != nullptr || item.dropped) return hash_only(item, hashes);
  const StoredTensor& t = *item.from.tensor;
  const u64 size = dtype_bytes(t.dtype), elements = t.bytes() / size;
  const bool as_it_is = item.to == t.dtype && !item.changed;
  const u64 wider = std::max(size, dtype_bytes(item.to));
  u64 most = as_it_is ? copy_bytes / size : std::min(piece_elements, copy_bytes / wider);
  if (item.changed && t.shape.size() > 1) {
    const u64 row = std::max<u64>(t.shape.back(), 1);
    most = std::max(most / row, u64{1}) * row;
    buffers.hold(most, wider);
  }
  TensorHash hash;
  for (u64 begin = 0; begin < elements; begin += most) {
    const u64 n = std::min(most, elements - begin);
    const auto in = std::span(buffers.in).first(n * size);
    TRY(item.from.file->read(t, begin * size, in));
    hash.update(in);
    if (as_it_is) {
      TRY(sink(in));
      continue;
    }
    const auto floats = std::span(buffers.floats).first(n);
    to_floats(t.dtype, in, floats);
    TRY(put(item, begin, floats, buffers, sink));
  }
  if (!item.added) hashes.add(t, hash.digest());
  return {};
}

Result<void> ModelExport::check_weights(const TensorHashes& hashes) const {
  if (options_.weights_xxh3.empty() || hashes.text() == options_.weights_xxh3) return {};
  return Error{
      ErrorKind::bad_input,
      fmt::format(
          "{}: the weights differ from the base model that the adapters were trained for (XXH3 is {}, "
          "was {}): a file was changed or damaged; restore that model",
          source_, hashes.text(), options_.weights_xxh3)};
}

Result<void> ModelExport::write_all(const std::string& directory, Files& files,
                                    const std::function<bool(u64)>& progress) const {
  TRY(files.make_directory(directory));
  ShardWriter writer(files, directory, shards_);
  u64 done = 0;
  const TensorSink sink = [&](std::span<const std::byte> bytes) -> Result<void> {
    TRY(writer.append(bytes));
    done += bytes.size();
    if (!progress(done)) return Error{ErrorKind::interrupted, "stopped; nothing was written"};
    return {};
  };
  Buffers buffers;
  TensorHashes hashes;
  for (const Item& item : items_) TRY(write_tensor(item, buffers, hashes, sink));
  TRY(check_weights(hashes));
  if (options_.change != nullptr) TRY(options_.change->finish());
  TRY(writer.finish());
  for (const CarriedFile& file : small_) TRY(write_carried(files, directory, file, buffers.in));
  return files.sync_directory(directory);
}

Result<void> ModelExport::write(const std::string& path, Files& files,
                                const std::function<bool(u64)>& progress) const {
  const std::string out = without_slashes(path);
  TRY(must_be_new(out));
  std::error_code unused;
  if (const std::string parent = parent_of(out);
      fs::exists(parent, unused) && !fs::is_directory(parent, unused))
    return Error{ErrorKind::usage, fmt::format("{}: {} is not a directory", out, parent)};
  const std::string temporary = fmt::format("{}.tmp-{}", out, ::getpid());
  TRY(files.remove(temporary));
  Result<void> written = write_all(temporary, files, progress);
  if (written) written = must_be_new(out);
  if (written) written = files.rename(temporary, out);
  if (!written) {
    (void)files.remove(temporary);  // the first error is reported
    return written;
  }
  return files.sync_directory(parent_of(out));
}

}  // namespace tidepool
