// Contents of messages may be lists of parts, [{"type": "text", "text": "..."}]. Some chat templates take
// such a list apart, others take text only.
#pragma once

#include <functional>
#include <string>

#include "data/records/record.h"

namespace tidepool {

// True if the content of a message is a list of parts.
bool has_parts(const ChatRecord&);
// RETURNS: the record with one text in place of each list: its parts without anything between them.
ChatRecord with_joined_parts(const ChatRecord&);

// RETURNS: true if the template behind `render` takes the record's lists apart. It is tried with marks in
// place of the texts: a template that takes lists apart writes all marks that it writes for joined texts, and
// does not print the lists themselves.
using RenderMessages = std::function<Result<std::string>(const ChatRecord&)>;
bool takes_parts(const ChatRecord&, const RenderMessages& render);

}  // namespace tidepool
