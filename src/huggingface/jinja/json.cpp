#include "huggingface/jinja/json.h"

#include <fmt/format.h>

#include <algorithm>

#include "huggingface/jinja/unicode.h"

namespace tidepool::jinja {

namespace {

void append_escaped(std::string& out, u32 unit) { out += fmt::format("\\u{:04x}", unit); }

void append_quoted(std::string& out, std::string_view text, bool ascii) {
  out += '"';
  for (u64 at = 0; at < text.size();) {
    u32 bytes = 1;
    const u32 c = code_point_at(text, at, &bytes);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\b') {
      out += "\\b";
    } else if (c == '\f') {
      out += "\\f";
    } else if (c < 0x20) {
      append_escaped(out, c);
    } else if (ascii && c >= 0x10000) {
      append_escaped(out, 0xd800 + ((c - 0x10000) >> 10));
      append_escaped(out, 0xdc00 + ((c - 0x10000) & 0x3ff));
    } else if (ascii && c >= 0x7f) {  // Python keeps only space to ~ unescaped
      append_escaped(out, c);
    } else {
      out += text.substr(at, bytes);
    }
    at += bytes;
  }
  out += '"';
}

class Writer {
 public:
  explicit Writer(const JsonLook& look) : look_(look) {}

  Result<void> value(const Value& v) {
    if (v.list() && (v.look() == Look::plain || v.is_tuple())) return list(*v.list());
    if (v.dict()) return dict(*v.dict());
    if (v.text()) {
      append_quoted(out_, *v.text(), look_.ascii);
    } else if (v.boolean()) {
      out_ += *v.boolean() ? "true" : "false";
    } else if (v.is_none()) {
      out_ += "null";
    } else if (v.integer()) {
      out_ += fmt::format("{}", *v.integer());
    } else if (v.large_integer()) {
      out_ += v.large_integer()->digits;
    } else if (v.real()) {
      real(*v.real());
    } else {
      return Error{ErrorKind::bad_input, fmt::format("tojson: a value of type {} has no JSON", type_name(v))};
    }
    return {};
  }

  std::string take() { return std::move(out_); }

 private:
  void real(double d) {
    const std::string text = real_text(d);
    out_ += text == "nan" ? "NaN" : text == "inf" ? "Infinity" : text == "-inf" ? "-Infinity" : text;
  }

  Result<void> list(const List& list) {
    open('[');
    for (size_t i = 0; i < list.size(); ++i) {
      separate(i == 0);
      TRY(value(list[i]));
    }
    close(']', list.empty());
    return {};
  }

  Result<void> dict(const Dict& dict) {
    std::vector<const std::pair<std::string, Value>*> entries;
    for (const auto& entry : dict.entries()) entries.push_back(&entry);
    if (look_.sorted)
      std::ranges::sort(entries, {}, [](const auto* entry) { return std::string_view(entry->first); });
    open('{');
    for (size_t i = 0; i < entries.size(); ++i) {
      separate(i == 0);
      append_quoted(out_, entries[i]->first, look_.ascii);
      out_ += look_.key_separator;
      TRY(value(entries[i]->second));
    }
    close('}', entries.empty());
    return {};
  }

  void open(char c) {
    out_ += c;
    ++depth_;
  }
  void close(char c, bool empty) {
    --depth_;
    if (!empty) new_line();
    out_ += c;
  }
  void separate(bool first) {
    if (!first) out_ += look_.item_separator;
    new_line();
  }
  void new_line() {
    if (!look_.indent) return;
    out_ += '\n';
    for (u32 i = 0; i < depth_; ++i) out_ += *look_.indent;
  }

  const JsonLook& look_;
  u32 depth_ = 0;
  std::string out_;
};

}  // namespace

Result<std::string> to_json(const Value& v, const JsonLook& look) {
  Writer writer(look);
  TRY(writer.value(v));
  return writer.take();
}

}  // namespace tidepool::jinja
