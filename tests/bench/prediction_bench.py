#!/usr/bin/env python3
"""Compares predicted with measured step times: short trainings whose bottlenecks differ, interleaved (every case once,
then every case again).

Each run probes this machine's rates and predicts its steady step before the first step; both times are in its
report.json. Prints per case the median of predicted / measured over the repetitions. The cost model was tuned on the
cases of `tuned`; those of `held-out` were chosen before any of them was run. Words of the environment's
RUN_PREFIX go before each run, for machines that must be booked.

On a shared machine, the speed may change between the probe and the steps. With --tries above 1, a run in
which other guests took more than 2 % of the cores' time (`steal` of /proc/stat) is repeated. The try with the least
stolen time counts, whatever its ratio. Every try is printed.
"""

import argparse
import json
import os
import pathlib
import shlex
import shutil
import statistics
import subprocess
import sys

WIDE = "n_embd=1024 n_layer=6 n_head=16"  # 76M
MEDIUM = "n_embd=512 n_layer=8 n_head=8"  # 25M
SMALL = "n_embd=256 n_layer=6 n_head=8"  # 5M
TUNED = {
    "resident fp32": f"{MEDIUM} precision=fp32 sequence_length=256 per_device_train_batch_size=2 home=device",
    "resident bf16": f"{MEDIUM} precision=bf16 sequence_length=256 per_device_train_batch_size=2 home=device",
    "accumulation, from disk": f"{MEDIUM} precision=bf16 sequence_length=128 gradient_accumulation_steps=8 home=disk",
    "recompute, from host": f"{MEDIUM} precision=fp32 sequence_length=256 per_device_train_batch_size=4 home=host recompute=recompute",
    "disk, clipped": f"{WIDE} precision=bf16 sequence_length=64 home=disk device=200MiB host=150MiB",
    "disk, unclipped": f"{WIDE} precision=fp32 sequence_length=32 home=disk max_grad_norm=0 device=300MiB host=300MiB",
    "disk, small model": f"{SMALL} precision=bf16 sequence_length=64 home=disk device=8MiB host=5MiB",
    "host Adam, fp32": f"{WIDE} precision=fp32 sequence_length=16 home=host device=300MiB",
    "host Adam, bf16": f"{WIDE} precision=bf16 sequence_length=16 home=host max_grad_norm=0 device=200MiB",
    "copies": f"{WIDE} precision=fp32 sequence_length=16 gradient_accumulation_steps=4 sweeps=4 home=host device=200MiB",
    "two devices": f"{MEDIUM} precision=bf16 sequence_length=128 gradient_accumulation_steps=2 home=host executor=cpu:2",
    "one thread": f"{MEDIUM} precision=fp32 sequence_length=128 home=host threads=1",
}
BROAD = "n_embd=1280 n_layer=3 n_head=20"  # 59M
DEEP = "n_embd=640 n_layer=10 n_head=10"  # 49M
MIDDLE = "n_embd=768 n_layer=4 n_head=12"  # 28M
NARROW = "n_embd=384 n_layer=12 n_head=6"  # 21M
TINY = "n_embd=320 n_layer=5 n_head=5"  # 6M
HELD_OUT = {
    "long sequence, fp32": f"{NARROW} precision=fp32 sequence_length=512 home=device",
    "large batch, bf16": f"{MIDDLE} precision=bf16 sequence_length=64 per_device_train_batch_size=12 home=device max_grad_norm=0",
    "two sweeps, recompute": f"{DEEP} precision=bf16 sequence_length=192 gradient_accumulation_steps=6 sweeps=2 home=host recompute=recompute device=400MiB",
    "batches, from disk": f"{MIDDLE} precision=fp32 sequence_length=384 per_device_train_batch_size=3 gradient_accumulation_steps=2 home=disk max_grad_norm=0 host=300MiB",
    "Adam fp32, unclipped": f"{BROAD} precision=fp32 sequence_length=24 home=host max_grad_norm=0 device=400MiB",
    "Adam bf16, clipped": f"{BROAD} precision=bf16 sequence_length=32 home=host device=250MiB",
    "Adam fp32, 1 MiB chunks": f"{DEEP} precision=fp32 sequence_length=32 home=host chunk_size=1MiB device=300MiB",
    "copies fp32, six sweeps": f"{BROAD} precision=fp32 sequence_length=8 gradient_accumulation_steps=6 sweeps=6 home=host device=400MiB",
    "copies bf16, eight sweeps": f"{DEEP} precision=bf16 sequence_length=16 gradient_accumulation_steps=8 sweeps=8 home=host max_grad_norm=0 device=200MiB",
    "disk fp32, clipped": f"{BROAD} precision=fp32 sequence_length=16 home=disk device=400MiB host=350MiB",
    "disk bf16, unclipped": f"{DEEP} precision=bf16 sequence_length=48 home=disk max_grad_norm=0 device=150MiB host=120MiB",
    "disk, 256 KiB chunks": f"{TINY} precision=fp32 sequence_length=128 home=disk chunk_size=256KiB device=32MiB host=16MiB",
    "host and disk, two sweeps": f"{DEEP} precision=fp32 sequence_length=64 gradient_accumulation_steps=4 sweeps=2 home=mixed device=300MiB host=500MiB",
    "two devices, fp32": f"{MIDDLE} precision=fp32 sequence_length=48 gradient_accumulation_steps=2 home=host executor=cpu:2 device=250MiB",
    "two devices, from disk": f"{NARROW} precision=bf16 sequence_length=64 gradient_accumulation_steps=4 home=disk executor=cpu:2 device=150MiB host=150MiB",
}
SETS = {"tuned": TUNED, "held-out": HELD_OUT, "all": TUNED | HELD_OUT}
MOST_STOLEN = 0.02
COMMON = ("n_positions=512 vocab_size=256 device=1GiB host=2GiB max_steps=10 eval_steps=0 eval_batches=1 "
          "save_steps=0 warmup_steps=0 max_grad_norm=1 learning_rate=1e-4")
WARM_UP_STEPS = 2


def settings_of(case):
    """Overrides by key, the case's own last."""
    return dict(word.split("=", 1) for word in (COMMON + " " + case).split())


def core_times():
    """Returns seconds (from the kernel's ticks) in which all cores worked, and that other guests took."""
    user, nice, system, _, _, irq, softirq, steal = map(int, pathlib.Path("/proc/stat").read_text().split()[1:9])
    return user + nice + system + irq + softirq, steal


def run(tidepool, data, scratch, case):
    """Predicted seconds of a step, the measured median, and the lane that binds."""
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    config = scratch / "config.yaml"
    config.write_text(f"model:\n  model_type: gpt2\ndata:\n  train: {data}\noutput:\n  dir: {scratch / 'run'}\n")
    words = [f"{key}={value}" for key, value in settings_of(case).items()]
    prefix = shlex.split(os.environ.get("RUN_PREFIX", ""))
    done = subprocess.run([*prefix, tidepool, "train", config, *words], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    report = json.loads((scratch / "run" / "report.json").read_text())
    steps = report["each_step_seconds"][WARM_UP_STEPS:]
    return report["predicted_step_seconds"], statistics.median(steps), report["binds"]


def run_undisturbed(tidepool, data, scratch, name, case, tries):
    """`run`'s answer and the share of the cores that others took meanwhile, of the try in which that was least."""
    best = None
    for _ in range(tries):
        worked, taken = core_times()
        result = run(tidepool, data, scratch, case)
        worked_after, taken_after = core_times()
        stolen = (taken_after - taken) / max(1, worked_after - worked + taken_after - taken)
        predicted, measured, binds = result
        print(f"{name}: {predicted * 1e3:.1f} / {measured * 1e3:.1f} ms, {binds}, {stolen:.1%} stolen", file=sys.stderr,
              flush=True)
        if best is None or stolen < best[3]:
            best = (*result, stolen)
        if stolen <= MOST_STOLEN:
            break
    return best


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tidepool", type=pathlib.Path)
    parser.add_argument("data", type=pathlib.Path, help="a text of a few MB")
    parser.add_argument("scratch", type=pathlib.Path, help="its folder `case` is made anew for each run")
    parser.add_argument("names", nargs="*", help="cases; all of the set without")
    parser.add_argument("--set", choices=SETS, default="all")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--tries", type=int, default=1, help="of a run that others disturb; 1 if not said")
    options = parser.parse_intermixed_args()
    if options.tries < 1 or options.repetitions < 1:
        parser.error("--tries and --repetitions are at least 1")
    cases = SETS[options.set]
    if unknown := [name for name in options.names if name not in cases]:
        parser.error(f"no such case: {', '.join(unknown)}; there are: {', '.join(cases)}")
    return options, {name: cases[name] for name in options.names or cases}


def main():
    options, cases = parse()
    seen = {name: [] for name in cases}
    for _ in range(options.repetitions):
        for name, case in cases.items():
            seen[name].append(run_undisturbed(options.tidepool, options.data.resolve(), options.scratch / "case", name,
                                              case, options.tries))
    errors = []
    print(f"{'case':<26}{'predicted':>12}{'measured':>12}{'ratio':>8}  {'binds':<10}{'stolen':>8}  each")
    for name, runs in seen.items():
        predicted, measured, binds, stolen = zip(*runs)
        ratios = [p / m for p, m in zip(predicted, measured)]
        ratio = statistics.median(ratios)
        errors.append(abs(ratio - 1))
        print(f"{name:<26}{statistics.median(predicted) * 1e3:>9.1f} ms{statistics.median(measured) * 1e3:>9.1f} ms"
              f"{ratio:>8.3f}  {binds[0]:<10}{max(stolen):>8.1%}  {' '.join(f'{r:.2f}' for r in ratios)}")
    print(f"errors: median {statistics.median(errors):.1%}, largest {max(errors):.1%}")


if __name__ == "__main__":
    main()
