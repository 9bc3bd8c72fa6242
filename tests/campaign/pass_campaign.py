#!/usr/bin/env python3
"""Campaign of passes before training: ends the pass of a reference model or a teacher with kill -9 at random moments.

Each round takes DPO, or distillation from a teacher, and kills the process some times while the pass runs, with budgets
and threads of its own each time. A file without the ending .unfinished must never have other bytes than that of an
undisturbed pass, and the last process must finish it, behind the whole blocks of those before it. Then a bit of the
finished file is turned over in random places, and a run over all data must end with a message that names the file.

Usage: pass_campaign.py TIDEPOOL KILLS [--seed N] [--folder DIR]
"""

import json
import shutil
import signal
import subprocess
import sys
import time

import campaign
from campaign import text_of

MODEL = """\
model: {{model_type: llama, vocab_size: 256, hidden_size: 96, num_hidden_layers: 4, num_attention_heads: 4}}
data: {{train: {data}}}
train: {{precision: fp32, sequence_length: 64, per_device_train_batch_size: 2, max_steps: 1}}
memory: {{device: 32MiB, host: 32MiB, disk: 0}}
machine: {{executor: cpu, threads: 1}}
output: {{dir: {dir}, save_steps: 0, trace: false}}
"""
DOCUMENTS = 1200
DAMAGES_PER_ROUND = 3


class Campaign(campaign.Folders):
    def __init__(self, options):
        super().__init__(options)
        self.model = self.trained_model()
        self.kills = self.behind = self.finished = self.named = 0
        self.whole = {}

    def words(self, count):
        return " ".join(self.random.choice(campaign.WORDS) for _ in range(count))

    def trained_model(self):
        config = self.base / "model.yaml"
        config.write_text(MODEL.format(data=self.base / "text.txt", dir=self.base / "model"))
        subprocess.run([self.tidepool, "train", config], check=True, stdout=subprocess.DEVNULL)
        lines = [{"prompt": self.words(3) + " ", "chosen": self.words(8), "rejected": self.words(7)}
                 for _ in range(DOCUMENTS)]
        (self.base / "pairs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        (self.base / "texts.jsonl").write_text("".join(json.dumps({"text": line["chosen"]}) + "\n" for line in lines))
        return next(self.base.glob("model/checkpoint-*"))

    def config(self, kind, steps):
        """A JSON file is YAML too."""
        pairs = kind == "dpo"
        objective = {"type": "dpo"} if pairs else {"type": "distill", "teacher": str(self.model), "top_k": 8}
        data = self.base / ("pairs.jsonl" if pairs else "texts.jsonl")
        memory = {"device": f"{self.random.randint(8, 24)}MiB", "host": "32MiB", "disk": "32MiB"}
        path = self.base / f"{kind}.yaml"
        path.write_text(json.dumps({
            "model": str(self.model), "data": {"train": [str(data)], "validation_fraction": 0}, "objective": objective,
            "train": {"precision": "fp32", "sequence_length": 128, "per_device_train_batch_size": 2, **steps},
            "memory": memory, "machine": {"executor": "cpu", "threads": self.random.randint(1, 2)},
            "output": {"dir": str(self.base / "run"), "save_steps": 0, "trace": False}}))
        return path

    def start(self, kind, steps={"max_steps": 2}):
        shutil.rmtree(self.base / "run", ignore_errors=True)
        self.log = self.base / "log"
        with open(self.log, "w") as log:
            return subprocess.Popen([self.tidepool, "train", self.config(kind, steps)], stdin=subprocess.DEVNULL,
                                    stdout=log, stderr=log)

    def files(self):
        return [path for path in (self.base / "data-cache").rglob("references-*")]

    def clear(self):
        for path in self.files():
            path.unlink()

    def undisturbed(self, kind):
        if kind not in self.whole:
            self.clear()
            started = time.monotonic()
            if self.start(kind).wait() != 0:
                sys.exit(f"an undisturbed run failed:\n{text_of(self.log)}")
            [path] = self.files()
            self.whole[kind] = path.read_bytes(), time.monotonic() - started
        return self.whole[kind]

    def fail(self, what):
        sys.exit(f"after {self.kills} kills: {what}\n{text_of(self.log)[-4000:]}")

    def wait_for_pass(self, process):
        """Until the pass has begun its file, and then a random time."""
        while process.poll() is None and not self.files():
            time.sleep(0.002)
        time.sleep(self.random.random() ** 2 * self.longest)

    def check_finished(self, kind):
        for path in self.files():
            if path.suffix == ".unfinished":
                self.behind += path.stat().st_size >= 4096
            elif path.read_bytes() != self.whole[kind][0]:
                self.fail(f"{path} has other bytes than the file of an undisturbed pass")
            else:
                self.finished += 1

    def damage(self, kind):
        [path] = self.files()
        whole = path.read_bytes()
        for _ in range(DAMAGES_PER_ROUND):
            place, bit = self.random.randrange(len(whole)), self.random.randrange(8)
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1:])
            code = self.start(kind, {"num_train_epochs": 1}).wait()
            if code == 0 or str(path) not in text_of(self.log):
                self.fail(f"bit {bit} of byte {place} turned over: the run ended with {code}, and no word of {path}")
            self.named += 1
            path.write_bytes(whole)

    def round(self, kind, kills):
        _, took = self.undisturbed(kind)
        self.longest = took / 2
        self.clear()
        for _ in range(kills):
            process = self.start(kind)
            self.wait_for_pass(process)
            process.send_signal(signal.SIGKILL)
            process.wait()
            self.kills += 1
            self.check_finished(kind)
        if self.start(kind).wait() != 0:
            self.fail("the run failed that was to finish the pass")
        if [path.suffix for path in self.files()] == [".unfinished"]:
            self.fail("the pass was not finished")
        self.check_finished(kind)
        self.damage(kind)

    def go(self, kills):
        number = 0
        while self.kills < kills:
            self.round(("dpo", "distill")[number % 2], min(self.random.randint(1, 5), kills - self.kills))
            number += 1
            print(f"{self.kills} kills in {number} rounds: {self.behind} left blocks behind, {self.finished} finished "
                  f"files with the right bytes; {self.named} damages named", flush=True)
        return 0


if __name__ == "__main__":
    sys.exit(campaign.run(Campaign, __doc__, "kills"))
