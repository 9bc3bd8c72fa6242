#!/usr/bin/env python3
"""PyTorch's fused attention, forward and backward, causal, in bf16, to set beside `tidepool bench attention`: the same
shape and the same count of flops (4 B H T^2 D / 2 forward, 2.5 times that backward). Tries each fused backend that is
there and prints the fastest as one JSON object; beside it the rates with PyTorch's deterministic algorithms, because
Tidepool's sums are deterministic.
"""

import argparse
import json
import sys

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from pytorch_gemm_bench import seconds_of


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--sequences", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--head-size", type=int, default=128)
    parser.add_argument("--repetitions", type=int, default=9)
    parser.add_argument("--tiny", action="store_true", help="try the script")
    options = parser.parse_args()
    if options.tiny:
        options.sequences, options.tokens, options.heads, options.repetitions = 1, 64, 2, 1
    torch.manual_seed(1)
    b, t, h, d = options.sequences, options.tokens, options.heads, options.head_size
    q, k, v, dout = (torch.rand(b, h, t, d, device=options.device).mul_(2).sub_(1).to(torch.bfloat16) for _ in range(4))
    for tensor in (q, k, v):
        tensor.requires_grad_()

    def step():
        for tensor in (q, k, v):
            tensor.grad = None
        functional.scaled_dot_product_attention(q, k, v, is_causal=True).backward(dout)

    flops = 3.5 * 4.0 * b * h * t * t * d / 2
    names = ["FLASH_ATTENTION", "CUDNN_ATTENTION", "EFFICIENT_ATTENTION"]
    if options.device == "cpu":
        names += ["MATH"]
    rates, deterministic, refused = {}, {}, {}
    torch.utils.deterministic.fill_uninitialized_memory = False  # else empty tensors are filled, for debugging
    for wanted, into in ((False, rates), (True, deterministic)):
        torch.use_deterministic_algorithms(wanted)
        for name in names:
            try:
                with sdpa_kernel(getattr(SDPBackend, name)):
                    into[name] = flops / seconds_of(
                        step, options.device, options.repetitions, 0.001 if options.tiny else 0.05
                    )
            except (AttributeError, RuntimeError) as why:
                refused[name + (", deterministic" if wanted else "")] = str(why).splitlines()[0]
    if not rates:
        print(f"no fused attention works here: {refused}", file=sys.stderr)
        return 1
    best = max(rates, key=rates.get)
    print(json.dumps({"torch": torch.__version__, "device": options.device, "backend": best,
                      "flops_per_second": rates[best], "all": rates, "deterministic": deterministic,
                      "refused": refused}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
