#include "executor/shared/host_work.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "executor/shared/block_op.h"
#include "executor/shared/operand_cursor.h"
#include "kernels/gradient/gradient.h"

namespace tidepool {
namespace {

// Makes parts[own] the sum of all parts, added from the first to the last. A sum of two does not depend on
// their order, so the parts before `own` are added up in the first part's memory.
void sum_parts(std::span<float* const> parts, u32 own, u64 elements, CorePool& pool) {
  const auto add = [&](float* to, std::span<float* const> more) {
    std::array<const float*, nodes_max> list{to};
    std::ranges::copy(more, list.begin() + 1);
    sum_in_order(std::span(list).first(more.size() + 1), to, elements, pool);
  };
  if (own > 0) {
    add(parts[0], parts.subspan(1, own - 1));
    add(parts[own], parts.first(1));
  }
  add(parts[own], parts.subspan(own + 1));
}

}  // namespace

Result<void> HostWork::run(const Issue& issue) {
  const Plan& plan = common_.plan;
  StepSource& source = common_.request.source;
  const OpKind kind = issue.get().kind;
  if (kind == OpKind::load_batch)
    return run_load_batch(plan, common_.graph, common_.memory, source, common_.evaluation, lookup_, issue);
  if (kind == OpKind::lookup) return lookup_->run(issue);
  if (kind == OpKind::combine) {
    combine(issue);
    return {};
  }
  if (kind == OpKind::pack) {
    lanes_.pack(issue.step, common_.memory.at(issue.segment->operands_of(issue.get()).back().frame));
    return {};
  }
  CHECK(kind == OpKind::update || kind == OpKind::direction, name(kind));
  update_.run(issue, result_for_updates(plan, common_.replayed, lanes_, issue.step));
  return {};
}

// For each use of the window, this node's accumulator becomes the sum over the nodes. Then the uses are added
// and rounded once, as on one node.
void HostWork::combine(const Issue& issue) {
  const Plan& plan = common_.plan;
  const std::span<const Operand> operands = issue.segment->operands_of(issue.get());
  const u64 elements = operands[0].frame.bytes.value / sizeof(float);
  std::array<float*, nodes_max> parts{};
  std::array<const float*, block_windows_max> sums{};
  u32 uses = 0;
  std::byte* grad = nullptr;
  for (u32 at = 0; plan.chunk(operands[at].first).kind != Kind::scalars; ++at) {
    const std::span<std::byte> memory = common_.memory.at(operands[at].frame);
    if (plan.chunk(operands[at].first).kind == Kind::grad) {
      grad = memory.data();
      continue;
    }
    parts[at % plan.nodes] = floats(memory);
    if (at % plan.nodes + 1 < plan.nodes) continue;
    CHECK(uses < sums.size(), uses);
    sum_parts(std::span(parts).first(plan.nodes), plan.node, elements, common_.pool);
    sums[uses++] = parts[plan.node];
  }
  if (grad == nullptr) grad = reinterpret_cast<std::byte*>(const_cast<float*>(sums[0]));
  finish_gradient(std::span(sums).first(uses), grad, plan.precision, elements, common_.pool);
  lanes_.add_gradient(issue.get().window, plan.chunk(operands[0].first).element_begin, elements, grad);
}

}  // namespace tidepool
