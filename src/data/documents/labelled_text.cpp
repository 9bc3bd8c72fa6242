#include "data/documents/labelled_text.h"

#include <fmt/format.h>

namespace tidepool {

Result<LabelledRecord> LabelledText::read() const {
  LabelledRecord out;
  TRY_ASSIGN(out.text, needed("text"));
  const boost::json::value& label = *object_.if_contains("label");
  if (label.is_string())
    out.label = std::string(label.get_string());
  else if (label.is_int64() && label.get_int64() >= 0)
    out.label = static_cast<u64>(label.get_int64());
  else
    return fault(fmt::format("\"label\" must be the number of a label, 0, 1, ..., or its name; it is {}",
                             label.is_number() ? "another number" : json_kind_name(label)));
  return out;
}

}  // namespace tidepool
