// OperandCursor iterates over an op's operands in the order that plan.h documents.
#pragma once

#include "engine/executor.h"
#include "executor/lanes/tier_memory.h"
#include "kernels/values.h"
#include "tidepool/model_graph.h"

namespace tidepool {

class OperandCursor {
 public:
  OperandCursor(const Plan& plan, const TierMemory& memory, const Issue& issue)
      : plan_(plan), memory_(memory), operands_(issue.segment->operands_of(issue.get())) {}

  // REQUIRES: the next operand has this kind.
  const Operand& next(Kind kind) {
    CHECK(at_ < operands_.size() && this->kind() == kind, at_, operands_.size(), name(kind));
    return operands_[at_++];
  }
  std::span<std::byte> take(Kind kind) { return memory_.at(next(kind).frame); }
  // RETURNS: the next operand, or null if it has another kind.
  const Operand* next_if(Kind kind) {
    return at_ < operands_.size() && this->kind() == kind ? &operands_[at_++] : nullptr;
  }
  // RETURNS: the next operand, or null if it is not a stream.
  const Operand* next_stream() {
    return at_ < operands_.size() && is_stream(kind()) ? &operands_[at_++] : nullptr;
  }
  // RETURNS: an empty span if the next operand has another kind.
  std::span<std::byte> take_if(Kind kind) {
    return at_ < operands_.size() && this->kind() == kind ? take(kind) : std::span<std::byte>();
  }

 private:
  Kind kind() const { return plan_.chunk(operands_[at_].first).kind; }

  const Plan& plan_;
  const TierMemory& memory_;
  std::span<const Operand> operands_;
  u32 at_ = 0;
};

inline float* floats(std::span<std::byte> bytes) { return reinterpret_cast<float*>(bytes.data()); }

}  // namespace tidepool
