#!/usr/bin/env python3
"""Writes tests/golden/optimizers/curves.json: the losses of models of tests/golden/families under other optimizers.

Needs torch, transformers and safetensors; run from the repository root. Models, batches, clipping and groups of weight
decay are those of make_families.py; everything is fp32 on the CPU, one thread, eager attention, no dropout. PyTorch
has no Lion: this is algorithm 2 of its paper. It steps by signs, also of sums that are zero but for rounding: for some
models (gemma3_sliding) PyTorch's own fp32 and fp64 differ by 1e-4, so they are no cases.
"""

import json

import torch
import transformers
from safetensors.torch import load_file

from make_families import MAX_GRAD_NORM, OUT, STEPS, decays, forward

CASES = ("llama_tied", "qwen3_tied_head_dim", "mistral_untied", "phi3_partial", "gpt_oss_untied")
SETTINGS = {
    "lion": dict(lr=3e-4, betas=(0.9, 0.99), weight_decay=0.1),
    "sgd": dict(lr=0.03, momentum=0.9, weight_decay=0.01),
}


class Lion(torch.optim.Optimizer):
    """Chen et al., "Symbolic Discovery of Optimization Algorithms" (arXiv:2302.06675), algorithm 2."""

    def __init__(self, groups, lr, betas):
        super().__init__(groups, dict(lr=lr, betas=betas))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            (beta1, beta2), lr = group["betas"], group["lr"]
            for p in group["params"]:
                m = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                step = torch.sign(beta1 * m + (1 - beta1) * p.grad)
                p.mul_(1 - lr * group["weight_decay"]).sub_(lr * step)
                m.mul_(beta2).add_(p.grad, alpha=1 - beta2)


def optimizer_of(rule, model):
    settings = dict(SETTINGS[rule])
    weight_decay = settings.pop("weight_decay")
    named = list(model.named_parameters())
    groups = [dict(params=[p for n, p in named if decays(n, p)], weight_decay=weight_decay),
              dict(params=[p for n, p in named if not decays(n, p)], weight_decay=0.0)]
    return Lion(groups, **settings) if rule == "lion" else torch.optim.SGD(groups, **settings)


def curve(case, rule):
    directory = f"{OUT}/{case}"
    model = transformers.AutoModelForCausalLM.from_pretrained(directory, attn_implementation="eager", dtype=torch.float32)
    model.config._experts_implementation = "eager"
    model.train()
    batches = load_file(f"{directory}/expected.safetensors")
    tokens, targets = batches["tokens"].long(), batches["targets"].long()
    assert len(tokens) == STEPS, case
    optimizer = optimizer_of(rule, model)
    losses = []
    for step in range(STEPS):
        _, loss = forward(model, tokens[step], targets[step])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_GRAD_NORM)
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def main():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    curves = {case: {rule: curve(case, rule) for rule in SETTINGS} for case in CASES}
    with open("tests/golden/optimizers/curves.json", "w") as file:
        json.dump(dict(torch=torch.__version__, transformers=transformers.__version__, curves=curves), file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
