"""Ends every check of a GPU with one line that names the fault, and an exit code."""

import pathlib
import sys

import gpu_children

ROOT = pathlib.Path(__file__).resolve().parents[2]


class NoPrograms(Exception):
    """A program is missing; the message says what to do."""

    exit_code = 1


class WrongOption(NoPrograms):
    exit_code = 2


def run_main(work):
    gpu_children.end_on_signals()
    try:
        return work()
    except NoPrograms as why:
        print(f"gpu_check: {why}", file=sys.stderr)
        return why.exit_code
    except OSError as why:
        print(f"gpu_check: {why}", file=sys.stderr)
        return 1
    except gpu_children.Stopped as why:
        print(f"gpu_check: {why}; what was done by then is kept", file=sys.stderr)
        return why.exit_code
