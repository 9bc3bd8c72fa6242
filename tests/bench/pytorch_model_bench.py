#!/usr/bin/env python3
"""The model of model_bench.cpp in PyTorch eager: pytorch_model_bench.py [threads] [repetitions] [sdpa|eager]"""

import sys
import time

import torch
import transformers
from torch.nn import functional

threads, repetitions = int(sys.argv[1]), int(sys.argv[2])
torch.set_num_threads(threads)
config = transformers.GPT2Config(vocab_size=256, n_positions=512, n_embd=768, n_layer=14, n_head=12, embd_pdrop=0.0,
                                 attn_pdrop=0.0, resid_pdrop=0.0, bos_token_id=0, eos_token_id=0,
                                 attn_implementation=sys.argv[3], use_cache=False)
model = transformers.GPT2LMHeadModel(config).train()
tokens = (torch.arange(4 * 512) * 37 % 251).reshape(4, 512)
for i in range(repetitions + 1):
    start = time.perf_counter()
    model.zero_grad()
    logits = model(tokens).logits
    functional.cross_entropy(logits.flatten(0, 1), tokens.flatten()).backward()
    if i > 0:
        print(f"{tokens.numel() / (time.perf_counter() - start):.1f} tokens/s", flush=True)
