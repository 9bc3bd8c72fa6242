#include "block_runner.h"

#include <algorithm>
#include <cstring>

#include "base/mix_bits.h"
#include "failure.h"

namespace emulated_cuda {
namespace {

using State = DeviceThread::State;

constexpr std::byte poison{0xff};  // a NaN in every precision, and an index out of every range
constexpr std::size_t shared_slack_bytes = 1024;

std::string place(const std::source_location& where) {
  const std::string_view file = where.file_name();
  return fmt::format("{}:{}", file.substr(file.rfind('/') + 1), where.line());
}

bool same_place(const std::source_location& a, const std::source_location& b) {
  return a.line() == b.line() && a.column() == b.column() && std::strcmp(a.file_name(), b.file_name()) == 0;
}

}  // namespace

void BlockRunner::start(const Grid& grid, uint3 block, const std::function<void()>& kernel) {
  size_ = grid.block.x * grid.block.y * grid.block.z;
  if (threads_.size() < size_) threads_.resize(size_);
  for (unsigned number = 0; number < size_; ++number) {
    DeviceThread& thread = threads_[number];
    const unsigned row = number / grid.block.x;
    thread.indices = {
        {number % grid.block.x, row % grid.block.y, row / grid.block.y}, block, grid.block, grid.grid};
    thread.number = number;
    thread.state = State::ready;
    thread.kernel = &kernel;
    thread.fiber->set_job([](void* context) { (*static_cast<DeviceThread*>(context)->kernel)(); }, &thread);
  }
  shared_.assign(static_shared_bytes_max + grid.dynamic_shared_bytes + shared_slack_bytes, poison);
  statics_.clear();
  statics_end_ = 0;
  statics_max_ = grid.shared_bytes_max - std::min(grid.dynamic_shared_bytes, grid.shared_bytes_max);
}

void BlockRunner::run(const Grid& grid, uint3 block, std::uint64_t seed,
                      const std::function<void()>& kernel) {
  start(grid, block, kernel);
  const unsigned warps = (size_ + warp_lanes - 1) / warp_lanes;
  for (;;) {
    seed = tidepool::mix_bits(seed + tidepool::golden_gamma);
    bool progress = false;
    for (unsigned i = 0; i < warps; ++i) {
      progress |= run_warp((i + static_cast<unsigned>(seed >> 8)) % warps, (seed & 1) != 0);
    }
    if (count(State::left) == size_) break;
    if (count(State::at_barrier) == size_) {
      open_barrier();
    } else if (!progress) {
      report_deadlock();
    }
  }
  const auto dirty = [](std::byte b) { return b != poison; };
  if (std::any_of(shared_.end() - shared_slack_bytes, shared_.end(), dirty)) {
    fail("a kernel wrote behind its dynamic shared memory");
  }
}

bool BlockRunner::run_warp(unsigned warp, bool backwards) {
  const unsigned first = warp * warp_lanes, lanes = std::min(warp_lanes, size_ - first);
  bool any = false;
  for (bool progress = true; progress;) {
    progress = false;
    for (unsigned i = 0; i < lanes; ++i) {
      DeviceThread& thread = threads_[first + (backwards ? lanes - 1 - i : i)];
      if (thread.state != State::ready) continue;
      run_thread(thread);
      progress = any = true;
    }
  }
  return any;
}

void BlockRunner::run_thread(DeviceThread& thread) {
  running_ = &thread;
  thread_indices = &thread.indices;
  if (thread.fiber->resume()) {
    thread.state = State::left;
    thread.open_copies.clear();
    thread.copies.clear();
  }
  thread_indices = nullptr;
  running_ = nullptr;
}

void BlockRunner::wait(State state, const char* name, std::source_location where) {
  DeviceThread& self = *running_;
  self.state = state;
  self.waits_in = name;
  self.where = where;
  self.fiber->pause();
}

void BlockRunner::barrier(std::source_location where) { wait(State::at_barrier, "__syncthreads", where); }

void BlockRunner::open_barrier() {
  for (unsigned i = 0; i < size_; ++i) {
    if (!same_place(threads_[i].where, threads_[0].where)) {
      fail(fmt::format("threads of one block wait at different barriers: {}; {}", position(threads_[0]),
                       position(threads_[i])));
    }
  }
  for (unsigned i = 0; i < size_; ++i) threads_[i].state = State::ready;
}

void BlockRunner::collective(unsigned mask, const void* in, void* out, WarpFunction function,
                             const char* name, std::source_location where) {
  const unsigned lane = running_->number % warp_lanes, warp = running_->number / warp_lanes;
  if ((mask >> lane & 1) == 0) {
    fail(fmt::format("lane {} calls {} at {} with mask {:#x}, which leaves it out", lane, name, place(where),
                     mask));
  }
  auto& open = collectives_[warp];
  auto found = std::find_if(open.begin(), open.end(), [&](const Collective& c) {
    return c.function == function && c.view.mask == mask && (c.arrived >> lane & 1) == 0;
  });
  if (found == open.end()) {
    open.push_back({.function = function});
    found = open.end() - 1;
    found->view.mask = mask;
  }
  found->arrived |= 1u << lane;
  found->view.in[lane] = in;
  found->view.out[lane] = out;
  if (found->arrived != mask) return wait(State::in_collective, name, where);
  const Collective complete = *found;
  open.erase(found);
  complete.function(complete.view);
  for (unsigned other = 0; other < warp_lanes; ++other) {
    if (other != lane && (mask >> other & 1) != 0) threads_[warp * warp_lanes + other].state = State::ready;
  }
}

std::byte* BlockRunner::static_shared(const void* key, std::size_t bytes, std::size_t alignment) {
  for (const StaticVariable& variable : statics_) {
    if (variable.key == key) return shared_.data() + variable.offset;
  }
  const std::size_t offset = (statics_end_ + alignment - 1) / alignment * alignment;
  if (offset + bytes > static_shared_bytes_max) fail("more than 48 KiB of static shared memory");
  if (offset + bytes > statics_max_)
    fail(fmt::format("{} bytes of static shared memory, where the dynamic leaves {}: CUDA refuses the launch",
                     offset + bytes, statics_max_));
  statics_.push_back({key, offset});
  statics_end_ = offset + bytes;
  return shared_.data() + offset;
}

unsigned BlockRunner::count(State state) const {
  return static_cast<unsigned>(std::count_if(threads_.begin(), threads_.begin() + size_,
                                             [&](const DeviceThread& t) { return t.state == state; }));
}

std::string BlockRunner::position(const DeviceThread& t) const {
  const uint3 at = t.indices.thread;
  const std::string thread = fmt::format("thread ({}, {}, {})", at.x, at.y, at.z);
  if (t.state == State::left) return thread + " has left the kernel";
  return fmt::format("{} waits in {} at {}", thread, t.waits_in, place(t.where));
}

void BlockRunner::report_deadlock() const {
  const DeviceThread& first = threads_[0];
  const auto other = std::find_if(threads_.begin(), threads_.begin() + size_, [&](const DeviceThread& t) {
    return t.state != first.state || (t.state != State::left && !same_place(t.where, first.where));
  });
  const uint3 block = first.indices.block;
  fail(fmt::format(
      "block ({}, {}, {}) of {} threads cannot go on: {} at a barrier, {} in warp collectives, {} left. "
      "{}; {}",
      block.x, block.y, block.z, size_, count(State::at_barrier), count(State::in_collective),
      count(State::left), position(first),
      other == threads_.begin() + size_ ? "all others likewise" : position(*other)));
}

BlockRunner& block_runner() {
  thread_local BlockRunner runner;
  return runner;
}

}  // namespace emulated_cuda
