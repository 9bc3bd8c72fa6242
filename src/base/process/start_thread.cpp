#include "base/process/start_thread.h"

#include <pthread.h>

#include <cerrno>
#include <latch>
#include <memory>
#include <new>
#include <system_error>
#include <utility>

#include "base/process/limits.h"
#include "base/process/signal_stack.h"

namespace tidepool {

namespace {

// If address space is limited, each thread makes its allocator's first allocation before the next thread
// starts. Otherwise the room check of several threads would count the same free space.
std::thread start_one_by_one(std::function<void()> body) {
  const auto begun = std::make_shared<std::latch>(1);
  std::thread thread([begun, body = std::move(body)] {
    ::operator delete(::operator new(1));  // called by name, so that the compiler cannot remove the pair
    begun->count_down();
    body();
  });
  begun->wait();
  return thread;
}

}  // namespace

Result<std::thread> start_thread(const std::string& name, std::function<void()> body) {
  // Explicit Result: a thread can be constructed from any callable or value, an Error too.
  const auto refused = [&](int error_number) { return Result<std::thread>(no_thread(name, error_number)); };
  const bool scarce = soft_limit_bytes(RLIMIT_AS).has_value();
  if (scarce && !has_room_for_thread()) return refused(EAGAIN);
  const BlockedSignals blocked;
  try {
    std::thread thread = scarce ? start_one_by_one(std::move(body)) : std::thread(std::move(body));
    pthread_setname_np(thread.native_handle(), name.c_str());
    return thread;
  } catch (const std::system_error& e) {
    return refused(e.code().value());
  }
}

}  // namespace tidepool
