// write_within() writes the last words of a process that ends, or that handles a signal: text that must not
// wait for its reader for ever.
#pragma once

#include <string_view>

namespace tidepool {

// Patience with last words: long enough for a reader on a busy machine, short for people who wait for the
// end.
inline constexpr int last_words_ms = 1000;

// Writes `text`, and gives up when the file takes no byte for `patience_ms`. Other processes that share the
// file notice nothing: the file does not become non-blocking for them. RETURNS: false if a part is not
// written; errno says why (ETIMEDOUT: nobody reads). THREADS: any. Async-signal-safe, and allocates nothing.
bool write_within(int fd, std::string_view text, int patience_ms = last_words_ms);

}  // namespace tidepool
