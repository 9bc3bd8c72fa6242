"""Runs a GoogleTest program suite by suite, each in a process of its own: after a CUDA error that stays, or a
CHECK, only the rest of that suite is in doubt, and it goes on in a process of its own too.

The program's output is read, not --gtest_output=json: that file is written at the end, so not by a test that
crashes.
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
TEXT_MAX = 4000  # of what a failed test printed
LONG = re.compile(
    "Training|Model|SeveralGpus"
)  # whole runs; they begin first, so that none is left for the end


@dataclasses.dataclass
class Suite:
    name: str
    tests: list  # full names
    seconds: float = 0.0
    verdicts: dict = dataclasses.field(
        default_factory=dict
    )  # test -> passed, failed, skipped, crashed, timed out, not run
    texts: dict = dataclasses.field(default_factory=dict)  # test -> why

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
    """What --gtest_list_tests prints: a suite at a line's begin, its tests indented below."""
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
    """Takes the verdicts from the output; returns the test that was in flight at its end, if one was."""
    running, since = None, 0
    for found in TEST_LINE.finditer(output):
        kind, test = found.group(1).strip(), found.group(2)
        if test not in suite.tests:
            continue
        if kind == "RUN":
            running, since = test, found.end()
        elif test == running:  # the summary at the end names losers again
            suite.verdicts[test] = {"OK": "passed", "FAILED": "failed", "SKIPPED": "skipped"}[kind]
            if kind != "OK":
                suite.texts[test] = output[since : found.start()].strip()[-TEXT_MAX:]
            running = None
    if running is not None:
        suite.texts[running] = output[since:].strip()[-TEXT_MAX:]
    return running


def run_suite(program, suite, seconds, deadline, env=None):
    """A process for the suite; where one dies or runs out of time, another for the tests behind that one."""
    begin = time.monotonic()
    while left := [test for test in suite.tests if test not in suite.verdicts]:
        limit = min(seconds, deadline - time.monotonic())
        if limit < 1:
            break
        output, code = run_limited([program, "--gtest_filter=" + ":".join(left)], limit, env=env)
        running = read_output(suite, output)
        if code is None and limit < seconds:  # all time is up, which is no test's fault
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
        elif running == left[0]:  # it had all the time for itself; any other is begun anew
            suite.verdicts[running] = "timed out"
    suite.seconds = time.monotonic() - begin
    return suite


def run_suites(program, suites, seconds=120, at_a_time=4, deadline=None, env=None, done=None):
    """All suites, `at_a_time` at a time. `done` is told of each."""
    deadline = deadline or time.monotonic() + 24 * 3600
    with concurrent.futures.ThreadPoolExecutor(at_a_time) as pool:
        order = sorted(suites, key=lambda suite: (not LONG.search(suite.name), -len(suite.tests)))
        runs = [pool.submit(run_suite, program, suite, seconds, deadline, env) for suite in order]
        for run in concurrent.futures.as_completed(runs):
            if done is not None:
                done(run.result())
    return suites
