#!/usr/bin/env python3
"""Campaign of readers who do not read: stops a run by one SIGTERM at a random moment, whatever its output does.

Standard output, or standard error, is a pipe that nobody reads, a full device, or closed; or both are a terminal that
is stopped. The run is one process, or two nodes under a launcher. It must save within the step and 5 seconds, and it
must have trained on until then: an output that holds steps shows as a run that does not log them.

Usage: reader_campaign.py TIDEPOOL MOMENTS [--seed N] [--folder DIR]
MOMENTS: of each output, alone and under each launcher that is installed.
"""

import os
import pty
import shutil
import signal
import subprocess
import sys
import termios
import time

import campaign
from campaign import text_of

CONFIG = """\
model: {{model_type: gpt2, vocab_size: 256, n_embd: 16, n_layer: 1, n_head: 1, n_positions: 16}}
data: {{train: {data}}}
train: {{precision: bf16, sequence_length: 16, per_device_train_batch_size: 1, learning_rate: 5e-3,
  max_steps: 10000000}}
memory: {{device: 16MiB, host: 16MiB, disk: 64MiB, home: {home}}}
machine: {{executor: cpu, threads: 1}}
output: {{save_steps: 0, trace: false, logging_steps: 1}}
"""
SAVED_SECONDS_MAX = 5.0
START_SECONDS = 60.0
STILL_SECONDS_MAX = 20.0  # a run that logs no step for so long stands still
OUTPUTS = ("output unread", "output full", "output closed", "error unread", "error full", "error closed",
           "terminal stopped")
LAUNCHERS = {
    "alone": [],
    "openmpi": ["mpirun.openmpi", "--oversubscribe", "--allow-run-as-root", "-n", "2"],
    "mpich": ["mpiexec.mpich", "-n", "2"],
}
# Notes the process of each node, and gives it the outputs that the campaign chose.
SHELL = 'node=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}; echo $$ >"$0/pid.$node"; exec "$@" '


class Outputs:
    """Outputs of the nodes of a run, as words for the shell. `folder`: of the run."""

    def __init__(self, kind, folder):
        self.held = []
        stream, how = kind.split()
        if stream == "terminal":
            master, slave = pty.openpty()
            termios.tcflow(slave, termios.TCOOFF)
            self.held = [master, slave]
            self.words = f">{os.ttyname(slave)} 2>&1"
            return
        log = f"{folder}/log.$node"
        fd, other = (1, 2) if stream == "output" else (2, 1)
        if how == "unread":
            os.mkfifo(folder / "fifo")
            self.held = [os.open(folder / "fifo", os.O_RDWR | os.O_CLOEXEC)]
            where = f'>"{folder}/fifo"'
        else:
            where = ">/dev/full" if how == "full" else ">&-"
        self.words = f'{fd}{where} {other}>"{log}"'

    def close(self):
        for fd in self.held:
            os.close(fd)


class Campaign(campaign.Folders):
    def __init__(self, options):
        super().__init__(options)
        self.faults = []
        self.times = []

    def steps(self, folder):
        return text_of(folder / "run" / "metrics.jsonl").count('"loss"')

    def saved(self, folder):
        return any((p / "manifest.json").exists() for p in (folder / "run").glob("checkpoint-*"))

    def wait_for(self, condition, seconds):
        """RETURNS: the seconds that it took; None: longer."""
        begin = time.monotonic()
        while not condition():
            if time.monotonic() - begin > seconds:
                return None
            time.sleep(0.005)
        return time.monotonic() - begin

    def wait_for_steps(self, folder, launched, wanted):
        """RETURNS: false if the run ends or stands still before."""
        seen, at = -1, time.monotonic()
        while True:
            now = self.steps(folder)
            if now >= wanted:
                return launched.poll() is None
            if now > seen:
                seen, at = now, time.monotonic()
            if launched.poll() is not None or time.monotonic() - at > (STILL_SECONDS_MAX if seen else START_SECONDS):
                return False
            time.sleep(0.01)

    def moment(self, launcher, kind):
        """RETURNS: what was wrong; empty: nothing."""
        folder = self.base / "round"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        home = self.random.choice(("auto", "host", "disk"))
        (folder / "config.yaml").write_text(CONFIG.format(data=self.base / "text.txt", home=home))
        outputs = Outputs(kind, folder)
        program = [str(self.tidepool), "train", str(folder / "config.yaml"), f"output.dir={folder}/run"]
        words = [*LAUNCHERS[launcher], "/bin/sh", "-c", SHELL + outputs.words, str(folder), *program]
        with open(folder / "launcher", "w", encoding="utf-8") as log:
            launched = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        # A pipe is full after 700 lines.
        wanted = self.random.choice((self.random.randint(1, 100), self.random.randint(800, 2500)))
        try:
            if not self.wait_for_steps(folder, launched, wanted):
                return f"{self.steps(folder)} of {wanted} steps, then it stands still or has ended"
            time.sleep(self.random.uniform(0, 0.05))
            node = 0 if launcher == "alone" else self.random.randint(0, 1)
            os.kill(int(text_of(folder / f"pid.{node}")), signal.SIGTERM)
            took = self.wait_for(lambda: self.saved(folder), SAVED_SECONDS_MAX)
            if took is None:
                return f"not saved within {SAVED_SECONDS_MAX:g} s"
            self.times.append(took)
            if self.wait_for(lambda: launched.poll() is not None, 30) is None:
                return "saved, and does not end"
            # Launchers may kill the other node once one has ended, and say so by their code.
            if launched.returncode != 75:
                return f"saved, and ended with {launched.returncode}"
            return ""
        finally:
            for node in (0, 1):
                pid = text_of(folder / f"pid.{node}").strip()
                if pid and launched.poll() is None:
                    try:
                        os.kill(int(pid), signal.SIGKILL)
                    except ProcessLookupError:
                        pass
            if launched.poll() is None:
                launched.kill()
            launched.wait()
            outputs.close()

    def go(self, moments):
        modules = self.tidepool.parent
        found = [name for name, words in LAUNCHERS.items()
                 if not words or (shutil.which(words[0]) and (modules / f"libtidepool_{name}.so").exists())]
        for launcher in found:
            for kind in OUTPUTS:
                self.times = []
                for number in range(moments):
                    wrong = self.moment(launcher, kind)
                    if wrong:
                        self.faults.append(f"{launcher}, {kind}, moment {number}: {wrong}")
                        print(self.faults[-1], flush=True)
                        kept = self.base / f"fault-{len(self.faults)}"
                        shutil.copytree(self.base / "round", kept, ignore=lambda _, names: {"fifo"} & set(names))
                    if len(self.faults) > 20:
                        return 1
                times = sorted(self.times) or [0.0]
                print(f"{launcher}, {kind}: {len(self.times)} of {moments} saved, after "
                      f"{times[len(times) // 2]:.2f} s (median), {times[-1]:.2f} s at most", flush=True)
        print("\n".join(self.faults) if self.faults else "no fault found")
        if not self.faults:
            shutil.rmtree(self.base, ignore_errors=True)
        return 1 if self.faults else 0


if __name__ == "__main__":
    sys.exit(campaign.run(Campaign, __doc__, "moments"))
