#!/usr/bin/env python3
"""The benchmarks of a GPU, one by one: scripts/gpu_check.sh --bench NAME runs them.

Each takes under eight minutes on one GPU, and adds its row to FOLDER/bench.json and to the table FOLDER/bench.md.
What could not be measured says why; no figure is estimated. With --tiny the same commands run on the cores with a
tiny model, to try the script itself: such figures say nothing, and go into a folder of their own.
"""

import argparse
import datetime
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
GIB = 1 << 30
LIMIT_SECONDS = 8 * 60
TINY = ["model.n_embd=64", "model.n_layer=2", "model.n_head=2", "model.n_positions=64", "model.vocab_size=256",
        "train.sequence_length=64", "train.per_device_train_batch_size=1", "train.gradient_accumulation_steps=2",
        "memory.host=64MiB", "machine.executor=cpu"]


class NotMeasured(Exception):
    """Why a row has no figure."""


class Bench:
    def __init__(self, options):
        self.options = options
        self.out = pathlib.Path(options.out)
        self.tidepool = str(pathlib.Path(options.tidepool).resolve())
        self.config = options.config
        self.commands = []
        self.begin = time.monotonic()

    # ---- running

    def run(self, words, watch=None):
        words = [str(word) for word in words]
        self.commands.append(" ".join(words))
        print("+ " + " ".join(words), file=sys.stderr, flush=True)
        if self.options.dry_run:
            raise NotMeasured("dry run")
        left = max(1.0, LIMIT_SECONDS - (time.monotonic() - self.begin))
        process = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        if watch is not None:
            watch.begin(process.pid)
        try:
            output, _ = process.communicate(timeout=left)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise NotMeasured(f"stopped after {LIMIT_SECONDS} s: {words[0]} {words[1]}")
        finally:
            if watch is not None:
                watch.end()
        if process.returncode != 0:
            raise NotMeasured(f"exit code {process.returncode} of: {' '.join(words)}")
        return output

    def run_json(self, words):
        return json.loads(self.run(words).strip().splitlines()[-1])

    def torch_json(self, script, *words):
        if subprocess.run([self.options.python, "-c", "import torch"], capture_output=True).returncode != 0:
            raise NotMeasured(f"{self.options.python} has no PyTorch (--python names another)")
        device = ["--device", "cpu", "--tiny"] if self.options.tiny else ["--device", "cuda"]
        return self.run_json([self.options.python, ROOT / "tests/bench" / script, *device, *words])

    def bench(self, part):
        device = "cpu" if self.options.tiny else "cuda"
        more = ["--repetitions", "1"] if self.options.tiny else []
        return self.run_json([self.tidepool, "bench", part, "--json", "--device", device, *more])

    def machine(self):
        """The machine file, measured once: every row that predicts or compares with a peak stands on the same."""
        path = self.out / "machine.yaml"
        if not path.exists() and not self.options.dry_run:
            device = "cpu" if self.options.tiny else "cuda"
            seconds = "2" if self.options.tiny else "40"
            self.run([self.tidepool, "probe", "--output", path, "--disk", self.out, "--device", device, "--seconds", seconds])
        return path

    def peak_flops(self):
        """Of the type that the run multiplies in, as the probe measured it."""
        text = self.machine().read_text()
        rate = re.search(r"^  bf16: ([0-9.]+) ([GTP])FLOP/s", text, re.MULTILINE)
        return float(rate.group(1)) * {"G": 1e9, "T": 1e12, "P": 1e15}[rate.group(2)]

    def data(self):
        """Text of any kind: speed does not depend on it."""
        path = self.out / "data.txt"
        if not path.exists() and not self.options.dry_run:
            path.write_text("the tide pool fills and empties as water does. so we wait by the rocks.\n" * 50_000)
        return path

    def settings(self, *overrides):
        words = [self.config, f"data.train={self.data()}"]
        if self.options.tiny:
            words += TINY
        return words + list(overrides)

    def device_budget(self):
        return "32MiB" if self.options.tiny else "20GiB"

    def train(self, name, *overrides, watch=None):
        run = self.out / f"run-{name}"
        shutil.rmtree(run, ignore_errors=True)
        self.run([self.tidepool, "train", *self.settings(*overrides), f"machine.file={self.machine()}",
                  f"output.dir={run}"], watch=watch)
        report = json.loads((run / "report.json").read_text())
        shutil.rmtree(run / "swap", ignore_errors=True)
        return report

    def offloaded(self, watch=None):
        """The run of rows 4, 5, 6, 8 and 9: made once."""
        kept = self.out / "offloaded.json"
        if kept.exists() and watch is None:
            return json.loads(kept.read_text())
        report = self.train("offloaded", f"memory.device={self.device_budget()}", watch=watch)
        kept.write_text(json.dumps(report))
        return report

    # ---- rows: value, whether it holds, details

    def products(self):
        ours = self.bench("gemm")["shapes"]
        if self.options.tiny:  # the cores' table is one of its own
            torch = self.torch_json("pytorch_gemm_bench.py")
            return f"{len(ours)} and {len(torch['shapes'])} shapes", None, {"ours": ours, "torch": torch}
        torch = self.torch_json("pytorch_gemm_bench.py")
        theirs = {shape["name"]: shape["flops_per_second"] for shape in torch["shapes"]}
        seconds = [0.0, 0.0]
        worst = ("", 9.0)
        for shape in ours:
            flops = 2.0 * shape["m"] * shape["n"] * shape["k"]
            rates = (shape["flops_per_second"], theirs[shape["name"]])
            for i in range(2):
                seconds[i] += flops / rates[i]
            worst = min(worst, (shape["name"], rates[0] / rates[1]), key=lambda pair: pair[1])
        layer = seconds[1] / seconds[0]
        best = max(s["flops_per_second"] for s in ours) / max(theirs.values())
        value = min(layer, best)
        return (f"{value:.3f} (whole layer {layer:.3f}, best shape {best:.3f}, worst {worst[0]} {worst[1]:.3f})",
                value >= 0.95, {"ours": ours, "torch": torch})

    def attention(self):
        ours = self.bench("attention")
        shape = [word for key in ("sequences", "tokens", "heads", "head_size")
                 for word in ("--" + key.replace("_", "-"), str(ours[key]))]
        torch = self.torch_json("pytorch_attention_bench.py", *shape)
        rate = next(row["flops_per_second"] for row in ours["attention"] if row["name"] == "both")
        value = rate / torch["flops_per_second"]
        return (f"{value:.3f} ({rate / 1e12:.3g} against {torch['flops_per_second'] / 1e12:.3g} TFLOP/s, "
                f"{torch['backend']})", value >= 0.9, {"ours": ours, "torch": torch})

    def mfu(self):
        report = self.offloaded()
        share = report["flops_per_second"] / report["tokens_per_second"] * speed(report) / self.peak_flops()
        on_device = report["tiers"]["device"]
        return (f"{share:.3f} of {self.peak_flops() / 1e12:.3g} TFLOP/s, {speed(report):.0f} tokens/s, "
                f"device {on_device['measured_peak_bytes'] / GIB:.2f} of {on_device['budget_bytes'] / GIB:.2f} GiB",
                share >= 0.55, {"report": report})

    def resident(self):
        report = self.offloaded()
        kept = "recompute"
        budget = "64MiB" if self.options.tiny else "130GiB"
        whole = self.train("resident", f"memory.device={budget}", "memory.home=device", f"train.recompute={kept}",
                           "memory.host=" + ("64MiB" if self.options.tiny else "20GiB"))
        bound = self.train("offloaded-recompute", f"memory.device={self.device_budget()}", f"train.recompute={kept}")
        value = speed(bound) / speed(whole)
        return (f"{value:.3f} ({speed(bound):.0f} against {speed(whole):.0f} tokens/s, "
                f"both with train.recompute={kept})", value >= 0.95,
                {"offloaded": bound, "resident": whole, "as_chosen": report})

    def fsdp(self):
        report = self.offloaded()
        torch = self.torch_json("pytorch_fsdp_bench.py", "--device-gib", "20")
        value = speed(report) / torch["tokens_per_second"]
        exposed = report["exposed_seconds"].get("host_adam", 0.0) / report["train_seconds"]
        return (f"{value:.2f} times ({speed(report):.0f} against {torch['tokens_per_second']:.0f} "
                f"tokens/s), optimizer exposed {100 * exposed:.1f} %", value >= 2 and exposed < 0.05,
                {"report": report, "torch": torch})

    def copies(self):
        result = self.bench("copy")
        chunk = result["pieces"][-1]
        both = next(way for way in chunk["ways"] if way["name"] == "both")
        return (f"{both['fraction']:.3f} of {result['plain'][2]['bytes_per_second'] / 1e9:.1f} GB/s, in copies of "
                f"{chunk['piece_bytes'] >> 20} MiB", both["fraction"] >= 0.95, result)

    def prediction(self):
        report = self.offloaded()
        plan = json.loads(self.run([self.tidepool, "plan", *self.settings(f"memory.device={self.device_budget()}"),
                                    f"machine.file={self.machine()}", "--json"]))
        predicted = plan.get("predicted_step_seconds")
        if not predicted:
            raise NotMeasured("plan --json predicts no step")
        error = predicted / report["step_seconds"] - 1
        return (f"{100 * error:+.1f} % ({predicted:.3f} s predicted, {report['step_seconds']:.3f} s measured)",
                abs(error) <= 0.10, {"plan": plan, "report": report})

    def memory(self):
        watch = DeviceMemoryWatch()
        if self.options.tiny:
            raise NotMeasured("the cores have no device memory")
        report = self.offloaded(watch=watch)
        budget = report["tiers"]["device"]["budget_bytes"]
        if not watch.samples:
            raise NotMeasured("nvidia-smi shows no memory in use")
        # From the moment at which all memory of the run is taken.
        taken = next((at for at, used in watch.samples if used >= report["tiers"]["device"]["planned_peak_bytes"]), None)
        if taken is None:
            raise NotMeasured("the driver never showed as much memory as the plan takes")
        start = next(used for at, used in watch.samples if at >= taken + 1)
        most = max(used for _, used in watch.samples)
        return (f"at most {most / GIB:.3f} GiB: {max(0, most - budget) / GIB:.3f} GiB above the budget, "
                f"{max(0, start - budget) / GIB:.3f} GiB at start ({len(watch.samples)} samples of "
                f"{'the process' if watch.by_process else 'the card'})",
                most <= max(start, budget), {"samples": watch.samples, "budget": budget})

    def largest(self, disk="0"):
        budgets = [f"memory.device={self.device_budget()}", f"memory.disk={disk}"]
        text = self.run([self.tidepool, "plan", *self.settings(*budgets), f"machine.file={self.machine()}", "--max"])
        shape = re.search(r"([0-9.]+[MB]?) parameters, (\d+) layers? x (\d+) \((\d+) heads?\)", text)
        if shape is None:
            raise NotMeasured("plan --max names no model")
        size, layers, width, heads = shape.groups()
        if self.options.tiny:
            return f"{size} parameters planned", None, {"plan": text}
        report = self.train("largest", *budgets, f"model.n_layer={layers}", f"model.n_embd={width}",
                            f"model.n_head={heads}", "train.max_steps=3")
        shutil.rmtree(self.out / "run-largest", ignore_errors=True)
        return (f"{size} parameters, {layers} layers x {width}, disk {disk}: {report['steps']} steps, "
                f"{speed(report):.0f} tokens/s", report["steps"] == 3, {"plan": text, "report": report})

    def largest_disk(self):
        free = shutil.disk_usage(self.out).free
        return self.largest(disk=f"{free * 8 // 10 // GIB}GiB")


def speed(report):
    """Tokens per second of the median step."""
    return report["tokens_per_step"] / report["step_seconds"]


def nvidia_smi(query):
    """Rows of numbers."""
    asked = subprocess.run(["nvidia-smi", query, "--format=csv,noheader,nounits"], capture_output=True, text=True)
    rows = [[word.strip() for word in line.split(",")] for line in asked.stdout.splitlines()]
    return [[int(word) for word in row] for row in rows if all(word.isdigit() for word in row)]


class DeviceMemoryWatch:
    """What the driver says that a process holds, every half second: in containers, where it tells of no process, what
    the first card holds more than before."""

    def __init__(self):
        self.samples = []
        self.by_process = False

    def begin(self, pid):
        self.before = self.card()
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.sample, args=(pid,))
        self.thread.start()

    def end(self):
        self.stop.set()
        self.thread.join()

    @staticmethod
    def card():
        rows = nvidia_smi("--query-gpu=memory.used")
        return rows[0][0] if rows else 0

    def sample(self, pid):
        begin = time.monotonic()
        while not self.stop.wait(0.5):
            own = [used for number, used in nvidia_smi("--query-compute-apps=pid,used_memory") if number == pid]
            if own and not self.by_process:
                self.by_process, self.samples = True, []
            mib = own[0] if own else 0 if self.by_process else self.card() - self.before
            if mib > 0:
                self.samples.append((time.monotonic() - begin, mib << 20))


ROWS = {
    "products": (2, "matrix products of a 7B layer, 8k tokens, bf16, against PyTorch", ">= 0.95", Bench.products),
    "attention": (3, "attention forward + backward, causal, against PyTorch's fused one", ">= 0.9", Bench.attention),
    "mfu": (4, "7B, device 20 GiB, 65k tokens a step: share of the measured peak", ">= 0.55", Bench.mfu),
    "resident": (5, "the same against all state on the card", ">= 0.95", Bench.resident),
    "fsdp": (6, "the same against FSDP2 with CPU offload and fused CPU Adam", ">= 2 times, < 5 %", Bench.fsdp),
    "copies": (7, "copies, both directions, against a plain 256 MiB", ">= 0.95", Bench.copies),
    "prediction": (8, "step time of `plan` on the probed machine", "within 10 %", Bench.prediction),
    "memory": (9, "device memory, from the driver", "no more than at start", Bench.memory),
    "largest": (10, "largest model for 20 GiB + 100 GiB, 3 steps", "trained", Bench.largest),
    "largest-disk": (10, "the same with the disk", "trained", Bench.largest_disk),
}


def write_table(out, results, facts):
    lines = ["# Benchmarks on a GPU", ""] + [f"- {key}: {value}" for key, value in facts.items()]
    lines += ["", "| # | what | wanted | figure | verdict | seconds |", "|---|---|---|---|---|---:|"]
    for name, (number, what, wanted, _) in ROWS.items():
        r = results.get(name, {"figure": "", "verdict": "not run", "seconds": 0})
        lines.append(f"| {number} | {what} | {wanted} | {r['figure']} | {r['verdict']} | {r['seconds']:.0f} |")
    (out / "bench.md").write_text("\n".join(lines) + "\n")


def first_line(words):
    try:
        asked = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    except OSError:
        return "unknown"
    return (asked.stdout.splitlines() or ["unknown"])[0] if asked.returncode == 0 else "unknown"


def facts_of(options):
    return {"card": first_line(["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]),
            "toolkit": first_line(["sh", "-c", "nvcc --version | sed -n 's/.*release //p'"]),
            "commit": first_line(["git", "rev-parse", "--short=12", "HEAD"]),
            "PyTorch": first_line([options.python, "-c", "import torch; print(torch.__version__)"]),
            "cores": os.cpu_count(),
            "date": datetime.datetime.now(datetime.timezone.utc).strftime("%F")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="*", help="rows: " + ", ".join(ROWS) + "; or all")
    parser.add_argument("--list", action="store_true", help="names and what they measure")
    parser.add_argument("--tidepool", default="build/gpu/tidepool", help="the program")
    parser.add_argument("--config", default="configs/gpu/gpt-7b-20gib.yaml", help="the model of rows 4 to 10")
    parser.add_argument("--out", help="folder of results (build/gpu/bench; --tiny: build/gpu/bench-tiny)")
    parser.add_argument("--python", default=sys.executable, help="a python with PyTorch")
    parser.add_argument("--tiny", action="store_true", help="try the script: a tiny model on the cores")
    parser.add_argument("--dry-run", action="store_true", help="say what would be run")
    options = parser.parse_args()
    if options.list:
        for name, (number, what, wanted, _) in ROWS.items():
            print(f"{name:<14}row {number:>2}: {what} ({wanted})")
        return 0
    names = list(ROWS) if options.name == ["all"] else options.name
    wrong = [name for name in names if name not in ROWS]
    if not names or wrong:
        parser.error(f"name rows: {', '.join(ROWS)}; or all" + (f" (there is no {wrong[0]})" if wrong else ""))
    if options.out is None:
        options.out = "build/gpu/bench-tiny" if options.tiny else "build/gpu/bench"
    out = pathlib.Path(options.out).resolve()
    options.out = out
    out.mkdir(parents=True, exist_ok=True)
    kept = out / "bench.json"
    results = json.loads(kept.read_text())["rows"] if kept.exists() else {}
    facts = facts_of(options)
    missed = 0
    for name in names:
        bench = Bench(options)
        try:
            figure, holds, details = ROWS[name][3](bench)
            verdict = "tried" if holds is None or options.tiny else "holds" if holds else "MISSED"
            missed += verdict == "MISSED"
        except NotMeasured as why:
            figure, details, verdict = str(why), {}, "not measured"
            missed += not options.dry_run and not (options.tiny and name == "memory")
        results[name] = {"row": ROWS[name][0], "figure": figure, "verdict": verdict, "commands": bench.commands,
                         "seconds": time.monotonic() - bench.begin, "details": details}
        print(f"{name}: {verdict}: {figure}", flush=True)
        if not options.dry_run:
            kept.write_text(json.dumps({"facts": facts, "rows": results}, indent=1))
            write_table(out, results, facts)
    if not options.dry_run:
        print(f"{out / 'bench.md'} and bench.json have all rows")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
