#!/usr/bin/env python3
"""Writes tests/golden/packed: packed matrices as model files hold them, with the reference implementations' values.

Needs torch, transformers, bitsandbytes and safetensors; run from the repository root, on a CPU. Each file is a
model's weights in one format, beside a tensor expected/NAME in bf16 for each matrix NAME:

  fp8.safetensors     transformers' Fp8Dequantize; a ragged edge is padded before and cut off after
  mxfp4.safetensors   transformers' convert_moe_packed_tensors, transposed back to [experts, out, in]
  nf4.safetensors     bitsandbytes' dequantize_4bit, single and double quantised
  int8.safetensors    bitsandbytes' int8_vectorwise_dequant, then a cast

Names of matrices say what is special about them. Scales have mantissas of full length, so that rounding shows; "ties"
are chosen so that another order of operations gives other bits.
"""

import os

import bitsandbytes
import bitsandbytes.functional as bnb
import torch
import transformers
from bitsandbytes.backends.default.ops import _dequantize_4bit_compute
from safetensors.torch import save_file
from torch.nn import functional
from transformers.integrations.finegrained_fp8 import Fp8Dequantize
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

OUT = "tests/golden/packed"

# Matrices [out, in] and the sizes of their blocks.
FP8 = {"published": ((130, 136), (128, 128)), "small_blocks": ((20, 40), (16, 32)), "wide": ((3, 300), (128, 128))}
# [experts, rows, groups of 32]
MXFP4 = {"gate_up": (3, 6, 2), "every_scale": (1, 11, 23)}
# Matrices [out, in], elements per absmax, and True for double quantisation.
NF4 = {
    "single": ((48, 70), 64, False),
    "odd": ((7, 9), 64, False),
    "large_blocks": ((9, 512), 4096, False),
    "double": ((70, 130), 32, True),
    "double_short": ((10, 24), 64, True),
}
INT8 = {"rows": (9, 33), "one_row": (1, 64)}


def absmax_that_shows_rounding():
    """Returns codes of absmax, their map, a scale and an offset for which a fused multiply-add gives other values."""
    table = bnb.create_dynamic_map()
    nf4 = bnb.get_4bit_type("nf4", device="cpu")
    most, found = 0, None
    for _ in range(2000):
        scale, offset = torch.rand(1) * 0.1, torch.rand(1) * 0.1
        apart, fused = table * scale + offset, (table.double() * scale.double() + offset.double()).float()
        differ = ((nf4[:, None] * apart).to(torch.bfloat16) != (nf4[:, None] * fused).to(torch.bfloat16)).sum(0)
        if differ.count_nonzero() > most:
            codes = torch.argsort(differ, descending=True)[:16].to(torch.uint8)
            most, found = differ.count_nonzero(), (codes, table, scale, offset)
    assert most > 0
    return found


def int8_scales_that_show_rounding(rows):
    """Returns scales for which scale * factor first gives other bits. (Dividing by 127 changed none of 25 million.)"""
    codes, scales, factor = torch.arange(-127, 128.0), torch.randn(100_000, 1).exp(), torch.tensor(1 / 127)
    first, other = [v.to(torch.bfloat16) for v in (codes * scales * factor, codes * (scales * factor))]
    assert (first != other).any()
    return scales[torch.argsort((first != other).sum(1), descending=True)[:rows]].flatten()


def fp8_reference(codes, scales, block):
    rows, columns = codes.shape
    fill = (0, -columns % block[1], 0, -rows % block[0])
    padded = functional.pad(codes.view(torch.uint8), fill).view(torch.float8_e4m3fn)
    return Fp8Dequantize(None)._dequantize_one(padded, scales, torch.bfloat16)[:rows, :columns]


def make_fp8():
    tensors = {}
    for name, ((rows, columns), block) in FP8.items():
        finite = torch.tensor([c for c in range(256) if c & 0x7F != 0x7F], dtype=torch.uint8)  # 0x7f and 0xff are NaN
        codes = finite[torch.randint(len(finite), (rows, columns))].view(torch.float8_e4m3fn)
        scales = torch.rand(-(-rows // block[0]), -(-columns // block[1])) * 1e-3 + 1e-5
        scales[-1, -1] = 1e-38  # products that bf16 has only as denormals
        if name == "small_blocks":
            scales = scales.to(torch.bfloat16)  # as some models publish them
        tensors[f"{name}.weight"] = codes
        tensors[f"{name}.weight_scale_inv"] = scales
        tensors[f"expected/{name}.weight"] = fp8_reference(codes, scales, block)
    return tensors


def make_mxfp4():
    tensors = {}
    for name, shape in MXFP4.items():
        blocks = torch.randint(256, (*shape, 16), dtype=torch.uint8)
        # Scales from 253 on would make infinities.
        scales = torch.randint(100, 140, shape, dtype=torch.uint8)
        if name == "every_scale":
            scales = torch.arange(253, dtype=torch.uint8).reshape(shape)
        tensors[f"{name}_blocks"], tensors[f"{name}_scales"] = blocks, scales
        values = convert_moe_packed_tensors(blocks, scales, dtype=torch.bfloat16)  # [experts, in, out]
        tensors[f"expected/{name}"] = values.transpose(1, 2).contiguous()
    return tensors


def make_nf4():
    tensors = {}
    for name, (shape, block, double) in NF4.items():
        weight = (torch.randn(shape) * 0.03).to(torch.bfloat16)
        codes, state = bnb.quantize_4bit(weight, blocksize=block, compress_statistics=double, quant_type="nf4")
        values = bnb.dequantize_4bit(codes, state)
        absmax = state.absmax
        if double:
            absmax = bnb.dequantize_blockwise(state.absmax, state.state2) + state.offset
        plain = _dequantize_4bit_compute(codes.reshape(-1), absmax, state.code, block, shape, torch.bfloat16)
        assert torch.equal(values, plain), "bitsandbytes' library and its plain functions differ"
        tensors[f"{name}.weight"] = codes
        for key, value in state.as_dict(packed=True).items():
            tensors[f"{name}.weight.{key}"] = value
        tensors[f"expected/{name}.weight"] = values
    return tensors | make_nf4_ties()


def make_nf4_ties():
    absmax, table, scale, offset = absmax_that_shows_rounding()
    nested = bnb.QuantState(absmax=scale, code=table, blocksize=256, dtype=torch.float32)
    nf4 = bnb.get_4bit_type("nf4", device="cpu")
    state = bnb.QuantState(absmax=absmax, shape=torch.Size((16, 64)), code=nf4, blocksize=64, quant_type="nf4",
                           dtype=torch.bfloat16, offset=offset[0], state2=nested)
    # Each block has each code four times.
    codes = torch.arange(0, 256, 17, dtype=torch.uint8).repeat(32).reshape(-1, 1)
    tensors = {f"double_ties.weight.{key}": value for key, value in state.as_dict(packed=True).items()}
    return tensors | {"double_ties.weight": codes, "expected/double_ties.weight": bnb.dequantize_4bit(codes, state)}


def make_int8():
    tensors = {}
    for name, shape in INT8.items():
        codes, absmax, _ = bnb.int8_vectorwise_quant((torch.randn(shape) * 0.03).to(torch.float16))
        tensors[f"{name}.weight"], tensors[f"{name}.SCB"] = codes, absmax
        tensors[f"{name}.weight_format"] = torch.tensor(0, dtype=torch.uint8)
        tensors[f"expected/{name}.weight"] = bnb.int8_vectorwise_dequant(codes, absmax).to(torch.bfloat16)
    scales = int8_scales_that_show_rounding(8)
    codes = torch.arange(-127, 128, dtype=torch.int8).repeat(len(scales), 1)
    tensors["ties.weight"], tensors["ties.SCB"] = codes, scales
    tensors["expected/ties.weight"] = bnb.int8_vectorwise_dequant(codes, scales).to(torch.bfloat16)
    return tensors


def main():
    torch.manual_seed(7)
    torch.set_num_threads(1)
    os.makedirs(OUT, exist_ok=True)
    for name, make in {"fp8": make_fp8, "mxfp4": make_mxfp4, "nf4": make_nf4, "int8": make_int8}.items():
        tensors = {key: value.contiguous() for key, value in make().items()}
        assert all(torch.isfinite(t).all() for key, t in tensors.items() if key.startswith("expected/"))
        versions = {module.__name__: module.__version__ for module in (torch, transformers, bitsandbytes)}
        save_file(tensors, f"{OUT}/{name}.safetensors", metadata={"format": "pt", **versions})


main()
