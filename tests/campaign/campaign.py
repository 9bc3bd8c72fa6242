"""Parts that campaigns share: their text to train on, their files, and their command line."""

import argparse
import fcntl
import os
import pathlib
import random
import shutil
import sys

WORDS = "the tide pool fills and empties as water does so we wait by rocks until it turns".split()


def text_of(path):
    try:
        return pathlib.Path(path).read_text(errors="replace")
    except OSError:
        return ""


class Folders:
    """The campaign's folder, emptied, with text to train on; and its source of chance."""

    def __init__(self, options):
        self.tidepool = pathlib.Path(options.tidepool).resolve()
        self.base = pathlib.Path(options.folder).resolve()
        self.random = random.Random(options.seed)
        self.base.mkdir(parents=True, exist_ok=True)
        self.lock = os.open(self.base, os.O_RDONLY)  # held until the process ends
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            sys.exit(f"another campaign uses {self.base}: name another folder with --folder")
        for path in self.base.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        text = " ".join(self.random.choice(WORDS) for _ in range(5000))
        (self.base / "text.txt").write_text(text)


def run(campaign, description, count, choices=None):
    """Runs the class `campaign` as often as the command line says. `count`: the name of that number. `choices`: names of
    options, each with its numbers."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tidepool")
    parser.add_argument(count, type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", default=f"campaign_of_{count}")
    for name, numbers in (choices or {}).items():
        parser.add_argument(f"--{name}", type=int, choices=numbers)
    options = parser.parse_args()
    return campaign(options).go(getattr(options, count))
