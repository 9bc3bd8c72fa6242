"""compute-sanitizer over small cases of the kernels that index and share memory in the hardest ways.

The tool slows kernels down a hundredfold, so the cases are few. If the tool itself fails (it is missing,
or a virtual machine hides the GPU from it), no kernel is at fault: the verdict is "not run", with the reason.
"""

import fnmatch
import pathlib
import re
import shutil

from gpu_children import run_limited

FOUND = 99  # exit code of the tool if it finds a fault
SHARES_MEMORY = [
    "*AttentionCudaTest.*_t65_*",
    "*AttentionCudaTest.MatchesReferenceAndCpu/*_t97_*",
    "GroupedAndPacked/AttentionCudaTest.MatchesReferenceAndCpu/*_t70_*",
    "CudaCrossEntropy.*",
    "CudaRotary.*",
    "CudaNormFinish.*",
    "CudaDeltaRule.*",
    "CudaOrthogonalize.*",
]
CHECKS = {
    "memcheck": SHARES_MEMORY + ["*CudaMatmulTest.*/0", "*CudaWeightGradientTest.*/0", "*CudaUpdate.*", "CudaSigmoidGate.*"],
    "racecheck": SHARES_MEMORY,
}
REFUSED = re.compile(
    r"=+ .*(?:Device not supported|Internal Sanitizer Error|Unable to|not permitted|terminated before)"
)
FAULT = re.compile(
    r"=+ +(?:Invalid|Error: Race|Error: Potential|Warning: Race|Program hit|Race reported|Potential)"
)
ERRORS = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: (\d+) (?:error|hazard)")


def find_sanitizer(cuda):
    toolkit = pathlib.Path(cuda or "/usr/local/cuda")
    places = [
        shutil.which("compute-sanitizer"),
        toolkit / "bin/compute-sanitizer",
        toolkit / "extras/compute-sanitizer/compute-sanitizer",
        toolkit / "compute-sanitizer/compute-sanitizer",
    ]
    return next((str(place) for place in places if place and pathlib.Path(place).is_file()), None)


def choose(tests, patterns):
    """Returns the tests, and the patterns that match none: a renamed test must not be left out silently."""
    chosen = [test for test in tests if any(fnmatch.fnmatchcase(test, pattern) for pattern in patterns)]
    return chosen, [p for p in patterns if not fnmatch.filter(tests, p)]


def judge(output, code):
    """Returns the verdict and the reason."""
    lines = output.splitlines()
    refused = next((line.strip("= ") for line in lines if REFUSED.match(line)), None)
    fault = next((line.strip("= ") for line in lines if FAULT.match(line)), None)
    if refused:
        return "not run", refused
    if fault or code == FOUND or any(int(number) for number in ERRORS.findall(output)):
        return "FAILED", fault or "see the output"
    if code is None:
        return "not run", "it ran out of time, without a fault so far"
    if not ERRORS.search(output):
        return "not run", f"exit code {code} and no summary"
    if code != 0:
        return "FAILED", f"tests fail under it, exit code {code}"
    if "[  PASSED  ] 0 tests" in output:
        return "not run", "all tests were skipped"
    return "passed", ""


def run_check(check, cuda, program, tests, seconds, env):
    chosen, unmatched = choose(tests, CHECKS[check])
    if unmatched:
        return "FAILED", f"no test matches {unmatched[0]}", ""
    tool = find_sanitizer(cuda)
    if tool is None:
        return "not run", "compute-sanitizer is not here (CUDA's folder, its extras, the PATH)", ""
    more = ["--report-api-errors", "no"] if check == "memcheck" else []  # errors of kernels only
    words = [
        tool,
        "--tool",
        check,
        *more,
        "--error-exitcode",
        str(FOUND),
        str(program),
        "--gtest_brief=1",
        "--gtest_filter=" + ":".join(chosen),
    ]
    output, code = run_limited(words, seconds, env=env)
    verdict, why = judge(output, code)
    return verdict, why or f"{len(chosen)} tests", output
