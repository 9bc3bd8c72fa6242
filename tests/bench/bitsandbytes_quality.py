#!/usr/bin/env python3
"""Compares AdamW with bitsandbytes' 8-bit AdamW in PyTorch: the peer of optimizer_quality.py.

The quickstart's 4.8M model in fp32, 8 sequences of 64 bytes a step, its schedule, clipping and weight decay. The last
20th of the text is held out, and the loss over 128 of its sequences of 8 is what counts. Both optimizers see
the same batches from the same first weights.

  tests/bench/bitsandbytes_quality.py build/quickstart/data.txt --seeds 1 2 3

Prints a line for each run, and for each seed the difference to fp32 state. Needs torch, transformers, bitsandbytes.
"""

import argparse
import math
import pathlib

import bitsandbytes
import torch
from transformers import GPT2Config, GPT2LMHeadModel

LENGTH, BATCH, EVAL_BATCHES = 64, 8, 128
SETTINGS = {"betas": (0.9, 0.95), "eps": 1e-8}
OPTIMIZERS = {"adamw_torch": torch.optim.AdamW, "adamw_bnb_8bit": bitsandbytes.optim.AdamW8bit}


def batch(text, generator):
    begins = torch.randint(len(text) - LENGTH + 1, (BATCH,), generator=generator)
    return torch.stack([text[begin : begin + LENGTH] for begin in begins.tolist()])


def scale_at(step, steps):
    """Linear warm-up over a 20th of the steps, then a cosine to 0."""
    warmup = math.ceil(steps / 20)
    if step < warmup:
        return step / warmup
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup)))


def train(name, seed, text, options):
    """Loss over held-out text after the run."""
    torch.manual_seed(seed)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=256, n_positions=LENGTH, n_embd=256, n_layer=6, n_head=8,
                                       resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, bos_token_id=0, eos_token_id=0))
    parameters = list(model.parameters())
    optimizer = OPTIMIZERS[name](
        [{"params": [p for p in parameters if p.ndim > 1], "weight_decay": 0.1},
         {"params": [p for p in parameters if p.ndim == 1], "weight_decay": 0.0}],
        lr=options.learning_rate, **SETTINGS,
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: scale_at(step, options.steps))
    held_out = len(text) // 20
    generator = torch.Generator().manual_seed(seed)
    for _ in range(options.steps):
        ids = batch(text[:-held_out], generator)
        model(ids, labels=ids).loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    model.eval()
    generator.manual_seed(0)
    with torch.no_grad():
        losses = []
        for _ in range(EVAL_BATCHES):
            ids = batch(text[-held_out:], generator)
            losses.append(model(ids, labels=ids).loss.item())
    return sum(losses) / len(losses)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=pathlib.Path, help="the quickstart's text")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    text = torch.frombuffer(bytearray(options.data.read_bytes()), dtype=torch.uint8).long()
    for seed in options.seeds:
        losses = {}
        for name in OPTIMIZERS:
            losses[name] = train(name, seed, text, options)
            print(f"seed {seed}  {name:15} {losses[name]:.4f}", flush=True)
        print(f"seed {seed}  difference {losses['adamw_bnb_8bit'] / losses['adamw_torch'] - 1:+.2%}", flush=True)


if __name__ == "__main__":
    main()
