#include "data/batches/document_dataset.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "base/text/units.h"
#include "data/batches/shuffle.h"

namespace tidepool {

namespace {

constexpr u64 order_seed = 0x7469'6465;  // for the order of documents; not the run's seed

u64 held_out(u64 documents, double fraction) {
  if (fraction <= 0 || documents < 2) return 0;
  return std::clamp<u64>(static_cast<u64>(std::llround(fraction * static_cast<double>(documents))), 1,
                         documents - 1);
}

// Order in which documents are packed. The last ones are held out. Documents of a group stay together, in
// their order.
class DocumentOrder {
 public:
  // `grouped`: the cache says which documents are a group.
  static Result<DocumentOrder> make(const TokenCache& cache, bool grouped, bool shuffle) {
    DocumentOrder out;
    const u64 documents = cache.counts().documents;
    out.count_ = documents;
    std::vector<u32> begins;
    for (u64 i = 0; grouped && i < documents; ++i) {
      TRY_ASSIGN(const TokenCache::Document document, cache.document(i));
      if (i == 0 || !document.shared.follows) begins.push_back(static_cast<u32>(i));
    }
    if (shuffle) out.order_.emplace(grouped ? begins.size() : documents, order_seed, 0);
    if (!grouped) return out;
    begins.push_back(static_cast<u32>(documents));
    for (u64 g = 0; g + 1 < begins.size(); ++g) {
      const u64 group = shuffle ? (*out.order_)(g) : g;
      for (u32 i = begins[group]; i < begins[group + 1]; ++i) out.documents_.push_back(i);
      out.group_ends_.push_back(static_cast<u32>(out.documents_.size()));
    }
    return out;
  }
  u64 operator()(u64 place) const {
    if (!documents_.empty()) return documents_[place];
    return order_ ? (*order_)(place) : place;
  }
  // RETURNS: the number of documents at the end that are held out.
  u64 held(double fraction) const {
    if (group_ends_.empty()) return held_out(count_, fraction);
    const u64 groups = held_out(group_ends_.size(), fraction);
    return groups == 0 ? 0 : count_ - group_ends_[group_ends_.size() - 1 - groups];
  }

 private:
  std::optional<Permutation> order_;  // of documents, or of groups
  u64 count_ = 0;
  std::vector<u32> documents_, group_ends_;  // in the order; only with groups
};

// Split of the documents. Training gets the first documents in the order and the `head` of a document that is
// cut. The held-out part is the documents behind them, or the `tail` of that document.
struct Division {
  u64 train = 0, held = 0;  // whole documents
  std::optional<TokenCache::Document> head, tail;
  u64 tail_rows = 0;
};

// Splits the documents. If a single document is larger than the held-out share (such as a book in one file),
// the last rows of the last document are held out instead; but a unit is never cut.
Result<Division> divide(const TokenCache& cache, const DocumentOrder& order, const DataConfig& config,
                        u32 row_places) {
  const double fraction = config.validation_fraction;
  const u64 documents = cache.counts().documents, held = order.held(fraction);
  const Division whole{.train = documents - held, .held = held, .head = {}, .tail = {}};
  if (fraction <= 0 || config.units.on() || fraction * static_cast<double>(documents) >= 1) return whole;
  TRY_ASSIGN(const TokenCache::Document last, cache.document(order(documents - 1)));
  const u64 rows = div_up(last.tokens - 1, u64{row_places});
  if (rows < 2) return whole;
  const double wanted = fraction * static_cast<double>(cache.counts().tokens) / row_places;
  const u64 tail_rows = std::clamp<u64>(static_cast<u64>(std::llround(wanted)), 1, rows - 1);
  const u64 cut = (rows - tail_rows) * row_places;  // the head's last target begins the tail
  TRY_ASSIGN(const u64 learned, cache.learned_in(last.first + cut + 1, last.tokens - cut - 1));
  if (learned == 0 || learned == last.learned) return whole;
  return Division{.train = documents - 1,
                  .held = 0,
                  .head = TokenCache::Document{last.first, cut + 1, last.learned - learned},
                  .tail = TokenCache::Document{last.first + cut, last.tokens - cut, learned},
                  .tail_rows = tail_rows};
}

std::string held_out_text(const Division& division, double fraction) {
  if (division.tail)
    return fmt::format("the last {} of one document held out", counted_text(division.tail_rows, "row"));
  if (division.held == 0 && fraction > 0)
    return division.train == 1 ? "nothing held out: there is one document, of one row"
                               : "nothing held out: there is one group";
  return counted_text(division.held, "document") + " held out";
}

}  // namespace

DocumentDataset::DocumentDataset(const DataConfig& config, u32 vocab_size, u32 sequence_length, u64 seed)
    : vocab_size_(vocab_size), sequence_length_(sequence_length), seed_(seed), shuffle_(config.shuffle) {}

Result<std::unique_ptr<DocumentDataset>> DocumentDataset::create(const DataConfig& config,
                                                                 std::vector<Source> sources, u32 vocab_size,
                                                                 u32 sequence_length, u64 seed,
                                                                 std::vector<std::string> notes) {
  std::unique_ptr<DocumentDataset> out(new DocumentDataset(config, vocab_size, sequence_length, seed));
  out->notes_ = std::move(notes);
  std::vector<double> weights;
  for (Source& source : sources) {
    weights.push_back(source.weight);
    TRY(out->pack(config, std::move(source)));
  }
  if (weights.size() > 1) out->mixture_.emplace(weights);
  for (const Packed& source : out->sources_) {
    out->train_rows_ += source.train.rows();
    out->validation_rows_ += source.validation.rows();
  }
  out->describe(config);
  return out;
}

Result<void> DocumentDataset::pack(const DataConfig& config, Source source) {
  std::unique_ptr<TokenCache> cache = std::move(source.cache);
  const u64 documents = cache->counts().documents;
  if (documents == 0)  // no cache is made without documents
    return Error{ErrorKind::bad_input,
                 fmt::format("{}: holds no document; remove it to have it made again", cache->directory())};
  TRY_ASSIGN(const DocumentOrder order,
             DocumentOrder::make(*cache, config.units.documents == Documents::rollouts, shuffle_));
  TRY_ASSIGN(const Division division, divide(*cache, order, config, sequence_length_));
  const PackOptions options{.row_places = sequence_length_,
                            .together = config.packing,
                            .sequences = config.units.sequences,
                            .count_tokens = config.units.count_tokens,
                            .prompts = config.units.documents == Documents::prompted_pairs,
                            .labels = config.units.documents == Documents::token_labels,
                            .shares = config.units.shares};
  Packed out{.cache = std::move(cache), .train = {}, .validation = {}, .name = std::move(source.name)};
  const u64 train = division.train + (division.head ? 1 : 0), held = division.tail ? 1 : division.held;
  const auto train_document = [&](u64 i) -> Result<TokenCache::Document> {
    if (i == division.train) return *division.head;
    return out.cache->document(order(i));
  };
  const auto held_document = [&](u64 i) -> Result<TokenCache::Document> {
    if (division.tail) return *division.tail;
    return out.cache->document(order(division.train + i));
  };
  TRY_ASSIGN(out.train, PackedRows::pack(*out.cache, train, train_document, options));
  TRY_ASSIGN(out.validation, PackedRows::pack(*out.cache, held, held_document, options));
  const double places = static_cast<double>((out.train.rows() + out.validation.rows()) * sequence_length_);
  notes_.push_back(fmt::format(
      "data: {} in {} of {} ({:.1f}% filled), {}{}", counted_text(train, "document"),
      counted_text(out.train.rows(), "row"), sequence_length_,
      100 * static_cast<double>(out.train.filled_places() + out.validation.filled_places()) / places,
      held_out_text(division, config.validation_fraction),
      out.train.cut_documents() > 0 ? fmt::format("; {} longer than a row {} cut", out.train.cut_documents(),
                                                  out.train.cut_documents() == 1 ? "was" : "were")
                                    : ""));
  if (const u64 saved = out.train.saved_places(); saved > 0)
    notes_.push_back(fmt::format(
        "data: prompts stand once for the sequences that share them, which saves {:.1f}% of the places",
        100 * static_cast<double>(saved) / static_cast<double>(saved + out.train.filled_places())));
  if (config.labelled && out.train.full_documents() > 0)
    notes_.push_back(
        fmt::format("data: {} {} a row, whose end is cut off if it is longer; raise "
                    "train.sequence_length to see it",
                    counted_text(out.train.full_documents(), "text"),
                    out.train.full_documents() == 1 ? "fills" : "fill"));
  sources_.push_back(std::move(out));
  return {};
}

void DocumentDataset::describe(const DataConfig& config) {
  std::string text = fmt::format(
      "documents (packing {}), rows of {}, packing {}, held out {}, shuffle {}, seed {}", packing_version,
      sequence_length_, config.packing, config.validation_fraction, shuffle_, shuffle_ ? seed_ : 0);
  if (config.units.shares) text += ", prompts shared";
  if (config.units.documents == Documents::rollouts) text += ", groups whole";
  for (size_t i = 0; i < sources_.size(); ++i)
    text += fmt::format(", {} at {}", sources_[i].cache->content(),
                        sources_.size() > 1 ? mixture_->share(static_cast<u32>(i)) : 0);
  fingerprint_ = fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
}

u64 DocumentDataset::tokens() const {
  return std::accumulate(sources_.begin(), sources_.end(), u64{0},
                         [](u64 sum, const Packed& s) { return sum + s.cache->counts().tokens; });
}

// Each source has its own epochs: in a mixture, the small source starts again while the large one is still in
// its first epoch.
DocumentDataset::Place DocumentDataset::train_place(u64 index) const {
  const Mixture::Draw draw = mixture_ ? (*mixture_)(index) : Mixture::Draw{0, index};
  const PackedRows& rows = sources_[draw.source].train;
  const u64 at = draw.index % rows.rows();
  return {&rows, shuffle_ ? Permutation(rows.rows(), seed_ + draw.source, draw.index / rows.rows())(at) : at};
}

Result<void> DocumentDataset::train_sequence(u64 index, const BatchArrays& out) const {
  const Place place = train_place(index);
  return place.rows->read(place.row, vocab_size_, out);
}

u32 DocumentDataset::train_targets(u64 index) const {
  const Place place = train_place(index);
  return place.rows->targets(place.row);
}

u32 DocumentDataset::train_tokens(u64 index) const {
  const Place place = train_place(index);
  return place.rows->places(place.row);
}

Result<void> DocumentDataset::validation_sequence(u64 index, const BatchArrays& out) const {
  CHECK(index < validation_rows_, index, validation_rows_);
  size_t source = 0;
  while (index >= sources_[source].validation.rows()) index -= sources_[source++].validation.rows();
  return sources_[source].validation.read(index, vocab_size_, out);
}

std::vector<HeldOutPart> DocumentDataset::held_out_parts() const {
  std::vector<HeldOutPart> out;
  for (const Packed& source : sources_) out.push_back({source.name, source.validation.rows()});
  return out;
}

std::vector<TokenCache*> DocumentDataset::caches() {
  std::vector<TokenCache*> out;
  for (const Packed& source : sources_) out.push_back(source.cache.get());
  return out;
}

Bytes DocumentDataset::memory_bytes() const {
  Bytes sum{sizeof(DocumentDataset)};
  for (const Packed& source : sources_) sum += source.train.memory_bytes() + source.validation.memory_bytes();
  return sum;
}

}  // namespace tidepool
