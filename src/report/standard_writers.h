// Writers of standard output and standard error: while they live, nothing that print_text() prints waits for
// a reader. For commands that run long and print about it. Commands whose output is data wait for their
// reader, as any filter does, and lose nothing.
#pragma once

#include <cstdio>

#include "base/process/stream_writer.h"

namespace tidepool {

// Starts the writers: one for each file, so one if both streams are the same file, whose text then keeps its
// order. REQUIRES: they do not run. THREADS: main.
Result<void> start_writers();

// Writes what waits, for a few seconds at most if nobody reads. Then text is printed directly again, unless
// its reader still holds the writer. If lines were left out of standard output, says so on standard error. A
// no-op without writers. THREADS: main, when no other thread prints.
void finish_writers();

// RETURNS: the writer of a stream; null: text is printed directly.
StreamWriter* writer_of(std::FILE*);
inline StandardStream stream_of(std::FILE* file) {
  return file == stderr ? StandardStream::error : StandardStream::output;
}

// RETURNS: why a text of writers that have finished could not be written to standard output, as errno; 0: all
// could.
int error_of_writers();

// For signal handlers: async-signal-safe.
// Prints `literal` to standard error, without waiting for its reader.
void say_in_handler(const char* literal);
// Waits until everything is written, for about a second at most.
void settle_in_handler();

}  // namespace tidepool
