#!/usr/bin/env python3
"""Campaign of mounts: kills a run again and again while the disk with its committed state comes and goes.

A sequence trains a small run that commits its steps on another disk: a directory, which the campaign renames to play
unmounting. Between kills it unmounts the disk, mounts another in its place, puts an older copy of the swap file back,
moves the run or the swap directory, or resumes from an earlier checkpoint, so that the commit is of a sister branch.
Then it resumes with --resume auto. Such a process must reach the last step that was committed or saved on the branch that
was trained last, or be refused. Of a refusal the campaign follows one advice at random, word by word; that must work.

Usage: mount_campaign.py TIDEPOOL SEQUENCES [--seed N] [--folder DIR]
"""

import json
import re
import shutil
import signal
import struct
import subprocess
import sys
import time

import campaign
from campaign import text_of

CONFIG = """\
model: {{model_type: gpt2, vocab_size: 256, n_embd: 16, n_layer: 2, n_head: 2, n_positions: 16}}
data: {{train: {data}}}
train: {{precision: fp32, sequence_length: 16, per_device_train_batch_size: 1, learning_rate: 1e-3, max_steps: 1000000,
  lr_scheduler_type: constant}}
memory: {{device: 4MiB, host: 8MiB, disk: 16MiB, home: disk, versions: {versions}}}
machine: {{executor: cpu, threads: 1}}
output: {{save_steps: {save_steps}, save_total_limit: 4, persist_steps: 1, trace: false}}
"""
WAIT_SECONDS = 120.0


def commit_of(path):
    """RETURNS: branch and step of the newest whole commit in a swap file; step 0: it has none; "" and 0: no file."""
    try:
        data = path.read_bytes()
    except OSError:
        return "", 0
    if data[:8] != b"TPSTATE\n":
        return "", 0
    area_bytes, _, length = struct.unpack_from("<QQQ", data, 16)
    begin = (48 + length + 8 + 4095) // 4096 * 4096
    step = 0
    for area in (0, 1):
        magic, _, of_area = struct.unpack_from("<8sQQ", data, begin + area * area_bytes)
        if magic == b"TPRECORD":
            step = max(step, of_area)
    return json.loads(data[48:48 + length])["branch"], step


class Sequence:
    """One run and its disks."""

    def __init__(self, owner, number):
        self.owner, self.random = owner, owner.random
        self.number = number
        self.folder = owner.base / "sequence"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        (self.folder / "config.yaml").write_text(
            CONFIG.format(data=owner.base / "text.txt", save_steps=self.random.choice((3, 7, 1000)),
                          versions=self.random.choice((2, 3))))
        self.run, self.swap = "run", "disk"  # their names in the folder
        self.away = []  # directories with a swap file that are not mounted
        self.names = 0
        self.reached = 0  # last step of the branch that was trained last
        self.branch = ""
        self.history = []

    # ---- files ------------------------------------------------------------------------------------------

    def fresh(self, kind):
        self.names += 1
        return f"{kind}-{self.names}"

    def spelled(self, name):
        return self.random.choice((name, f"./{name}", f"{name}/", str(self.folder / name), f"{self.folder / name}/"))

    def name_of(self, path):
        return str((self.folder / path).resolve().relative_to(self.folder))

    def checkpoints(self):
        found = [re.fullmatch(r"checkpoint-(\d+)", p.name) for p in (self.folder / self.run).glob("checkpoint-*")]
        return sorted(int(m.group(1)) for m in found if m)

    def swap_file(self):
        return self.folder / self.swap / "tidepool.swap"

    def put_away(self, name):
        """Unmounts a directory."""
        path = self.folder / name
        if path.exists():
            self.away.append(self.fresh("away"))
            path.rename(self.folder / self.away[-1])

    def mount(self, name):
        self.put_away(self.swap)
        self.away.remove(name)
        (self.folder / name).rename(self.folder / self.swap)

    def holder(self):
        """RETURNS: the directory away that has the commit of the trained branch with its last step, or its swap file
        without a commit, if the first one was being made; else None."""
        found = {name: commit_of(self.folder / name / "tidepool.swap") for name in self.away}
        mine = [(step, name) for name, (branch, step) in found.items() if branch == self.branch]
        return max(mine)[1] if mine else None

    # ---- processes --------------------------------------------------------------------------------------

    def words_of(self, resume, extra=()):
        words = ["train", "config.yaml", f"output.dir={self.spelled(self.run)}",
                 f"memory.swap_dir={self.spelled(self.swap)}", *extra]
        return words + (["--resume", resume] if resume else [])

    def logged(self):
        lines = text_of(self.folder / self.run / "metrics.jsonl").splitlines()
        steps = [re.match(r'\{"step": ?(\d+).*"loss"', line) for line in lines]
        return max((int(m.group(1)) for m in steps if m), default=0)

    def train(self, words):
        """Trains some steps and kills the process, or lets it save and stop. RETURNS: (the step it began from, None),
        or (None, what it said) if it was refused."""
        self.history.append(" ".join(words))
        log = self.folder / "log"
        more, ends = self.random.randint(1, 9), self.random.choice((signal.SIGKILL,) * 4 + (signal.SIGINT,))
        with open(log, "w", encoding="utf-8") as out:
            process = subprocess.Popen([str(self.owner.tidepool), *words], cwd=self.folder,
                                       stdin=subprocess.DEVNULL, stdout=out, stderr=out)
            begin, start = time.monotonic(), None if "--resume" in words else 0
            while process.poll() is None:
                if start is None:
                    start = self.start_of(text_of(log))
                elif self.logged() >= start + more:
                    break
                if time.monotonic() - begin > WAIT_SECONDS:
                    process.kill()
                    self.owner.fault(self, f"no step in {WAIT_SECONDS} s", text_of(log))
                    break
                time.sleep(0.002)
            if process.poll() is None:
                process.send_signal(ends)
            code = process.wait()
        said = text_of(log)
        start = self.start_of(said) if start is None else start
        if "stopped before the first step" in said:  # the log has later steps than the commit it resumes from
            if words[-1] != "auto":  # its branch is left all the same
                self.learn()
            return (self.reached if start is None else start), None
        if code not in (-signal.SIGKILL, 75):
            return None, said
        self.learn()
        return start, None

    @staticmethod
    def start_of(said):
        found = re.search(r"resumed from .*\(step (\d+)\)", said)
        if found:
            return int(found.group(1))
        return 0 if "--resume auto: " in said else None

    def learn(self):
        note = self.folder / self.run / "branch.json"
        if note.exists():
            self.branch = json.loads(note.read_text())["branches"][-1]["id"]
        branch, step = commit_of(self.swap_file())
        committed = step if branch == self.branch else 0
        self.reached = max([committed, *self.checkpoints()[-1:]])

    def known(self):
        """RETURNS: the step that a run can know of. A kill between a commit and its note leaves `begun` beyond `step`. If
        the file is then replaced by a copy from before that commit, it looks as after a kill during the commit: the
        step is trained again, to the same bits."""
        note = self.folder / self.run / "branch.json"
        branch, step = commit_of(self.swap_file())
        noted = json.loads(note.read_text()) if note.exists() else None
        if noted and branch == self.branch and step == noted["step"] < noted["begun"]:
            return max([step, *self.checkpoints()[-1:]])
        return self.reached

    # ---- a resume and its advice -----------------------------------------------------------------------

    def resume(self):
        reached, branch = self.known(), self.branch
        start, said = self.train(self.words_of("auto"))
        for _ in range(4):
            if said is None:
                break
            reached, start, said = self.follow(said, reached)
            if reached is None:
                return False
        if said is not None:
            self.owner.fault(self, "advice leads from refusal to refusal", said)
            return False
        if start < reached:
            self.owner.fault(self, f"step {reached} was committed or saved on {branch}, and it began from {start}",
                             text_of(self.folder / "log"))
            return False
        return True

    def ways_out(self, said):
        """RETURNS: the advice that a refusal gives: its kind, and the text that names it."""
        patterns = {
            "back": r"bring (?:the file|that one) back .*?resume with --resume auto(?: and memory\.swap_dir=(\S+?))?[,;]",
            "without": r"train on without it: --resume (\S+?)( with another memory\.swap_dir)?(?:;|$)",
            "older": r"train on from step \d+: --resume (\S+)$",
            "return": r"to return to that branch, resume with --resume (\S+)$",
            "move": r"move the file away and resume with --resume auto",
            "anew": r"set another output\.dir( and another memory\.swap_dir)? to begin anew",
            "there": r"committed after step \d+: resume with --resume auto and memory\.swap_dir=(\S+?),",
            "elsewhere": r"resume (?:it there )?with --resume auto and output\.dir=(\S+?)[,;]",
        }
        line = next((l for l in reversed(said.splitlines()) if l.startswith("tidepool: ")), "")
        found = {kind: re.search(pattern, line) for kind, pattern in patterns.items()}
        moves = re.search(r"move this file away", line) is not None
        return {kind: match for kind, match in found.items() if match}, moves

    def follow(self, said, reached):
        """Follows one advice. RETURNS: the least step from which the next process must begin, and as train()."""
        ways, moves = self.ways_out(said)
        if not ways:
            self.owner.fault(self, "refused without advice", said)
            return None, None, None
        kind = self.random.choice(sorted(ways))
        match = ways[kind]
        self.history.append(f"  follows '{kind}': {match.group(0)}")
        self.owner.count(kind)
        if kind == "back":
            holder = self.holder()
            if holder is None:
                self.owner.fault(self, "told to bring back what was never there", said)
                return None, None, None
            self.mount(holder)
            return reached, *self.train(self.words_of("auto"))
        if kind in ("without", "anew") and moves or kind == "move":
            self.put_away(self.swap)
        if kind == "move":
            return reached, *self.train(self.words_of("auto"))
        if kind == "without":
            return int(match.group(1).rsplit("-", 1)[1]), *self.train(self.words_of(match.group(1)))
        if kind in ("older", "return"):
            _, step = commit_of(self.swap_file())
            return step, *self.train(self.words_of(match.group(1)))
        if kind == "anew":
            self.run = self.fresh("run")
            if match.group(1):
                self.swap = self.fresh("disk")
            self.away.clear()
            return 0, *self.train(self.words_of(""))
        if kind == "there":
            self.swap = self.name_of(match.group(1))
        else:
            self.run = self.name_of(match.group(1))
        return reached, *self.train(self.words_of("auto"))

    # ---- what happens between --------------------------------------------------------------------------

    def change(self):
        kind = self.random.choice(("nothing", "unmount", "unmount", "mount", "mount", "older", "branch", "branch",
                                   "move run", "move swap"))
        self.history.append(f"  {kind}")
        if kind == "unmount":
            self.put_away(self.swap)
            if self.random.random() < 0.5:
                (self.folder / self.swap).mkdir()
        elif kind == "mount" and self.away:
            self.mount(self.random.choice(self.away))
        elif kind == "older" and self.swap_file().exists():
            return self.bring_older()
        elif kind == "branch":
            return self.leave_branch()
        elif kind == "move run":
            name = self.fresh("run")
            (self.folder / self.run).rename(self.folder / name)
            self.run = name
        elif kind == "move swap" and (self.folder / self.swap).exists():
            name = self.fresh("disk")
            (self.folder / self.swap).rename(self.folder / name)
            self.swap = name
        return True

    def bring_older(self):
        """Trains on, and puts the swap file of before back."""
        copy = self.fresh("away")
        shutil.copytree(self.folder / self.swap, self.folder / copy)
        went_on = self.resume()
        if (self.folder / self.swap).exists():
            self.put_away(self.swap)
        (self.folder / copy).rename(self.folder / self.swap)
        return went_on

    def leave_branch(self):
        """Resumes from a checkpoint by its name."""
        there = sorted(p.name for p in (self.folder / self.run).glob("checkpoint-*")
                       if re.fullmatch(r"checkpoint-\d+(\.abandoned(-\d+)?)?", p.name))
        if not there:
            return True
        name = self.random.choice(there)
        path = f"{self.spelled(self.run)}/{name}".replace("//", "/")
        step = int(re.match(r"checkpoint-(\d+)", name).group(1))
        start, said = self.train(self.words_of(path))
        if said is not None:  # a commit is in the way
            if not re.search(r"move the file away to resume from \S+", said):
                self.owner.fault(self, "a checkpoint was refused without advice", said)
                return False
            self.owner.count("away")
            self.put_away(self.swap)
            start, said = self.train(self.words_of(path))
        if said is not None or start != step:
            self.owner.fault(self, f"{name} was named, and it began from {start}", said or "")
            return False
        return True

    def go(self):
        _, said = self.train(self.words_of(""))
        if said is not None:
            self.owner.fault(self, "the first process was refused", said)
            return
        for _ in range(self.random.randint(3, 8)):
            if not self.change() or not self.resume():
                return


class Campaign(campaign.Folders):
    def __init__(self, options):
        super().__init__(options)
        self.faults = []
        self.followed = {}

    def fault(self, sequence, what, said=""):
        self.faults.append(f"sequence {sequence.number}: {what}")
        print(f"sequence {sequence.number}: {what}\n" + "\n".join(sequence.history) + f"\n{said[-6000:]}", flush=True)
        kept = self.base / f"fault-{len(self.faults)}"
        shutil.copytree(sequence.folder, kept, symlinks=True)

    def count(self, kind):
        self.followed[kind] = self.followed.get(kind, 0) + 1

    def go(self, sequences):
        for number in range(sequences):
            Sequence(self, number).go()
            if len(self.faults) >= 10:
                break
        print(f"{sequences} sequences; advice followed: {dict(sorted(self.followed.items()))}")
        print("\n".join(self.faults) if self.faults else "no fault found")
        if not self.faults:
            shutil.rmtree(self.base, ignore_errors=True)
        return 1 if self.faults else 0


if __name__ == "__main__":
    sys.exit(campaign.run(Campaign, __doc__, "sequences"))
