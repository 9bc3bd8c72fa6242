// Reports standard output that cannot be written: once, with an exit code, never silently.
#pragma once

namespace tidepool {

// Opens /dev/null for each standard stream that the caller closed. Else the next opened file would get the
// stream's number, and text for people would be written into a swap file. Text printed to a closed standard
// output is lost, and the loss is reported. Call first in main.
void fill_missing_streams();

// Says on stderr that standard output could not be written, and why.
// `error_number`: the reason; 0: not known.
// RETURNS: the exit code for lost output.
int output_lost(int error_number);

// Writes the buffered output. Call last in main.
// RETURNS: `code`; if the command succeeded but output was lost, the exit code of output_lost().
int flush_output(int code);

}  // namespace tidepool
