#include "data/tokenize/tokenize.h"

#include <fmt/format.h>

#include <algorithm>

namespace tidepool {

namespace {

// Text per worker between two progress reports: 4 MiB at 20 MB/s take a fifth of a second.
constexpr u64 batch_bytes_per_worker = 4 * mib;
// Text per task: enough to make starting it cheap, and small enough that all workers finish together.
constexpr u64 task_bytes = 256 * kib;
constexpr size_t batch_documents_max = 1u << 16;

// Consecutive parts and their ids. Reused, so nothing is allocated in the long run.
struct Task {
  size_t first = 0, end = 0;  // range of the batch's parts
  std::vector<u32> ids;
  Error error;
  bool failed = false;
};

class Batch {
 public:
  Batch(const Tokenizer& tokenizer, const TokenizeOptions& options)
      : tokenizer_(tokenizer), options_(options) {}

  // RETURNS: false if the source is at its end.
  Result<bool> fill(DocumentReader& source, u64 bytes) {
    count_ = tasks_ = 0;
    u64 sum = 0, in_task = task_bytes;
    bool more = true;
    while (sum < bytes && count_ < batch_documents_max) {
      if (count_ == parts_.size()) parts_.emplace_back();
      TRY_ASSIGN(more, source.next(parts_[count_]));
      if (!more) break;
      if (in_task >= task_bytes) {
        if (tasks_ == task_list_.size()) task_list_.emplace_back();
        task_list_[tasks_++].first = count_;
        in_task = 0;
      }
      in_task += parts_[count_].content.size();
      sum += parts_[count_].content.size();
      task_list_[tasks_ - 1].end = ++count_;
    }
    return more;
  }

  void encode(CorePool& pool) {
    parallel_for(pool, Priority::normal, static_cast<u32>(tasks_),
                 [&](u32 task, u32) { encode(task_list_[task]); });
  }

  Result<void> write(TokenWriter& writer, TokenizeCounts& counts) {
    for (size_t i = 0; i < tasks_; ++i) {
      if (task_list_[i].failed) return task_list_[i].error;
      TRY(writer.append(task_list_[i].ids));
      counts.tokens += task_list_[i].ids.size();
    }
    for (size_t i = 0; i < count_; ++i) {
      counts.documents += parts_[i].last ? 1 : 0;
      counts.text_bytes += parts_[i].content.size();
    }
    return {};
  }

 private:
  void encode(Task& task) {
    task.ids.clear();
    task.failed = false;
    for (size_t i = task.first; i < task.end; ++i) {
      const RawDocument& part = parts_[i];
      const Result<void> done = tokenizer_.encode_part(
          {.text = part.content, .first = part.first, .last = part.last}, options_.special, task.ids);
      if (!done) {
        task.error = {done.error().kind, fmt::format("{}: {}", part.place, done.error().message)};
        task.failed = true;
        return;
      }
      if (part.last && options_.end) task.ids.push_back(*options_.end);
    }
  }

  const Tokenizer& tokenizer_;
  const TokenizeOptions& options_;
  std::vector<RawDocument> parts_;
  size_t count_ = 0;
  std::vector<Task> task_list_;
  size_t tasks_ = 0;
};

}  // namespace

Result<TokenizeCounts> tokenize(const Tokenizer& tokenizer, DocumentReader& source, u64 bytes,
                                TokenWriter& writer, CorePool& pool, const TokenizeOptions& options,
                                const TokenizeHooks& hooks) {
  TokenizeCounts counts;
  Batch batch(tokenizer, options);
  for (bool more = true; more;) {
    TRY_ASSIGN(more, batch.fill(source, batch_bytes_per_worker * pool.workers()));
    batch.encode(pool);
    TRY(batch.write(writer, counts));
    const double fraction =
        static_cast<double>(source.bytes_read()) / static_cast<double>(std::max<u64>(bytes, 1));
    if (hooks.progress) hooks.progress(counts, std::min(fraction, 1.0));
    if (hooks.stop && hooks.stop()) return Error{ErrorKind::interrupted, "stopped; nothing was written"};
  }
  return counts;
}

}  // namespace tidepool
