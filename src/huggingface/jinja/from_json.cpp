#include "huggingface/jinja/from_json.h"

#include <boost/json/value.hpp>

#include "base/json/large_integers.h"

namespace tidepool::jinja {

namespace json = boost::json;

Value from_json(const json::value& v, std::span<const std::string> large) {
  switch (v.kind()) {
    case json::kind::null:
      return Value(None{});
    case json::kind::bool_:
      return Value(v.get_bool());
    case json::kind::int64:
      return Value(i64{v.get_int64()});
    case json::kind::uint64:
      return Value(static_cast<double>(v.get_uint64()));
    case json::kind::double_:
      if (const auto place = large_integer(v.get_double()); place && *place < large.size())
        return Value(LargeInteger{large[*place]});
      return Value(v.get_double());
    case json::kind::string:
      return Value(std::string(v.get_string()));
    case json::kind::array: {
      List out;
      for (const json::value& item : v.get_array()) out.push_back(from_json(item, large));
      return Value(std::move(out));
    }
    case json::kind::object:
      break;
  }
  Dict out;
  for (const auto& [key, item] : v.get_object()) out.append(key, from_json(item, large));
  return Value(std::move(out));
}

}  // namespace tidepool::jinja
