// HashedFile writes a file, and counts and hashes its bytes for the list that names the file.
#pragma once

#include "base/files/file_list.h"
#include "base/files/files.h"
#include "base/text/hash.h"

namespace tidepool {

class HashedFile {
 public:
  static Result<HashedFile> create(Files& files, const std::string& directory, const std::string& name,
                                   Bytes expected) {
    TRY_ASSIGN(auto out, files.create(directory + "/" + name, expected));
    return HashedFile(name, std::move(out));
  }

  HashedFile(std::string name, std::unique_ptr<OutputFile> out)
      : name_(std::move(name)), out_(std::move(out)) {}

  Result<void> append(std::span<const std::byte> bytes) {
    hash_.update(bytes);
    bytes_ += bytes.size();
    return out_->append(bytes);
  }
  Result<void> append(std::string_view text) { return append(std::as_bytes(std::span(text))); }

  Result<void> set_mode(u32 mode) { return out_->set_mode(mode); }

  // Durable on return.
  Result<ListedFile> finish() {
    TRY(out_->finish());
    return ListedFile{.file = name_, .bytes = bytes_, .xxh3 = hash_.digest()};
  }

 private:
  std::string name_;
  std::unique_ptr<OutputFile> out_;
  StreamHash hash_;
  u64 bytes_ = 0;
};

}  // namespace tidepool
