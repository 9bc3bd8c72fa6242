#!/usr/bin/env python3
"""Writes tests/golden/families: small random models of each family, and the results of transformers for them.

Needs torch, transformers and safetensors; run from the repository root, with the names of cases to write only these.
tests/golden/families/README.md describes the files. Everything is fp32 on the CPU, one thread, eager attention, no dropout.
"""

import copy
import json
import math
import os
import shutil
import sys

import torch
import transformers
from safetensors import safe_open
from safetensors.torch import save_file
from torch.nn import functional

from expert_cases import (EXPERT_CASES, EXPERT_CURVES, GRANITE_HYBRID, HYBRID, NEMOTRON, SEEDS, Margins,
                          check_own_loss, expert_loss, name_here, names_in_files, randomize_experts, to_old_keys)
from gemma4_cases import GEMMA4_CASES, randomize_gemma4

OUT = "tests/golden/families"
SEQUENCES, TOKENS = 2, 20
STEPS = 50
ADAMW = dict(lr=2e-3, betas=(0.9, 0.95), eps=1e-8)
WEIGHT_DECAY = 0.1
MAX_GRAD_NORM = 1.0
IGNORED = -100

SIZES = dict(vocab_size=53, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64, initializer_range=0.02, attention_dropout=0.0,
             bos_token_id=0, eos_token_id=0)
GPT2_SIZES = dict(vocab_size=53, n_positions=32, n_embd=24, n_layer=2, n_head=4, embd_pdrop=0.0, attn_pdrop=0.0,
                  resid_pdrop=0.0, bos_token_id=0, eos_token_id=0)
LLAMA3 = dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=16)
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=16, beta_fast=4.0,
            beta_slow=1.0)
DYNAMIC = dict(rope_type="dynamic", rope_theta=10000.0, factor=4.0)
LINEAR = dict(rope_type="linear", rope_theta=1000000.0, factor=4.0)


def default(theta):
    return dict(rope_type="default", rope_theta=theta)


def longrope(original, pairs):
    """Short factors for sequences of at most `original` tokens, long ones otherwise."""
    return dict(rope_type="longrope", rope_theta=10000.0, original_max_position_embeddings=original,
                short_factor=[1 + 0.125 * i for i in range(pairs)], long_factor=[1 + 2.5 * i for i in range(pairs)])


def by_layer(rope):
    return dict(full_attention=rope, sliding_attention=default(3000.0))


PLAIN = dict(pad_token_id=None)
GROWING = dict(YARN, original_max_position_embeddings=6, mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.3)
ALPHA = dict(rope_type="dynamic", rope_theta=10000.0, factor=1.0, alpha=50.0)
GRANITE = dict(embedding_multiplier=3.0, logits_scaling=2.5, residual_multiplier=0.4, attention_multiplier=0.3)
GEMMA = dict(head_dim=8, query_pre_attn_scalar=24, sliding_window=TOKENS, pad_token_id=None)

# name: (class, differences from SIZES, True if config.json has rope_theta and rope_scaling as in transformers
# 4)
CASES = {
    "llama_tied": ("Llama", dict(rope_parameters=default(10000.0), tie_word_embeddings=True), False),
    "llama_untied_llama3": ("Llama", dict(rope_parameters=LLAMA3, num_key_value_heads=1), True),
    "llama_biases_linear_head_dim": ("Llama", dict(rope_parameters=LINEAR, attention_bias=True, mlp_bias=True,
                                                   head_dim=8, num_key_value_heads=4), False),
    "llama_tied_llama3": ("Llama", dict(rope_parameters=LLAMA3, tie_word_embeddings=True, rms_norm_eps=1e-5), False),
    "mistral_untied": ("Mistral", dict(rope_parameters=default(10000.0), sliding_window=None), False),
    "mistral_tied_head_dim": ("Mistral", dict(rope_parameters=default(1000000.0), sliding_window=None, head_dim=10,
                                              tie_word_embeddings=True), True),
    "mistral_linear": ("Mistral", dict(rope_parameters=LINEAR, sliding_window=None, num_key_value_heads=4), True),
    "qwen2_tied": ("Qwen2", dict(rope_parameters=default(1000000.0), tie_word_embeddings=True), False),
    "qwen2_untied": ("Qwen2", dict(rope_parameters=default(10000.0), num_key_value_heads=1), True),
    "qwen2_linear": ("Qwen2", dict(rope_parameters=LINEAR, num_key_value_heads=4), False),
    "qwen3_tied_head_dim": ("Qwen3", dict(rope_parameters=default(1000000.0), tie_word_embeddings=True, head_dim=8),
                            False),
    "qwen3_untied": ("Qwen3", dict(rope_parameters=default(10000.0), head_dim=6, num_key_value_heads=1), True),
    "qwen3_biases_linear": ("Qwen3", dict(rope_parameters=LINEAR, head_dim=12, attention_bias=True), False),
    "gpt2_plain": ("GPT2", dict(), False),
    "gpt2_inner": ("GPT2", dict(n_inner=56, layer_norm_epsilon=1e-6), False),
    "gpt2_one_head": ("GPT2", dict(n_head=1, n_layer=1), False),
    # Windows as long as the sequences, which therefore attend to all tokens.
    "mistral_window": ("Mistral", dict(rope_parameters=default(10000.0), sliding_window=TOKENS), False),
    "qwen2_window": ("Qwen2", dict(rope_parameters=default(10000.0), use_sliding_window=True, sliding_window=TOKENS,
                                   max_window_layers=1), True),
    "phi3_untied": ("Phi3", dict(rope_parameters=default(10000.0), pad_token_id=None), False),
    # Rotates three quarters of heads of 8, like Phi-4 mini does of heads of 128.
    "phi3_partial": ("Phi3", dict(rope_parameters=dict(default(250000.0), partial_rotary_factor=0.75), pad_token_id=None,
                                  num_attention_heads=3, num_key_value_heads=1), True),
    "phi3_tied_window": ("Phi3", dict(rope_parameters=default(10000.0), pad_token_id=None, sliding_window=TOKENS,
                                      num_key_value_heads=4, tie_word_embeddings=True), False),
    # The last of three layers sees all tokens and has its own angles.
    "gemma3_text": ("Gemma3", dict(GEMMA, rope_parameters=by_layer(default(50000.0)), num_hidden_layers=3,
                                   sliding_window_pattern=3), False),
    "gemma3_linear": ("Gemma3", dict(GEMMA, rope_parameters=by_layer(LINEAR), sliding_window_pattern=2,
                                     num_key_value_heads=1, attention_bias=True, query_pre_attn_scalar=10,
                                     tie_word_embeddings=False), True),
    # Windows shorter than the sequences.
    "mistral_sliding": ("Mistral", dict(rope_parameters=default(10000.0), sliding_window=7), False),
    "qwen2_sliding": ("Qwen2", dict(rope_parameters=default(10000.0), use_sliding_window=True, sliding_window=5,
                                    num_hidden_layers=3, max_window_layers=1), True),
    "gemma3_sliding": ("Gemma3", dict(GEMMA, rope_parameters=by_layer(default(50000.0)), sliding_window=6,
                                      sliding_window_pattern=2), False),
    # Angles for long sequences: those here have 20 tokens, below and above the original length.
    "llama_yarn": ("Llama", dict(rope_parameters=YARN, head_dim=8), False),
    "mistral_yarn": ("Mistral", dict(rope_parameters=dict(YARN, attention_factor=1.25), sliding_window=None), True),
    "qwen2_yarn": ("Qwen2", dict(rope_parameters=dict(YARN, original_max_position_embeddings=32), num_key_value_heads=1),
                   True),
    "qwen3_yarn": ("Qwen3", dict(rope_parameters=dict(YARN, mscale=0.7, mscale_all_dim=1.3), head_dim=8), False),
    "gemma3_yarn": ("Gemma3", dict(GEMMA, rope_parameters=by_layer(YARN), sliding_window_pattern=2), False),
    "phi3_longrope_short": ("Phi3", dict(rope_parameters=longrope(32, 3), original_max_position_embeddings=32, pad_token_id=None), False),
    "phi3_longrope_long": ("Phi3", dict(rope_parameters=dict(longrope(16, 3), partial_rotary_factor=0.75),
                                        original_max_position_embeddings=16, pad_token_id=None, num_attention_heads=3, num_key_value_heads=1), False),
    "llama_longrope": ("Llama", dict(rope_parameters=dict(longrope(16, 4), factor=2.0, attention_factor=0.9), head_dim=8),
                       True),
    "qwen3_longrope": ("Qwen3", dict(rope_parameters=longrope(20, 3), head_dim=6), False),
    "llama_dynamic_short": ("Llama", dict(rope_parameters=DYNAMIC), False),
    "llama_dynamic_long": ("Llama", dict(rope_parameters=DYNAMIC, max_position_embeddings=16, head_dim=8), False),
    "qwen2_dynamic_long": ("Qwen2", dict(rope_parameters=DYNAMIC, max_position_embeddings=12), True),
    # Layers with a gated delta rule.
    "qwen3_5_untied": ("Qwen3_5", dict(HYBRID, num_hidden_layers=3, full_attention_interval=3), False),
    "qwen3_5_tied_biases": ("Qwen3_5", dict(HYBRID, num_hidden_layers=3, full_attention_interval=2, head_dim=16,
                                            linear_num_key_heads=1, linear_num_value_heads=3, linear_conv_kernel_dim=3,
                                            num_key_value_heads=1, attention_bias=True, tie_word_embeddings=True,
                                            rope_parameters=dict(default(10000.0), partial_rotary_factor=0.25)), True),
    "qwen3_5_linear": ("Qwen3_5", dict(HYBRID, linear_key_head_dim=9,
                                       linear_value_head_dim=4, linear_num_value_heads=2, num_key_value_heads=4,
                                       rope_parameters=dict(LINEAR, partial_rotary_factor=0.75)), False),
    # q grows with its position, in steps of the original length.
    "ministral3_untied": ("Ministral3", dict(PLAIN, rope_parameters=GROWING, head_dim=8), False),
    "ministral3_tied_sliding": ("Ministral3", dict(PLAIN, rope_parameters=dict(GROWING, llama_4_scaling_beta=0.1,
                                                                               original_max_position_embeddings=5),
                                                   head_dim=10, sliding_window=7, num_key_value_heads=1,
                                                   tie_word_embeddings=True), True),
    "ministral3_plain": ("Ministral3", dict(PLAIN, rope_parameters=dict(default(10000.0), llama_4_scaling_beta=0.5,
                                                                        original_max_position_embeddings=3),
                                            num_key_value_heads=4, head_dim=6), False),
    # Layers without rotation.
    "smollm3_tied": ("SmolLM3", dict(PLAIN, rope_parameters=default(2000000.0), tie_word_embeddings=True,
                                     num_hidden_layers=3, no_rope_layer_interval=2), False),
    "smollm3_biases": ("SmolLM3", dict(PLAIN, rope_parameters=default(10000.0), mlp_bias=True,
                                       num_hidden_layers=3, no_rope_layers=[1, 1, 0], num_key_value_heads=1,
                                       tie_word_embeddings=False), True),
    "smollm3_all_rotated": ("SmolLM3", dict(PLAIN, rope_parameters=YARN, no_rope_layers=[1, 1], num_key_value_heads=4,
                                            attention_bias=True),
                            False),
    # Norms of branches alone.
    "olmo2_untied": ("Olmo2", dict(PLAIN, rope_parameters=default(500000.0)), False),
    "olmo2_biases_llama3": ("Olmo2", dict(PLAIN, rope_parameters=LLAMA3, attention_bias=True, num_key_value_heads=1),
                            True),
    "olmo2_tied": ("Olmo2", dict(PLAIN, rope_parameters=default(10000.0), num_attention_heads=3, num_key_value_heads=3,
                                 tie_word_embeddings=True), False),
    "olmo3_untied": ("Olmo3", dict(PLAIN, rope_parameters=by_layer(YARN), sliding_window=7, num_hidden_layers=3,
                                   layer_types=["sliding_attention"] * 2 + ["full_attention"]), False),
    "olmo3_default_layers": ("Olmo3", dict(PLAIN, rope_parameters=by_layer(default(500000.0)), sliding_window=5,
                                           num_hidden_layers=4, intermediate_size=24, num_key_value_heads=1), False),
    "olmo3_full_tied": ("Olmo3", dict(PLAIN, rope_parameters=by_layer(LINEAR), layer_types=["full_attention"] * 2,
                                      attention_bias=True, tie_word_embeddings=True), False),
    "exaone4_untied": ("Exaone4", dict(PLAIN, rope_parameters=default(1000000.0), sliding_window=6, num_hidden_layers=3,
                                       sliding_window_pattern=3), False),
    "exaone4_tied_full": ("Exaone4", dict(PLAIN, rope_parameters=LLAMA3, sliding_window=None, head_dim=10,
                                          layer_types=["full_attention"] * 2, tie_word_embeddings=True), False),
    "exaone4_listed": ("Exaone4", dict(PLAIN, rope_parameters=default(10000.0), sliding_window=9, num_key_value_heads=1,
                                       sliding_window_pattern="LG", head_dim=8,
                                       layer_types=["sliding_attention", "full_attention"]), True),
    "seed_oss_untied": ("SeedOss", dict(PLAIN, rope_parameters=default(10000000.0), head_dim=8, residual_dropout=0.0), False),
    "seed_oss_all_biases": ("SeedOss", dict(PLAIN, rope_parameters=LINEAR, head_dim=6, residual_dropout=0.0,
                                            attention_out_bias=True, mlp_bias=True, num_key_value_heads=1), True),
    "seed_oss_tied_plain": ("SeedOss", dict(PLAIN, rope_parameters=default(10000.0), head_dim=10, residual_dropout=0.0,
                                            attention_bias=False, num_key_value_heads=4, tie_word_embeddings=True), False),
    # Norms of heads after the rotation.
    "hunyuan_v1_dense_tied": ("HunYuanDenseV1", dict(PLAIN, rope_parameters=default(10000.0), head_dim=8,
                                                     tie_word_embeddings=True), False),
    "hunyuan_v1_dense_alpha": ("HunYuanDenseV1", dict(PLAIN, rope_parameters=ALPHA, head_dim=8,
                                                      num_key_value_heads=1), True),
    "hunyuan_v1_dense_biases": ("HunYuanDenseV1", dict(PLAIN, rope_parameters=LINEAR, head_dim=12, attention_bias=True,
                                                       num_key_value_heads=4), False),
    # Neighbouring columns are rotated together.
    "ernie4_5_tied": ("Ernie4_5", dict(PLAIN, rope_parameters=default(500000.0), head_dim=8), False),
    "ernie4_5_untied": ("Ernie4_5", dict(PLAIN, rope_parameters=default(10000.0), head_dim=10, num_key_value_heads=1,
                                         tie_word_embeddings=False), True),
    "ernie4_5_llama3": ("Ernie4_5", dict(PLAIN, rope_parameters=LLAMA3, head_dim=6, num_key_value_heads=4), False),
    # Factors.
    "granite_tied": ("Granite", dict(PLAIN | GRANITE, rope_parameters=default(10000.0), tie_word_embeddings=True), False),
    "granite_biases": ("Granite", dict(PLAIN | GRANITE, rope_parameters=LINEAR, attention_bias=True, mlp_bias=True,
                                       num_key_value_heads=1, residual_multiplier=1.7), True),
    "granite_some": ("Granite", dict(PLAIN, rope_parameters=default(10000.0), num_key_value_heads=4,
                                     logits_scaling=0.5, attention_multiplier=0.4), False),
    # MLPs without gates.
    "arcee_untied_yarn": ("Arcee", dict(PLAIN, rope_parameters=YARN, intermediate_size=37), False),
    "arcee_biases": ("Arcee", dict(PLAIN, rope_parameters=default(10000.0), attention_bias=True, mlp_bias=True, head_dim=10,
                                   num_key_value_heads=1, intermediate_size=51), True),
    "arcee_tied": ("Arcee", dict(PLAIN, rope_parameters=LINEAR, num_attention_heads=3, num_key_value_heads=3, vocab_size=59,
                                 tie_word_embeddings=True, num_hidden_layers=3), False),
    # Soft caps that are low enough to show.
    "gemma2_tied": ("Gemma2", dict(GEMMA, rope_parameters=default(10000.0), sliding_window=7, num_hidden_layers=3,
                                   attn_logit_softcapping=0.6, final_logit_softcapping=1.5), False),
    "gemma2_biases": ("Gemma2", dict(GEMMA, rope_parameters=default(50000.0), head_dim=10, query_pre_attn_scalar=3,
                                     num_key_value_heads=1, attention_bias=True, intermediate_size=37, vocab_size=59,
                                     attn_logit_softcapping=2.0, final_logit_softcapping=30.0, tie_word_embeddings=False), True),
    "gemma2_some_caps": ("Gemma2", dict(GEMMA, rope_parameters=YARN, sliding_window=5, num_attention_heads=3,
                                        num_key_value_heads=3, attn_logit_softcapping=None, final_logit_softcapping=0.8,
                                        layer_types=["full_attention"] * 2), False),
    # Layers with Mamba-2: of one part, and with an MLP.
    "nemotron_h_dense": ("NemotronH", dict(NEMOTRON, layers_block_type=["linear_attention", "mlp", "full_attention",
                                                                        "mlp", "linear_attention"]), False),
    "granitemoehybrid_dense": ("GraniteMoeHybrid", dict(GRANITE_HYBRID | GRANITE, num_local_experts=0,
                                                        num_hidden_layers=3, tie_word_embeddings=True,
                                                        layer_types=["linear_attention", "full_attention",
                                                                     "linear_attention"]), False),
} | GEMMA4_CASES
PERPLEXITIES = ("gpt2_plain", "llama_untied_llama3", "mistral_untied", "qwen2_tied", "qwen3_tied_head_dim")
CURVES = ("llama_tied", "llama_untied_llama3", "mistral_untied", "qwen2_untied", "qwen3_tied_head_dim", "phi3_partial",
          "gemma3_text", "gemma3_sliding", "qwen3_5_untied", "ministral3_untied", "smollm3_tied", "olmo2_untied",
          "olmo3_untied", "exaone4_untied", "seed_oss_untied", "hunyuan_v1_dense_tied", "ernie4_5_tied", "granite_tied",
          "arcee_untied_yarn", "gemma2_tied", "nemotron_h_dense", "granitemoehybrid_dense", "gemma4_text",
          "gemma4_keys_are_values", "gemma4_layer_inputs", "gemma4_shared_keys", "gemma4_both")


# Classes whose config is a part of that of a model which also reads images.
TEXT_CONFIGS = ("Gemma3", "Gemma4", "Qwen3_5", "Qwen3_5Moe")


def randomize_delta_rule(model):
    """Weak decays: transformers takes differences of sums over a chunk, which lose digits as the sums grow. And large q, k
    and v: a small q or k is brought to length 1 and a small output to a root mean square of 1, which makes curves chaotic.
    """
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("A_log"):
                parameter.sub_(3)
            if "linear_attn.in_proj_qkv" in name or name.endswith("conv1d.weight"):
                parameter.mul_(10)


def randomize_mamba(model):
    """Steps from their least to some times 1, and decays from weak to strong."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("dt_bias"):
                parameter.copy_(2 * torch.randn_like(parameter) - 1)
            if name.endswith("A_log") and "linear_attn" not in name:
                parameter.copy_(torch.randn_like(parameter) - 1)


def make_model(kind, options):
    sizes = GPT2_SIZES if kind == "GPT2" else SIZES
    config = getattr(transformers, kind + ("TextConfig" if kind in TEXT_CONFIGS else "Config"))(**{**sizes, **options})
    config._attn_implementation = "eager"
    config._experts_implementation = "eager"
    name = "GPT2LMHeadModel" if kind == "GPT2" else kind + "ForCausalLM"
    model = getattr(transformers, name)(config)
    # Fresh biases are zero and fresh norms one: gradients that mix them up would agree by accident. Larger
    # matrices make attention look at some places more than at others.
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
            else:
                parameter.copy_(torch.randn_like(parameter) * 0.12)
    randomize_experts(model)
    randomize_delta_rule(model)
    randomize_gemma4(model)
    if kind in ("NemotronH", "GraniteMoeHybrid"):
        randomize_mamba(model)
    return model.train()


def make_batches(vocabulary):
    """Next-token batches of a noisy cyclic text, with a few ignored targets."""
    start = torch.randint(vocabulary, (STEPS, SEQUENCES, 1))
    text = (start + 5 * torch.arange(TOKENS + 1)) % vocabulary
    text = torch.where(torch.rand(text.shape) < 0.2, torch.randint(vocabulary, text.shape), text)
    tokens, targets = text[..., :-1].clone(), text[..., 1:].clone()
    targets[:, 0, :3] = IGNORED
    targets[:, 1, -1] = IGNORED
    return tokens, targets


def forward(model, tokens, targets):
    logits = model(tokens).logits
    return logits, functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED)


def decays(name, parameter):
    """False for biases, also where the biases of all experts are one matrix."""
    return parameter.ndim >= 2 and not name.endswith("bias")


def train(model, tokens, targets, forward=forward):
    parameters = list(model.parameters())
    named = list(model.named_parameters())
    groups = [dict(params=[p for n, p in named if decays(n, p)], weight_decay=WEIGHT_DECAY),
              dict(params=[p for n, p in named if not decays(n, p)], weight_decay=0.0)]
    optimizer = torch.optim.AdamW(groups, **ADAMW)
    losses = []
    for step in range(STEPS):
        _, loss = forward(model, tokens[step], targets[step])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, MAX_GRAD_NORM)
        optimizer.step()
        losses.append(float(loss.detach()))
    return torch.tensor(losses, dtype=torch.float64)


def write_old_spelling(directory):
    """Replaces rope_parameters and dtype by the keys that transformers 4 wrote."""
    path = f"{directory}/config.json"
    with open(path) as file:
        config = json.load(file)
    rope = config.pop("rope_parameters", None)
    if rope is None:
        to_old_keys(config)
        with open(path, "w") as file:
            json.dump(config, file, indent=2, sort_keys=True)
            file.write("\n")
        return
    if "full_attention" in rope:
        config["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
        rope = rope["full_attention"]
    if "partial_rotary_factor" in rope:
        config["partial_rotary_factor"] = rope.pop("partial_rotary_factor")
    config["rope_theta"] = rope.pop("rope_theta")
    config["rope_scaling"] = None if rope["rope_type"] == "default" else rope
    config["torch_dtype"] = config.pop("dtype")
    to_old_keys(config)
    with open(path, "w") as file:
        json.dump(config, file, indent=2, sort_keys=True)
        file.write("\n")


def write_case(name, kind, options, old_spelling):
    model = make_model(kind, options)
    tokens, targets = make_batches(model.config.vocab_size)
    directory = f"{OUT}/{name}"
    shutil.rmtree(directory, ignore_errors=True)
    model.save_pretrained(directory)
    os.remove(f"{directory}/generation_config.json")
    if old_spelling:
        write_old_spelling(directory)
        reread = type(model).from_pretrained(directory, attn_implementation="eager")
        assert torch.equal(reread(tokens[0]).logits, model(tokens[0]).logits), name

    steps = STEPS if name in CURVES else 1
    out = {"tokens": tokens[:steps].int(), "targets": targets[:steps].int()}
    reference = copy.deepcopy(model)
    logits, loss = forward(reference, tokens[0], targets[0])
    loss.backward()
    out["logits"] = logits.detach().clone()
    out["loss"] = loss.detach().double().reshape(1)
    for parameter_name, parameter in reference.named_parameters():
        for part, value in names_in_files(parameter_name, parameter.grad, kind, joined=False).items():
            out[f"gradients/{part.removeprefix('transformer.')}"] = value.clone()
    if name in CURVES:
        out["losses"] = train(model, tokens, targets)
        print(name, [round(float(x), 3) for x in out["losses"][::7]])
    save_file(out, f"{directory}/expected.safetensors",
              metadata=dict(format="pt", torch=torch.__version__, transformers=transformers.__version__))


def expert_results(kind, options, is_curve):
    """RETURNS: a model, its batches and its results, if all of its choices of experts are far from ties."""
    model = make_model(kind, options)
    tokens, targets = make_batches(model.config.vocab_size)
    steps = STEPS if is_curve else 1
    out = {"tokens": tokens[:steps].int(), "targets": targets[:steps].int()}
    reference = copy.deepcopy(model)
    margins = Margins(reference)

    def forward_all(watched, tokens, targets):
        outputs = watched(tokens)
        loss = functional.cross_entropy(outputs.logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED)
        return outputs.logits, expert_loss(watched, margins, outputs, tokens, targets, loss)
    logits, loss = forward_all(reference, tokens[0], targets[0])
    loss.backward()
    out["logits"] = logits.detach().clone()
    out["loss"] = loss.detach().double().reshape(1)
    out["router_logits"] = torch.stack(margins.logits).detach().clone()
    check_own_loss(reference, tokens[0], targets[0], loss.detach())
    gradients = {name: parameter.grad.clone() for name, parameter in reference.named_parameters()}
    if not margins.are_wide(is_curve=False):
        return None
    if is_curve:
        out["losses"] = train(reference, tokens, targets, forward_all)
    return (model, tokens, out, gradients, margins) if margins.are_wide(is_curve) else None


def write_expert_case(number, name, kind, options, old_spelling):
    is_curve, joined = name in EXPERT_CURVES, name.endswith("_joined")
    for seed in range(SEEDS):
        torch.manual_seed(3000 + 1000 * number + seed)
        if found := expert_results(kind, options, is_curve):
            break
    else:
        raise SystemExit(f"{name}: no seed keeps its choices of experts away from ties; raise SEEDS")
    model, tokens, out, gradients, margins = found
    print(name, f"seed {seed}, margin {margins.choice:.1e}, clamps {margins.clamp:.1e}",
          [round(float(x), 3) for x in out.get("losses", [])][::7])
    directory = f"{OUT}/{name}"
    shutil.rmtree(directory, ignore_errors=True)
    model.save_pretrained(directory, save_original_format=not joined)
    os.remove(f"{directory}/generation_config.json")
    if old_spelling:
        write_old_spelling(directory)
    # Not equal to the bit: where weights lie in memory changes how torch multiplies.
    reread = type(model).from_pretrained(directory, attn_implementation="eager", experts_implementation="eager")
    assert torch.allclose(reread(tokens[0]).logits, model(tokens[0]).logits, atol=3e-6), name
    for parameter_name, gradient in gradients.items():
        for part, value in names_in_files(parameter_name, gradient, kind, joined).items():
            out[f"gradients/{part}"] = value
    with safe_open(f"{directory}/model.safetensors", "pt") as file:
        names = {f"gradients/{name_here(tensor, kind)}" for tensor in file.keys()}
        buffers = {tensor for tensor in names if tensor.endswith(("correction_bias", "layer_scalar"))}
        assert names - buffers == {k for k in out if "gradients/" in k}, name
    save_file(out, f"{directory}/expected.safetensors",
              metadata=dict(format="pt", torch=torch.__version__, transformers=transformers.__version__))


def held_out_loss(model, text):
    """Sum over all targets but the first token, in rows of TOKENS, the last one shorter."""
    total = 0.0
    for begin in range(0, len(text) - 1, TOKENS):
        row = text[begin:begin + TOKENS + 1]
        logits = model(row[None, :-1]).logits[0].double()
        total += float(functional.cross_entropy(logits, row[1:], reduction="sum"))
    return total


def write_perplexities():
    """Writes two files of tokens (uint16, nanoGPT's format), and losses of the committed models on them."""
    torch.manual_seed(2000)
    files = {}
    for name, count in (("held_out_a.bin", 333), ("held_out_b.bin", 12)):
        files[name] = torch.randint(53, (count,))
        with open(f"{OUT}/{name}", "wb") as file:
            file.write(b"".join(int(t).to_bytes(2, "little") for t in files[name]))
    out = {}
    for case in PERPLEXITIES:
        model = transformers.AutoModelForCausalLM.from_pretrained(f"{OUT}/{case}", attn_implementation="eager").eval()
        with torch.no_grad():
            sums = {name: held_out_loss(model, text) for name, text in files.items()}
        tokens = {name: len(text) - 1 for name, text in files.items()}
        mean = sum(sums.values()) / sum(tokens.values())
        out[case] = dict(loss=mean, perplexity=math.exp(mean), tokens=sum(tokens.values()),
                         files={name: dict(loss=sums[name] / tokens[name], tokens=tokens[name]) for name in files})
    with open(f"{OUT}/perplexity.json", "w") as file:
        json.dump(out, file, indent=1, sort_keys=True)
        file.write("\n")


def main():
    torch.set_num_threads(1)
    if sys.argv[1:] == ["--perplexities"]:
        return write_perplexities()
    for number, (name, (kind, options, old_spelling)) in enumerate(CASES.items()):
        if len(sys.argv) > 1 and name not in sys.argv[1:]:
            continue
        torch.manual_seed(1000 + number)
        write_case(name, kind, options, old_spelling)
    for number, (name, (kind, options, old_spelling)) in enumerate(EXPERT_CASES.items()):
        if len(sys.argv) == 1 or name in sys.argv[1:]:
            write_expert_case(number, name, kind, options, old_spelling)
    if len(sys.argv) == 1:
        write_perplexities()


if __name__ == "__main__":
    main()
