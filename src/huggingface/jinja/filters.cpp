// Table of Jinja's filters that chat templates use, and the filters of texts.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "huggingface/jinja/filter_functions.h"
#include "huggingface/jinja/json.h"
#include "huggingface/jinja/unicode.h"

namespace tidepool::jinja {

namespace {

// Work of a filter before it runs: it reads all of the value, or only walks over its elements.
enum class Reads : u8 { all, elements };

Result<Value> length(const Value& v, const Arguments& a) {
  TRY(a.check({}));
  if (v.is_undefined()) return Value(i64{0});
  if (v.text()) return Value(static_cast<i64>(count_code_points(*v.text())));
  if (v.list()) return Value(static_cast<i64>(v.list()->size()));
  if (v.dict()) return Value(static_cast<i64>(v.dict()->entries().size()));
  if (v.iterator()) return fault("an iterator has no length; make a list of it with | list");
  return fault(fmt::format("a {} has no length", type_name(v)));
}

Result<Value> preset(const Value& v, const Arguments& a) {
  TRY(a.check({"default_value", "boolean"}));
  const bool taken = v.is_undefined() || (a.truth_or(1, "boolean", false) && !is_true(v));
  if (!taken) return v;
  const Value* other = a.get(0, "default_value");
  return other ? *other : Value("");
}

template <std::string (*map)(std::string_view)>
Result<Value> mapped(const Value& v, const Arguments& a) {
  TRY(a.check({}));
  TRY_ASSIGN(const std::string text, text_for(v, a.work));
  return Value::looking(Value(map(text)), v.is_markup() ? Look::markup : Look::plain);
}

Result<Value> safe(const Value& v, const Arguments& a) {
  TRY(a.check({}));
  TRY_ASSIGN(std::string text, text_for(v, a.work));
  return Value::looking(Value(std::move(text)), Look::markup);
}

struct Filter {
  FilterFunction* function;
  Reads reads = Reads::all;
};

const std::map<std::string_view, Filter>& filters() {
  static const std::map<std::string_view, Filter> table = {
      {"abs", {filter_absolute}},
      {"attr", {filter_attribute, Reads::elements}},
      {"batch", {filter_batch, Reads::elements}},
      {"capitalize", {mapped<capitalized>}},
      {"center", {filter_center}},
      {"count", {length, Reads::elements}},
      {"d", {preset, Reads::elements}},
      {"default", {preset, Reads::elements}},
      {"dictsort", {filter_dictsort, Reads::elements}},
      {"e", {filter_escape}},
      {"escape", {filter_escape}},
      {"first", {filter_first, Reads::elements}},
      {"float", {filter_real}},
      {"forceescape", {filter_force_escape}},
      {"format", {filter_format}},
      {"groupby", {filter_groupby, Reads::elements}},
      {"indent", {filter_indent}},
      {"int", {filter_integer}},
      {"items", {filter_items, Reads::elements}},
      {"join", {filter_join, Reads::elements}},
      {"last", {filter_last, Reads::elements}},
      {"length", {length, Reads::elements}},
      {"list", {filter_list, Reads::elements}},
      {"lower", {mapped<lower>}},
      {"map", {filter_map, Reads::elements}},
      {"max", {filter_max, Reads::elements}},
      {"min", {filter_min, Reads::elements}},
      {"reject", {filter_reject, Reads::elements}},
      {"rejectattr", {filter_reject_attribute, Reads::elements}},
      {"replace", {filter_replace}},
      {"reverse", {filter_reverse, Reads::elements}},
      {"round", {filter_round}},
      {"safe", {safe}},
      {"select", {filter_select, Reads::elements}},
      {"selectattr", {filter_select_attribute, Reads::elements}},
      {"slice", {filter_slice, Reads::elements}},
      {"sort", {filter_sort, Reads::elements}},
      {"string", {filter_string}},
      {"sum", {filter_sum, Reads::elements}},
      {"title", {filter_title}},
      {"tojson", {filter_tojson}},
      {"trim", {filter_trim}},
      {"truncate", {filter_truncate}},
      {"unique", {filter_unique, Reads::elements}},
      {"upper", {mapped<upper>}},
      {"wordcount", {filter_word_count}},
  };
  return table;
}

}  // namespace

Result<Value> filter_title(const Value& v, const Arguments& a) {
  TRY(a.check({}));
  TRY_ASSIGN(const std::string text, text_for(v, a.work));
  TRY(a.work.spend(text.size() / 4));
  // A word starts behind white space, a hyphen or an opening bracket.
  std::string out, word;
  const auto put = [&] {
    u32 bytes = 0;
    if (!word.empty()) code_point_at(word, 0, &bytes);
    out += upper(word.substr(0, bytes)) + lower(word.substr(bytes));
    word.clear();
  };
  u32 bytes = 1;
  for (u64 at = 0; at < text.size(); at += bytes) {
    const u32 c = code_point_at(text, at, &bytes);
    const bool between = is_space(c) || (c < 0x80 && std::string_view("-({[<").find(static_cast<char>(c)) !=
                                                         std::string_view::npos);
    if (between) put();
    (between ? out : word).append(text, at, bytes);
  }
  put();
  return Value(std::move(out));
}

Result<Value> filter_trim(const Value& v, const Arguments& a) {
  TRY(a.check({"chars"}));
  TRY_ASSIGN(const std::string text, text_for(v, a.work));
  const Value* given = a.get(0, "chars");
  const Look look = v.is_markup() ? Look::markup : Look::plain;
  if (given == nullptr || given->is_none()) return Value::looking(Value(strip(text)), look);
  TRY_ASSIGN(const std::string characters, a.text(0, "chars"));
  return Value::looking(Value(strip(text, characters)), look);
}

Result<Value> filter_center(const Value& v, const Arguments& a) {
  TRY(a.check({"width"}));
  TRY_ASSIGN(const i64 width, a.integer_or(0, "width", 80));
  TRY_ASSIGN(std::string text, text_for(v, a.work));
  return call_method(Value(std::move(text)), "center", Arguments{a.work, {Value(width)}, {}});
}

Result<Value> filter_tojson(const Value& v, const Arguments& a) {
  TRY(a.check({"ensure_ascii", "indent", "separators", "sort_keys"}));
  JsonLook look;
  look.ascii = a.truth_or(0, "ensure_ascii", false);
  look.sorted = a.truth_or(3, "sort_keys", false);
  if (const Value* indent = a.get(1, "indent"); indent && indent->text()) {
    look.indent = *indent->text();
  } else if (indent && !indent->is_none()) {
    TRY_ASSIGN(const i64 blanks, a.integer_or(1, "indent", 0));
    look.indent = std::string(static_cast<size_t>(std::clamp<i64>(blanks, 0, 17)), ' ');
  }
  if (look.indent && look.indent->size() > 16) return fault("an indent of more than 16 is not supported");
  if (look.indent) look.item_separator = ",";
  if (const Value* separators = a.get(2, "separators"); separators && !separators->is_none()) {
    const List* two = separators->list();
    if (two == nullptr || two->size() != 2 || !(*two)[0].text() || !(*two)[1].text())
      return fault("separators must be two texts: between items, and between a key and its value");
    look.item_separator = *(*two)[0].text();
    look.key_separator = *(*two)[1].text();
    if (look.item_separator.size() + look.key_separator.size() > 16)
      return fault("separators of more than 16 bytes are not supported");
  }
  TRY_ASSIGN(std::string text, to_json(v, look));
  return Value(std::move(text));
}

Result<Value> filter_replace(const Value& v, const Arguments& a) {
  TRY(a.check({"old", "new", "count"}));
  const Value *from = a.get(0, "old"), *to = a.get(1, "new");
  if (from == nullptr || to == nullptr) return fault("needs two texts: what is replaced, and by what");
  TRY_ASSIGN(const std::string old_text, text_for(*from, a.work));
  TRY_ASSIGN(const std::string new_text, text_for(*to, a.work));
  TRY_ASSIGN(const i64 count, a.integer_or(2, "count", -1));
  TRY_ASSIGN(const std::string in, text_for(v, a.work));
  TRY_ASSIGN(std::string text, replaced(in, old_text, new_text, count));
  return Value(std::move(text));
}

Result<Value> filter_string(const Value& v, const Arguments& a) {
  TRY(a.check({}));
  if (v.is_markup()) return v;
  TRY_ASSIGN(std::string text, text_for(v, a.work));
  return Value(std::move(text));
}

Result<Value> filter_escape(const Value& v, const Arguments& a) {
  return v.is_markup() ? Result<Value>(v) : filter_force_escape(v, a);
}

Result<Value> filter_force_escape(const Value& v, const Arguments& a) {
  TRY(a.check({}));
  TRY_ASSIGN(const std::string text, text_for(v, a.work));
  return Value::looking(Value(escaped(text)), Look::markup);
}

Result<Value> filter_format(const Value& v, const Arguments& a) {
  if (!a.places.empty() && !a.names.empty()) return fault("takes values either by place or by name");
  if (v.is_markup()) return fault("text that is marked safe has no format here: it would escape the values");
  TRY_ASSIGN(const std::string form, text_for(v, a.work));
  Dict named;
  for (const auto& [name, value] : a.names) named.set(name, value);
  TRY_ASSIGN(std::string text,
             formatted(form, a.names.empty() ? Value::tuple(a.places) : Value(std::move(named)), a.work));
  return Value(std::move(text));
}

Result<Value> filter_indent(const Value& v, const Arguments& a) {
  TRY(a.check({"width", "first", "blank"}));
  const Value* width = a.get(0, "width");
  std::string blanks;
  if (width && width->text()) {
    blanks = *width->text();
  } else {
    TRY_ASSIGN(const i64 count, a.integer_or(0, "width", 4));
    blanks.assign(static_cast<size_t>(std::clamp<i64>(count, 0, 1000)), ' ');
  }
  if (!v.text()) return fault(fmt::format("must be a text, not {}", type_name(v)));
  const std::vector<std::string> lines = lines_of(*v.text() + "\n");
  TRY(check_count(lines.size()));
  if (!blanks.empty() && lines.size() > Value::weight_max / blanks.size())
    return fault("the text would be too long");
  std::string out = a.truth_or(1, "first", false) ? blanks : "";
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out += '\n';
    if (i > 0 && (a.truth_or(2, "blank", false) || !lines[i].empty())) out += blanks;
    out += lines[i];
  }
  return Value::looking(Value(std::move(out)), v.look());
}

Result<Value> filter_truncate(const Value& v, const Arguments& a) {
  TRY(a.check({"length", "killwords", "end", "leeway"}));
  TRY_ASSIGN(const i64 length, a.integer_or(0, "length", 255));
  TRY_ASSIGN(const std::string end, a.text_or(2, "end", "..."));
  TRY_ASSIGN(const i64 leeway, a.integer_or(3, "leeway", 5));
  const i64 end_length = static_cast<i64>(count_code_points(end));
  if (length < end_length || leeway < 0)
    return fault("the length is less than that of the end, or the leeway is negative");
  if (!v.text()) return fault(fmt::format("must be a text, not {}", type_name(v)));
  const std::string& text = *v.text();
  const u64 most = static_cast<u64>(length) + static_cast<u64>(leeway);
  if (count_code_points(text) <= most) return v;
  std::string_view kept =
      std::string_view(text).substr(0, byte_of_code_point(text, static_cast<u64>(length - end_length)));
  if (!a.truth_or(1, "killwords", false)) kept = kept.substr(0, kept.rfind(' '));
  return Value(std::string(kept) + end);
}

Result<Value> filter_word_count(const Value& v, const Arguments& a) {
  TRY(a.check({}));
  TRY_ASSIGN(const std::string text, text_for(v, a.work));
  TRY(a.work.spend(text.size() / 8));
  i64 count = 0;
  bool inside = false;
  u32 bytes = 1;
  for (u64 at = 0; at < text.size(); at += bytes) {
    const u32 c = code_point_at(text, at, &bytes);
    const bool word = c == '_' || is_letter(c) || is_number(c);
    count += word && !inside;
    inside = word;
  }
  return Value(count);
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '\'') {
      out += "&#39;";
    } else if (c == '"') {
      out += "&#34;";
    } else {
      out += c;
    }
  }
  return out;
}

std::string capitalized(std::string_view text) {
  if (text.empty()) return "";
  u32 bytes = 1;
  code_point_at(text, 0, &bytes);
  std::string first = upper(text.substr(0, bytes));
  if (bytes == 2 && first == "SS") first = "Ss";  // the sharp s becomes two letters, the first a capital
  return first + lower(text.substr(bytes));
}

std::vector<std::string> lines_of(std::string_view text, bool keep_ends) {
  std::vector<std::string> out;
  u64 begin = 0;
  for (u64 at = 0; at < text.size() && out.size() <= parts_max;) {
    u32 bytes = 1;
    const u32 c = code_point_at(text, at, &bytes);
    const bool ends =
        (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
    const u64 end = at;
    at += bytes;
    if (!ends) continue;
    if (c == '\r' && at < text.size() && text[at] == '\n') ++at;
    out.emplace_back(text.substr(begin, (keep_ends ? at : end) - begin));
    begin = at;
  }
  if (begin < text.size()) out.emplace_back(text.substr(begin));
  return out;
}

Result<std::string> replaced(const std::string& text, const std::string& from, const std::string& to,
                             i64 count) {
  u64 left = count < 0 ? ~u64{0} : static_cast<u64>(count);
  std::string out;
  u64 at = 0;
  const auto put = [&](u64 until) {
    out.append(text, at, until - at);
    out += to;
    at = until + from.size();
    --left;
    return out.size() <= Value::weight_max;
  };
  if (from.empty()) {  // inserts before each character and at the end
    for (u64 i = 0; i <= text.size() && left > 0; ++i) {
      const bool begins = i == text.size() || (static_cast<u8>(text[i]) & 0xc0) != 0x80;
      if (begins && !put(i)) return fault("replace: the text becomes too long");
    }
  } else {
    for (u64 found = find_text(text, from); found != text.npos && left > 0;
         found = find_text(text, from, at)) {
      if (!put(found)) return fault("replace: the text becomes too long");
    }
  }
  return out.append(text, std::min(at, text.size()));
}

Result<std::string> joined(const List& items, const std::string& between, Work& work) {
  std::string out;
  for (size_t i = 0; i < items.size(); ++i) {
    TRY(work.spend(1));
    if (i > 0) out += between;
    TRY_ASSIGN(const std::string text, text_for(items[i], work));
    out += text;
    if (out.size() > Value::weight_max) return fault("join: the text becomes too long");
  }
  return out;
}

Result<Value> apply_filter(std::string_view name, const Value& v, const Arguments& a) {
  const auto found = filters().find(name);
  if (found == filters().end()) return fault(fmt::format("filter '{}' is unknown", name));
  const auto pay = found->second.reads == Reads::all ? pay_deep : pay_shallow;
  TRY(a.work.spend(1));
  TRY(pay(a.work, v));
  for (const Value& value : a.places) TRY(pay(a.work, value));
  for (const auto& [key, value] : a.names) TRY(pay(a.work, value));
  Result<Value> made = found->second.function(v, a);
  if (!made) return fault(fmt::format("{}: {}", name, made.error().message));
  TRY(pay_shallow(a.work, *made));
  return made;
}

}  // namespace tidepool::jinja
