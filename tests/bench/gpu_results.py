"""Folder of results: one run at a time writes there, and each file is replaced as a whole."""

import fcntl
import json
import os
import pathlib

from gpu_main import WrongOption


def open_folder(path):
    """Creates the folder and locks it for this process. The lock lasts as long as the returned file."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = open(path / "lock", "a+")
    except OSError as error:
        raise WrongOption(f"cannot write in {path} ({error.strerror}): --out names another folder") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        raise WrongOption(
            f"process {lock.read().strip() or 'unknown'} is writing results in {path}: wait for it, or "
            "name another folder with --out"
        ) from None
    except OSError as error:
        raise WrongOption(f"{path} cannot be locked ({error.strerror}): name a local folder") from None
    lock.truncate(0)
    lock.write(str(os.getpid()))
    lock.flush()
    return lock


def write_whole(path, text):
    part = path.with_name(path.name + ".part")
    part.write_text(text)
    os.replace(part, path)


def read_rows(path):
    """Returns bench.json's rows by name. An unreadable file is renamed: its rows may still be useful."""
    if not path.exists():
        return {}
    try:
        rows = json.loads(path.read_text())["rows"]
        if all({"figure", "verdict", "seconds"} <= row.keys() for row in rows.values()):
            return rows
    except (ValueError, LookupError, TypeError, AttributeError):
        pass
    aside, number = pathlib.Path(f"{path}.unreadable"), 1
    while aside.exists():
        aside, number = pathlib.Path(f"{path}.unreadable-{number}"), number + 1
    path.rename(aside)
    print(f"gpu_check: {path} cannot be read: it is {aside.name} now, and the table begins anew", flush=True)
    return {}


WORTH = {"not measured": 0, "not compared": 1}  # any other verdict has a complete figure


def keep_better(earlier, row):
    """Returns the row to keep: a failure does not replace an earlier figure, but is shown beside it."""
    if earlier is None or WORTH.get(row["verdict"], 2) >= WORTH.get(earlier["verdict"], 2):
        return row
    return {**earlier, "later": row}


def figure_text(row, facts):
    """Adds facts that differ from the table's head: a figure may be older than the last call."""
    text = row["figure"]
    others = [
        f"{key} {row.get(key, 'unknown')}"
        for key in ("commit", "card")
        if row["figure"] and row.get(key, "unknown") != facts[key]
    ]
    if others:
        text += f" (measured with {', '.join(others)})"
    if "later" in row:
        text += f"; tried again with commit {row['later']['commit']}: {row['later']['figure']}"
    return text
