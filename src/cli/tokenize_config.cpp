#include "cli/tokenize_config.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json/value.hpp>

#include "base/json/text.h"
#include "data/batches/open_documents.h"
#include "report/print_text.h"
#include "report/screen.h"
#include "run/open_data.h"
#include "run/outputs/signals.h"

namespace tidepool {

namespace {

constexpr size_t shown_bytes_max = 2000;  // per run of tokens: enough to recognize the text

// Prints a document: "+" before text with loss, "-" before text without loss. On a terminal their colours
// differ, too.
void print(const ShownDocument& document, const Screen& screen) {
  print_text("{}: {}, {} with loss\n", document.place, counted_text(document.tokens, "token"),
             document.learned);
  for (const ShownDocument::Run& run : document.runs) {
    const bool cut = run.text.size() > shown_bytes_max;
    size_t bytes = std::min(run.text.size(), shown_bytes_max);
    while (cut && bytes > 0 && (static_cast<unsigned char>(run.text[bytes]) & 0xc0) == 0x80) --bytes;
    const std::string text = json_text(boost::json::value(run.text.substr(0, bytes)), JsonStyle::line);
    const std::string line = fmt::format("  {} {}{}", run.learned ? '+' : '-', text, cut ? " ..." : "");
    print_text("{}\n", paint(screen, run.learned ? Ink::green : Ink::dim, line));
  }
}

void print_notes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes)
    print_text("{}", wrap_lines(note, detect_screen(STDOUT_FILENO).columns));
}

Result<void> show_documents(const Config& config, const std::vector<SourceFiles>& sources, u64 count) {
  const DataPlace place = data_place(config);
  TRY_ASSIGN(const ShownDocuments shown,
             first_documents(sources, config.data, config.model.vocab_size, config.train.sequence_length,
                             place.model_directory, count));
  if (shown.documents.empty())
    return Error{ErrorKind::bad_input, fmt::format("{}: holds no document; name files that hold documents",
                                                   sources[0].found[0].path)};
  const Screen screen = detect_screen(STDOUT_FILENO);
  for (const ShownDocument& document : shown.documents) print(document, screen);
  print_notes(shown.notes);
  return {};
}

}  // namespace

Result<void> tokenize_config(const Config& config, u64 show) {
  const DataPlace place = data_place(config);
  const bool tokenizer = has_tokenizer(config.data, place.model_directory);
  TRY_ASSIGN(const std::vector<SourceFiles> sources, all_sources(config.data, tokenizer));
  for (const SourceFiles& source : sources) {
    if (source.holds(FileKind::tokens))
      return Error{ErrorKind::bad_input, fmt::format("{}: holds tokens, or text whose bytes are the tokens, "
                                                     "and training reads it directly; to tokenize text, "
                                                     "name a tokenizer.json with data.tokenizer",
                                                     source.found[0].path)};
  }
  if (show > 0) return show_documents(config, sources, show);
  const StopSignals signals(StopSignals::at_once("\ntidepool: stopped; unfinished files are removed\n"));
  TRY_ASSIGN(const std::unique_ptr<Dataset> data, open_data(config));
  print_notes(data->notes());
  return {};
}

}  // namespace tidepool
