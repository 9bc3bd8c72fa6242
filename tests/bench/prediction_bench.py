#!/usr/bin/env python3
"""Predicted against measured step times: prediction_bench.py TIDEPOOL DATA SCRATCH [repetitions] [name ...]

Runs short trainings whose bottlenecks differ, interleaved (every case once, then every case again). Each run probes
this machine's rates and predicts its steady step before the first one; both numbers stand in its report.json. Prints
per case the median of predicted / measured over the repetitions. A run's first steps warm up: the report's median is
over all of its steps.
"""

import json
import pathlib
import shutil
import statistics
import subprocess
import sys

WIDE = "n_embd=1024 n_layer=6 n_head=16"  # 76M
MEDIUM = "n_embd=512 n_layer=8 n_head=8"  # 25M
SMALL = "n_embd=256 n_layer=6 n_head=8"  # 5M
CASES = {
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
COMMON = ("n_positions=512 vocab_size=256 device=1GiB host=2GiB max_steps=12 eval_steps=0 eval_batches=1 "
          "save_steps=0 warmup_steps=0 max_grad_norm=1 learning_rate=1e-4")


def settings_of(case):
    """Overrides by key, the case's own last."""
    return dict(word.split("=", 1) for word in (COMMON + " " + case).split())


def run(tidepool, data, scratch, case):
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    config = scratch / "config.yaml"
    config.write_text(f"model:\n  model_type: gpt2\ndata:\n  train: {data}\noutput:\n  dir: {scratch / 'run'}\n")
    words = [f"{key}={value}" for key, value in settings_of(case).items()]
    done = subprocess.run([tidepool, "train", config, *words], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    report = json.loads((scratch / "run" / "report.json").read_text())
    steps = report["each_step_seconds"][2:]
    return report["predicted_step_seconds"], statistics.median(steps), report["binds"]


def main():
    tidepool, data, scratch = sys.argv[1], pathlib.Path(sys.argv[2]).resolve(), pathlib.Path(sys.argv[3])
    repetitions = int(sys.argv[4]) if len(sys.argv) > 4 else 3
    names = sys.argv[5:] or list(CASES)
    seen = {name: [] for name in names}
    for _ in range(repetitions):
        for name in names:
            seen[name].append(run(tidepool, data, scratch / "case", CASES[name]))
    errors = []
    print(f"{'case':<26}{'predicted':>12}{'measured':>12}{'ratio':>8}  {'binds':<12}each")
    for name, runs in seen.items():
        ratio = statistics.median(p / m for p, m, _ in runs)
        errors.append(abs(ratio - 1))
        print(f"{name:<26}{statistics.median(p for p, _, _ in runs) * 1e3:>9.1f} ms"
              f"{statistics.median(m for _, m, _ in runs) * 1e3:>9.1f} ms{ratio:>8.3f}  {runs[0][2]:<12}"
              f"{' '.join(f'{p / m:.2f}' for p, m, _ in runs)}")
    print(f"errors: median {statistics.median(errors):.1%}, largest {max(errors):.1%}")


if __name__ == "__main__":
    main()
