#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/read_file.h"
#include "huggingface/weights/safetensors.h"

namespace tidepool {

Result<std::unique_ptr<SafetensorsFile>> SafetensorsFile::open(const std::string& path,
                                                               ErrorKind error_kind) {
  std::unique_ptr<SafetensorsFile> self(new SafetensorsFile);
  self->path_ = path;
  self->error_kind_ = error_kind;
  TRY_ASSIGN(InputFile input, open_input(path, error_kind));
  self->fd_ = std::move(input.fd);

  u8 word[8];
  if (input.bytes < sizeof word) {
    return Error{error_kind,
                 fmt::format("{}: {} bytes are too short for a safetensors file", path, input.bytes)};
  }
  TRY(read_exactly(self->fd_, path, 0, std::as_writable_bytes(std::span(word)), error_kind));
  u64 header_bytes = 0;
  for (u32 i = 0; i < 8; ++i) header_bytes |= u64{word[i]} << (8 * i);
  if (header_bytes > safetensors_header_bytes_max || header_bytes > input.bytes - sizeof word) {
    return Error{error_kind,
                 fmt::format("{}: a header of {} bytes does not fit in {} bytes (limit {}): truncated, or "
                             "not a safetensors file",
                             path, header_bytes, input.bytes, safetensors_header_bytes_max)};
  }
  std::string header(header_bytes, '\0');
  TRY(read_exactly(self->fd_, path, sizeof word, std::as_writable_bytes(std::span(header)), error_kind));
  self->buffer_begin_ = sizeof word + header_bytes;
  self->head_.update(std::as_bytes(std::span(word)));
  self->head_.update(header);
  TRY_ASSIGN(self->tensors_,
             parse_safetensors_header(header, input.bytes - self->buffer_begin_, error_kind, path));

  self->sort_names();
  return self;
}

void SafetensorsFile::sort_names() {
  by_name_.resize(tensors_.size());
  for (u32 i = 0; i < by_name_.size(); ++i) by_name_[i] = i;
  std::sort(by_name_.begin(), by_name_.end(),
            [&](u32 a, u32 b) { return tensors_[a].name < tensors_[b].name; });
}

void SafetensorsFile::rename(const std::function<std::string(const std::string&)>& name_of) {
  for (StoredTensor& t : tensors_) {
    std::string name = name_of(t.name);
    if (name == t.name) continue;
    if (t.other_name.empty()) t.other_name = t.name;
    t.name = std::move(name);
  }
  sort_names();
}

const StoredTensor* SafetensorsFile::find(std::string_view name) const {
  const auto at = std::lower_bound(by_name_.begin(), by_name_.end(), name,
                                   [&](u32 i, std::string_view n) { return tensors_[i].name < n; });
  return at != by_name_.end() && tensors_[*at].name == name ? &tensors_[*at] : nullptr;
}

Result<void> SafetensorsFile::read(const StoredTensor& tensor, u64 begin, std::span<std::byte> out) const {
  CHECK(begin + out.size() <= tensor.bytes(), tensor.name, begin, out.size());
  return read_exactly(fd_, path_, buffer_begin_ + tensor.begin + begin, out, error_kind_);
}

}  // namespace tidepool
