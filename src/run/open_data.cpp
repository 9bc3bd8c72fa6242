#include "run/open_data.h"

#include <fmt/format.h>

#include "base/text/units.h"
#include "data/documents/open_encoder.h"
#include "fit/job.h"
#include "report/status_line.h"
#include "run/weights/kept_model.h"

namespace tidepool {

namespace {

void show(StatusLine& line, const DataProgress& p) {
  const double share =
      p.bytes_total == 0 ? 0 : static_cast<double>(p.bytes) / static_cast<double>(p.bytes_total);
  const std::string_view what = "tokenizing documents";
  line.show(
      what,
      fmt::format(" {}: {}, {} documents, {} tokens", what, percent_text(share),
                  count_text(static_cast<double>(p.documents)), count_text(static_cast<double>(p.tokens))),
      fmt::format("{} ...", what));
}

}  // namespace

DataPlace data_place(const Config& config) {
  return {.cache = data_cache_directory(config), .model_directory = config.model_directory};
}

namespace {

// Calls `open` with everything that tokenizing needs beside the config (core pool, status line), and frees it
// afterwards.
template <class Open>
auto with_place(const Config& given, const OpenData& options, Open&& open)
    -> decltype(open(given.data, DataPlace{})) {
  const Config config = options.kept_model ? with_kept_model(given) : given;
  const bool uses_kept = config.model_directory != given.model_directory ||
                         config.data.tokenizer != given.data.tokenizer ||
                         config.data.chat_template != given.data.chat_template;
  if (uses_kept) TRY(check_kept_model(given.output.dir));
  DataPlace place = data_place(config);
  TRY_ASSIGN(const std::unique_ptr<CorePool> pool, create_core_pool(config.machine.threads, Bytes{}));
  place.pool = pool.get();
  place.use = options.use;
  StatusLine line;
  if (!options.quiet) place.progress = [&](const DataProgress& progress) { show(line, progress); };
  DataConfig data = config.data;
  data.packing = config.data.packing && packs_documents(config);
  return open(data, place);
}

}  // namespace

Result<std::unique_ptr<Dataset>> open_data(const Config& config, const OpenData& options) {
  return with_place(config, options, [&](const DataConfig& data, const DataPlace& place) {
    return Dataset::open(data, config.model.vocab_size, config.train.sequence_length, config.train.seed,
                         place);
  });
}

void look_at_rows(Config& config, bool kept_model, HeldOutAlone alone) {
  const Config used = kept_model ? with_kept_model(config) : config;
  const Result<bool> shared =
      may_share_rows(used.data, has_tokenizer(used.data, data_place(used).model_directory), alone);
  if (shared) config.data.rows_are_shared = *shared;
}

Result<HeldOutFiles> open_held_out(const Config& config, const OpenData& options) {
  return with_place(config, options, [&](const DataConfig& data, const DataPlace& place) {
    return HeldOutFiles::open(data, config.model.vocab_size, config.train.sequence_length, place);
  });
}

}  // namespace tidepool
