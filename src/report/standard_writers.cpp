#include "report/standard_writers.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <utility>

#include "base/check.h"
#include "base/write_within.h"
#include "report/print_text.h"
#include "report/screen.h"

namespace tidepool {
namespace {

// Not owned: a writer that its reader holds is never destroyed. May be the same.
std::atomic<StreamWriter*> writer_of_output = nullptr, writer_of_errors = nullptr;
static_assert(std::atomic<StreamWriter*>::is_always_lock_free, "signal handlers use it");
int error_of_output = 0;

bool same_file(int a, int b) {
  struct stat at_a {
  }, at_b{};
  return ::fstat(a, &at_a) == 0 && ::fstat(b, &at_b) == 0 && at_a.st_dev == at_b.st_dev &&
         at_a.st_ino == at_b.st_ino;
}

StreamWriter::Options options_of(StandardStream file) {
  return {.file = file, .erase = std::string(erase_lines)};
}

}  // namespace

Result<void> start_writers() {
  CHECK(writer_of_output == nullptr && writer_of_errors == nullptr);
  std::fflush(stdout);
  TRY_ASSIGN(std::unique_ptr<StreamWriter> output, StreamWriter::create(options_of(StandardStream::output)));
  std::unique_ptr<StreamWriter> errors;
  if (!same_file(STDOUT_FILENO, STDERR_FILENO)) {
    Result<std::unique_ptr<StreamWriter>> made = StreamWriter::create(options_of(StandardStream::error));
    if (!made) {
      if (!output->finish()) static_cast<void>(output.release());
      return made.error();
    }
    errors = std::move(*made);
  }
  error_of_output = 0;
  writer_of_errors = errors ? errors.release() : output.get();
  writer_of_output = output.release();
  return {};
}

void finish_writers() {
  StreamWriter* const output = writer_of_output;
  StreamWriter* const errors = writer_of_errors;
  if (output == nullptr) return;
  const StreamWriter::Clock::time_point begin = StreamWriter::Clock::now();
  const bool ended = output->finish(begin);
  error_of_output = output->lost(StandardStream::output);
  if (errors != output) {
    if (const u64 lines = output->lines_left_out(); lines > 0)
      errors->print(StandardStream::error,
                    fmt::format("tidepool: nobody read standard output in time: {} line{} left out of it\n",
                                lines, lines == 1 ? " was" : "s were"));
    if (errors->finish(begin) && ended) {  // else the other writer may still tell it something
      writer_of_errors = nullptr;
      delete errors;
    }
  }
  if (!ended) return;
  writer_of_output = nullptr;
  if (errors == output) writer_of_errors = nullptr;
  delete output;
}

StreamWriter* writer_of(std::FILE* stream) {
  if (stream == stdout) return writer_of_output;
  return stream == stderr ? writer_of_errors.load() : nullptr;
}

int error_of_writers() { return error_of_output; }

void say_in_handler(const char* literal) {
  if (StreamWriter* const writer = writer_of_errors; writer != nullptr)
    writer->say(literal);
  else
    write_within(STDERR_FILENO, literal, 0);
}

void settle_in_handler() {
  if (StreamWriter* const writer = writer_of_errors; writer != nullptr) writer->settle(last_words_ms);
}

}  // namespace tidepool
