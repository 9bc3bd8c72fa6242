#!/usr/bin/env python3
"""The tests of a GPU: scripts/gpu_check.sh --tests runs them, in under eight minutes.

Every suite of test_gpu in a process of its own, four to eight at a time; then a short run of the program, its
gradients against PyTorch's, and compute-sanitizer over small kernels. Writes check.md and check.json; ends
with 1 if anything failed. --tiny tries the script itself: the emulated suites of build/release, and the
cores; from a pack, the pack's own suites, without the tests that need a GPU.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import sys
import tempfile
import time

import gpu_children
import gpu_main
import gpu_programs
import gpu_results
import gpu_sanitizer
import gpu_suites
from gpu_programs import ROOT, Programs

# 450 s at most, plus a little for lists and facts.
SECONDS, SUITE_SECONDS = 450, 120
AT_A_TIME = max(4, min(8, (os.cpu_count() or 1) // 2))  # the suites' references are computed on the cores
SUITES_SHARE = 0.62  # of the time; the parts have the rest
COLUMNS = ["passed", "failed", "skipped", "crashed", "timed out", "not run"]
TEXT = "the tide pool fills and empties as water does. so we wait by the rocks.\n" * 20_000


class Check:
    def __init__(self, options):
        self.options = options
        self.out = pathlib.Path(options.out).resolve() if options.out else ROOT / "build/gpu"
        self.programs = programs_of(options)
        self.lock = gpu_results.open_folder(self.out)
        self.facts, self.suites, self.parts = {}, [], {}
        self.seconds = 0.0  # of the suites
        self.suites_seconds = options.seconds * SUITES_SHARE
        self.parts_seconds = options.seconds - self.suites_seconds

    # ---- parts: verdict, why, output

    def short_run(self):
        with tempfile.TemporaryDirectory(dir=self.out, ignore_cleanup_errors=True) as folder:
            return self.run_in(pathlib.Path(folder))

    def run_in(self, folder):
        text = folder / "text.txt"
        text.write_text(TEXT)
        device = "cpu" if self.options.tiny else "cuda"
        words = [
            self.programs.tidepool,
            "train",
            ROOT / "configs/quickstart.yaml",
            f"data.train={text}",
            f"machine.executor={device}",
            "memory.device=256MiB",
            "train.max_steps=20",
            f"output.dir={folder / 'run'}",
        ]
        output, code = gpu_children.run_limited(words, self.parts_seconds, cwd=ROOT, env=self.programs.env)
        report = folder / "run/report.json"
        losses = json.loads(report.read_text())["losses"] if report.exists() else []
        if code != 0 or len(losses) != 20:
            return "FAILED", f"{ended(code, output)} ({len(losses)} of 20 steps)", output
        learned = losses[-1] < losses[0] - 1
        return "passed" if learned else "FAILED", f"loss {losses[0]:.3f} to {losses[-1]:.3f}", output

    def gradients(self):
        python = self.options.python
        if not gpu_programs.has_module(python, "torch", "transformers", "safetensors", "numpy"):
            return (
                "not run",
                f"{python} lacks one of torch, transformers, safetensors, numpy (--python names another)",
                "",
            )
        words = [
            python,
            ROOT / "tests/bench/pytorch_gradients_check.py",
            "--tidepool",
            self.programs.tidepool,
            "--device",
            "cpu" if self.options.tiny else "cuda",
        ]
        output, code = gpu_children.run_limited(words, self.parts_seconds, cwd=ROOT, env=self.programs.env)
        lines = [line for line in output.splitlines() if ": holds: " in line or ": DIFFERS: " in line]
        if code not in (0, 1) or not lines:
            return "FAILED", ended(code, output), output
        return "passed" if code == 0 else "FAILED", "; ".join(lines), output

    def sanitizer(self, check, tests):
        return gpu_sanitizer.run_check(
            check, self.options.cuda, self.programs.test_gpu, tests, self.parts_seconds, self.programs.env
        )

    def run_parts(self):
        tests = [test for suite in self.suites for test in suite.tests]
        calls = {"20 steps of the quickstart": self.short_run, "gradients against PyTorch": self.gradients}
        for check in gpu_sanitizer.CHECKS:
            calls[f"compute-sanitizer {check}"] = lambda check=check: self.sanitizer(check, tests)
        with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
            runs = {pool.submit(self.timed, call): name for name, call in calls.items()}
            for run in concurrent.futures.as_completed(runs):
                self.parts[runs[run]] = part = run.result()
                self.write("under way")
                print(f"{runs[run]}: {part['verdict']}: {part['why']}", flush=True)

    @staticmethod
    def timed(call):
        begin = time.monotonic()
        try:
            verdict, why, output = call()
        except Exception as error:  # a failure of one part does not affect the others
            verdict, why, output = "FAILED", f"{type(error).__name__}: {error}", ""
        return {
            "verdict": verdict,
            "why": why,
            "seconds": round(time.monotonic() - begin, 1),
            "output": output[-20_000:],
        }

    def run_all(self):
        begin = time.monotonic()

        def done(suite):
            self.seconds = time.monotonic() - begin
            self.write("under way")
            tell(suite)

        gpu_suites.run_suites(
            self.programs.test_gpu,
            self.suites,
            SUITE_SECONDS,
            AT_A_TIME,
            begin + self.suites_seconds,
            self.programs.env | {"TIDEPOOL_TEST_ALL_CASES": "1"},
            done,
        )
        self.run_parts()

    def run(self):
        self.suites = gpu_suites.list_suites(self.programs.test_gpu, self.programs.env)
        self.facts = gpu_programs.facts_of(self.programs, self.options.python)
        try:
            self.run_all()
        except gpu_children.Stopped as why:
            self.write(str(why))
            raise
        print(self.write("complete"))
        failed = any(suite.losers() for suite in self.suites) or any(
            part["verdict"] == "FAILED" for part in self.parts.values()
        )
        return 1 if failed else 0

    def write(self, state):
        """Writes both files with the results so far. Returns the table."""
        facts = {**self.facts, "state": state}
        table = markdown(facts, self.suites, self.parts, self.seconds)
        suites = [suite.as_json() for suite in self.suites]
        whole = {"facts": facts, "suites": suites, "parts": self.parts}
        gpu_results.write_whole(self.out / "check.json", json.dumps(whole, indent=1))
        gpu_results.write_whole(self.out / "check.md", table)
        return table


def programs_of(options):
    gpu_programs.check_options(options)
    if not options.tiny:
        gpu_programs.require_gpu()
    programs = Programs(options)
    how = {}
    if options.tiny and options.prebuilt is None:
        programs.tidepool = ROOT / "build/release/tidepool"
        programs.test_gpu = ROOT / "build/release/tests/test_cuda"
        how = {"how": "scripts/build.sh release tidepool test_cuda"}
    else:
        programs.make_ready()
    programs.require(programs.tidepool, programs.test_gpu, **how)
    return programs


def ended(code, output):
    """Says how a program ended unexpectedly."""
    if code is None:
        return "ran out of time"
    lines = output.strip().splitlines() or ["no output"]
    return f"exit code {code}: " + next((line for line in lines if line.startswith("tidepool: ")), lines[-1])


def tell(suite):
    counts = ", ".join(f"{suite.count(kind)} {kind}" for kind in COLUMNS if suite.count(kind))
    print(f"{suite.name}: {counts} in {suite.seconds:.1f} s", flush=True)


def markdown(facts, suites, parts, seconds):
    lines = [
        "# GPU check",
        "",
        *(f"- {key}: {value}" for key, value in facts.items()),
        "",
        "| suite | " + " | ".join(COLUMNS) + " | seconds |",
        "|---|" + "---:|" * (len(COLUMNS) + 1),
    ]
    for suite in sorted(suites, key=lambda suite: suite.name):
        lines.append(
            f"| {suite.name} | "
            + " | ".join(str(suite.count(kind) or "") for kind in COLUMNS)
            + f" | {suite.seconds:.1f} |"
        )
    totals = [sum(suite.count(kind) for suite in suites) for kind in COLUMNS]
    lines.append("| all | " + " | ".join(str(total) for total in totals) + f" | {seconds:.1f} |")
    losers = [(test, suite.verdicts.get(test, "not run")) for suite in suites for test in suite.losers()]
    if losers:
        lines += ["", "Did not pass:", "", *(f"- `{test}`: {verdict}" for test, verdict in losers)]
    lines += ["", "| part | verdict | | seconds |", "|---|---|---|---:|"]
    for name, part in sorted(parts.items()):
        lines.append(
            f"| {name} | {part['verdict']} | {part['why'].replace('|', '/')} | {part['seconds']:.1f} |"
        )
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(
        prog="scripts/gpu_check.sh --tests",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    gpu_programs.add_options(parser)
    parser.add_argument("--out", help="where check.md and check.json go (build/gpu)")
    parser.add_argument("--tiny", action="store_true", help="try the script without a GPU")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, metavar="N", help=f"of the whole call ({SECONDS})"
    )
    options = parser.parse_args()
    return gpu_main.run_main(lambda: Check(options).run())


if __name__ == "__main__":
    sys.exit(main())
