#include "report/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

#include "base/check.h"
#include "base/write_file.h"

namespace tidepool {
namespace {

std::string in_quotes(std::string_view text) {
  return boost::json::serialize(boost::json::value(boost::json::string_view(text.data(), text.size())));
}

std::string name_of(const std::vector<std::string>& names, u32 i, std::string_view what) {
  return i < names.size() ? names[i] : fmt::format("{} {}", what, i);
}

// Title of an event: "forward h.3", "read param h.3/1".
std::string title(const TraceEvent& e, const TraceNames& names) {
  std::string out(name(e.kind));
  const bool moves = e.kind == OpKind::copy || e.kind == OpKind::read || e.kind == OpKind::write;
  if (moves) out.append(" ").append(names.state_slots.name(e.moved));
  if (e.window != none) {
    out.append(" ").append(name_of(names.windows, e.window, "window"));
    if (e.cut != none) out += fmt::format("/{}", e.cut);
  } else if (e.block != none) {
    out.append(" ").append(name_of(names.blocks, e.block, "block"));
  }
  return out;
}

void append_arguments(std::string& out, const TraceEvent& e) {
  out += fmt::format("\"args\":{{\"step\":{}", e.step);
  if (e.micro_batch != none) out += fmt::format(",\"micro_batch\":{}", e.micro_batch);
  if (e.bytes.value > 0) {
    const double seconds = 1e-9 * static_cast<double>((e.finished - e.started).value);
    out += fmt::format(",\"bytes\":{}", e.bytes.value);
    if (seconds > 0)
      out += fmt::format(",\"GB_per_s\":{:.2f}", 1e-9 * static_cast<double>(e.bytes.value) / seconds);
  }
  out += "}";
}

void append_event(std::string& out, const TraceEvent& e, const TraceNames& names, u32 process, Nanos origin) {
  const auto micros = [](u64 nanos) { return fmt::format("{}.{:03}", nanos / 1000, nanos % 1000); };
  out += fmt::format("{{\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{},\"cat\":\"{}\",\"name\":{},",
                     process, e.lane + 1, micros((e.started - origin).value),
                     micros((e.finished - e.started).value), name(e.kind), in_quotes(title(e, names)));
  append_arguments(out, e);
  out += "}";
}

std::string header(u32 process, const std::string& title, const TraceNames& names) {
  std::string out = fmt::format(
      "{{\"ph\":\"M\",\"pid\":{0},\"name\":\"process_name\",\"args\":{{\"name\":{1}}}}},\n"
      "{{\"ph\":\"M\",\"pid\":{0},\"name\":\"process_sort_index\",\"args\":{{\"sort_index\":{0}}}}}",
      process, in_quotes(title));
  for (u32 i = 0; i < names.lanes.size(); ++i) {
    // Lanes are shown in this order, not in the order of their first events.
    out += fmt::format(
        ",\n{{\"ph\":\"M\",\"pid\":{0},\"tid\":{1},\"name\":\"thread_name\",\"args\":{{\"name\":{2}}}}},\n"
        "{{\"ph\":\"M\",\"pid\":{0},\"tid\":{1},\"name\":\"thread_sort_index\",\"args\":{{\"sort_index\":{1}}"
        "}}}",
        process, i + 1, in_quotes(names.lanes[i]));
  }
  return out;
}

Nanos origin_of(const TraceProcess& process) {
  Nanos origin{process.count == 0 ? 0 : ~u64{0}};
  for (u64 i = 0; i < process.count; ++i) origin = std::min(origin, process.event(i).started);
  return origin;
}

constexpr std::size_t piece_bytes = 256 * kib;

}  // namespace

Result<void> write_trace(const std::string& path, std::span<const TraceProcess> processes,
                         const TraceNames& names) {
  TRY_ASSIGN(FileReplacement file, FileReplacement::begin(path, FileUse::run));
  std::string out = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  for (u32 p = 0; p < processes.size(); ++p) {
    out += (p == 0 ? "\n" : ",\n") + header(p + 1, processes[p].name, names);
    const Nanos origin = origin_of(processes[p]);
    for (u64 i = 0; i < processes[p].count; ++i) {
      const TraceEvent e = processes[p].event(i);
      CHECK(e.lane < names.lanes.size() && e.started <= e.finished, e.lane, e.started.value,
            e.finished.value);
      out += ",\n";
      append_event(out, e, names, p + 1, origin);
      if (out.size() <= piece_bytes) continue;
      TRY(file.append(out));
      out.clear();
    }
  }
  out += "\n]}\n";
  TRY(file.append(out));
  return file.commit();
}

}  // namespace tidepool
