// Keys of section `objective`.
#include <array>

#include "config/schema.h"

namespace tidepool {
namespace {

using Names = std::span<const std::string_view>;

const std::array objective_table = std::to_array<Field>({
    {.section = "objective",
     .key = "type",
     .ref = +[](Config& c) { return ChoiceRef{reinterpret_cast<u8*>(&c.objective)}; },
     .help =
         "next_token: each token predicts the token behind it. sequence_classification: the last token of a "
         "text predicts its label; JSONL lines with text and label. Default: as the model directory says",
     .choices = Names(objective_names)},
    {.section = "objective",
     .key = "num_labels",
     .ref = +[](Config& c) { return &c.model.score.labels; },
     .help = "sequence_classification: number of labels; auto: of `labels`, or as the model directory says",
     .range = {0, 1e6},
     .automatic = 0},
    {.section = "objective",
     .key = "labels",
     .ref = +[](Config& c) { return &c.model.score.names; },
     .help = "sequence_classification: names of the labels 0, 1, ..., by which records may call them; "
             "exported as "
             "id2label"},
});

}  // namespace

std::span<const Field> objective_fields() { return objective_table; }

}  // namespace tidepool
