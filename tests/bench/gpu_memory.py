"""Samples device memory from the driver while a run trains.

CUDA loads kernels and allocates its own buffers at their first use, so the memory of context and libraries is
known only after the first step. From then on memory must not grow.
"""

import subprocess
import threading
import time

import gpu_children

MIB, GIB = 1 << 20, 1 << 30
SAMPLE_MS = 500


class DeviceMemoryWatch:
    """Samples the memory of a process by the driver's count, twice a second. In containers the driver names no
    process: then the growth of the first card's memory is sampled. One nvidia-smi runs all the time, because
    starting it takes longer than an answer.
    """

    def __init__(self):
        self.by_process, self.by_card = [], []  # (seconds, bytes)
        self.begin_at = None
        self.pid = None
        self.asking = []

    def begin(self, pid):
        self.pid, self.begin_at = pid, time.monotonic()
        for query, take in (
            ("--query-compute-apps=pid,used_memory", self.take_process),
            ("--query-gpu=index,memory.used", self.take_card),
        ):
            # stdbuf: a sample that waits in a buffer would get a wrong time.
            words = [
                "stdbuf",
                "-oL",
                "nvidia-smi",
                query,
                "--format=csv,noheader,nounits",
                f"--loop-ms={SAMPLE_MS}",
            ]
            try:
                process = gpu_children.start(
                    words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
                )
            except OSError:
                continue
            thread = threading.Thread(target=self.read, args=(process, take), daemon=True)
            thread.start()
            self.asking.append((process, thread))

    def end(self):
        for process, thread in self.asking:
            gpu_children.end(process)
            thread.join()

    def read(self, process, take):
        for line in process.stdout:
            words = [word.strip() for word in line.split(",")]
            if len(words) == 2 and all(word.isdigit() for word in words):
                take(int(words[0]), int(words[1]) * MIB)

    def take_process(self, pid, used):
        if pid == self.pid:
            self.by_process.append((time.monotonic() - self.begin_at, used))

    def take_card(self, index, used):
        if index == 0:
            self.by_card.append((time.monotonic() - self.begin_at, used))

    def result(self):
        """Returns the samples, and whether they are of the process or of the card."""
        if self.by_process:
            return {"of": "the process", "samples": self.by_process}
        least = min((used for _, used in self.by_card), default=0)  # before the run allocated
        samples = [(at, used - least) for at, used in self.by_card if used > least]
        return {"of": "the card, less what it held before", "samples": samples}


def judge(samples, arena, budget, first_step_at):
    """Returns figures in bytes, and whether the budget holds. `arena`: budget bytes taken at once."""
    taken = next((at for at, used in samples if used >= arena), None)
    after = next((used for at, used in samples if at >= first_step_at), None)
    if taken is None or after is None:
        return None
    before = next(used for at, used in samples if at >= taken)
    later = max(used for at, used in samples if at >= first_step_at)
    start = after - arena
    # nvidia-smi counts in MiB.
    return {
        "before_first_step": before,
        "after_first_step": after,
        "most": max(used for _, used in samples),
        "most_later": later,
        "start": start,
        "growth": later - after,
        "holds": later - after < MIB and later <= budget + start + MIB,
    }
