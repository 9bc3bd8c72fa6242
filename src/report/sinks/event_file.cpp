#include "report/sinks/event_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <boost/crc.hpp>
#include <chrono>
#include <cstring>

namespace tidepool {
namespace {

template <class T>
void append_little_endian(std::string& out, T value) {
  for (u32 i = 0; i < sizeof value; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

// Masked CRC. A plain CRC stored beside its data would weaken a CRC over both.
u32 masked_crc32c(std::string_view bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return std::rotr(static_cast<u32>(crc.checksum()), 15) + 0xa282ead8u;
}

std::string framed(std::string_view event) {
  std::string out;
  append_little_endian(out, static_cast<u64>(event.size()));
  append_little_endian(out, masked_crc32c(out));
  out += event;
  append_little_endian(out, masked_crc32c(event));
  return out;
}

// ---- Protobuf encoding: a field is a key (field number and wire type), then the value.
enum Wire : u32 { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

void append_varint(std::string& out, u64 value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}
void append_key(std::string& out, u32 field, Wire wire) { append_varint(out, field << 3 | wire); }
void append_bytes(std::string& out, u32 field, std::string_view value) {
  append_key(out, field, bytes);
  append_varint(out, value.size());
  out += value;
}

std::string event_of(double seconds, u64 step) {
  std::string out;
  append_key(out, 1, fixed64);  // wall_time
  append_little_endian(out, std::bit_cast<u64>(seconds));
  if (step == 0) return out;
  append_key(out, 2, varint);  // step
  append_varint(out, step);
  return out;
}

std::string value_of(const Scalar& scalar) {
  std::string out;
  append_bytes(out, 1, scalar.tag);
  append_key(out, 2, fixed32);  // simple_value
  append_little_endian(out, std::bit_cast<u32>(static_cast<float>(scalar.value)));
  return out;
}

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

std::string version_record(double seconds) {
  std::string event = event_of(seconds, 0);
  append_bytes(event, 3, "brain.Event:2");  // file_version
  return framed(event);
}

std::string restart_record(double seconds, u64 step) {
  std::string event = event_of(seconds, step);
  append_bytes(event, 7, std::string("\x08\x01", 2));  // session_log { status: START }
  return framed(event);
}

std::string scalars_record(double seconds, u64 step, std::span<const Scalar> scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars) append_bytes(summary, 1, value_of(scalar));
  std::string event = event_of(seconds, step);
  append_bytes(event, 5, summary);
  return framed(event);
}

Result<std::unique_ptr<EventFile>> EventFile::create(const std::string& dir, u64 first_step) {
  const double now = seconds_since_1970();
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0 || host[0] == 0) std::strcpy(host.data(), "localhost");
  // Viewers read a directory's files in order of their names, so the time comes first.
  const std::string path = fmt::format("{}/events.out.tfevents.{:010}.{}.{}.tidepool", dir,
                                       static_cast<u64>(now), host.data(), ::getpid());
  TRY_ASSIGN(AppendLog log, AppendLog::open(path, FileUse::run));
  TRY(log.append(version_record(now)));
  if (first_step > 1) TRY(log.append(restart_record(now, first_step)));
  return std::unique_ptr<EventFile>(new EventFile(std::move(log)));
}

Result<void> EventFile::append(u64 step, std::span<const Scalar> scalars) {
  return log_.append(scalars_record(seconds_since_1970(), step, scalars));
}

}  // namespace tidepool
