#include "process/start_thread.h"

#include <pthread.h>

#include <system_error>
#include <utility>

#include "process/limits.h"

namespace tidepool {

Result<std::thread> start_thread(const std::string& name, std::function<void()> body) {
  try {
    std::thread thread(std::move(body));
    pthread_setname_np(thread.native_handle(), name.c_str());
    return thread;
  } catch (const std::system_error& e) {
    // In so many words, for a thread can be made of anything, an Error too.
    return Result<std::thread>(boost::system::in_place_error, no_thread(name, e.code().value()));
  }
}

}  // namespace tidepool
