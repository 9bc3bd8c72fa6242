#!/usr/bin/env python3
"""The matrix products of a 7B layer in PyTorch, to set beside `tidepool bench gemm`: the same shapes, forward and both
products of its backward, in bf16. Weight gradients are written in fp32, as Tidepool writes them, where this PyTorch can
(torch.mm's out_dtype, on GPUs); elsewhere in bf16, and "weight_gradients" says which. Prints one JSON object.
"""

import argparse
import json
import statistics
import sys
import time

import torch


def shapes(tokens, hidden):
    return [("qkv", tokens, 3 * hidden, hidden), ("projection", tokens, hidden, hidden),
            ("mlp in", tokens, 4 * hidden, hidden), ("mlp out", tokens, hidden, 4 * hidden),
            ("head slice", tokens, 2 * hidden, hidden)]


def seconds_of(call, device, repetitions, slice_seconds):
    """Returns seconds of one call: medians of slices with as many calls as fill them."""
    def timed(calls):
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        if device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - begin
    timed(2)
    calls = max(1, int(slice_seconds / max(timed(1), 1e-6)))
    return statistics.median(timed(calls) / calls for _ in range(repetitions))


def weight_gradient(x, dy):
    """Returns the function that computes x^T dy in fp32, or None if PyTorch has none."""
    def product():
        return torch.mm(x.t(), dy, out_dtype=torch.float32)
    try:
        product()
    except (TypeError, RuntimeError, NotImplementedError):
        return None
    return product


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--hidden", type=int, default=4096)
    parser.add_argument("--repetitions", type=int, default=9)
    parser.add_argument("--tiny", action="store_true", help="try the script")
    options = parser.parse_args()
    if options.tiny:
        options.tokens, options.hidden, options.repetitions = 64, 32, 1
    torch.manual_seed(1)
    dtype = torch.bfloat16
    rows = []
    for name, m, n, k in shapes(options.tokens, options.hidden):
        x = torch.rand(m, k, device=options.device).sub_(0.5).to(dtype)
        weight = torch.rand(k, n, device=options.device).sub_(0.5).to(dtype)
        dy = torch.rand(m, n, device=options.device).sub_(0.5).to(dtype)
        in_fp32 = weight_gradient(x, dy)
        dw = in_fp32 or (lambda: x.t() @ dy)
        for suffix, call in (("", lambda: x @ weight), (", dx", lambda: dy @ weight.t()), (", dw", dw)):
            seconds = seconds_of(call, options.device, options.repetitions, 0.001 if options.tiny else 0.02)
            rows.append({"name": name + suffix, "m": m, "n": n, "k": k, "flops_per_second": 2.0 * m * n * k / seconds})
    written = "fp32" if in_fp32 else "bf16"
    print(json.dumps({"torch": torch.__version__, "device": options.device, "weight_gradients": written, "shapes": rows}))


if __name__ == "__main__":
    sys.exit(main())
