#!/usr/bin/env python3
"""Writes tests/golden/wrappers: small models that read text and images, and logits of transformers for text.

Needs torch, transformers and safetensors; run from the repository root, with the names of cases to write only
these. tests/golden/wrappers/README.md describes the files.
"""

import json
import os
import shutil
import sys

import torch
import transformers
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch.nn import functional

from expert_cases import HYBRID, HYBRID_EXPERTS, default
from gemma4_cases import GEMMA4, randomize_gemma4
from make_families import GEMMA, SIZES, by_layer, randomize_delta_rule

OUT = "tests/golden/wrappers"
SEQUENCES, TOKENS = 2, 20
QWEN_TOKENS = dict(image_token_id=49, video_token_id=50, vision_start_token_id=51, vision_end_token_id=52)
QWEN_VISION = dict(depth=1, hidden_size=8, intermediate_size=12, num_heads=2, patch_size=2, out_hidden_size=24,
                   num_position_embeddings=4, spatial_merge_size=2, temporal_patch_size=1)
SIGLIP = dict(model_type="siglip_vision_model", hidden_size=8, intermediate_size=12, num_hidden_layers=1,
              num_attention_heads=2, image_size=8, patch_size=4, vision_use_head=False)
GEMMA4_VISION = dict(hidden_size=8, intermediate_size=12, num_hidden_layers=1, num_attention_heads=2,
                     num_key_value_heads=2, head_dim=4, patch_size=2, pooling_kernel_size=1, position_embedding_size=16)
SHORT = dict(num_hidden_layers=3, full_attention_interval=3)

# name: (class, text config, options beside it, vision config, dtype of the files)
CASES = {
    # Two kinds of tensors have F32, as in published files.
    "qwen3_5": ("Qwen3_5", SIZES | HYBRID | SHORT, QWEN_TOKENS, QWEN_VISION, torch.bfloat16),
    "qwen3_5_moe": ("Qwen3_5Moe", SIZES | HYBRID_EXPERTS | dict(num_hidden_layers=2, full_attention_interval=2, num_experts=4,
                                                          tie_word_embeddings=True),
                    QWEN_TOKENS | dict(tie_word_embeddings=True), QWEN_VISION, torch.float32),
    "gemma3": ("Gemma3", SIZES | GEMMA | dict(rope_parameters=by_layer(default(50000.0)), sliding_window=7),
               dict(mm_tokens_per_image=1, image_token_index=52, boi_token_index=50, eoi_token_index=51), SIGLIP,
               torch.float32),
    "gemma4": ("Gemma4", SIZES | GEMMA4 | dict(num_hidden_layers=3, sliding_window=7, attention_k_eq_v=True,
                                             num_global_key_value_heads=1, final_logit_softcapping=2.0, pad_token_id=0,
                                             layer_types=["sliding_attention"] * 2 + ["full_attention"]),
               dict(image_token_id=49, video_token_id=50, boi_token_id=51, eoi_token_id=52, boa_token_id=None,
                    eoa_token_index=None, audio_token_id=None), GEMMA4_VISION, torch.bfloat16),
}
IN_F32 = ("A_log", "linear_attn.norm.weight")


def make_model(kind, text, beside, vision):
    config = getattr(transformers, kind + "Config")(text_config=dict(text), vision_config=dict(vision), **beside)
    config._attn_implementation = "eager"
    config._experts_implementation = "eager"
    model = getattr(transformers, kind + "ForConditionalGeneration")(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
            else:
                parameter.copy_(torch.randn_like(parameter) * 0.12)
    randomize_delta_rule(model)
    randomize_gemma4(model)
    return model.eval()


def narrowest_choice(model, tokens):
    """RETURNS: the least distance, in logits, between the last chosen expert and the first that is not chosen."""
    gaps = [torch.inf]

    def watch(gate, inputs):
        best = functional.linear(inputs[0].flatten(0, -2), gate.weight).sort(dim=-1, descending=True).values
        gaps.append(float((best[:, gate.top_k - 1] - best[:, gate.top_k]).min()))
    hooks = [module.register_forward_pre_hook(watch) for name, module in model.named_modules()
             if name.endswith("mlp.gate")]
    model(tokens)
    for hook in hooks:
        hook.remove()
    return min(gaps)


def extra_prediction(width):
    """Tensors that predict a second token: transformers ignores them, and so does training."""
    return {"mtp.fc.weight": torch.randn(width, 2 * width), "mtp.norm.weight": torch.randn(width),
            "mtp.layers.0.self_attn.q_proj.weight": torch.randn(width, width)}


def write_files(directory, model, dtype):
    """Rewrites what save_pretrained wrote: other types, more tensors, and the files beside."""
    path = f"{directory}/model.safetensors"
    tensors = load_file(path)
    if "Qwen" in type(model).__name__:
        tensors |= extra_prediction(model.config.text_config.hidden_size)
    tensors = {name: t.float() if name.endswith(IN_F32) else t.to(dtype) for name, t in tensors.items()}
    save_file(tensors, path, metadata=dict(format="pt"))
    for name in ("preprocessor_config.json", "video_preprocessor_config.json"):
        with open(f"{directory}/{name}", "w") as file:
            json.dump(dict(size=dict(shortest_edge=4, longest_edge=8)), file)
            file.write("\n")


def write_case(number, name, kind, text, beside, vision, dtype):
    for seed in range(100):
        torch.manual_seed(7000 + 1000 * number + seed)
        model = make_model(kind, text, beside, vision)
        tokens = torch.randint(49, (SEQUENCES, TOKENS))
        with torch.no_grad():
            if narrowest_choice(model, tokens) > 5e-3:
                break
    directory = f"{OUT}/{name}"
    shutil.rmtree(directory, ignore_errors=True)
    # Published files of the first two have all experts of a layer in one tensor, and those of Gemma 3 have older names.
    model.to(dtype).save_pretrained(directory, save_original_format=kind == "Gemma3")
    os.remove(f"{directory}/generation_config.json")
    write_files(directory, model, dtype)
    again = type(model).from_pretrained(directory, dtype=torch.float32, attn_implementation="eager",
                                        experts_implementation="eager").eval()
    with torch.no_grad():
        logits = again(tokens).logits
        assert kind != "Qwen3_5Moe" or narrowest_choice(again, tokens) > 5e-3
    save_file({"tokens": tokens.int(), "logits": logits}, f"{directory}/expected.safetensors",
              metadata=dict(format="pt", torch=torch.__version__, transformers=transformers.__version__))
    with safe_open(f"{directory}/model.safetensors", "pt") as file:
        print(name, f"seed {seed}", *file.keys(), sep="\n  ")


def main():
    torch.set_num_threads(1)
    for number, (name, case) in enumerate(CASES.items()):
        if len(sys.argv) > 1 and name not in sys.argv[1:]:
            continue
        write_case(number, name, *case)


if __name__ == "__main__":
    main()
