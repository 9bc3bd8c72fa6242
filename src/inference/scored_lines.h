// ScoredLines writes what a model gives for documents behind the lines from which they come.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/documents/raw_documents.h"
#include "inference/score.h"
#include "tidepool/objective.h"

namespace tidepool {

// The records of one file, in order.
class RecordsOfFile {
 public:
  RecordsOfFile(const std::string& file, std::optional<RecordShape> shape, OnBadRecord on_bad)
      : bytes_(create_byte_encoder()), raw_({{file, DocumentFormat::records}}, shape, *bytes_, on_bad) {}
  Result<std::optional<RawDocument>> next() { return raw_.next(); }

 private:
  const std::unique_ptr<const TextEncoder> bytes_;
  RawDocuments raw_;
};

struct ScoredDocument {
  std::vector<u32> tokens;     // as in a token cache
  std::vector<float> outputs;  // of each target, ObjectiveRule::outputs() numbers
};

class ScoredLines {
 public:
  // `shape`: of the file's records; none: the first one's.
  ScoredLines(const ScoreRequest& request, TargetOutput output, const std::string& file,
              std::optional<RecordShape> shape, OnBadRecord on_bad)
      : request_(request),
        output_(output),
        rollouts_(shape == RecordShape::rollouts),
        file_(file),
        records_(file, shape, on_bad) {}

  // `record`: from which the document comes; never less than before.
  Result<void> add(u64 record, ScoredDocument);
  Result<void> finish();
  u64 lines() const { return written_; }

 private:
  using Fields = std::vector<std::pair<std::string, std::string>>;  // keys, and their values in JSON
  Result<void> finish_up_to(u64 record);
  Result<void> write(const RawDocument& line);
  Fields fields() const;
  Fields distributions() const;

  const ScoreRequest& request_;
  const TargetOutput output_;
  const bool rollouts_;
  const std::string file_;
  RecordsOfFile records_;
  u64 next_ = 0, written_ = 0;
  std::vector<ScoredDocument> documents_;  // of record next_
};

}  // namespace tidepool
