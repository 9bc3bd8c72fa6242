// AdapterMerge loads the A and B of one module at a time, and adds their product in fp32.
#include "huggingface/adapters/lora_merge.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "huggingface/adapters/adapter_config.h"
#include "huggingface/directory/hf_config.h"
#include "huggingface/directory/hf_score.h"
#include "huggingface/weights/convert.h"
#include "huggingface/weights/model_weights.h"
#include "tidepool/refused_adapters.h"

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
  if (module.find(".experts.") != module.npos || refuses_adapter(family, module)) return false;
  const std::string_view name = module.substr(module.rfind('.') + 1);
  return name.starts_with(style(family).linear_prefix) && name.find(style(family).linear_suffix) != name.npos;
}

// RETURNS: a module's path in transformers, from that in files.
std::string in_transformers(const std::optional<Family>& family, std::string_view module) {
  if (!family || style(*family).positions != PositionKind::rotary) return std::string(module);
  const LayerStyle& s = style(*family);
  if (!module.starts_with(s.tensors_path)) return std::string(module);
  return fmt::format("{}{}", s.layers_path, module.substr(s.tensors_path.size()));
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
  if (out->family_ && traits(*out->family_).experts != nullptr) {
    TRY_ASSIGN(const ModelConfig config, read_model_directory(base));
    out->experts_.emplace(config, out->config_);
  } else if (!out->config_.targets.parameters.empty()) {
    return out->wrong_config(
        "target_parameters: is for models with experts, which the base model is not; merge this adapter with "
        "PEFT's merge_and_unload");
  }
  for (const StoredTensor& t : out->file_->tensors()) TRY(out->check_tensor(t));
  if (out->stems_.empty())
    return Error{ErrorKind::bad_input, fmt::format("{}: holds no adapter", out->file_->path())};
  return out;
}

Result<void> AdapterMerge::check_tensor(const StoredTensor& t) {
  const SafetensorsFile& file = *file_;
  if (config_.saves_score && t.name.starts_with(peft_prefix) &&
      is_score(std::string_view(t.name).substr(peft_prefix.size())))
    return take_score(t);
  const bool is_a = t.name.ends_with(a_suffix), is_b = t.name.ends_with(b_suffix);
  if ((!is_a && !is_b) || !t.name.starts_with(peft_prefix))
    return wrong(file, t.name,
                 "is neither lora_A nor lora_B of a linear layer; merge this adapter with PEFT");
  const std::string stem = t.name.substr(0, t.name.size() - a_suffix.size());
  if (file.find(stem + std::string(is_a ? b_suffix : a_suffix)) == nullptr)
    return wrong(file, t.name, fmt::format("has no counterpart {}{}", stem, is_a ? b_suffix : a_suffix));
  const std::optional<ExpertStem> of_experts = experts_ ? experts_->find(stem) : std::nullopt;
  const u64 rank = t.shape.size() == 2 ? t.shape[is_a ? 0 : 1] : 0;
  const u32 said = config_.rank_of(std::string_view(stem).substr(peft_prefix.size()));
  if (!of_experts && rank != said)
    return wrong(file, t.name,
                 fmt::format("is {}, but {} says r={}", shape_of(t), adapter_config_file, said));
  if (!is_float_weight(t.dtype))
    return wrong(file, t.name,
                 fmt::format("is {}, but weights must be F32, BF16, F16 or F64", name(t.dtype)));
  TRY(check_target(t, stem));
  if (of_experts) TRY(check_expert_shape(t, *of_experts, is_a));
  stems_.insert(stem);
  return {};
}

Result<void> AdapterMerge::take_score(const StoredTensor& t) {
  const bool bias = t.name.ends_with(score_bias);
  const bool fits = t.shape.size() == (bias ? 1 : 2) && t.shape[0] >= 1 &&
                    (!score_ || score_->head.labels == t.shape[0]) && is_float_weight(t.dtype);
  if (!family_ || !fits) return wrong(*file_, t.name, "is no score head of a family that is trained here");
  StoredTensor& tensor = (bias ? score_bias_ : score_tensor_).emplace(t);
  tensor.name = bias ? score_bias : score_tensor;
  if (!score_) score_.emplace();
  score_->from.push_back({file_.get(), &tensor});
  score_->head.labels = static_cast<u32>(t.shape[0]);
  if (bias) score_->head.of_tokens = true, score_->head.dropout = token_classifier_dropout;
  return {};
}

void AdapterMerge::name_labels(std::vector<std::string> names) {
  if (score_ && names.size() == score_->head.labels) score_->head.names = std::move(names);
}

Result<void> AdapterMerge::check_expert_shape(const StoredTensor& t, const ExpertStem& stem,
                                              bool is_a) const {
  if (!stem.fault.empty()) return wrong(*file_, t.name, stem.fault);
  const std::vector<u64> wanted =
      is_a ? std::vector<u64>{stem.r, stem.in} : std::vector<u64>{stem.out, stem.r};
  if (t.shape == wanted) return {};
  return wrong(*file_, t.name,
               fmt::format("is {}, but {} and the model's config.json need {}", shape_of(t),
                           adapter_config_file, shape_text(wanted)));
}

Error AdapterMerge::wrong_config(const std::string& reason) const {
  return {ErrorKind::bad_input, fmt::format("{}: {}", config_path_, reason)};
}

Result<void> AdapterMerge::check_target(const StoredTensor& t, std::string_view stem) const {
  if (experts_)
    if (const std::optional<ExpertStem> of_experts = experts_->find(stem);
        of_experts && names_path(config_.targets.parameters, of_experts->parameter))
      return {};
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

Error AdapterMerge::lacks(std::string_view module) const {
  return {ErrorKind::bad_input,
          fmt::format("{}: holds no tensor for {}, which {} targets (target_modules: {}): part of the file "
                      "is missing; fetch "
                      "the whole file, or correct the config",
                      file_->path(), module, config_path_, targets_text(config_.targets))};
}

Result<void> AdapterMerge::check(std::string_view tensor) const {
  if (experts_ && experts_->is_extra_layer(tensor)) return {};
  if (const auto blocks = experts_ ? experts_->blocks_of(tensor) : std::nullopt) {
    for (const MergeBlock& block : *blocks) {
      if (has(block)) continue;
      const Result<bool> wanted = experts_->is_wanted(block);
      if (!wanted) return wrong_config(wanted.error().message);
      if (*wanted) return lacks(block.stem);
    }
    return {};
  }
  if (!tensor.ends_with(weight_suffix) || changes(tensor)) return {};
  const std::string_view module = tensor.substr(0, tensor.size() - weight_suffix.size());
  if (config_.targets.all_linear() && !surely_of_all_linear(module)) return {};
  for (const std::string_view between : {std::string_view(), gpt2_prefix}) {
    const Result<bool> named =
        config_.targets.hold(fmt::format("{}{}", between, in_transformers(family_, module)));
    if (!named) return wrong_config(named.error().message);
    if (*named) return lacks(tensor);
  }
  return {};
}

// True if "all-linear" surely includes the module. With layers_to_transform it is unknown: then the layers
// depend on how PEFT had expanded the names.
bool AdapterMerge::surely_of_all_linear(std::string_view module) const {
  return family_ && config_.targets.layers.empty() && is_linear(*family_, module);
}

bool AdapterMerge::changes(std::string_view tensor) const {
  return std::ranges::any_of(blocks_of(tensor), [&](const MergeBlock& block) { return has(block); });
}

std::vector<MergeBlock> AdapterMerge::blocks_of(std::string_view tensor) const {
  if (auto blocks = experts_ ? experts_->blocks_of(tensor) : std::nullopt) return *std::move(blocks);
  std::string stem = stem_of(tensor);
  if (stem.empty()) return std::vector<MergeBlock>(1);
  const std::string module = stem.substr(peft_prefix.size());
  return {{.stem = std::move(stem),
           .r = config_.rank_of(module),
           .scale = config_.scale_of(module),
           .in_out = fan_in_fan_out(tensor)}};
}

std::string AdapterMerge::stem_of(std::string_view tensor) const {
  if (!tensor.ends_with(weight_suffix)) return {};
  const std::string_view module = tensor.substr(0, tensor.size() - weight_suffix.size());
  for (const std::string_view between : {std::string_view(), gpt2_prefix}) {
    std::string stem = fmt::format("{}{}{}", peft_prefix, between, in_transformers(family_, module));
    if (stems_.contains(stem)) return stem;
  }
  return {};
}

// True if the matrix is stored [in, out]. GPT-2's layers are Conv1D, all other matrices are Linear. PEFT also
// goes by the kind of module, and overrides a wrong flag.
bool AdapterMerge::fan_in_fan_out(std::string_view tensor) const {
  if (!family_) return config_.fan_in_fan_out;
  if (!style(*family_).matrices_in_out) return false;
  if (tensor.starts_with(gpt2_prefix)) tensor.remove_prefix(gpt2_prefix.size());
  return tensor.starts_with("h.");
}

Result<void> AdapterMerge::load_tensor(std::string_view tensor, std::span<const u64> shape) {
  blocks_ = blocks_of(tensor);
  const bool is_of_experts = experts_ && experts_->blocks_of(tensor);
  const bool matrix = shape.size() == 2 || (is_of_experts && shape.size() == 3);
  columns_ = matrix ? shape.back() : 0;
  rows_ = matrix ? shape[0] * (shape.size() == 3 ? shape[1] : 1) : 0;
  if (!is_of_experts) blocks_[0].rows = rows_;
  for (const MergeBlock& block : blocks_) {
    if (!has(block)) continue;
    const StoredTensor& a = *file_->find(block.stem + std::string(a_suffix));
    const StoredTensor& b = *file_->find(block.stem + std::string(b_suffix));
    const u64 in = a.shape[1], out = b.shape[0];
    const bool fits = block.in_out ? block.rows == in && columns_ == out
                                   : block.b_row + block.rows <= out && columns_ == in &&
                                         (is_of_experts || block.rows == out);
    if (!matrix || !fits || block.row + block.rows > rows_)
      return wrong(*file_, a.name,
                   fmt::format("is {} and lora_B {}, which does not fit the model's {} of {}", shape_of(a),
                               shape_of(b), tensor, shape_text(shape)));
  }
  block_ = blocks_.size();
  sum_.resize(columns_);
  loaded_ = tensor;
  return {};
}

// RETURNS: rows [block.b_row, block.b_row + rows) of B of the block's expert, [rows, r].
Result<std::vector<float>> AdapterMerge::rows_of_b(const StoredTensor& b, const MergeBlock& block, u64 rows) {
  const FileTensor file = {.name = b.name,
                           .shape = b.shape,
                           .parts = std::vector<FileTensor::Part>(block.experts),
                           .interleaved = true};
  TRY_ASSIGN(const std::vector<std::byte> bytes, interleaved_.read({file_.get(), &b}, file, block.expert));
  const u64 row_bytes = block.r * dtype_bytes(b.dtype);
  std::vector<float> out(rows * block.r);
  to_floats(b.dtype, std::span(bytes).subspan(block.b_row * row_bytes, rows * row_bytes), out);
  return out;
}

Result<void> AdapterMerge::load_block(const MergeBlock& block) {
  const StoredTensor& a = *file_->find(block.stem + std::string(a_suffix));
  const StoredTensor& b = *file_->find(block.stem + std::string(b_suffix));
  const u64 r = block.r, in = a.shape[1], out = block.in_out ? columns_ : block.rows;
  std::vector<std::byte> bytes(r * in * dtype_bytes(a.dtype));
  TRY(file_->read(a, block.expert * bytes.size(), bytes));
  std::vector<float> of_a(r * in);
  to_floats(a.dtype, bytes, of_a);
  TRY_ASSIGN(std::vector<float> of_b, rows_of_b(b, block, out));
  left_ = block.in_out ? transposed(of_a, r, in) : std::move(of_b);
  right_ = block.in_out ? transposed(of_b, out, r) : std::move(of_a);
  const float scale = static_cast<float>(block.scale);
  for (float& x : left_) x *= scale;
  seen_.insert(block.stem);
  return {};
}

Result<void> AdapterMerge::apply(std::string_view tensor, std::span<const u64> shape, u64 begin,
                                 std::span<float> values) {
  if (loaded_ != tensor) TRY(load_tensor(tensor, shape));
  CHECK(begin + values.size() <= rows_ * columns_, begin, values.size());
  for (u64 done = 0; done < values.size();) {
    const u64 row = (begin + done) / columns_, column = (begin + done) % columns_;
    const u64 n = std::min(columns_ - column, values.size() - done);
    const u64 number =
        static_cast<u64>(std::ranges::upper_bound(blocks_, row, {}, &MergeBlock::row) - blocks_.begin() - 1);
    const MergeBlock& block = blocks_[number];
    if (has(block)) {
      if (number != block_) TRY(load_block(block));
      block_ = number;
      add_row(block, row - block.row, column, values.subspan(done, n));
    }
    done += n;
  }
  return {};
}

void AdapterMerge::add_row(const MergeBlock& block, u64 row, u64 column, std::span<float> values) {
  const u64 r = block.r, n = values.size();
  std::fill_n(sum_.begin(), n, 0.0f);
  for (u64 k = 0; k < r; ++k) {
    const float factor = left_[row * r + k];
    const float* from = right_.data() + k * columns_ + column;
    for (u64 i = 0; i < n; ++i) sum_[i] += factor * from[i];
  }
  for (u64 i = 0; i < n; ++i) values[i] += sum_[i];
}

Result<void> AdapterMerge::finish() const {
  for (const std::string& stem : stems_)
    if (!seen_.contains(stem))
      return wrong(*file_, stem + std::string(a_suffix),
                   "is for a tensor that the model does not have: this may be another model's adapter");
  return {};
}

}  // namespace tidepool
