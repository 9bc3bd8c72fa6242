#!/usr/bin/env python3
"""Training of configs/gpt-100m.yaml's model in PyTorch eager, to set beside `tidepool train` of that file.

Usage: pytorch_training_bench.py [threads] [steps] [sdpa|eager] [default|fused]

A step is forward, backward, clipping by the global norm and AdamW with HF's two weight-decay groups, in fp32, over
random bytes. Prints the median tokens per second of all steps after the first two.
"""

import statistics
import sys
import time

import torch
import transformers
from torch.nn import functional

threads, steps, attention, adam = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
torch.set_num_threads(threads)
torch.manual_seed(1)
config = transformers.GPT2Config(vocab_size=256, n_positions=512, n_embd=768, n_layer=14, n_head=12, embd_pdrop=0.0,
                                 attn_pdrop=0.0, resid_pdrop=0.0, bos_token_id=0, eos_token_id=0,
                                 attn_implementation=attention, use_cache=False)
model = transformers.GPT2LMHeadModel(config).train()
groups = [{"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": 0.1},
          {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}]
optimizer = torch.optim.AdamW(groups, lr=3e-4, fused=True if adam == "fused" else None)
seconds = []
for _ in range(steps):
    sequences = torch.randint(0, 256, (4, 513))
    start = time.perf_counter()
    logits = model(sequences[:, :-1]).logits
    functional.cross_entropy(logits.flatten(0, 1), sequences[:, 1:].flatten()).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    seconds.append(time.perf_counter() - start)
print(f"PyTorch {torch.__version__} {attention} {adam}: {2048 / statistics.median(seconds[2:]):.1f} tokens/s")
