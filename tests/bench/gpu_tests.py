#!/usr/bin/env python3
"""The tests of a GPU: scripts/gpu_check.sh --tests runs them, in under eight minutes.

Every suite of test_gpu in a process of its own, four at a time; then a short run of the program, its
gradients against PyTorch's, and compute-sanitizer over small kernels. Writes check.md and check.json; ends
with 1 if anything failed. --tiny tries the script itself: the emulated suites and the cores, of
build/release.
"""

import argparse
import concurrent.futures
import json
import pathlib
import shutil
import sys
import tempfile
import time

import gpu_programs
import gpu_sanitizer
import gpu_suites
from gpu_programs import ROOT, Programs

# 280 + 170 s at most, and a little for lists and facts.
SUITES_SECONDS, PARTS_SECONDS, SUITE_SECONDS, AT_A_TIME = 280, 170, 120, 4
COLUMNS = ["passed", "failed", "skipped", "crashed", "timed out", "not run"]
TEXT = "the tide pool fills and empties as water does. so we wait by the rocks.\n" * 20_000


class Check:
    def __init__(self, options):
        self.options = options
        self.out = pathlib.Path(options.out).resolve()
        self.out.mkdir(parents=True, exist_ok=True)
        self.programs = Programs(options)
        if options.tiny:
            self.programs.tidepool = ROOT / "build/release/tidepool"
            self.programs.test_gpu = ROOT / "build/release/tests/test_cuda"
        self.programs.require(self.programs.tidepool, self.programs.test_gpu)
        self.parts = {}

    # ---- parts: verdict, why, output

    def short_run(self):
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.out))
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
        output, code = gpu_suites.run_limited(
            [str(word) for word in words], PARTS_SECONDS, cwd=ROOT, env=self.programs.env
        )
        report = folder / "run/report.json"
        losses = json.loads(report.read_text())["losses"] if report.exists() else []
        shutil.rmtree(folder, ignore_errors=True)
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
        output, code = gpu_suites.run_limited(
            [str(word) for word in words], PARTS_SECONDS, cwd=ROOT, env=self.programs.env
        )
        lines = [line for line in output.splitlines() if ": holds: " in line or ": DIFFERS: " in line]
        if code not in (0, 1) or not lines:
            return "FAILED", ended(code, output), output
        return "passed" if code == 0 else "FAILED", "; ".join(lines), output

    def sanitizer(self, check, tests):
        return gpu_sanitizer.run_check(
            check, self.options.cuda, self.programs.test_gpu, tests, PARTS_SECONDS, self.programs.env
        )

    def run_parts(self, suites):
        tests = [test for suite in suites for test in suite.tests]
        calls = {"20 steps of the quickstart": self.short_run, "gradients against PyTorch": self.gradients}
        for check in gpu_sanitizer.CHECKS:
            calls[f"compute-sanitizer {check}"] = lambda check=check: self.sanitizer(check, tests)
        with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
            runs = {pool.submit(self.timed, call): name for name, call in calls.items()}
            for run in concurrent.futures.as_completed(runs):
                self.parts[runs[run]] = part = run.result()
                print(f"{runs[run]}: {part['verdict']}: {part['why']}", flush=True)

    @staticmethod
    def timed(call):
        begin = time.monotonic()
        try:
            verdict, why, output = call()
        except Exception as error:  # one part's bad luck is not the others'
            verdict, why, output = "FAILED", f"{type(error).__name__}: {error}", ""
        return {
            "verdict": verdict,
            "why": why,
            "seconds": round(time.monotonic() - begin, 1),
            "output": output[-20_000:],
        }

    def run(self):
        begin = time.monotonic()
        suites = gpu_suites.list_suites(self.programs.test_gpu, self.programs.env)
        gpu_suites.run_suites(
            self.programs.test_gpu,
            suites,
            SUITE_SECONDS,
            AT_A_TIME,
            begin + SUITES_SECONDS,
            self.programs.env,
            tell,
        )
        seconds = time.monotonic() - begin
        self.run_parts(suites)
        facts = gpu_programs.facts_of(self.programs, self.options.python)
        table = markdown(facts, suites, self.parts, seconds)
        (self.out / "check.md").write_text(table)
        whole = {"facts": facts, "suites": [suite.as_json() for suite in suites], "parts": self.parts}
        (self.out / "check.json").write_text(json.dumps(whole, indent=1))
        print(table)
        failed = any(suite.losers() for suite in suites) or any(
            p["verdict"] == "FAILED" for p in self.parts.values()
        )
        return 1 if failed else 0


def ended(code, output):
    """How a program ended that should not have."""
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
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    gpu_programs.add_options(parser)
    parser.add_argument("--out", default="build/gpu", help="where check.md and check.json go")
    parser.add_argument("--tiny", action="store_true", help="try the script without a GPU")
    try:
        return Check(parser.parse_args()).run()
    except gpu_programs.NoPrograms as why:
        print(f"gpu_check: {why}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
