#include "data/documents/content_parts.h"

#include <fmt/format.h>

namespace tidepool {

namespace {

const jinja::List* parts_of(const jinja::Value& message) {
  const jinja::Value* content = message.dict()->find("content");
  return content ? content->list() : nullptr;
}

using ChangeParts = std::function<jinja::Value(const jinja::List&)>;

ChatRecord with_changed_parts(const ChatRecord& chat, const ChangeParts& change) {
  ChatRecord out = chat;
  for (jinja::Value& message : out.messages) {
    const jinja::List* parts = parts_of(message);
    if (parts == nullptr) continue;
    jinja::Dict changed = *message.dict();
    changed.set("content", change(*parts));
    message = jinja::Value(std::move(changed));
  }
  return out;
}

jinja::Value joined_text(const jinja::List& parts) {
  std::string out;
  for (const jinja::Value& part : parts) {
    const jinja::Value* text = part.dict() ? part.dict()->find("text") : nullptr;
    if (text && text->text()) out += *text->text();
  }
  return jinja::Value(std::move(out));
}

// Appears nowhere else, and no filter changes it.
std::string mark_text(size_t number) { return fmt::format("textpart{}end", number); }

ChatRecord with_marks(const ChatRecord& chat, size_t& marks) {
  return with_changed_parts(chat, [&](const jinja::List& parts) {
    jinja::List out;
    for (const jinja::Value& part : parts) {
      jinja::Dict marked = part.dict() ? *part.dict() : jinja::Dict();
      marked.set("text", jinja::Value(mark_text(marks++)));
      out.emplace_back(std::move(marked));
    }
    return jinja::Value(std::move(out));
  });
}

enum class Shown : u8 { no, yes, in_quotes };

Shown shown_in(const std::string& text, const std::string& mark) {
  const size_t at = text.find(mark);
  if (at == text.npos) return Shown::no;
  const auto is_quote = [&](size_t i) { return i < text.size() && (text[i] == '\'' || text[i] == '"'); };
  return at > 0 && is_quote(at - 1) && is_quote(at + mark.size()) ? Shown::in_quotes : Shown::yes;
}

}  // namespace

bool has_parts(const ChatRecord& chat) {
  for (const jinja::Value& message : chat.messages)
    if (parts_of(message) != nullptr) return true;
  return false;
}

ChatRecord with_joined_parts(const ChatRecord& chat) { return with_changed_parts(chat, &joined_text); }

bool takes_parts(const ChatRecord& chat, const RenderMessages& render) {
  size_t marks = 0;
  const ChatRecord marked = with_marks(chat, marks);
  const Result<std::string> listed = render(marked);
  if (!listed) return false;
  const Result<std::string> joined = render(with_joined_parts(marked));
  for (size_t i = 0; joined && i < marks; ++i) {
    const Shown wanted = shown_in(*joined, mark_text(i));
    if (wanted != Shown::no && shown_in(*listed, mark_text(i)) != wanted) return false;
  }
  return true;
}

}  // namespace tidepool
