// Reads a whole safetensors file with golden data. Not the product's reader: no checks, no streaming.
#pragma once

#include <boost/json.hpp>
#include <cstring>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "base/types.h"
#include "tests/support/file_text.h"

namespace tidepool::test {

class Safetensors {
 public:
  explicit Safetensors(const std::string& path) {
    const std::string all = file_text(path);
    u64 header_bytes = 0;
    if (all.size() < 8) return;
    std::memcpy(&header_bytes, all.data(), 8);
    header_ = boost::json::parse(std::string_view(all).substr(8, header_bytes)).as_object();
    data_ = all.substr(8 + header_bytes);
  }

  bool empty() const { return data_.empty(); }

  bool has(const std::string& name) const { return header_.contains(name); }
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& entry : header_)
      if (entry.key() != "__metadata__") out.emplace_back(entry.key());
    return out;
  }
  std::map<std::string, std::string> metadata() const {
    std::map<std::string, std::string> out;
    if (const auto* all = header_.if_contains("__metadata__"))
      for (const auto& entry : all->as_object()) out[entry.key()] = std::string(entry.value().as_string());
    return out;
  }
  // RETURNS: number of tensors whose names begin with `prefix`.
  u64 count(std::string_view prefix) const {
    u64 found = 0;
    for (const std::string& name : names()) found += name.starts_with(prefix);
    return found;
  }

  template <class T>
  std::vector<T> get(const std::string& name) const {
    const auto& offsets = header_.at(name).as_object().at("data_offsets").as_array();
    const u64 begin = offsets.at(0).to_number<u64>(), end = offsets.at(1).to_number<u64>();
    std::vector<T> out((end - begin) / sizeof(T));
    std::memcpy(out.data(), data_.data() + begin, end - begin);
    return out;
  }

 private:
  boost::json::object header_;
  std::string data_;
};

}  // namespace tidepool::test
