#include "data/files/document_reader.h"

#include <algorithm>
#include <array>

namespace tidepool {
namespace {

const DocumentFormatRow& row_of(DocumentFormat format) {
  static constexpr std::array<DocumentFormatRow, 3> rows = {{{DocumentFormat::text, open_text},
                                                             {DocumentFormat::lines, open_lines},
                                                             {DocumentFormat::records, open_records}}};
  return *std::ranges::find(rows, format, &DocumentFormatRow::format);
}

}  // namespace

Result<bool> DocumentReader::next(RawDocument& out) {
  while (true) {
    if (open_ != nullptr) {
      TRY_ASSIGN(const bool found, open_->next(out));
      if (found) return true;
    }
    bytes_before_ = bytes_read();
    open_.reset();
    if (next_file_ == files_.size()) return false;
    const DocumentFile& file = files_[next_file_++];
    TRY_ASSIGN(open_, row_of(file.format).open(file.path, cuts_));
  }
}

void DocumentReader::skip_rest() {
  if (open_ != nullptr) open_->skip_rest();
}

u64 DocumentReader::bytes_read() const {
  return bytes_before_ + (open_ != nullptr ? open_->bytes_read() : 0);
}

}  // namespace tidepool
