#!/usr/bin/env python3
"""Campaign of kills: ends one process of a run with kill -9 at a random moment, again and again, and resumes.

A round trains a small model to its end, in half of them with sequences that are cut into tiles and pieces. It is killed some times on the way: while it starts, computes, commits a
step, saves a checkpoint, or resumes from a commit. Each process has budgets, threads, devices, chunk sizes and homes
of its own, and keeps two or three versions of the state. In the end the weights must be those of an undisturbed run.
After each kill the campaign reads the step that was logged last, and the step from which the next process resumes: no
more than persist_steps + 1 may be lost. With `auto`, persist_steps is twice what the process has said last or before.

Usage: kill_campaign.py TIDEPOOL KILLS [--seed N] [--folder DIR] [--versions 2|3]
"""

import json
import re
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
train: {{precision: {precision}, sequence_length: 32, per_device_train_batch_size: 2, learning_rate: 5e-3,
  gradient_accumulation_steps: 2, max_steps: {steps}, eval_steps: 25, eval_batches: 5, max_grad_norm: {clip}, optim: {optim},
  tile_tokens: {tile}}}
memory: {{device: 16MiB, host: 16MiB, disk: 64MiB}}
machine: {{executor: cpu, threads: 1}}
output: {{save_steps: {save_steps}, trace: false}}
"""
STEPS = 60
WHOLE = 32  # tokens of a tile that is a whole sequence
WAIT_SECONDS = 120.0


class Campaign(campaign.Folders):
    def __init__(self, options):
        super().__init__(options)
        self.faults = []
        self.known = {}
        self.kills = 0
        self.lost = []
        self.sources = {}
        self.versions = options.versions

    def fault(self, number, what, said=""):
        self.faults.append(f"round {number}: {what}")
        print(f"round {number}: {what}\n{said[-12000:]}", flush=True)

    def folder_for(self, name, kind):
        folder = self.base / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        precision, clip, optim, tile = kind
        save_steps = self.random.choice((0, 7, 20))
        (folder / "config.yaml").write_text(
            CONFIG.format(data=self.base / "text.txt", steps=STEPS, precision=precision, clip=clip,
                          optim=optim, tile=tile, save_steps=save_steps))
        return folder

    def start(self, folder, words):
        command = [str(self.tidepool), "train", str(folder / "config.yaml"), f"output.dir={folder}/run", *words]
        command += ["--resume", "auto"]
        if (folder / "log").exists():
            (folder / "log").rename(folder / "log.before")
        with open(folder / "log", "w", encoding="utf-8") as log:
            print(" ".join(command), file=log, flush=True)
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def numbers_of(self, folder):
        report = json.loads((folder / "run" / "report.json").read_text())
        return report["weights_xxh3"], report["losses"], report["eval_losses"]

    def undisturbed(self, kind):
        if kind not in self.known:
            folder = self.folder_for("undisturbed", kind)
            process = self.start(folder, ["memory.versions=1"])
            if process.wait() != 0:
                sys.exit(f"the undisturbed run failed:\n{text_of(folder / 'log')}")
            self.known[kind] = self.numbers_of(folder)
        return self.known[kind]

    def elsewhere(self, kind):
        """Settings that may differ between a process of a run and the next. Sums of tiles belong to a device."""
        pick = self.random.choice
        words = [f"memory.home={pick(('auto', 'disk', 'mixed', 'host', 'device'))}"]
        words += [f"machine.threads={pick((1, 2, 3))}", f"memory.io={pick(('auto', 'threads'))}"]
        devices = pick((1, 1, 2)) if kind[-1] == WHOLE else 1
        words += [f"machine.executor=cpu:{devices}", f"train.gradient_accumulation_steps={2 // devices}"]
        words += [f"memory.piece_tokens={pick((8, 16, 24, 64))}"]
        chunk = pick(("auto", "auto", "8KiB", "40KiB"))
        words += [f"memory.chunk_size={chunk}", f"memory.host={pick((12, 16, 32))}MiB"]
        persist = pick((1, 1, 2, 5, "auto"))
        words += [f"train.speculate={pick(('auto', 'on', 'off'))}"]
        versions = self.versions or pick((2, 3, 3))
        return [*words, f"output.persist_steps={persist}", f"memory.versions={versions}"], persist, versions

    def persist_steps(self, folder, persist):
        """RETURNS: how many steps the last process took to a commit, at most; `auto` says it, and each change by more
        than a factor of two."""
        if persist != "auto":
            return persist
        return 2 * max(map(int, re.findall(r"one step in (\d+) is committed", text_of(folder / "log"))), default=1)

    def logged_step(self, folder):
        step = 0
        for line in text_of(folder / "run" / "metrics.jsonl").splitlines():
            found = re.match(r'\{"step": ?(\d+).*"loss"', line)
            if found:
                step = max(step, int(found.group(1)))
        return step

    def wait_for_moment(self, process, folder):
        """RETURNS: false if the process ended before."""
        kind = self.random.choice(("start", "step", "step", "step", "save"))
        begin = time.monotonic()
        wanted = self.logged_step(folder) + self.random.randint(1, 12)
        saved = set((folder / "run").glob("*checkpoint-*"))

        def reached():
            if kind == "start":
                return True
            if kind == "save":
                return bool(set((folder / "run").glob("*checkpoint-*")) - saved)
            return self.logged_step(folder) >= wanted

        while process.poll() is None and not reached():
            if time.monotonic() - begin > WAIT_SECONDS:
                break
            time.sleep(0.002)
        time.sleep(self.random.uniform(0, 0.25 if kind == "start" else 0.03))
        return process.poll() is None

    def trained(self, folder):
        said = text_of(folder / "log")
        return "resumed from" in said or "training starts at step 1" in said

    def check_went_on(self, number, folder, logged, persist, saved):
        """Checks the step from which a process resumed, once it says so. `logged`: by the processes before. `saved`:
        names of checkpoints, also incomplete ones, when the last of them was killed, if it kept two versions of the
        state: then no step is committed while one is written."""
        said = text_of(folder / "log")
        found = re.search(r"resumed from .*\(step (\d+)\)", said)
        step = int(found.group(1)) if found else 0
        if not found and "--resume auto: " not in said:
            return  # killed before it said so
        source = "commit" if "resumed from the state committed" in said else "checkpoint" if found else "nothing"
        self.sources[source] = self.sources.get(source, 0) + 1
        self.lost.append(logged - step)
        saving = any(re.match(rf"checkpoint-{step}($|\.)", name) for name in saved)
        if logged - step > persist + 1 and not saving:
            self.fault(number, f"{logged} steps were logged, and it resumes from {step} (persist_steps {persist})",
                       text_of(folder / "log.before") + said)

    def round(self, number, kills):
        optim = self.random.choice(("adamw_torch", "adamw_8bit", "adamw_bf16", "lion_8bit", "muon", "adafactor"))
        kind = (*self.random.choice((("bf16", 0.5), ("bf16", 0), ("fp32", 0.5), ("fp16", 0.5))), optim,
                self.random.choice((8, WHOLE)))
        expected = self.undisturbed(kind)
        folder = self.folder_for("round", kind)
        killed, logged, persist, saved = 0, 0, 1, set()
        while True:
            words, next_persist, versions = self.elsewhere(kind)
            process = self.start(folder, words)
            if killed < kills and self.wait_for_moment(process, folder):
                process.send_signal(signal.SIGKILL)
            code = process.wait()
            if logged > 0:
                self.check_went_on(number, folder, logged, persist, saved)
            if code == 0:
                break
            if code != -signal.SIGKILL:
                self.fault(number, f"ended with {code}: {' '.join(words)}", text_of(folder / "log"))
                return killed
            killed += 1
            next_persist = self.persist_steps(folder, next_persist)
            before, logged = logged, self.logged_step(folder)
            # The process that logged the last step decides how many may be lost. One that trained the steps of
            # others again, also from step 1, may have committed fewer of them.
            if logged > before:
                persist = next_persist
            elif self.trained(folder):
                persist = max(persist, next_persist)
            now = {p.name for p in (folder / "run").glob("*checkpoint-*")} if versions == 2 else set()
            # A process that was killed before it trained a step tells nothing new of the one before.
            saved = saved | now if logged == before else now
        names = ("weights", "losses", "eval_losses")
        differ = [n for n, is_, was in zip(names, self.numbers_of(folder), expected) if is_ != was]
        if differ:
            self.fault(number, f"other {', '.join(differ)} than undisturbed, after {killed} kills", text_of(folder / "log"))
            shutil.copytree(folder, self.base / f"fault-{number}")
        left = [str(p) for p in (folder / "run").rglob("*") if ".tmp-" in p.name or "swap" in p.name]
        if left:
            self.fault(number, f"litter {left}")
        return killed

    def go(self, kills):
        number = 0
        while self.kills < kills and len(self.faults) < 20:
            self.kills += self.round(number, min(self.random.randint(1, 10), kills - self.kills))
            number += 1
            if number % 10 == 0:
                print(f"{number} rounds, {self.kills} kills, {len(self.faults)} faults", flush=True)
        lost = sorted(self.lost) or [0]
        print(f"{number} rounds, {self.kills} kills; resumed from: {self.sources}; "
              f"steps lost: {lost[len(lost) // 2]} (median), {lost[-1]} at most")
        print("\n".join(self.faults) if self.faults else "no fault found")
        if not self.faults:
            shutil.rmtree(self.base, ignore_errors=True)
        return 1 if self.faults else 0


if __name__ == "__main__":
    sys.exit(campaign.run(Campaign, __doc__, "kills", {"versions": (2, 3)}))
