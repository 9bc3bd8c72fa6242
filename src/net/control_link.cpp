#include "net/control_link.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tidepool {
namespace {

constexpr u32 control_magic = 0x7470'0001;  // "tp" and the version of the protocol

struct ControlHeader {
  u32 magic = control_magic;
  u16 readies = 0;
  u8 goodbye = 0;
  u8 failure = 0;
  i32 error_kind = 0;  // of a failure, as are the fields below
  u32 about = 0;
  u32 source = 0;
  u32 text_bytes = 0;
  u32 begun = 0;
};
static_assert(sizeof(ControlHeader) == 28 && sizeof(ReadyReceive) == 24);

constexpr u64 readies_per_message = 64;
constexpr u64 text_bytes_max = 2 * kib;
static_assert(sizeof(ControlHeader) + readies_per_message * sizeof(ReadyReceive) + text_bytes_max <=
              ControlLink::message_bytes_max);

}  // namespace

ControlLink::ControlLink(Wire& wire, u32 peer, u32 receive_slot, u32 send_slot, u32 readies_max)
    : wire_(wire), peer_(peer), receive_slot_(receive_slot), send_slot_(send_slot) {
  readies_.reserve(readies_max);
}

int ControlLink::listen() { return wire_.receive(receive_slot_, peer_, wire_tag, in_); }

void ControlLink::say_failure(const NodeFailure& failure) {
  failure_ = failure;
  failure_->error.message.resize(std::min<u64>(failure_->error.message.size(), text_bytes_max));
}

int ControlLink::pump() {
  if (busy_ || !due()) return 0;
  busy_ = true;
  return wire_.send(send_slot_, peer_, wire_tag, std::span(out_).first(compose()));
}

u64 ControlLink::compose() {
  ControlHeader header;
  std::byte* at = out_.data() + sizeof(header);
  const size_t count = std::min<size_t>(readies_.size() - next_ready_, readies_per_message);
  if (count != 0) std::memcpy(at, readies_.data() + next_ready_, count * sizeof(ReadyReceive));
  at += count * sizeof(ReadyReceive);
  header.readies = static_cast<u16>(count);
  next_ready_ += count;
  if (next_ready_ == readies_.size()) {
    readies_.clear();
    next_ready_ = 0;
  }
  header.begun = std::exchange(begun_, 0);
  header.goodbye = goodbye_;
  if (failure_) {
    const std::string& text = failure_->error.message;
    header.failure = 1;
    header.error_kind = static_cast<i32>(failure_->error.kind);
    header.about = failure_->about;
    header.source = failure_->source;
    header.text_bytes = static_cast<u32>(text.size());
    std::memcpy(at, text.data(), text.size());
    at += text.size();
  }
  beat_ = goodbye_ = false;
  failure_.reset();
  std::memcpy(out_.data(), &header, sizeof(header));
  return static_cast<u64>(at - out_.data());
}

bool ControlLink::read(u64 bytes, Heard& heard) const {
  heard.readies.clear();
  heard.goodbye = false;
  heard.failure.reset();
  ControlHeader header;
  if (bytes < sizeof(header) || bytes > in_.size()) return false;
  std::memcpy(&header, in_.data(), sizeof(header));
  if (header.magic != control_magic) return false;
  const u64 readies_bytes = header.readies * sizeof(ReadyReceive);
  if (bytes != sizeof(header) + readies_bytes + header.text_bytes) return false;
  const std::byte* at = in_.data() + sizeof(header);
  heard.readies.resize(header.readies);
  if (header.readies != 0) std::memcpy(heard.readies.data(), at, readies_bytes);
  at += readies_bytes;
  heard.begun = header.begun;
  heard.goodbye = header.goodbye != 0;
  if (header.failure != 0)
    heard.failure = NodeFailure{header.about,
                                header.source,
                                {static_cast<ErrorKind>(header.error_kind),
                                 std::string(reinterpret_cast<const char*>(at), header.text_bytes)}};
  return true;
}

}  // namespace tidepool
