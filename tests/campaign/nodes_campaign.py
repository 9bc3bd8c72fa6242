#!/usr/bin/env python3
"""Campaign of sudden ends: kills or stops a random node at a random moment, again and again.

Each round begins a run on some nodes, ends one of them (kill -9, or SIGSTOP as a cut cable looks), and checks
that all others are gone by themselves in time, with exit code 75 and a message that names the dead node. Then
the run resumes, every other time on half the nodes, until it is done: the weights must be those of an
undisturbed run, and nothing may be left in the swap folders.

Usage: nodes_campaign.py TIDEPOOL ROUNDS [--seed N] [--folder DIR]
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import campaign
from campaign import text_of

CONFIG = """\
model: {{model_type: gpt2, vocab_size: 256, n_embd: 64, n_layer: 3, n_head: 4, n_positions: 32, resid_pdrop: 0.1}}
data: {{train: {data}}}
train: {{precision: bf16, sequence_length: 32, per_device_train_batch_size: 2, learning_rate: 5e-3,
  max_steps: {steps}, eval_steps: 40, eval_batches: 5, max_grad_norm: 0.5}}
memory: {{device: 16MiB, host: 16MiB, disk: 64MiB, home: {home}, chunk_size: 40KiB}}
machine: {{executor: cpu, threads: 1, peer_timeout_seconds: 3}}
output: {{save_steps: 6}}
"""
STEPS = 120
GONE_SECONDS_MAX = 15.0
# Nodes that have not met yet cannot tell a stopped node from a late one: they wait for twelve timeouts.
NOT_MET_SECONDS_MAX = 12 * 3 + 5.0
START_SECONDS = 60.0

LAUNCHERS = {
    "openmpi": (["mpirun.openmpi", "--oversubscribe", "--allow-run-as-root"], ["--enable-recovery"]),
    "mpich": (["mpiexec.mpich"], ["-disable-auto-cleanup"]),
}
# Notes each node's exit code, and lives on where MPICH's launcher tells of a node's death by a signal.
SHELL = (
    'trap : USR1; node=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}; folder=$1; shift; echo $$ >"$folder/pid.$node"; '
    '"$@" >"$folder/log.$node" 2>&1; code=$?; echo $code >"$folder/code.$node"; exit $code'
)


class Run:
    """A training run on some nodes, in a process group of its own."""

    def __init__(self, tidepool, folder, nodes, launcher, options=(), micro_batches=1):
        self.nodes = nodes
        self.logs = folder / "logs"
        shutil.rmtree(self.logs, ignore_errors=True)
        self.logs.mkdir()
        words = [*LAUNCHERS[launcher][0], *options, "-n", str(nodes), "/bin/sh", "-c", SHELL, "sh", str(self.logs)]
        words += [str(tidepool), "train", str(folder / "config.yaml"), f"output.dir={folder}/run"]
        words += [f"train.gradient_accumulation_steps={micro_batches}", "--resume", "auto"]
        with open(self.logs / "launcher", "w", encoding="utf-8") as log:
            self.launcher = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def pid(self, node):
        """The process of a node; None if it does not run."""
        shell = text_of(self.logs / f"pid.{node}").strip()
        if not shell:
            return None
        child = text_of(f"/proc/{shell}/task/{shell}/children").split()
        return int(child[0]) if child else None

    def shell_lives(self, node):
        shell = text_of(self.logs / f"pid.{node}").strip()
        return bool(shell) and pathlib.Path(f"/proc/{shell}").exists()

    def code(self, node):
        """The node's own exit code; None if its launcher killed it."""
        code = text_of(self.logs / f"code.{node}").strip()
        return int(code) if code else None

    def said(self, node):
        return text_of(self.logs / f"log.{node}")

    def wait_for(self, condition, seconds):
        begin = time.monotonic()
        while not condition():
            if time.monotonic() - begin > seconds:
                return None
            time.sleep(0.005)
        return time.monotonic() - begin

    def ended(self):
        return self.launcher.poll() is not None

    def end(self):
        """Ends what is left. RETURNS: the launcher's exit code."""
        for node in range(self.nodes):
            pid = self.pid(node)
            if pid is not None:
                os.kill(pid, signal.SIGKILL)
        try:
            return self.launcher.wait(10)
        except subprocess.TimeoutExpired:
            self.launcher.kill()
            return self.launcher.wait()


class Campaign(campaign.Folders):
    def __init__(self, options):
        super().__init__(options)
        self.faults = []
        self.times = []
        self.moments = {}
        self.known = {}

    def fault(self, number, what, run):
        said = "".join(f"--- node {n} (exit {run.code(n)})\n{run.said(n)[-2000:]}\n" for n in range(run.nodes))
        self.faults.append(f"round {number}: {what}")
        print(f"round {number}: {what}\n{said}--- launcher\n{text_of(run.logs / 'launcher')[-2000:]}", flush=True)

    def folder_for(self, name, home):
        folder = self.base / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        (folder / "config.yaml").write_text(CONFIG.format(data=self.base / "text.txt", steps=STEPS, home=home))
        return folder

    def numbers_of(self, folder):
        report = json.loads((folder / "run" / "report.json").read_text())
        return report["weights_xxh3"], report["losses"], report["eval_losses"]

    def train_alone(self, folder, devices, micro_batches):
        """Trains in one process, from the newest checkpoint on. RETURNS: the numbers."""
        words = [str(self.tidepool), "train", str(folder / "config.yaml"), f"output.dir={folder}/run"]
        words += [f"machine.executor=cpu:{devices}", f"train.gradient_accumulation_steps={micro_batches}"]
        subprocess.run([*words, "--resume", "auto"], check=True, stdout=subprocess.DEVNULL)
        return self.numbers_of(folder)

    def undisturbed(self, nodes):
        """Numbers of a run that nothing disturbed, by one process that has as many micro-batches."""
        if nodes not in self.known:
            self.known[nodes] = self.train_alone(self.folder_for(f"undisturbed-{nodes}", "mixed"), 1, nodes)
        return self.known[nodes]

    def expected(self, folder, nodes, fewer):
        """Numbers of the resumed run. Several nodes of several micro-batches each sum as devices do that
        accumulate, which is another order: those are compared with a resume on as many devices."""
        if fewer in (nodes, 1):
            return self.undisturbed(nodes)
        copy = self.base / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(folder, copy)
        return self.train_alone(copy, fewer, nodes // fewer)

    def litter(self, folder):
        """Files that no ended run leaves behind."""
        names = ("swap", "tidepool.run")
        return [str(p) for p in (folder / "run").rglob("*") if p.name in names or ".partial" in p.name]

    def moment(self, run, victim, folder, kind):
        """Waits for the moment of the fault. RETURNS: what was going on; None: the run ended before."""
        if kind == "start":
            run.wait_for(lambda: run.pid(victim) is not None or run.ended(), START_SECONDS)
            time.sleep(self.random.uniform(0, 1.2))
        else:
            metrics = folder / "run" / "metrics.jsonl"
            earlier = text_of(metrics).count('"loss"')
            wanted = earlier + self.random.randint(1, 30)
            run.wait_for(lambda: text_of(metrics).count('"loss"') >= wanted or run.ended(), START_SECONDS)
            if kind == "save":
                before = set((folder / "run").glob("*checkpoint-*"))
                run.wait_for(lambda: set((folder / "run").glob("*checkpoint-*")) - before or run.ended(), 10)
                time.sleep(self.random.uniform(0, 0.02))
            else:
                time.sleep(self.random.uniform(0, 0.3))
        return None if run.ended() or run.pid(victim) is None else kind

    def check_others(self, number, run, victim, others_live_on, took):
        if took is None:
            return self.fault(number, f"others of node {victim} still run", run)
        if took > GONE_SECONDS_MAX and not any("have not met" in run.said(n) for n in range(run.nodes)):
            self.fault(number, f"others of node {victim} were gone after {took:.0f} s only", run)
        self.times.append(took)
        for node in range(run.nodes):
            code = run.code(node)
            if node == victim or (code is None and not others_live_on):
                continue  # the launcher was faster
            if code == 0 and "Weights:" in run.said(node):
                continue  # the run was done
            if code in (75, 130) and "before the first step" in run.said(node) and not others_live_on:
                continue  # by the launcher's signal
            if code != 75:
                self.fault(number, f"node {node} ended with {code}", run)
            elif not self.names(run.said(node), victim) and others_live_on:
                self.fault(number, f"node {node} does not name node {victim}", run)
        return None

    @staticmethod
    def names(said, victim):
        return f"node {victim} (host" in said or "the nodes have not met" in said

    def disturb(self, number, folder, nodes, launcher):
        how = self.random.choice((signal.SIGKILL, signal.SIGSTOP))
        kind = self.random.choice(("start", "steps", "steps", "save"))
        victim = self.random.randrange(nodes)
        others_live_on = self.random.random() < 0.7
        run = Run(self.tidepool, folder, nodes, launcher, LAUNCHERS[launcher][1] if others_live_on else ())
        what = self.moment(run, victim, folder, kind)
        if what is None:
            run.end()
            return "ended before"
        pid = run.pid(victim)
        if pid is not None:
            os.kill(pid, how)
        others = [n for n in range(nodes) if n != victim]
        limit = NOT_MET_SECONDS_MAX if kind == "start" and how == signal.SIGSTOP else GONE_SECONDS_MAX
        took = run.wait_for(lambda: all(run.pid(n) is None for n in others), limit)
        run.wait_for(lambda: all(run.code(n) is not None or not run.shell_lives(n) for n in others), 2)
        self.check_others(number, run, victim, others_live_on, took)
        run.end()
        key = f"{how.name} during {what}"
        self.moments[key] = self.moments.get(key, 0) + 1
        lives = "others live on" if others_live_on else "launcher as usual"
        return f"{launcher} {nodes} nodes: {how.name} of node {victim} during {what}, {lives}: {took or -1:.1f} s"

    def round(self, number):
        launcher = self.random.choice(self.launchers)
        nodes = self.random.choice((2, 2, 4))
        folder = self.folder_for("round", self.random.choice(("disk", "mixed", "host")))
        for _ in range(self.random.randint(1, 2)):
            print(f"round {number}: {self.disturb(number, folder, nodes, launcher)}", flush=True)
        fewer = nodes // 2 if number % 2 else nodes
        expected = self.expected(folder, nodes, fewer)
        run = Run(self.tidepool, folder, fewer, launcher, micro_batches=nodes // fewer)
        if run.wait_for(run.ended, START_SECONDS * 2) is None:
            self.fault(number, "the resumed run hangs", run)
            run.end()
            return
        if run.launcher.returncode != 0:
            self.fault(number, f"the resumed run ended with {run.launcher.returncode}", run)
            return
        if self.numbers_of(folder) != expected:
            self.fault(number, f"resumed on {fewer} nodes, other numbers than undisturbed", run)
        left = self.litter(folder)
        if left:
            self.fault(number, f"litter {left}", run)

    def go(self, rounds):
        modules = self.tidepool.parent
        self.launchers = [
            name
            for name, (words, _) in LAUNCHERS.items()
            if shutil.which(words[0]) and (modules / f"libtidepool_{name}.so").exists()
        ]
        if not self.launchers:
            print("SKIPPED: neither mpirun.openmpi nor mpiexec.mpich, or no module for them")
            return 77
        for number in range(rounds):
            self.round(number)
        times = sorted(self.times) or [0.0]
        print(f"{rounds} rounds, {len(self.times)} faults: others gone after {times[len(times) // 2]:.1f} s (median), "
              f"{times[-1]:.1f} s at most")
        for key, count in sorted(self.moments.items()):
            print(f"  {count:3} {key}")
        print("\n".join(self.faults) if self.faults else "no fault found")
        if not self.faults:
            shutil.rmtree(self.base, ignore_errors=True)
        return 1 if self.faults else 0


if __name__ == "__main__":
    sys.exit(campaign.run(Campaign, __doc__, "rounds"))
