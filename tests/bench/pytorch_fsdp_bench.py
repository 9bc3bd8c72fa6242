#!/usr/bin/env python3
"""FSDP2 with CPU offload and fused CPU AdamW on one device, to set beside `tidepool train` of the same GPT-2:
the same widths, batch, sequence, clipping by the global norm and device budget (enforced by PyTorch's
allocator). bf16 computing over fp32 masters in pinned host memory, every layer recomputed in backward, fused
attention. The loss is made in slices of rows, or its logits would not fit. Prints one JSON object.

Each size of micro-batches is tried in a process of its own: FSDP's state after an out-of-memory error is
undefined. If the host's memory is not enough, the object has `does_not_fit` in the place of figures: fewer
--layers may fit.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

DEVICE_FULL, HOST_FULL = 17, 18  # exit codes of a process that tries one size


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp_in, self.mlp_out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, width = x.shape
        q, k, v = (
            part.view(b, t, self.heads, -1).transpose(1, 2) for part in self.qkv(self.ln_1(x)).split(width, 2)
        )
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
        return functional.cross_entropy(
            functional.linear(rows, self.wte.weight).float(), targets, reduction="sum"
        )

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
    policy = {
        "mp_policy": MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32),
        "reshard_after_forward": True,
    }
    policy["offload_policy"] = CPUOffloadPolicy(pin_memory=device == "cuda")
    for layer in model.layers:
        fully_shard(layer, **policy)
    fully_shard(model, **policy)
    model.to_empty(device="cpu")
    some = torch.empty(1 << 24).uniform_(-0.03, 0.03)  # drawing all would take half a minute
    with torch.no_grad():
        for parameter in model.parameters():
            for part in parameter.to_local().view(-1).split(some.numel()):
                part.copy_(some[: part.numel()])
    return model


def micro_batches(model, options, micro_batch, device):
    """Forward and backward of one step. With offload every micro-batch brings its gradients down."""
    for _ in range(options.sequences // micro_batch):
        sequences = torch.randint(
            0, min(256, options.vocabulary), (micro_batch, options.tokens + 1), device=device
        )
        (model(sequences[:, :-1], sequences[:, 1:]) * (micro_batch / options.sequences)).backward()
    if device == "cuda":
        torch.cuda.synchronize()


def pinned(size):
    """PyTorch takes pinned memory in powers of two."""
    return 1 << (size - 1).bit_length()


def host_bytes(model):
    """Pinned parameters and gradients, and AdamW's two moments, all fp32."""
    return sum(2 * pinned(4 * p.numel()) + 2 * 4 * p.numel() for p in model.parameters())


def host_is_full(error):
    """Returns whether pinned or plain memory ran out; for device memory PyTorch raises OutOfMemoryError."""
    text = str(error)
    return isinstance(error, MemoryError) or "allocate memory" in text or "CUDA error: out of memory" in text


def measure(options):
    """All steps, the first to warm up. Prints the figures."""
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", str(29533 + options.micro_batch))
    torch.manual_seed(1)
    device = options.device
    if device == "cuda":
        torch.cuda.set_per_process_memory_fraction(
            min(1.0, options.device_gib * 2**30 / torch.cuda.get_device_properties(0).total_memory)
        )
    dist.init_process_group("cpu:gloo,cuda:nccl" if device == "cuda" else "gloo", rank=0, world_size=1)
    model = build(options, device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    step_seconds, optimizer_seconds = [], []
    for _ in range(options.steps):
        begin = time.perf_counter()
        micro_batches(model, options, options.micro_batch, device)
        at_optimizer = time.perf_counter()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        step_seconds.append(time.perf_counter() - begin)
        optimizer_seconds.append(time.perf_counter() - at_optimizer)
        print(f"step {len(step_seconds)}: {step_seconds[-1]:.3f} s", file=sys.stderr, flush=True)
    steady = statistics.median(step_seconds[1:])
    most = torch.cuda.max_memory_reserved() if device == "cuda" else 0
    print(
        json.dumps(
            {
                "torch": torch.__version__,
                "device": device,
                "tokens_per_second": options.sequences * options.tokens / steady,
                "micro_batch": options.micro_batch,
                "layers": options.layers,
                "step_seconds": step_seconds,
                "optimizer_seconds": statistics.median(optimizer_seconds[1:]),
                "device_bytes_max": most,
                "host_bytes": host_bytes(model),
                "parameters": sum(p.numel() for p in model.parameters()),
            }
        )
    )
    dist.destroy_process_group()


def measure_in_this_process(options):
    """Exit code."""
    try:  # where memory ends, this process is the one to go
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        pass
    try:
        measure(options)
        return 0
    except (RuntimeError, MemoryError) as error:
        print(
            f"micro-batches of {options.micro_batch}: {str(error).splitlines()[0]}",
            file=sys.stderr,
            flush=True,
        )
        if isinstance(error, torch.OutOfMemoryError):
            return DEVICE_FULL
        if host_is_full(error):
            return HOST_FULL
        raise


def try_sizes(options, words):
    """With the largest that fits, the fairest: parameters and gradients move once per micro-batch."""
    micro_batch = min(options.micro_batch, options.sequences)
    while micro_batch >= 1:
        child = subprocess.run(
            [sys.executable, __file__, *words, "--only", "--micro-batch", str(micro_batch)],
            stdout=subprocess.PIPE,
            text=True,
        )
        if child.returncode == 0:
            print(child.stdout.strip().splitlines()[-1])
            return 0
        if child.returncode in (HOST_FULL, -signal.SIGKILL):
            print(json.dumps({"does_not_fit": refusal(options)}))
            return 0
        if child.returncode != DEVICE_FULL:
            return 1
        micro_batch //= 2
    print("not even micro-batches of one sequence fit", file=sys.stderr)
    return 1


def refusal(options):
    with torch.device("meta"):
        model = Gpt(options.vocabulary, options.tokens, options.width, options.layers, options.heads)
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return (
        f"PyTorch takes {host_bytes(model) / 2**30:.1f} GiB of the host's memory for "
        f"{options.layers} layers' state, and more beside; the machine has {there / 2**30:.1f} GiB"
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--device-gib", type=float, default=20)
    parser.add_argument("--width", type=int, default=4096)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--vocabulary", type=int, default=50257)
    parser.add_argument("--tokens", type=int, default=1024, help="of a sequence")
    parser.add_argument("--sequences", type=int, default=64, help="of a step")
    parser.add_argument(
        "--micro-batch", type=int, default=32, help="sequences, at most: halved until it fits"
    )
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument(
        "--only", action="store_true", help="micro-batches of that size alone, in this process"
    )
    parser.add_argument("--tiny", action="store_true", help="try the script")
    options = parser.parse_args()
    if options.tiny:
        options.width, options.layers, options.heads, options.vocabulary, options.tokens = 64, 2, 2, 256, 64
        options.sequences, options.micro_batch, options.steps = 4, min(options.micro_batch, 2), 3
    if not options.only:
        return try_sizes(options, sys.argv[1:])
    code = measure_in_this_process(options)
    sys.stdout.flush()
    os._exit(code)  # collectives that an error left behind would be waited for


if __name__ == "__main__":
    sys.exit(main())
