#!/usr/bin/env python3
"""Checks a card within half an hour: scripts/gpu_check.sh --call N runs the N-th of a few calls.

Each call is a chain of checks with a time limit of its own, the most important figures first; together they
take less than half an hour. Results (tables, JSON, files that later calls need) are copied into one flat
folder, --to, at most eight files. --from names such a folder of an earlier call, perhaps on another machine,
and continues from it.
"""

import argparse
import dataclasses
import json
import pathlib
import shutil
import sys
import time

import gpu_children
import gpu_main
import gpu_programs
import gpu_results
from gpu_main import ROOT, WrongOption

CALL_SECONDS_MAX = 600 - 30  # ten minutes, minus copying and a slow end
ALL_SECONDS_MAX = 27 * 60  # half an hour, minus the machine's start
END_SECONDS = 20  # for a check to write its results
FILE_BYTES_MAX = 16 << 20


@dataclasses.dataclass(frozen=True)
class Part:
    words: tuple  # of scripts/gpu_check.sh
    seconds: int


@dataclasses.dataclass(frozen=True)
class Call:
    what: str
    parts: tuple

    @property
    def seconds(self):
        return sum(part.seconds for part in self.parts)


def rows(*names, seconds):
    return Part(("--bench", *names), seconds)


CALLS = (
    Call(
        "tests and kernels",
        (Part(("--tests",), 240), rows("products", "attention", "copies", seconds=180)),
    ),
    Call(
        "7B at 20 GiB, and FSDP2", (rows("prepare", "mfu", "prediction", "memory", "fsdp", seconds=560),)
    ),
    Call(
        "all state on the card; other models, other optimizers",
        (rows("resident", "experts", "hybrid", "optimizers", "speculation", seconds=560),),
    ),
)
assert all(call.seconds <= CALL_SECONDS_MAX for call in CALLS)
assert sum(call.seconds for call in CALLS) <= ALL_SECONDS_MAX
SCRIPTS = {"--tests": "gpu_tests.py", "--bench": "gpu_rows.py"}


# ---- results, in one flat folder

# Name in the flat folder: place in build/gpu. `kept.json` is the folder bench/kept as one file.
RESULTS = {
    "check.md": "check.md",
    "check.json": "check.json",
    "bench.md": "bench/bench.md",
    "bench.json": "bench/bench.json",
    "machine.yaml": "bench/machine.yaml",
    "report.json": "bench/run-offloaded/report.json",
    "step.json": "bench/run-offloaded/step.json",
}
KEPT = "kept.json"


def collect(results, to):
    """Copies the results; returns a line for each file that is too large to copy."""
    to.mkdir(parents=True, exist_ok=True)
    left = []
    for name, place in RESULTS.items():
        source = results / place
        if not source.is_file():
            continue
        if source.stat().st_size > FILE_BYTES_MAX:
            left.append(f"{name} was not copied: it has {source.stat().st_size >> 20} MiB")
            continue
        shutil.copyfile(source, to / name)
    values = {path.stem: path.read_text() for path in sorted((results / "bench/kept").glob("*.json"))}
    if values:
        gpu_results.write_whole(to / KEPT, json.dumps(values))
    return left


def go_on_from(folder, results):
    """Restores results that later calls need, unless newer ones are there."""
    values = {}
    if (folder / KEPT).exists():
        try:
            values = json.loads((folder / KEPT).read_text())
        except ValueError as error:
            raise WrongOption(f"--from {folder}: {KEPT} cannot be read: {error}") from None
    (results / "bench/kept").mkdir(parents=True, exist_ok=True)
    for name, text in values.items():
        path = results / "bench/kept" / f"{pathlib.PurePath(name).name}.json"
        if not path.exists():
            gpu_results.write_whole(path, text)
    for name in ("check.md", "check.json", "bench.json", "bench.md"):
        path = results / RESULTS[name]
        if (folder / name).is_file() and not path.exists():
            shutil.copyfile(folder / name, path)


# ---- running


def words_of(part, options, results):
    script = SCRIPTS[part.words[0]]
    out = results if script == "gpu_tests.py" else results / "bench"
    words = [sys.executable, "-B", ROOT / "tests/bench" / script, *part.words[1:], "--out", out]
    words += ["--seconds", part.seconds - END_SECONDS, "--python", options.python]
    for name in ("prebuilt", "cuda"):
        if getattr(options, name):
            words += [f"--{name}", getattr(options, name)]
    if options.tiny:
        words.append("--tiny")
    return [str(word) for word in words]


def run_part(words, seconds):
    """Returns the exit code, or None if the program was ended. Passes its output on as it comes."""
    print("+ " + " ".join(words), flush=True)
    with gpu_children.started(words, cwd=ROOT) as process:
        deadline = time.monotonic() + seconds
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.2)
        if process.poll() is None:
            process.terminate()  # it ends its programs and keeps its results
            for _ in range(5 * END_SECONDS):
                if process.poll() is not None:
                    break
                time.sleep(0.2)
            return None
    gpu_children.check_stopped()
    return process.returncode


def run_call(call, options, results):
    """Returns 1 if any part failed, missed its figure or ran out of time."""
    bad = 0
    for part in call.parts:
        code = run_part(words_of(part, options, results), part.seconds)
        if code is None:
            print(f"gpu_check: {' '.join(part.words)} was ended after {part.seconds} s", flush=True)
        bad |= code != 0
    return int(bad)


def tell(results):
    """Prints the tables last, so that they are at the end of the output."""
    for name in ("check.md", "bench.md"):
        path = results / RESULTS[name]
        if path.exists():
            print("\n" + path.read_text(), flush=True)


def work(options):
    if options.number is None:
        list_calls()
        return 0
    call = CALLS[options.number - 1]
    gpu_programs.check_options(options, options.dry_run)
    results = pathlib.Path(options.out or ROOT / "build/gpu/call").resolve()
    if options.dry_run:
        for part in call.parts:
            print(" ".join(words_of(part, options, results)))
        return 0
    results.mkdir(parents=True, exist_ok=True)
    if options.earlier:
        go_on_from(pathlib.Path(options.earlier).resolve(), results)
    try:
        return run_call(call, options, results)
    finally:
        tell(results)
        if options.to:
            for line in collect(results, pathlib.Path(options.to).resolve()):
                print("gpu_check: " + line, flush=True)


def list_calls():
    for number, call in enumerate(CALLS, 1):
        parts = ", ".join(" ".join(part.words) for part in call.parts)
        print(f"{number}  {call.what:<30} {call.seconds:>3} s at most: {parts}")


def main():
    parser = argparse.ArgumentParser(
        prog="scripts/gpu_check.sh --call",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    numbers = range(1, len(CALLS) + 1)
    parser.add_argument("number", nargs="?", type=int, choices=numbers, help="none: lists them")
    gpu_programs.add_options(parser)
    parser.add_argument("--to", metavar="DIR", help="flat folder for what counts")
    parser.add_argument("--from", dest="earlier", metavar="DIR", help="such a folder of an earlier call")
    parser.add_argument("--out", metavar="DIR", help="folder of results (build/gpu/call)")
    parser.add_argument("--tiny", action="store_true", help="try the script: a tiny model on the cores")
    parser.add_argument("--dry-run", action="store_true", help="say what would be run")
    options = parser.parse_args()
    if options.earlier and not pathlib.Path(options.earlier).is_dir():
        parser.error(f"--from {options.earlier}: there is no such folder")
    return gpu_main.run_main(lambda: work(options))


if __name__ == "__main__":
    sys.exit(main())
