#!/usr/bin/env python3
"""Writes tests/golden/packed_models: small random models as they are published quantized.

Needs torch, transformers, bitsandbytes and safetensors; run from the repository root, on a CPU. Each directory
has config.json, model.safetensors, and unpacked.json: the CRC-32 of each tensor of the model after the reference
implementation has unpacked it to bf16. References are those of make_golden_packed.py.
"""

import json
import os
import zlib

import bitsandbytes.functional as bnb
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers.integrations.finegrained_fp8 import Fp8Dequantize
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

OUT = "tests/golden/packed_models"

LLAMA = {
    "vocab_size": 64,
    "hidden_size": 96,
    "intermediate_size": 160,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "max_position_embeddings": 128,
    "tie_word_embeddings": False,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}
QWEN3_MOE = LLAMA | {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64}
GPT_OSS = LLAMA | {
    "intermediate_size": 64,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "sliding_window": 16,
    "layer_types": ["sliding_attention", "full_attention"],
}
DEEPSEEK = LLAMA | {
    "num_key_value_heads": 3,
    "head_dim": 16,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 64,
    "n_shared_experts": 1,
    "n_group": 2,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "kv_lora_rank": 32,
    "q_lora_rank": 48,
    "qk_rope_head_dim": 16,
    "qk_nope_head_dim": 32,
    "v_head_dim": 32,
}
FP8_BLOCK = (64, 48)
NOT_LINEAR = ("norm", "embed_tokens", "lm_head", "mlp.gate.", "router")


def is_linear(name, tensor):
    return tensor.dim() == 2 and not any(part in name for part in NOT_LINEAR)


def pack_fp8(name, w):
    if not is_linear(name, w):
        return None
    rows, columns = w.shape
    block_rows, block_columns = FP8_BLOCK
    padded = torch.nn.functional.pad(w.float(), (0, -columns % block_columns, 0, -rows % block_rows))
    blocks = padded.unfold(0, block_rows, block_rows).unfold(1, block_columns, block_columns)
    scales = blocks.abs().amax((-1, -2)) / 448
    spread = scales.repeat_interleave(block_rows, 0).repeat_interleave(block_columns, 1)
    codes = (padded / spread).to(torch.float8_e4m3fn)
    reference = Fp8Dequantize(None)._dequantize_one(codes, scales)[:rows, :columns].to(torch.bfloat16)
    return {name: codes[:rows, :columns].contiguous(), name + "_scale_inv": scales}, reference


def pack_nf4(nested):
    def pack(name, w):
        if not is_linear(name, w):
            return None
        codes, state = bnb.quantize_4bit(w, quant_type="nf4", compress_statistics=nested)
        parts = {f"{name}.{key}": value for key, value in state.as_dict(packed=True).items()}
        return {name: codes} | parts, bnb.dequantize_4bit(codes, state)

    return pack


def pack_int8(name, w):
    if not is_linear(name, w):
        return None
    codes, scales, _ = bnb.int8_vectorwise_quant(w.half())
    module = name.removesuffix("weight")
    packed = {name: codes, module + "SCB": scales, module + "weight_format": torch.tensor(0, dtype=torch.uint8)}
    return packed, bnb.int8_vectorwise_dequant(codes, scales).to(torch.bfloat16)


def pack_mxfp4(name, w):
    if not name.endswith(("gate_up_proj", "down_proj")):
        return None
    experts, inputs, outputs = w.shape
    values = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
    groups = w.transpose(1, 2).float().reshape(experts, outputs, inputs // 32, 32)
    power = torch.floor(torch.log2(groups.abs().amax(-1))) - 2
    codes = ((groups / torch.exp2(power)[..., None])[..., None] - values).abs().argmin(-1).to(torch.uint8)
    blocks = codes[..., 0::2] | codes[..., 1::2] << 4
    scales = (power + 127).to(torch.uint8)
    return {name + "_blocks": blocks, name + "_scales": scales}, convert_moe_packed_tensors(blocks, scales)


FP8 = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": list(FP8_BLOCK)}
NF4 = {
    "quant_method": "bitsandbytes",
    "load_in_4bit": True,
    "load_in_8bit": False,
    "bnb_4bit_quant_type": "nf4",
    "bnb_4bit_quant_storage": "uint8",
}
INT8 = {"quant_method": "bitsandbytes", "load_in_8bit": True, "load_in_4bit": False}
MXFP4 = {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router"]}
MODELS = {
    "llama_fp8": ("Llama", LLAMA, pack_fp8, FP8),
    "llama_nf4": ("Llama", LLAMA, pack_nf4(False), NF4 | {"bnb_4bit_use_double_quant": False}),
    "llama_nf4_double": ("Llama", LLAMA, pack_nf4(True), NF4 | {"bnb_4bit_use_double_quant": True}),
    "llama_int8": ("Llama", LLAMA, pack_int8, INT8),
    "qwen3_moe_fp8": ("Qwen3Moe", QWEN3_MOE, pack_fp8, FP8),
    "gpt_oss_mxfp4": ("GptOss", GPT_OSS, pack_mxfp4, MXFP4),
    "deepseek_v3_fp8": ("DeepseekV3", DEEPSEEK, pack_fp8, FP8),
}


def make(name, family, sizes, pack, quantization):
    model = getattr(transformers, family + "ForCausalLM")(getattr(transformers, family + "Config")(**sizes))
    directory = f"{OUT}/{name}"
    model.to(torch.bfloat16).save_pretrained(directory)
    packed, crc = {}, {}
    for tensor, w in load_file(f"{directory}/model.safetensors").items():
        parts, reference = pack(tensor, w) or ({tensor: w}, w)
        packed |= parts
        crc[tensor] = zlib.crc32(reference.contiguous().view(torch.uint8).numpy().tobytes())
    save_file(packed, f"{directory}/model.safetensors", {"format": "pt"})
    with open(f"{directory}/config.json") as file:
        config = json.load(file)
    with open(f"{directory}/config.json", "w") as file:
        json.dump(config | {"quantization_config": quantization}, file, indent=1)
        file.write("\n")
    with open(f"{directory}/unpacked.json", "w") as file:
        json.dump(crc, file, indent=1)
        file.write("\n")
    os.remove(f"{directory}/generation_config.json")


def main():
    torch.manual_seed(7)
    for name, model in MODELS.items():
        make(name, *model)
    print(f"torch {torch.__version__}, transformers {transformers.__version__}")


main()
