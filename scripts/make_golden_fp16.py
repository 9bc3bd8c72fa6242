#!/usr/bin/env python3
"""Writes golden files of PyTorch's GradScaler, for the tests of fp16:

  tests/golden/pytorch/gpt2_tiny_fp16.safetensors  a curve on the weights and batches of gpt2_tiny.safetensors
  tests/golden/pytorch/grad_scaler.inc             how the scale follows overflows, as a C++ table

Needs torch, transformers and safetensors; run from the repository root, after make_golden.py. Weights are
fp32 masters; each step computes in fp32 with their fp16 roundings, and the gradients are rounded to fp16 once.
"""

import torch
from make_golden import ADAMW, CONFIG, MAX_GRAD_NORM, OUT, STEPS, WEIGHT_DECAY, loss_of, parameters_of
from safetensors.torch import load_file, save_file
import transformers

CURVE = "tests/golden/pytorch/gpt2_tiny_fp16.safetensors"
TABLE = "tests/golden/pytorch/grad_scaler.inc"
SCALING = dict(init_scale=2.0**20, growth_factor=2.0, backoff_factor=0.5, growth_interval=3)


def optimizer_of(parameters):
    groups = [dict(params=[p for p in parameters if p.ndim >= 2], weight_decay=WEIGHT_DECAY),
              dict(params=[p for p in parameters if p.ndim < 2], weight_decay=0.0)]
    return torch.optim.AdamW(groups, **ADAMW)


def curve(model, tokens, targets, max_grad_norm):
    masters = list(model.parameters())
    optimizer = optimizer_of(masters)
    scaler = torch.amp.GradScaler("cpu", **SCALING)
    losses, norms, scales = [], [], []
    for step in range(STEPS):
        kept = [p.detach().clone() for p in masters]
        with torch.no_grad():
            for p in masters:
                p.copy_(p.half().float())
        loss = loss_of(model, tokens[step], targets[step].long())
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        with torch.no_grad():
            for p, master in zip(masters, kept):
                p.copy_(master)
                p.grad.copy_(p.grad.half().float())
        scaler.unscale_(optimizer)
        limit = max_grad_norm if max_grad_norm > 0 else float("inf")
        norms.append(float(torch.nn.utils.clip_grad_norm_(masters, limit)))
        scaler.step(optimizer)
        scaler.update()
        losses.append(float(loss.detach()))
        scales.append(scaler.get_scale())
    return [torch.tensor(values, dtype=torch.float64) for values in (losses, norms, scales)]


def table():
    """Lines of {overflow, scale afterwards, steps since it changed}."""
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=0.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=3)
    overflows = torch.rand(40, generator=torch.Generator().manual_seed(7)) < 0.25
    lines = []
    for overflow in overflows.tolist():
        scaler.scale(weight.sum() * (float("inf") if overflow else 1.0)).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        scale, good = scaler.get_scale(), scaler._get_growth_tracker()
        lines.append(f"{{{str(overflow).lower()}, {scale:g}f, {good}}},\n" if scale != int(scale)
                     else f"{{{str(overflow).lower()}, {int(scale)}, {good}}},\n")
    return lines


def main():
    torch.set_num_threads(1)
    golden = load_file(OUT)
    out = {}
    for key, limit in (("unclipped", 0.0), ("clipped", MAX_GRAD_NORM)):
        model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**CONFIG, attn_implementation="eager")).train()
        with torch.no_grad():
            for name, p in parameters_of(model).items():
                p.copy_(golden[f"weights/{name}"])
        losses, norms, scales = curve(model, golden["tokens"].long(), golden["targets"], limit)
        out[f"curve/{key}/losses"], out[f"curve/{key}/grad_norms"], out[f"curve/{key}/scales"] = losses, norms, scales
        print(key, [round(float(x), 4) for x in losses], [int(x) for x in scales])
    save_file(out, CURVE, metadata=dict(format="pt", torch=torch.__version__, transformers=transformers.__version__))
    with open(TABLE, "w") as file:
        file.write("// Made by scripts/make_golden_fp16.py, torch " + torch.__version__.split("+")[0] + ".\n")
        file.writelines(table())


if __name__ == "__main__":
    main()
