#!/usr/bin/env python3
"""Writes tests/golden/rates.json: learning rates of each step, as transformers' schedules compute them.

Usage: scripts/make_golden_rates.py   (needs torch and transformers)
"""
import json
import pathlib

import torch
from transformers import get_scheduler

STEPS = 24
PEAK = 0.5
CASES = [
    ("linear", 0, {}),
    ("linear", 5, {}),
    ("cosine", 5, {}),
    ("constant", 0, {}),
    ("constant_with_warmup", 5, {}),
    ("cosine_with_min_lr", 5, {"min_lr_rate": 0.1}),
    ("warmup_stable_decay", 5, {"num_decay_steps": 6}),
    ("warmup_stable_decay", 5, {"num_decay_steps": 6, "min_lr_ratio": 0.1}),
    ("warmup_stable_decay", 5, {"num_decay_steps": 6, "decay_type": "linear"}),
    ("warmup_stable_decay", 5, {"num_decay_steps": 6, "decay_type": "1-sqrt", "min_lr_ratio": 0.2}),
    ("warmup_stable_decay", 5, {"num_decay_steps": 6, "warmup_type": "cosine", "min_lr_ratio": 0.2}),
    ("warmup_stable_decay", 5, {"num_decay_steps": 6, "warmup_type": "1-sqrt"}),
    ("warmup_stable_decay", 5, {"num_decay_steps": 6, "num_stable_steps": 4, "min_lr_ratio": 0.1}),
    ("warmup_stable_decay", 0, {"num_decay_steps": 24, "num_stable_steps": 0, "decay_type": "linear"}),
    ("warmup_stable_decay", 5, {"num_decay_steps": 30, "decay_type": "cosine"}),
    ("warmup_stable_decay", 3, {"num_decay_steps": 12, "num_cycles": 1.5, "min_lr_ratio": 0.1}),
    ("warmup_stable_decay", 30, {"num_decay_steps": 6, "min_lr_ratio": 0.1}),
    ("warmup_stable_decay", 1, {"num_decay_steps": 1}),
]


def rates(kind, warmup, kwargs):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=PEAK)
    schedule = get_scheduler(kind, optimizer, num_warmup_steps=warmup, num_training_steps=STEPS,
                             scheduler_specific_kwargs=kwargs)
    out = []
    for _ in range(STEPS):
        out.append(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()
    return out


def main():
    path = pathlib.Path(__file__).resolve().parent.parent / "tests/golden/rates.json"
    lines = [json.dumps({"type": kind, "warmup": warmup, "kwargs": kwargs, "rates": rates(kind, warmup, kwargs)})
             for kind, warmup, kwargs in CASES]
    path.write_text('{"learning_rate": %s, "cases": [\n%s\n]}\n' % (PEAK, ",\n".join(lines)))


if __name__ == "__main__":
    main()
