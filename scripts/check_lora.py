#!/usr/bin/env python3
"""Trains adapters with Tidepool, opens each checkpoint in PEFT, and compares the loss of the next step.

  scripts/check_lora.py build/release/tidepool [CASE ...]

Needs torch, transformers, peft and numpy; run from the repository root. Bases are those of tests/golden/families.
"""

import glob
import json
import subprocess
import sys
import tempfile

import numpy
import peft
import torch
import transformers
from peft.utils import get_peft_model_state_dict
from safetensors.torch import load_file
from torch.nn import functional

SEQUENCES, TOKENS, STEPS = 2, 20, 6
CASES = {"llama_untied_llama3": [], "qwen3_tied_head_dim": ["lora.target_modules=[q_proj,down_proj]"], "gpt2_inner": [],
         "qwen2_tied": ["memory.home=disk"], "mistral_tied_head_dim": ["lora.lora_alpha=3", "lora.use_rslora=true"],
         "phi3_partial": [], "gemma3_text": []}
EXPERTS = "mlp.experts.gate_up_proj,mlp.experts.down_proj"
BUDGETS = ["memory.device=64MiB", "memory.host=64MiB", "memory.experts_per_group=3"]
EXPERT_CASES = {
    "qwen3_moe_untied": [f"lora.target_parameters=[{EXPERTS},mlp.gate.weight]", "lora.expert_r=2"],
    "mixtral_untied": ["lora.target_modules=[w1,w2,w3,gate,q_proj]"],
    "mixtral_joined": [f"lora.target_parameters=[{EXPERTS}]", "lora.target_modules=[q_proj]", "lora.use_rslora=true"],
    "gpt_oss_untied": [f"lora.target_parameters=[{EXPERTS},mlp.router.weight]", "lora.expert_r=3", "lora.expert_alpha=5"],
    "deepseek_v3_untied": [f"lora.target_parameters=[{EXPERTS},mlp.gate.weight]", "lora.target_modules=[kv_b_proj]"],
}


def train(binary, base, options, directory):
    tokens = numpy.random.default_rng(1).integers(0, 53, 4000).astype(numpy.uint16)
    tokens.tofile(f"{directory}/tokens.bin")
    with open(f"{directory}/config.yaml", "w") as file:
        file.write(f"model: tests/golden/families/{base}\nlora: {{r: 4, lora_alpha: 8}}\n")
    overrides = [f"data.train={directory}/tokens.bin", "data.format=nanogpt", "data.shuffle=false",
                 "train.precision=fp32", f"train.max_steps={STEPS}", f"train.sequence_length={TOKENS}",
                 f"train.per_device_train_batch_size={SEQUENCES}", "train.learning_rate=2e-2", "memory.device=4MiB",
                 "memory.host=8MiB", f"output.dir={directory}/run", "output.save_steps=1", "output.save_total_limit=100"]
    subprocess.run([binary, "train", f"{directory}/config.yaml", *overrides, *options], check=True, stdout=subprocess.DEVNULL)
    with open(glob.glob(f"{directory}/run/report.json")[0]) as file:
        return tokens, json.load(file)["losses"]


def loss_of(model, tokens, step):
    begin = (step - 1) * SEQUENCES * TOKENS
    rows = [tokens[begin + s * TOKENS: begin + (s + 1) * TOKENS + 1] for s in range(SEQUENCES)]
    batch = torch.tensor(numpy.stack(rows).astype(numpy.int64))
    with torch.no_grad():
        logits = model(batch[:, :-1]).logits
    return float(functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten()))


def load(path):
    more = {} if not any(name in str(path) for name in EXPERT_CASES) else dict(experts_implementation="eager")
    return transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, **more)


def check_export(binary, directory, tokens, loss):
    """Merges the adapters of the last step but one, and computes the last step's loss without PEFT."""
    subprocess.run([binary, "export", f"{directory}/run/checkpoint-{STEPS - 1}", f"{directory}/merged"], check=True,
                   stdout=subprocess.DEVNULL)
    merged = transformers.AutoModelForCausalLM.from_pretrained(f"{directory}/merged", dtype=torch.float32)
    if hasattr(merged, "set_experts_implementation"):
        merged.set_experts_implementation("eager")
    return abs(loss_of(merged.eval(), tokens, STEPS) - loss)


def check(binary, base, options):
    with tempfile.TemporaryDirectory(dir=".") as directory:
        tokens, losses = train(binary, base, options, directory)
        worst = 0
        for step in range(1, STEPS):
            path = f"{directory}/run/checkpoint-{step}"
            plain = load(f"tests/golden/families/{base}")
            model = peft.PeftModel.from_pretrained(plain, path)
            loaded, there = get_peft_model_state_dict(model), load_file(f"{path}/adapter_model.safetensors")
            if not any(".experts.0." in name for name in there):  # PEFT joins the adapters of single experts
                assert set(loaded) == set(there), set(loaded) ^ set(there)
                assert all(torch.equal(loaded[name], there[name]) for name in there)
            worst = max(worst, abs(loss_of(model.eval(), tokens, step + 1) - losses[step]))
        merged = check_export(binary, directory, tokens, losses[-1])
        print(f"{base} {options}: losses {losses[0]:.4f} ... {losses[-1]:.4f}, PEFT's differ by at most {worst:.1e}, "
              f"the merged model's by {merged:.1e}")
        assert worst < 1e-5 and merged < 1e-5


if __name__ == "__main__":
    expert_cases = {case: options + BUDGETS for case, options in EXPERT_CASES.items()}
    for case, overrides in (CASES | expert_cases).items():
        if len(sys.argv) < 3 or case in sys.argv[2:]:
            check(sys.argv[1], case, overrides)
