// A text file is one document, in parts that are cut where the tokenizer allows it.
#include <fmt/format.h>

#include "data/files/byte_stream.h"
#include "data/files/document_reader.h"

namespace tidepool {
namespace {

constexpr size_t read_bytes = 1 * mib;
constexpr size_t uncut_bytes_max = 256 * mib;  // of a text without a place to cut

class TextDocument final : public FileDocuments {
 public:
  TextDocument(std::string path, std::unique_ptr<ByteStream> bytes, const TextCuts& cuts)
      : path_(std::move(path)), bytes_(std::move(bytes)), cuts_(cuts) {}

  Result<bool> next(RawDocument& out) override {
    while (true) {
      if (const size_t size = part_size(); size > 0) {
        out.content.assign(buffer_, at_, size);
        out.place = path_;
        out.record = false;
        out.first = first_;
        out.last = ended_ && at_ + size == buffer_.size();
        at_ += size;
        window_ = DocumentReader::part_bytes;
        first_ = false;
        return true;
      }
      if (ended_) return false;
      if (buffer_.size() - at_ > uncut_bytes_max)
        return Error{ErrorKind::bad_input,
                     fmt::format("{}: {} bytes of text without a place where this tokenizer allows a cut; {}",
                                 path_, buffer_.size() - at_, cuts_.advice)};
      TRY(read_more());
    }
  }
  void skip_rest() override {
    ended_ = true;
    buffer_.clear();
    at_ = 0;
  }
  u64 bytes_read() const override { return bytes_->bytes_read(); }

 private:
  // RETURNS: length of the next part in the buffer; 0 if unknown yet, or if nothing is left. A part that is
  // not the last is only cut when more text follows, so the last part is known to be last. Each search for a
  // cut looks at twice as many bytes.
  size_t part_size() {
    const std::string_view left = std::string_view(buffer_).substr(at_);
    for (; window_ < left.size(); window_ *= 2)
      if (const size_t cut = cuts_.cut(left.substr(0, window_)); cut > 0) return cut;
    return ended_ ? left.size() : 0;
  }
  Result<void> read_more() {
    buffer_.erase(0, at_);
    at_ = 0;
    const size_t had = buffer_.size();
    buffer_.resize(had + read_bytes);
    const Result<size_t> got = bytes_->read(std::span(buffer_).subspan(had));
    buffer_.resize(had + (got ? *got : 0));
    if (!got) return got.error();
    ended_ = *got == 0;
    return {};
  }

  const std::string path_;
  const std::unique_ptr<ByteStream> bytes_;
  const TextCuts& cuts_;
  std::string buffer_;                                   // text that was read; bytes up to at_ were given
  size_t at_ = 0, window_ = DocumentReader::part_bytes;  // window_: bytes of the rest to search for a cut
  bool first_ = true, ended_ = false;
};

}  // namespace

Result<std::unique_ptr<FileDocuments>> open_text(const std::string& path, const TextCuts& cuts) {
  TRY_ASSIGN(auto bytes, open_byte_stream(path));
  return std::unique_ptr<FileDocuments>(std::make_unique<TextDocument>(path, std::move(bytes), cuts));
}

}  // namespace tidepool
