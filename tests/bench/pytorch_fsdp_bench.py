#!/usr/bin/env python3
"""FSDP2 with CPU offload and fused CPU AdamW on one device, to set beside `tidepool train` of the same GPT-2: the same
widths, batch, sequence, clipping by the global norm and device budget (enforced by PyTorch's allocator). bf16
computing over fp32 masters in pinned host memory, every layer recomputed in backward, fused attention. The loss is made
in slices of rows, or its logits would not fit. Prints one JSON object.
"""

import argparse
import json
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp_in, self.mlp_out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, width = x.shape
        q, k, v = (part.view(b, t, self.heads, -1).transpose(1, 2) for part in self.qkv(self.ln_1(x)).split(width, 2))
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(attended.transpose(1, 2).reshape(b, t, width))
        return x + self.mlp_out(functional.gelu(self.mlp_in(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, vocabulary, positions, width, layers, heads):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(positions, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)

    def slice_loss(self, rows, targets):
        return functional.cross_entropy(functional.linear(rows, self.wte.weight).float(), targets, reduction="sum")

    def forward(self, tokens, targets, slice_rows=2048):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False)
        x = self.ln_f(x).flatten(0, 1)
        parts = zip(x.split(slice_rows), targets.flatten().split(slice_rows))
        losses = [checkpoint(self.slice_loss, rows, wanted, use_reentrant=False) for rows, wanted in parts]
        return torch.stack(losses).sum() / targets.numel()


def build(options, device):
    with torch.device("meta"):
        model = Gpt(options.vocabulary, options.tokens, options.width, options.layers, options.heads)
    policy = {"mp_policy": MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32),
              "reshard_after_forward": True}
    policy["offload_policy"] = CPUOffloadPolicy(pin_memory=device == "cuda")
    for layer in model.layers:
        fully_shard(layer, **policy)
    fully_shard(model, **policy)
    model.to_empty(device="cpu")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.to_local().uniform_(-0.03, 0.03)
    return model


def micro_batches(model, options, micro_batch, device):
    """Forward and backward of one step. With offload every micro-batch brings its gradients down."""
    for _ in range(options.sequences // micro_batch):
        sequences = torch.randint(0, min(256, options.vocabulary), (micro_batch, options.tokens + 1), device=device)
        (model(sequences[:, :-1], sequences[:, 1:]) * (micro_batch / options.sequences)).backward()
    if device == "cuda":
        torch.cuda.synchronize()


def largest_micro_batch(model, options, device):
    """Parameters and gradients move once per micro-batch, so the largest that fits is the fairest."""
    micro_batch = min(options.micro_batch, options.sequences)
    while micro_batch > 1:
        try:
            whole, options.sequences = options.sequences, micro_batch
            micro_batches(model, options, micro_batch, device)
            return micro_batch
        except torch.OutOfMemoryError:
            micro_batch //= 2
            torch.cuda.empty_cache()
        finally:
            options.sequences = whole
            for parameter in model.parameters():
                parameter.grad = None
    return 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--device-gib", type=float, default=20)
    parser.add_argument("--width", type=int, default=4096)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--vocabulary", type=int, default=50257)
    parser.add_argument("--tokens", type=int, default=1024, help="of a sequence")
    parser.add_argument("--sequences", type=int, default=64, help="of a step")
    parser.add_argument("--micro-batch", type=int, default=32, help="sequences, at most: halved until it fits")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--tiny", action="store_true", help="try the script")
    options = parser.parse_args()
    if options.tiny:
        options.width, options.layers, options.heads, options.vocabulary, options.tokens = 64, 2, 2, 256, 64
        options.sequences, options.micro_batch, options.steps = 4, 2, 3
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29533")
    torch.manual_seed(1)
    device = options.device
    if device == "cuda":
        torch.cuda.set_per_process_memory_fraction(
            min(1.0, options.device_gib * 2**30 / torch.cuda.get_device_properties(0).total_memory))
    dist.init_process_group("cpu:gloo,cuda:nccl" if device == "cuda" else "gloo", rank=0, world_size=1)
    model = build(options, device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    micro_batch = largest_micro_batch(model, options, device)
    step_seconds, optimizer_seconds = [], []
    for _ in range(options.steps):
        begin = time.perf_counter()
        micro_batches(model, options, micro_batch, device)
        at_optimizer = time.perf_counter()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        step_seconds.append(time.perf_counter() - begin)
        optimizer_seconds.append(time.perf_counter() - at_optimizer)
        print(f"step {len(step_seconds)}: {step_seconds[-1]:.3f} s", file=sys.stderr, flush=True)
    steady = statistics.median(step_seconds[1:])
    tokens = options.sequences * options.tokens
    most = torch.cuda.max_memory_reserved() if device == "cuda" else 0
    print(json.dumps({"torch": torch.__version__, "device": device, "tokens_per_second": tokens / steady,
                      "micro_batch": micro_batch, "step_seconds": step_seconds, "optimizer_seconds": statistics.median(optimizer_seconds[1:]),
                      "device_bytes_max": most, "parameters": sum(p.numel() for p in model.parameters())}))
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
