#!/usr/bin/env python3
"""Compares optimizers by the eval loss that they reach: the quickstart's 4.8M model, 512 tokens a step.

First each rule runs with its three learning rates and the first seed. Its best rate is then run with the other
seeds, and with --large by a model of 29M parameters too, for the rules that LARGE names. Results are appended to a
file, a line of JSON for each run, as they come: the same command continues where it was stopped, and lines of another
program, text or length do not count.

  tests/bench/optimizer_quality.py build/release/tidepool build/quickstart/data.txt results.jsonl

Prints each run, and then per rule the best rate, the losses by seed, and the mean against that of adamw_torch. On two
cores of 2021 a run takes about four minutes, and one of the larger model half an hour. Exit code 1: a run failed.
"""

import argparse
import concurrent.futures
import hashlib
import json
import pathlib
import shutil
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
ADAM = ("5e-4", "1e-3", "2e-3")
RATES = {
    "adamw_torch": ADAM,
    "adamw_8bit": ADAM,
    "adamw_bf16": ADAM,
    "lion": ("1e-4", "2e-4", "4e-4"),
    "sgd": ("1e-1", "3e-1", "1"),
    "adafactor": ADAM,
    "muon": ("1e-2", "2e-2", "4e-2"),
}
MUON_GROUPS = 'train.optim_groups=["embedding, head, norm, bias: learning_rate=1e-3"]'
LARGE = ("adamw_torch", "adamw_8bit", "muon")
LARGE_MODEL = ["model.n_embd=512", "model.n_layer=9"]
COMMON = [
    "train.per_device_train_batch_size=8",
    "train.gradient_accumulation_steps=1",
    "memory.device=2GiB",
    "memory.host=2GiB",
    "memory.disk=0",
    "output.save_steps=0",
]


class Runs:
    def __init__(self, options):
        self.options = options
        version = subprocess.run([options.tidepool, "--version"], capture_output=True, text=True, check=True)
        self.setting = {
            "program": version.stdout.strip(),
            "text": hashlib.sha256(options.data.read_bytes()).hexdigest(),
            "steps": options.steps,
            "executor": options.executor,
        }
        self.losses = {}
        for line in options.results.read_text().splitlines() if options.results.exists() else ():
            row = json.loads(line)
            if row["setting"] == self.setting:
                self.losses[tuple(row["run"])] = row["eval_loss"]

    def train(self, run):
        """Eval loss at the end of a run (model, rule, rate, seed)."""
        model, rule, rate, seed = run
        directory = self.options.results.with_suffix(".runs") / "-".join(map(str, run))
        shutil.rmtree(directory, ignore_errors=True)
        words = [
            f"data.train={self.options.data}",
            f"train.max_steps={self.options.steps}",
            f"train.eval_steps={self.options.steps}",
            f"train.optim={rule}",
            f"train.learning_rate={rate}",
            f"train.seed={seed}",
            f"machine.executor={self.options.executor}",
            f"output.dir={directory}",
            *COMMON,
            *(LARGE_MODEL if model == "large" else []),
            *([MUON_GROUPS] if rule == "muon" else []),
        ]
        done = subprocess.run(
            [self.options.tidepool, "train", ROOT / "configs/quickstart.yaml", *words],
            capture_output=True,
            text=True,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(words)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        loss = json.loads((directory / "report.json").read_text())["eval_losses"][-1]
        shutil.rmtree(directory)
        return loss

    def all(self, runs):
        missing = [run for run in runs if run not in self.losses]
        with concurrent.futures.ThreadPoolExecutor(self.options.at_once) as pool:
            started = {pool.submit(self.train, run): run for run in missing}
            for ended in concurrent.futures.as_completed(started):
                run = started[ended]
                self.losses[run] = ended.result()
                row = {"setting": self.setting, "run": run, "eval_loss": self.losses[run]}
                with self.options.results.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                print(f"{'  '.join(map(str, run))}  {self.losses[run]:.4f}", flush=True)

    def best_rate(self, rule, seed):
        return min(RATES[rule], key=lambda rate: self.losses[("small", rule, rate, seed)])


def show(runs, model, rules, rates, seeds):
    def mean(rule):
        return statistics.mean(runs.losses[(model, rule, rates[rule], seed)] for seed in seeds)

    print(f"\n{model}: eval loss after {runs.options.steps} steps, seeds {', '.join(map(str, seeds))}")
    for rule in rules:
        losses = "  ".join(f"{runs.losses[(model, rule, rates[rule], seed)]:.4f}" for seed in seeds)
        against = f"  {mean(rule) / mean('adamw_torch') - 1:+.2%}" if "adamw_torch" in rules else ""
        print(f"  {rule:12} {rates[rule]:>5}  {losses}  mean {mean(rule):.4f}{against}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tidepool", type=pathlib.Path)
    parser.add_argument("data", type=pathlib.Path, help="the quickstart's text")
    parser.add_argument("results", type=pathlib.Path, help="file that results are appended to")
    parser.add_argument("--rules", nargs="+", choices=RATES, default=list(RATES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--executor", default="cpu")
    parser.add_argument("--at-once", type=int, default=1, help="runs side by side")
    parser.add_argument("--large", action="store_true", help="the larger model too")
    options = parser.parse_args()
    runs = Runs(options)
    first = options.seeds[0]
    try:
        runs.all([("small", rule, rate, first) for rule in options.rules for rate in RATES[rule]])
        rates = {rule: runs.best_rate(rule, first) for rule in options.rules}
        runs.all([("small", rule, rates[rule], seed) for rule in options.rules for seed in options.seeds])
        show(runs, "small", options.rules, rates, options.seeds)
        if options.large:
            rules = [rule for rule in options.rules if rule in LARGE]
            runs.all([("large", rule, rates[rule], seed) for rule in rules for seed in options.seeds])
            show(runs, "large", rules, rates, options.seeds)
    except RuntimeError as failed:
        sys.exit(f"optimizer_quality: a run failed: {failed}")


if __name__ == "__main__":
    main()
