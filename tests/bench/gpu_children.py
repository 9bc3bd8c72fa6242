"""Programs that the checks start, and their end.

Each leads a session of its own, so that what it starts in turn can be ended with it. That keeps a terminal's
Ctrl-C from it too, so a signal that ends the check must end them: the handler kills whatever runs, and the
check goes on only to keep what it has. Signals are the whole process's, and so is the state here.
"""

import contextlib
import os
import signal
import subprocess
import threading

WAIT_SECONDS = 30  # for what was killed: the driver takes a large process's memory back slowly


class Stopped(BaseException):
    """A signal asked the check to end. No Exception, as no row may take it for its own bad luck."""

    def __init__(self, number):
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.exit_code = 128 + number


running = set()
stopped_by = None  # the signal's number
starting = False  # the main thread has a child that `running` does not know yet


def kill(process):
    """With its group. A leader that was not waited for keeps the group's number from being given away."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def kill_all(number, _frame):
    global stopped_by
    again, stopped_by = stopped_by is not None, number if stopped_by is None else stopped_by
    for process in list(running):
        kill(process)
    if not again and not starting:
        raise Stopped(number)


def end_on_signals():
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # nohup
            signal.signal(number, kill_all)


def check_stopped():
    """What a killed program has told is no result. For threads that the handler does not interrupt, too."""
    if stopped_by is not None:
        raise Stopped(stopped_by)


def start(words, **more):
    global starting
    mine = threading.current_thread() is threading.main_thread()
    check_stopped()
    starting = starting or mine
    try:
        process = subprocess.Popen(words, start_new_session=True, **more)
        running.add(process)
    finally:
        if mine:
            starting = False
    if stopped_by is not None:  # the handler may have come before it
        kill(process)
        raise Stopped(stopped_by)
    return process


def end(process):
    kill(process)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(WAIT_SECONDS)
    running.discard(process)


@contextlib.contextmanager
def started(words, **more):
    """A process. However this is left, it has ended, and what it started too."""
    process = start(words, **more)
    try:
        yield process
    finally:
        end(process)


def run_limited(words, seconds, **more):
    """Output of both streams, exit code (None: it ran out of time)."""
    words = [str(word) for word in words]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"}
    with started(words, **streams, **more) as process:
        try:
            output, _ = process.communicate(timeout=max(1.0, seconds))
            code = process.returncode
        except subprocess.TimeoutExpired:
            kill(process)
            output, code = rest(process), None
    check_stopped()
    return output, code


def rest(process):
    """What a killed program had written; none where something that left its group keeps the pipe open."""
    try:
        return process.communicate(timeout=WAIT_SECONDS)[0]
    except subprocess.TimeoutExpired:
        return ""
