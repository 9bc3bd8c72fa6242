// AdapterMerge loads the A and B of one module at a time, and adds their product in fp32.
#include "huggingface/adapters/lora_merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "huggingface/adapters/adapter_config.h"
#include "huggingface/directory/hf_config.h"
#include "tidepool/fp16.h"

namespace tidepool {
namespace {

constexpr std::string_view a_suffix = ".lora_A.weight", b_suffix = ".lora_B.weight",
                           weight_suffix = ".weight";
constexpr std::string_view peft_prefix = "base_model.model.", gpt2_prefix = "transformer.";

std::string shape_of(const StoredTensor& t) { return shape_text(t.shape); }

Error wrong(const SafetensorsFile& file, const std::string& tensor, const std::string& reason) {
  return {ErrorKind::bad_input, fmt::format("{}: tensor {} {}", file.path(), tensor, reason)};
}

// True for modules that are Linear or Conv1D in a layer of this family: c_attn, c_fc and c_proj, or q_proj,
// up_proj, kv_a_proj_with_mqa ... Experts are such modules in transformers 4, but not in 5.
bool is_linear(Family family, std::string_view module) {
  if (module.find(".experts.") != module.npos) return false;
  const std::string_view name = module.substr(module.rfind('.') + 1);
  return name.starts_with(style(family).linear_prefix) && name.find(style(family).linear_suffix) != name.npos;
}

// Transposes: out [columns, rows] = in [rows, columns].
std::vector<float> transposed(const std::vector<float>& in, u64 rows, u64 columns) {
  std::vector<float> out(in.size());
  for (u64 row = 0; row < rows; ++row)
    for (u64 column = 0; column < columns; ++column) out[column * rows + row] = in[row * columns + column];
  return out;
}

}  // namespace

Result<std::unique_ptr<AdapterMerge>> AdapterMerge::open(const std::string& directory,
                                                         const std::string& base) {
  std::unique_ptr<AdapterMerge> out(new AdapterMerge);
  TRY_ASSIGN(out->config_, read_adapter_config(directory, ErrorKind::bad_input));
  TRY_ASSIGN(out->family_, family_of_directory(base));
  TRY_ASSIGN(out->file_, SafetensorsFile::open(directory + "/" + adapter_weights_file, ErrorKind::bad_input));
  out->config_path_ = directory + "/" + adapter_config_file;
  if (out->config_.targets.none())
    return out->wrong_config(
        "target_modules: names no module; name the modules that have adapters, such as [q_proj, v_proj]");
  const SafetensorsFile& file = *out->file_;
  for (const StoredTensor& t : file.tensors()) {
    const bool is_a = t.name.ends_with(a_suffix), is_b = t.name.ends_with(b_suffix);
    if ((!is_a && !is_b) || !t.name.starts_with(peft_prefix))
      return wrong(file, t.name,
                   "is neither lora_A nor lora_B of a linear layer; merge this adapter with PEFT");
    const std::string stem = t.name.substr(0, t.name.size() - a_suffix.size());
    if (file.find(stem + std::string(is_a ? b_suffix : a_suffix)) == nullptr)
      return wrong(file, t.name, fmt::format("has no counterpart {}{}", stem, is_a ? b_suffix : a_suffix));
    const u64 rank = t.shape.size() == 2 ? t.shape[is_a ? 0 : 1] : 0;
    if (rank != out->config_.r)
      return wrong(file, t.name,
                   fmt::format("is {}, but {} says r={}", shape_of(t), adapter_config_file, out->config_.r));
    if (t.dtype != Dtype::f32 && t.dtype != Dtype::bf16 && t.dtype != Dtype::f16)
      return wrong(file, t.name, fmt::format("is {}, but weights must be F32, BF16 or F16", name(t.dtype)));
    TRY(out->check_target(t, stem));
    out->stems_.insert(stem);
  }
  if (out->stems_.empty())
    return Error{ErrorKind::bad_input, fmt::format("{}: holds no adapter", file.path())};
  return out;
}

Error AdapterMerge::wrong_config(const std::string& reason) const {
  return {ErrorKind::bad_input, fmt::format("{}: {}", config_path_, reason)};
}

Result<void> AdapterMerge::check_target(const StoredTensor& t, std::string_view stem) const {
  const Result<bool> named = config_.targets.hold(stem.substr(peft_prefix.size()));
  if (!named) return wrong_config(named.error().message);
  if (*named) return {};
  return wrong(
      *file_, t.name,
      fmt::format(
          "belongs to no module that {} targets (target_modules: {}): PEFT would ignore the tensor; correct "
          "the config, or remove the tensor",
          config_path_, targets_text(config_.targets)));
}

Result<void> AdapterMerge::check(std::string_view tensor) const {
  if (!tensor.ends_with(weight_suffix) || changes(tensor)) return {};
  const std::string_view module = tensor.substr(0, tensor.size() - weight_suffix.size());
  if (config_.targets.all_linear() && !surely_of_all_linear(module)) return {};
  for (const std::string_view between : {std::string_view(), gpt2_prefix}) {
    const Result<bool> named = config_.targets.hold(fmt::format("{}{}", between, module));
    if (!named) return wrong_config(named.error().message);
    if (*named)
      return Error{
          ErrorKind::bad_input,
          fmt::format(
              "{}: holds no tensor for {}, which {} targets (target_modules: {}): part of the file is "
              "missing; fetch the whole file, or correct the config",
              file_->path(), tensor, config_path_, targets_text(config_.targets))};
  }
  return {};
}

// True if "all-linear" surely includes the module. With layers_to_transform it is unknown: then the layers
// depend on how PEFT had expanded the names.
bool AdapterMerge::surely_of_all_linear(std::string_view module) const {
  return family_ && config_.targets.layers.empty() && is_linear(*family_, module);
}

std::string AdapterMerge::stem_of(std::string_view tensor) const {
  if (!tensor.ends_with(weight_suffix)) return {};
  const std::string_view module = tensor.substr(0, tensor.size() - weight_suffix.size());
  for (const std::string_view between : {std::string_view(), gpt2_prefix}) {
    std::string stem = fmt::format("{}{}{}", peft_prefix, between, module);
    if (stems_.contains(stem)) return stem;
  }
  return {};
}

Result<std::vector<float>> AdapterMerge::read(const StoredTensor& t) const {
  std::vector<float> out(t.bytes() / dtype_bytes(t.dtype));
  if (t.dtype == Dtype::f32) {
    TRY(file_->read(t, 0, std::as_writable_bytes(std::span(out))));
    return out;
  }
  std::vector<u16> halves(out.size());
  TRY(file_->read(t, 0, std::as_writable_bytes(std::span(halves))));
  std::ranges::transform(halves, out.begin(), [&](u16 half) {
    return t.dtype == Dtype::bf16 ? std::bit_cast<float>(u32{half} << 16) : float_from_fp16(half);
  });
  return out;
}

// True if the matrix is stored [in, out]. GPT-2's layers are Conv1D, all other matrices are Linear. PEFT also
// goes by the kind of module, and overrides a wrong flag.
bool AdapterMerge::fan_in_fan_out(std::string_view tensor) const {
  if (!family_) return config_.fan_in_fan_out;
  if (!style(*family_).matrices_in_out) return false;
  if (tensor.starts_with(gpt2_prefix)) tensor.remove_prefix(gpt2_prefix.size());
  return tensor.starts_with("h.");
}

Result<void> AdapterMerge::load(std::string_view tensor, std::span<const u64> shape) {
  const std::string stem = stem_of(tensor);
  CHECK(!stem.empty(), tensor);
  const StoredTensor& a = *file_->find(stem + std::string(a_suffix));
  const StoredTensor& b = *file_->find(stem + std::string(b_suffix));
  const u64 r = config_.r, in = a.shape[1], out = b.shape[0];
  const bool matrix = shape.size() == 2;
  rows_ = matrix ? shape[0] : 0;
  columns_ = matrix ? shape[1] : 0;
  const bool flipped = fan_in_fan_out(tensor);
  if (!matrix || rows_ != (flipped ? in : out) || columns_ != (flipped ? out : in))
    return wrong(*file_, a.name,
                 fmt::format("is {} and lora_B {}, which does not fit the model's {} of {}", shape_of(a),
                             shape_of(b), tensor, shape_text(shape)));
  TRY_ASSIGN(std::vector<float> of_a, read(a));
  TRY_ASSIGN(std::vector<float> of_b, read(b));
  left_ = flipped ? transposed(of_a, r, in) : std::move(of_b);
  right_ = flipped ? transposed(of_b, out, r) : std::move(of_a);
  const float scale = static_cast<float>(config_.scale);
  for (float& x : left_) x *= scale;
  sum_.resize(columns_);
  loaded_ = tensor;
  seen_.insert(stem);
  return {};
}

Result<void> AdapterMerge::apply(std::string_view tensor, std::span<const u64> shape, u64 begin,
                                 std::span<float> values) {
  if (loaded_ != tensor) TRY(load(tensor, shape));
  const u64 r = config_.r;
  CHECK(begin + values.size() <= rows_ * columns_, begin, values.size());
  for (u64 done = 0; done < values.size();) {
    const u64 row = (begin + done) / columns_, column = (begin + done) % columns_;
    const u64 n = std::min(columns_ - column, values.size() - done);
    std::fill_n(sum_.begin(), n, 0.0f);
    for (u64 k = 0; k < r; ++k) {
      const float factor = left_[row * r + k];
      const float* from = right_.data() + k * columns_ + column;
      for (u64 i = 0; i < n; ++i) sum_[i] += factor * from[i];
    }
    for (u64 i = 0; i < n; ++i) values[done + i] += sum_[i];
    done += n;
  }
  return {};
}

Result<void> AdapterMerge::finish() const {
  for (const std::string& stem : stems_)
    if (!seen_.contains(stem))
      return wrong(*file_, stem + std::string(a_suffix),
                   "is for a tensor that the model does not have: this may be another model's adapter");
  return {};
}

}  // namespace tidepool
