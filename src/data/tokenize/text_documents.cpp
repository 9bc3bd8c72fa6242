#include <fmt/format.h>

#include <algorithm>

#include "base/read_file.h"
#include "data/files/byte_stream.h"
#include "data/tokenize/document_source.h"

namespace tidepool {

namespace {

constexpr size_t ahead_bytes = 64 * kib;

// Reads a file block by block, decompressed if needed. Reads ahead, to know the end.
class Blocks {
 public:
  static Result<Blocks> open(const std::string& path) {
    Blocks out;
    out.path_ = path;
    TRY_ASSIGN(out.stream_, open_byte_stream(path));
    TRY(out.refill());
    return out;
  }

  bool at_end() const { return ahead_.empty(); }
  const std::string& path() const { return path_; }
  u64 bytes_read() const { return stream_->bytes_read(); }

  // Appends the next block, at most `bytes`.
  Result<void> read(std::string& out, u64 bytes) {
    while (bytes > 0 && !at_end()) {
      const size_t count = std::min<size_t>(bytes, ahead_.size() - at_);
      out.append(ahead_, at_, count);
      at_ += count;
      bytes -= count;
      if (at_ == ahead_.size()) TRY(refill());
    }
    return {};
  }

 private:
  Result<void> refill() {
    at_ = 0;
    ahead_.resize(ahead_bytes);
    const Result<size_t> got = stream_->read(ahead_);
    ahead_.resize(got ? *got : 0);
    return got ? Result<void>() : Result<void>(got.error());
  }

  std::string path_, ahead_;
  size_t at_ = 0;
  std::unique_ptr<ByteStream> stream_;
};

class TextFiles : public DocumentSource {
 public:
  explicit TextFiles(std::vector<std::string> files) : files_(std::move(files)) {}

  Result<void> add_sizes() {
    for (const std::string& file : files_) {
      TRY_ASSIGN(const InputFile input, open_input(file, ErrorKind::bad_input));
      bytes_ += input.bytes;
    }
    return {};
  }
  u64 bytes() const final { return bytes_; }
  u64 bytes_read() const final { return read_ + (blocks_ ? blocks_->bytes_read() : 0); }

 protected:
  // RETURNS: the current file; null after the last one.
  Result<Blocks*> current() {
    while (!blocks_) {
      if (next_ == files_.size()) return nullptr;
      TRY_ASSIGN(Blocks opened, Blocks::open(files_[next_++]));
      if (!opened.at_end()) blocks_ = std::make_unique<Blocks>(std::move(opened));
    }
    return blocks_.get();
  }
  Result<void> read(std::string& out, u64 bytes) { return blocks_->read(out, bytes); }
  void close() {
    read_ += blocks_->bytes_read();
    blocks_.reset();
  }

 private:
  std::vector<std::string> files_;
  size_t next_ = 0;
  std::unique_ptr<Blocks> blocks_;
  u64 bytes_ = 0;
  u64 read_ = 0;  // of finished files
};

class WholeFiles final : public TextFiles {
 public:
  WholeFiles(std::vector<std::string> files, const Tokenizer& tokenizer)
      : TextFiles(std::move(files)), tokenizer_(tokenizer) {}

  Result<bool> next(DocumentPart& part) override {
    TRY_ASSIGN(Blocks* const blocks, current());
    if (!blocks) return false;
    part.where = blocks->path();
    part.first = first_;
    // Doubles the searched length each time there is no place to cut, so that searching stays cheap.
    for (u64 wanted = text_block_bytes;; wanted *= 2) {
      if (rest_.size() < wanted) TRY(read(rest_, wanted - rest_.size()));
      const size_t cut = blocks->at_end() ? rest_.size() : tokenizer_.cut(rest_);
      if (cut > 0) {
        part.last = blocks->at_end();
        part.text.assign(rest_, 0, cut);
        rest_.erase(0, cut);
        break;
      }
      if (wanted >= uncut_bytes_max)
        return Error{
            ErrorKind::bad_input,
            fmt::format("{}: holds {} MiB of text in which the tokenizer knows no place to cut; make each "
                        "line a document (--documents=line), or split the file",
                        part.where, wanted / mib)};
    }
    first_ = part.last;
    if (part.last) close();
    return true;
  }

 private:
  const Tokenizer& tokenizer_;
  std::string rest_;
  bool first_ = true;
};

class Lines final : public TextFiles {
 public:
  using TextFiles::TextFiles;

  Result<bool> next(DocumentPart& part) override {
    while (true) {
      TRY_ASSIGN(Blocks* const blocks, current());
      if (!blocks) return false;
      size_t end = rest_.find('\n', at_);
      while (end == std::string::npos && !blocks->at_end()) {
        if (rest_.size() - at_ >= uncut_bytes_max)
          return Error{ErrorKind::bad_input, fmt::format("{}, line {}: is longer than {} MiB; split it",
                                                         blocks->path(), line_ + 1, uncut_bytes_max / mib)};
        rest_.erase(0, at_);
        at_ = 0;
        const size_t searched = rest_.size();
        TRY(read(rest_, std::max<u64>(text_block_bytes, rest_.size())));
        end = rest_.find('\n', searched);
      }
      ++line_;
      const std::string_view line =
          std::string_view(rest_).substr(at_, end == std::string::npos ? end : end - at_);
      part.text = line.ends_with('\r') ? line.substr(0, line.size() - 1) : line;
      part.where = fmt::format("{}, line {}", blocks->path(), line_);
      part.first = part.last = true;
      at_ = end == std::string::npos ? rest_.size() : end + 1;
      if (blocks->at_end() && at_ == rest_.size()) finish_file();
      if (!part.text.empty()) return true;
    }
  }

 private:
  void finish_file() {
    rest_.clear();
    at_ = 0;
    line_ = 0;
    close();
  }

  std::string rest_;
  size_t at_ = 0;  // begin of the next line
  u64 line_ = 0;
};

}  // namespace

Result<std::unique_ptr<DocumentSource>> text_documents(std::vector<std::string> files,
                                                       TextDocuments documents, const Tokenizer& tokenizer) {
  std::unique_ptr<TextFiles> out;
  if (documents == TextDocuments::line) {
    out = std::make_unique<Lines>(std::move(files));
  } else {
    out = std::make_unique<WholeFiles>(std::move(files), tokenizer);
  }
  TRY(out->add_sizes());
  return std::unique_ptr<DocumentSource>(std::move(out));
}

}  // namespace tidepool
