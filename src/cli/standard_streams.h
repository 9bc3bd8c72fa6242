// Standard output that cannot be written: said once, with an exit code, never passed over.
#pragma once

namespace tidepool {

// A stream that the caller closed would lend its number to the next file that is opened, and text for people
// would land in a swap file. What is printed to a closed standard output is lost, and said to be. First thing
// in main.
void fill_missing_streams();

// Says on stderr that standard output could not be written, and why where `error_number` is known (0: not).
// Returns the exit code for it.
int output_lost(int error_number);

// Last thing in main: what is still in the buffer goes out. `code`, or if output was lost in a command that
// else succeeded, that of output_lost().
int flush_output(int code);

}  // namespace tidepool
