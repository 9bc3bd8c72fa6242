"""Runs programs for the rows of gpu_rows.py, and keeps results that several rows need.

A row has eight minutes. Shared results (the machine file, the run of rows 4 to 9) are made once, keyed by
program, config, commands and kind of card. They are in FOLDER/kept for later calls, and have eight minutes of
their own.
"""

import copy
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time

import gpu_children
from gpu_main import ROOT
from gpu_memory import DeviceMemoryWatch
from gpu_programs import card_memory_mib, card_name, has_module
from gpu_results import write_whole

LIMIT_SECONDS = 8 * 60
TINY = [
    "model.n_embd=64",
    "model.n_layer=2",
    "model.n_head=2",
    "model.n_positions=64",
    "model.vocab_size=256",
    "train.sequence_length=64",
    "train.per_device_train_batch_size=1",
    "train.gradient_accumulation_steps=2",
    "memory.host=64MiB",
    "machine.executor=cpu",
]
TEXT = "the tide pool fills and empties as water does. so we wait by the rocks.\n" * 50_000


class NotMeasured(Exception):
    """Says why a row has no figure; `details` are the results that it has."""

    def __init__(self, why, details=None):
        super().__init__(why)
        self.details = details or {}


class Bench:
    failed = {}  # shared results that failed in this call: not tried again for every row

    def __init__(self, options, programs):
        self.options, self.programs = options, programs
        self.out = pathlib.Path(options.out)
        self.tidepool = str(programs.tidepool)
        self.config = str(options.config)
        self.tiny_words = TINY
        self.commands = []
        self.begin = time.monotonic()
        self.deadline = getattr(options, "deadline", float("inf"))  # for the whole call

    def of(self, config, tiny_words):
        """Returns this bench for another config of configs/gpu, with --tiny made small by `tiny_words`."""
        other = copy.copy(self)
        other.config, other.tiny_words = str(ROOT / "configs/gpu" / config), tiny_words
        return other

    # ---- running

    def run(self, words, watch=None, at_line=None, **environment):
        """Returns standard output. `watch` samples memory during the run; `at_line` gets each line."""
        words = [str(word) for word in words]
        self.tell(words, environment)
        began = time.monotonic()
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "errors": "replace"}
        lines, errors, late = [], [], threading.Event()
        with gpu_children.started(words, cwd=ROOT, env=self.programs.env | environment, **streams) as process:
            seconds = self.seconds_left()
            timer = threading.Timer(seconds, self.end_late, (process, late))
            timer.daemon = True
            timer.start()
            pass_on = threading.Thread(target=self.pass_on, args=(process.stderr, errors), daemon=True)
            pass_on.start()
            try:
                if watch is not None:
                    watch.begin(process.pid)
                for line in process.stdout:
                    lines.append(line)
                    if at_line is not None:
                        self.pass_line_on(began, line)
                        at_line(line)
                pass_on.join()
                process.wait()
            except BaseException:
                gpu_children.kill(process)  # while the timer still runs
                raise
            finally:
                timer.cancel()
                if watch is not None:
                    watch.end()
        gpu_children.check_stopped()
        if late.is_set():
            said = f"; it last said: {errors[-1]}" if errors else ""
            raise NotMeasured(f"stopped after {seconds:.0f} s: {' '.join(words[:2])}{said}")
        if process.returncode != 0:
            why = next(
                (line for line in errors if line.startswith("tidepool: ")), (errors or ["no message"])[-1]
            )
            raise NotMeasured(f"exit code {process.returncode} of {' '.join(words[:2])}: {why}")
        return "".join(lines)

    def seconds_left(self):
        """Returns the seconds left for the row and for the whole call."""
        now = time.monotonic()
        left = min(self.begin + LIMIT_SECONDS, self.deadline) - now
        if now >= self.deadline:
            raise NotMeasured("the call's time was up: call again for this row")
        return max(1.0, left)

    def tell(self, words, environment):
        self.commands.append(self.command(words, environment))
        print("+ " + self.commands[-1], file=sys.stderr, flush=True)

    @staticmethod
    def command(words, environment):
        return " ".join([f"{name}={value}" for name, value in environment.items()] + [shlex.join(words)])

    @staticmethod
    def pass_line_on(began, line):
        sys.stderr.write(f"{time.monotonic() - began:6.1f} s  {line}")
        sys.stderr.flush()

    @staticmethod
    def pass_on(stream, kept):
        for line in stream:
            sys.stderr.write(line)
            kept.append(line.strip())

    @staticmethod
    def end_late(process, late):
        late.set()
        gpu_children.kill(process)

    def run_json(self, words, **environment):
        return json.loads(self.run(words, **environment).strip().splitlines()[-1])

    def torch_json(self, script, *words):
        if not self.has_torch():
            raise NotMeasured(f"{self.options.python} has no PyTorch (--python names another)")
        device = ["--device", "cpu", "--tiny"] if self.options.tiny else ["--device", "cuda"]
        return self.run_json([self.options.python, ROOT / "tests/bench" / script, *device, *words])

    def has_torch(self):
        return has_module(self.options.python, "torch")

    def say_without_torch(self):
        """Warns if there is no PyTorch, before minutes go into our own part."""
        if not self.has_torch():
            print(
                f"{self.options.python} has no PyTorch: our own figure alone (--python names another)",
                file=sys.stderr,
                flush=True,
            )

    def compare(self, told, ours, script, *words):
        """Returns the result of PyTorch's script; on failure keeps our own figure (text `told`, JSON `ours`)."""
        try:
            return self.torch_json(script, *words)
        except NotMeasured as why:
            raise NotMeasured(f"{why}; ours: {told}", {"ours": ours}) from why

    def bench(self, part, **environment):
        device = "cpu" if self.options.tiny else "cuda"
        more = ["--repetitions", "1"] if self.options.tiny else []
        words = [self.tidepool, "bench", part, "--json", "--device", device, *more]
        return self.run_json(words, **environment)

    # ---- results made once

    def kept_before(self, name, words, config=True):
        """Returns what an earlier call kept for the same program, config, words and kind of card, or None."""
        try:
            stored = json.loads((self.out / "kept" / f"{name}.json").read_text())
            return stored["value"] if stored["key"] == self.key_of(words, config) else None
        except (OSError, ValueError, LookupError, TypeError):
            return None  # missing or unreadable: it is made again

    def kept(self, name, words, make, config=True):
        """Returns the JSON value of make(), or the value that an earlier call kept. `config`: it depends on it."""
        value = self.kept_before(name, words, config)
        if value is not None:
            return value
        key = self.key_of(words, config)
        path = self.out / "kept" / f"{name}.json"
        if (name, key) in Bench.failed:
            raise NotMeasured(Bench.failed[name, key])
        row_begin, self.begin = self.begin, time.monotonic()  # a clock of its own
        began = self.begin
        try:
            value = make()
        except Exception as why:
            Bench.failed[name, key] = str(why)
            raise
        finally:
            self.begin = row_begin + (time.monotonic() - began)
        path.parent.mkdir(exist_ok=True)
        write_whole(path, json.dumps({"key": key, "value": value}))
        return value

    def key_of(self, words, config=True):
        digest = hashlib.sha256()
        for path in (self.tidepool, self.config) if config else (self.tidepool,):
            digest.update(pathlib.Path(path).read_bytes() if os.path.exists(path) else b"")
        digest.update(json.dumps([self.without_places(str(word)) for word in words]).encode())
        digest.update(card_name().encode())
        return digest.hexdigest()

    def without_places(self, word):
        """Replaces paths: a machine of the same kind may have the same files elsewhere."""
        places = {self.tidepool: "PROGRAM", self.config: "CONFIG", str(self.out): "OUT"}
        for place, name in places.items():
            word = word.replace(place, name)
        return word

    def machine_words(self):
        device, seconds = ("cpu", "2") if self.options.tiny else ("cuda", "40")
        words = [self.tidepool, "probe", "--output", self.out / "machine.yaml", "--disk", self.out]
        return [*words, "--device", device, "--seconds", seconds]

    def machine(self):
        """Returns the machine file, measured once: all predictions and peaks use the same file."""
        path, words = self.out / "machine.yaml", self.machine_words()

        def make():
            self.run(words)
            return path.read_text()

        write_whole(path, self.kept("machine", words, make, config=False))
        return path

    def peak_flops(self):
        """Returns the peak rate for the run's type of products, as the probe measured it."""
        rate = re.search(r"^  bf16: ([0-9.]+) ([GTP])FLOP/s", self.machine().read_text(), re.MULTILINE)
        if rate is None:
            raise NotMeasured("the probe measured no bf16 product")
        return float(rate.group(1)) * {"G": 1e9, "T": 1e12, "P": 1e15}[rate.group(2)]

    def data(self):
        """Writes some text: speed does not depend on its content."""
        path = self.out / "data.txt"
        if not path.exists():
            write_whole(path, TEXT)
        return path

    def settings(self, *overrides):
        words = [self.config, f"data.train={self.data()}"]
        if self.options.tiny:
            words += self.tiny_words
        return words + list(overrides)

    @staticmethod
    def card_bytes():
        return card_memory_mib() << 20

    def device_budget(self):
        return "32MiB" if self.options.tiny else "20GiB"

    def disk_budget(self):
        return f"{shutil.disk_usage(self.out).free * 8 // 10 >> 30}GiB"

    def train_words(self, name, overrides):
        places = [f"machine.file={self.machine()}", f"output.dir={self.out / f'run-{name}'}"]
        return [self.tidepool, "train", *self.settings(*overrides), *places]

    def train(self, name, *overrides, watch=None, at_line=None):
        """Runs training and returns the report. The run's folder stays, without the swap file."""
        run, words = self.out / f"run-{name}", self.train_words(name, overrides)
        shutil.rmtree(run, ignore_errors=True)
        try:
            self.run(words, watch, at_line)
        finally:
            shutil.rmtree(run / "swap", ignore_errors=True)
        return json.loads((run / "report.json").read_text())

    def drop_run(self, name):
        shutil.rmtree(self.out / f"run-{name}", ignore_errors=True)

    def plan(self, *words):
        """Returns the output of `tidepool plan` for the probed machine."""
        return self.run([self.tidepool, "plan", *words, f"machine.file={self.machine()}"])

    @staticmethod
    def largest_model(text):
        """Returns the parameters, layers, width and heads that `plan --max` names."""
        shape = re.search(r"([0-9.]+[MB]?) parameters, (\d+) layers? x (\d+) \((\d+) heads?\)", text)
        if shape is None:
            raise NotMeasured("plan --max names no model")
        return shape.groups()

    def offloaded_words(self, overrides):
        traced = ["output.logging_steps=1", "output.trace=true"]
        return [f"memory.device={self.device_budget()}", *traced, *overrides]

    def offloaded(self, *overrides):
        """Returns the run of rows 4 to 9: report, rates of links, and memory by the driver's count."""
        words = self.offloaded_words(overrides)

        def make():
            watch, first_step = DeviceMemoryWatch(), []

            def at_line(line):
                if not first_step and re.match(r"step 1/", line):
                    first_step.append(time.monotonic() - watch.begin_at)

            report = self.train("offloaded", *words, watch=watch, at_line=at_line)
            step = json.loads((self.out / "run-offloaded/step.json").read_text())
            return {
                "report": report,
                "memory": watch.result(),
                "first_step_at": (first_step or [None])[0],
                "rates": link_rates(step),
            }

        self.machine()  # has a clock of its own, too
        return self.kept("-".join(["offloaded", *overrides]), self.settings(*words), make)

    def offloaded_before(self):
        """Returns the same run if an earlier call made it, otherwise None; never starts it."""
        return self.kept_before("offloaded", self.settings(*self.offloaded_words([])))


def link_rates(step):
    """Returns bytes per second of each link while its ops ran, in step.json's steady step."""
    ops, times = step["ops"], step["measured"]
    rates = {}
    for lane, name in enumerate(step["lanes"]):
        if name not in ("h2d", "d2h") or not times:
            continue
        mine = [op for op, of in enumerate(ops["lane"]) if of == lane and ops["bytes"][op] > 0]
        busy, until = 0, float("-inf")
        for begin, end in sorted((times["started_us"][op], times["finished_us"][op]) for op in mine):
            busy += max(0, end - max(begin, until))
            until = max(until, end)
        if busy > 0:
            rates[name] = sum(ops["bytes"][op] for op in mine) / busy * 1e6
    return rates


def seconds_by_kind(step):
    """Returns, for each kind of op in step.json's steady step, its seconds: predicted and measured."""
    ops, names = step["ops"], step["op_kinds"]
    sums = {}
    for which in ("predicted", "measured"):
        times = step[which]
        if not times:
            continue
        for op, kind in enumerate(ops["kind"]):
            of = sums.setdefault(names[kind], {"predicted": 0.0, "measured": 0.0, "ops": 0})
            of[which] += (times["finished_us"][op] - times["started_us"][op]) * 1e-6
            of["ops"] += which == "measured"
    return sums
