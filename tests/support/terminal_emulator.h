// TerminalEmulator turns a program's output into rows of a screen, with history above them. It supports the
// control sequences of Tidepool's live view: carriage return, line feed, cursor up, erase, autowrap on and
// off. A resize either reflows lines and moves the cursor along (VTE, kitty, tmux), or cuts rows (xterm).
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"

namespace tidepool::test {

class TerminalEmulator {
 public:
  enum class OnResize : u8 { reflow, cut };
  struct Size {
    u32 columns = 80, rows = 24;
  };
  TerminalEmulator(Size size, OnResize on_resize) : size_(size), on_resize_(on_resize), rows_(1) {}

  void write(std::string_view bytes) {
    for (const char byte : bytes) take(byte);
  }

  void resize(Size size) {
    size.columns == size_.columns || on_resize_ == OnResize::cut ? cut(size.columns) : reflow(size.columns);
    size_ = size;
    keep_cursor_on_screen();
  }

  // RETURNS: history and screen, without trailing blanks in rows and trailing empty rows.
  std::vector<std::string> rows() const {
    std::vector<std::string> out;
    for (const Row& row : rows_) out.push_back(text_of(row));
    while (!out.empty() && out.back().empty()) out.pop_back();
    return out;
  }
  // RETURNS: the same as lines: wrapped rows are joined.
  std::vector<std::string> lines() const {
    std::vector<std::string> out;
    bool joined = false;
    for (const Row& row : rows_) {
      if (!joined) out.emplace_back();
      out.back() += text_of(row);
      joined = row.wrapped;
    }
    while (!out.empty() && out.back().empty()) out.pop_back();
    return out;
  }

 private:
  struct Row {
    std::vector<std::string> cells;  // UTF-8, one column each
    bool wrapped = false;            // continues in the next row
  };

  static std::string text_of(const Row& row) {
    std::string out;
    for (const std::string& cell : row.cells) out += cell;
    out.erase(out.find_last_not_of(' ') + 1);
    return out;
  }

  u32 top() const { return top_; }
  Row& at_cursor() { return rows_[row_]; }

  void take(char byte) {
    if (!escape_.empty()) return take_escaped(byte);
    switch (byte) {
      case '\x1b':
        escape_ = byte;
        return;
      case '\r':
        column_ = 0, wrap_due_ = false;
        return;
      case '\n':
        line_feed();
        return;
    }
    if ((static_cast<unsigned char>(byte) & 0xc0) == 0x80) {  // continuation byte of the same cell
      if (last_ != nullptr) *last_ += byte;
      return;
    }
    put(byte);
  }

  void put(char byte) {
    if (wrap_due_) {
      at_cursor().wrapped = true;
      line_feed();
      column_ = 0;
    }
    std::vector<std::string>& cells = at_cursor().cells;
    if (cells.size() <= column_) cells.resize(column_ + 1, " ");
    last_ = &cells[column_];
    *last_ = byte;
    if (column_ + 1 < size_.columns)
      ++column_;
    else
      wrap_due_ = autowrap_;
  }

  void line_feed() {
    wrap_due_ = false;
    last_ = nullptr;
    if (++row_ == rows_.size()) rows_.emplace_back();
    keep_cursor_on_screen();
  }

  void keep_cursor_on_screen() {
    top_ = std::max<u32>(top_, row_ + 1 > size_.rows ? row_ + 1 - size_.rows : 0);
    top_ = std::min(top_, row_);
    last_ = nullptr;
  }

  void take_escaped(char byte) {
    escape_ += byte;
    if (escape_.size() < 3 || (byte >= '0' && byte <= '?')) return;
    const std::string sequence = escape_.substr(2);
    escape_.clear();
    wrap_due_ = false;
    const u32 count = static_cast<u32>(std::max(1, std::atoi(sequence.c_str())));
    if (sequence == "?7l" || sequence == "?7h") autowrap_ = byte == 'h';
    if (byte == 'A') row_ = std::max(top(), row_ - std::min(row_, count));
    if (byte == 'K' || byte == 'J') erase_row();
    if (byte == 'J') rows_.resize(row_ + 1);
  }

  void erase_row() {
    if (at_cursor().cells.size() > column_) at_cursor().cells.resize(column_);
    at_cursor().wrapped = false;
  }

  void cut(u32 columns) {
    for (u32 row = top_; row < rows_.size(); ++row) {
      if (rows_[row].cells.size() > columns) rows_[row].cells.resize(columns);
    }
    column_ = std::min(column_, columns - 1);
    wrap_due_ = false;
  }

  void reflow(u32 columns) {
    std::vector<Row> out;
    u32 cursor_row = 0, cursor_column = 0;
    for (u32 row = 0; row < rows_.size();) {
      std::vector<std::string> line;
      u32 cursor_at = ~u32{0};
      for (bool more = true; more; ++row) {
        if (row == row_) cursor_at = static_cast<u32>(line.size()) + column_;
        line.insert(line.end(), rows_[row].cells.begin(), rows_[row].cells.end());
        more = rows_[row].wrapped && row + 1 < rows_.size();
      }
      const u32 first = static_cast<u32>(out.size());
      for (u32 at = 0; at == 0 || at < line.size(); at += columns) {
        const u32 end = std::min<u32>(at + columns, static_cast<u32>(line.size()));
        out.push_back({{line.begin() + at, line.begin() + end}, end < line.size()});
      }
      if (cursor_at == ~u32{0}) continue;
      cursor_row = std::min(first + cursor_at / columns, static_cast<u32>(out.size()) - 1);
      cursor_column = cursor_at % columns;
    }
    // As many rows as fit stay visible below the history, including the cursor's row.
    rows_ = std::move(out);
    row_ = cursor_row, column_ = cursor_column, wrap_due_ = false;
    const u32 all = static_cast<u32>(rows_.size());
    top_ = std::min(all > size_.rows ? all - size_.rows : 0, row_);
  }

  Size size_;
  OnResize on_resize_;
  std::vector<Row> rows_;  // history, then the screen
  u32 top_ = 0;            // the screen's first row
  u32 row_ = 0, column_ = 0;
  bool autowrap_ = true, wrap_due_ = false;
  std::string* last_ = nullptr;  // cell that receives further bytes of its code point
  std::string escape_;
};

}  // namespace tidepool::test
