"""Runs a GoogleTest program suite by suite, each in a process of its own: after a persistent CUDA error, or a
CHECK, only the rest of that suite is affected, and runs in a new process.

The program's output is read, not --gtest_output=json, because that file is written at the end: a crashed test
writes none.
"""

import concurrent.futures
import dataclasses
import re
import subprocess
import time

from gpu_children import run_limited
from gpu_main import NoPrograms

TEST_LINE = re.compile(
    r"\[( RUN      |       OK |  FAILED  |  SKIPPED )\] ([\w/]+\.[\w/]+)(?:.*\((\d+) ms\))?"
)
TEXT_MAX = 4000  # of a failed test's output
LONG = re.compile(
    "Training|Model|SeveralGpus"
)  # whole runs; they begin first, because they are the longest


@dataclasses.dataclass
class Suite:
    name: str
    tests: list  # full names
    seconds: float = 0.0
    verdicts: dict = dataclasses.field(
        default_factory=dict
    )  # test -> passed, failed, skipped, crashed, timed out, not run
    texts: dict = dataclasses.field(default_factory=dict)  # test -> reason

    def count(self, verdict):
        return sum(1 for test in self.tests if self.verdicts.get(test, "not run") == verdict)

    def losers(self):
        return [
            test for test in self.tests if self.verdicts.get(test, "not run") not in ("passed", "skipped")
        ]

    def as_json(self):
        return {
            "name": self.name,
            "seconds": round(self.seconds, 3),
            "tests": [
                {
                    "name": test,
                    "verdict": self.verdicts.get(test, "not run"),
                    **({"text": self.texts[test]} if test in self.texts else {}),
                }
                for test in self.tests
            ],
        }


def parse_list(text):
    """Parses --gtest_list_tests: a suite at the start of a line, its tests indented below."""
    suites = []
    for line in text.splitlines():
        name = line.split("#")[0].rstrip()
        if re.fullmatch(r"[\w/]+\.", name):
            suites.append(Suite(name[:-1], []))
        elif re.fullmatch(r"  [\w/]+", name) and suites:
            suites[-1].tests.append(suites[-1].name + "." + name.strip())
    return [suite for suite in suites if suite.tests]


def list_suites(program, env=None):
    words = [program, "--gtest_list_tests"]
    try:
        listed = subprocess.run(words, capture_output=True, text=True, timeout=60, env=env)
    except subprocess.TimeoutExpired:
        raise NoPrograms(f"{program} --gtest_list_tests takes over a minute") from None
    suites = parse_list(listed.stdout) if listed.returncode == 0 else []
    if not suites:
        why = listed.stderr.strip()[-500:] or "it lists no tests"
        raise NoPrograms(f"{program} --gtest_list_tests ended with {listed.returncode}: {why}")
    return suites


def read_output(suite, output):
    """Takes the verdicts from the output; returns the test that was running at its end, if any."""
    running, since = None, 0
    for found in TEST_LINE.finditer(output):
        kind, test = found.group(1).strip(), found.group(2)
        if test not in suite.tests:
            continue
        if kind == "RUN":
            running, since = test, found.end()
        elif test == running:  # the summary at the end repeats failed tests
            suite.verdicts[test] = {"OK": "passed", "FAILED": "failed", "SKIPPED": "skipped"}[kind]
            if kind != "OK":
                suite.texts[test] = output[since : found.start()].strip()[-TEXT_MAX:]
            running = None
    if running is not None:
        suite.texts[running] = output[since:].strip()[-TEXT_MAX:]
    return running


def run_suite(program, suite, seconds, deadline, env=None):
    """Runs the suite in a process; if it dies or times out, a new process runs the remaining tests."""
    begin = time.monotonic()
    while left := [test for test in suite.tests if test not in suite.verdicts]:
        limit = min(seconds, deadline - time.monotonic())
        if limit < 1:
            break
        output, code = run_limited([program, "--gtest_filter=" + ":".join(left)], limit, env=env)
        running = read_output(suite, output)
        if code is None and limit < seconds:  # the total time is over, which is no test's fault
            break
        if running is None and (code not in (0, 1) or any(test not in suite.verdicts for test in left)):
            # The crash came between two tests, before the first, or after the last.
            blamed = next((test for test in left if test not in suite.verdicts), left[-1])
            suite.verdicts[blamed] = "timed out" if code is None else "crashed"
            suite.texts[blamed] = f"exit code {code} outside of a test: {output.strip()[-TEXT_MAX:]}"
        elif running is None:
            break
        elif code is not None:
            suite.verdicts[running] = "crashed"
            suite.texts[running] = f"exit code {code}\n{suite.texts[running]}"
        elif running == left[0]:  # it had the whole time limit; any other test is started again
            suite.verdicts[running] = "timed out"
    suite.seconds = time.monotonic() - begin
    return suite


def run_suites(program, suites, seconds=120, at_a_time=4, deadline=None, env=None, done=None):
    """Runs all suites, `at_a_time` at a time. Calls `done` for each."""
    deadline = deadline or time.monotonic() + 24 * 3600
    with concurrent.futures.ThreadPoolExecutor(at_a_time) as pool:
        order = sorted(suites, key=lambda suite: (not LONG.search(suite.name), -len(suite.tests)))
        runs = [pool.submit(run_suite, program, suite, seconds, deadline, env) for suite in order]
        for run in concurrent.futures.as_completed(runs):
            if done is not None:
                done(run.result())
    return suites
