#!/usr/bin/env python3
"""Writes tests/golden/lora: adapters for models of tests/golden/families, and PEFT's results with them.

Needs torch, transformers, peft and safetensors; run from the repository root. Arguments are names of cases: then
only these are written. A case is an adapter's directory as PEFT saves it (with a B that is not zero), and
expected.safetensors:

  tokens, targets      [STEPS, 2, 20]
  logits, loss         of step 1
  gradients/NAME       of every adapter tensor in step 1, under the name that adapter_model.safetensors has
  losses               of STEPS steps of AdamW on the adapters alone
  trained/NAME         the adapters after that
  merged/NAME          the tensors of the base model that merge_and_unload() changes

Everything is fp32 on the CPU, one thread, eager attention, no dropout.
"""

import copy
import os
import shutil
import sys

import peft
import torch
import transformers
from peft.utils import get_peft_model_state_dict
from safetensors.torch import save_file
from torch.nn import functional

BASES, OUT = "tests/golden/families", "tests/golden/lora"
SEQUENCES, TOKENS, STEPS = 2, 20, 8
IGNORED = -100

# name: (base model, arguments of LoraConfig)
CASES = {
    "llama_all": ("llama_untied_llama3", dict(r=4, lora_alpha=8, target_modules="all-linear")),
    "llama_biases_some": ("llama_biases_linear_head_dim", dict(r=3, lora_alpha=5, target_modules=["q_proj", "v_proj", "up_proj"])),
    "qwen3_all": ("qwen3_tied_head_dim", dict(r=5, lora_alpha=10, target_modules="all-linear")),
    "qwen3_some": ("qwen3_untied", dict(r=2, lora_alpha=1, target_modules=["k_proj", "o_proj", "down_proj"])),
    "gpt2_all": ("gpt2_inner", dict(r=4, lora_alpha=8, target_modules=["c_attn", "c_proj", "c_fc"], fan_in_fan_out=True)),
    "gpt2_some": ("gpt2_plain", dict(r=3, lora_alpha=7, target_modules=["c_fc"], fan_in_fan_out=True)),
    "qwen2_rslora": ("qwen2_untied", dict(r=3, lora_alpha=4, target_modules=["q_proj", "o_proj", "gate_proj"], use_rslora=True)),
    "gpt2_rslora": ("gpt2_inner", dict(r=5, lora_alpha=3, target_modules=["c_attn", "c_proj"], fan_in_fan_out=True, use_rslora=True)),
}


def make_batches(vocabulary):
    start = torch.randint(vocabulary, (STEPS, SEQUENCES, 1))
    text = (start + 5 * torch.arange(TOKENS + 1)) % vocabulary
    text = torch.where(torch.rand(text.shape) < 0.2, torch.randint(vocabulary, text.shape), text)
    tokens, targets = text[..., :-1].clone(), text[..., 1:].clone()
    targets[:, 0, :3] = IGNORED
    return tokens, targets


def forward(model, tokens, targets):
    logits = model(tokens).logits
    return logits, functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED)


def adapter_tensors(model, of):
    """Returns `of` each trained parameter, by its name in adapter_model.safetensors."""
    values = {name: of(p) for name, p in model.named_parameters() if p.requires_grad}
    return {name.replace(".default.", "."): value.detach().clone().contiguous() for name, value in values.items()}


def train(model, tokens, targets):
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=2e-2, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    losses = []
    for step in range(STEPS):
        _, loss = forward(model, tokens[step], targets[step])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        losses.append(float(loss.detach()))
    return torch.tensor(losses, dtype=torch.float64)


def write_case(name, base, options):
    plain = transformers.AutoModelForCausalLM.from_pretrained(f"{BASES}/{base}", attn_implementation="eager", dtype=torch.float32)
    tokens, targets = make_batches(plain.config.vocab_size)
    before = {k: v.clone() for k, v in plain.state_dict().items()}
    model = peft.get_peft_model(plain, peft.LoraConfig(task_type="CAUSAL_LM", lora_dropout=0.0, **options)).train()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.copy_(0.2 * torch.randn_like(parameter))
    directory = f"{OUT}/{name}"
    shutil.rmtree(directory, ignore_errors=True)
    model.save_pretrained(directory)
    os.remove(f"{directory}/README.md")

    out = {"tokens": tokens.int(), "targets": targets.int()}
    logits, loss = forward(model, tokens[0], targets[0])
    loss.backward()
    out["logits"], out["loss"] = logits.detach().clone(), loss.detach().double().reshape(1)
    gradients = adapter_tensors(model, lambda p: p.grad)
    assert set(gradients) == set(get_peft_model_state_dict(model)), name
    out.update({f"gradients/{k}": v for k, v in gradients.items()})
    merged = copy.deepcopy(model).merge_and_unload().state_dict()
    out.update({f"merged/{k}": v.clone() for k, v in merged.items() if not torch.equal(v, before[k])})
    out["losses"] = train(model, tokens, targets)
    out.update({f"trained/{k}": v for k, v in adapter_tensors(model, lambda p: p.data).items()})
    print(name, [round(float(x), 3) for x in out["losses"]])
    save_file(out, f"{directory}/expected.safetensors",
              metadata=dict(format="pt", torch=torch.__version__, transformers=transformers.__version__, peft=peft.__version__))


def main():
    torch.set_num_threads(1)
    for number, (name, (base, options)) in enumerate(CASES.items()):
        if len(sys.argv) > 1 and name not in sys.argv[1:]:
            continue
        torch.manual_seed(2000 + number)
        write_case(name, base, options)


if __name__ == "__main__":
    main()
