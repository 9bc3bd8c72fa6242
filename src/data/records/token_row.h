// TokenRow reads a record of token ids, with the columns that other tools put beside them: masks make labels,
// and padding and packed documents are taken apart.
#pragma once

#include <vector>

#include "data/records/record.h"
#include "data/records/record_fields.h"

namespace tidepool {

class TokenRow : private RecordFields {
 public:
  TokenRow(const ExactJson& line, const std::string& place) : RecordFields(line, place) {}

  // Error: bad_input, naming the key: also if two keys contradict each other.
  Result<TokensRecord> read();
  // The same, with what a teacher says behind each token.
  Result<TokensRecord> read_with_distributions();

 private:
  Result<i64> integer(const boost::json::value&, const std::string& what, i64 least) const;
  // RETURNS: null if there is no such key.
  Result<const boost::json::array*> column(std::string_view key) const;
  Result<void> read_labels();
  Result<void> read_mask(std::string_view key);
  Result<void> read_attention();
  Result<void> read_lengths();
  Result<void> read_positions();
  Result<void> read_distributions();
  Result<void> read_distribution(size_t i, const boost::json::array& ids, const boost::json::array& logps);
  Result<TokensRecord> without_padding() const;

  TokensRecord row_;
  bool has_labels_ = false;
  std::vector<bool> padding_;  // by token
  std::vector<bool> begins_;   // by token: true if a document begins there
  std::vector<float> behind_;  // by token: the distribution of the token behind it; empty: there are none
};

}  // namespace tidepool
