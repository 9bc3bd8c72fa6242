"""Programs that the checks start, and their end.

Each program leads a session of its own, so that its children can be ended with it. Therefore a terminal's
Ctrl-C does not reach it, and a signal that ends the check must end the programs: the handler kills all of them,
and the check continues only to keep its results. Signals belong to the whole process, and so does this state.
"""

import contextlib
import os
import signal
import subprocess
import threading

WAIT_SECONDS = 30  # for a killed program: the driver frees a large process's memory slowly


class Stopped(BaseException):
    """A signal asked the check to end. Not an Exception, so that no row catches it as its own failure."""

    def __init__(self, number):
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.exit_code = 128 + number


running = set()
stopped_by = None  # the signal's number
starting = False  # the main thread has a child that `running` does not know yet


def kill(process):
    """Kills the program's group. A leader that was not waited for keeps the group's number in use."""
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
    """Raises if a signal came, also in threads without the handler: output of a killed program is no result."""
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
    if stopped_by is not None:  # the handler may have run before
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
    """Gives a process. On leaving, the process and its children have ended."""
    process = start(words, **more)
    try:
        yield process
    finally:
        end(process)


def run_limited(words, seconds, **more):
    """Returns the output of both streams and the exit code (None: time ran out)."""
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
    """Returns the output of a killed program; empty if a process outside its group keeps the pipe open."""
    try:
        return process.communicate(timeout=WAIT_SECONDS)[0]
    except subprocess.TimeoutExpired:
        return ""
