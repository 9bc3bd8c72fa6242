// Fuzzes lines of JSONL. An accepted record can be rendered or is refused, and its answers lie in order
// within the text.
#include "base/check.h"
#include "data/documents/chat_template.h"
#include "data/records/record.h"
#include "tests/fuzz/fuzz.h"

namespace tidepool::fuzz {
namespace {

void render(const ChatRecord& chat, LossOn loss) {
  static const std::unique_ptr<const ChatTemplate> chatml =
      ChatTemplate::open({}, {.file = "chatml"}).value();
  const Result<RenderedChat> rendered = chatml->render(chat, loss);
  if (!rendered) {
    CHECK(rendered.error().kind == ErrorKind::bad_input && !rendered.error().message.empty());
    return;
  }
  u64 at = 0;
  for (const jinja::Span& span : rendered->answers) {
    CHECK(at <= span.begin && span.begin <= span.end && span.end <= rendered->text.size(), at, span.begin,
          span.end);
    at = span.end;
  }
}

}  // namespace

void records(std::string_view line) {
  const Result<RecordShape> shape = recognise_record(line, "fuzz:1");
  if (!shape) return check_refusal(shape.error());
  const Result<Record> record = parse_record(line, *shape, "fuzz:1");
  if (!record) return check_refusal(record.error());
  if (const auto* tokens = std::get_if<TokensRecord>(&*record))
    CHECK(tokens->ids.size() == tokens->learned.size());
  if (const auto* chat = std::get_if<ChatRecord>(&*record))
    for (const LossOn loss : {LossOn::answers, LossOn::last_answer, LossOn::everything}) render(*chat, loss);
}

}  // namespace tidepool::fuzz
