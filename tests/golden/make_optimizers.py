#!/usr/bin/env python3
"""Writes tests/golden/optimizers/curves.json: the losses of models of tests/golden/families under other optimizers.

Needs torch, transformers and safetensors; run from the repository root. Models, batches, clipping and groups of weight
decay are those of make_families.py; everything is fp32 on the CPU, one thread, eager attention, no dropout. PyTorch
has no Lion: this is algorithm 2 of its paper. It steps by signs, also of sums that are zero but for rounding: for some
models (gemma3_sliding) PyTorch's own fp32 and fp64 differ by 1e-4, so they are no cases.

Muon is torch.optim.Muon for the matrices of layers, and torch.optim.AdamW for the rest. It multiplies in bf16, so two
right implementations differ: "muon_exact" is the same with products in fp64 that are rounded to bf16, and shows by how
much.

Adafactor is transformers', as its Trainer takes it. Of experts that are joined in one tensor it scales all together,
so models with such experts are no cases.
"""

import json

import torch
import transformers
from safetensors.torch import load_file

from make_families import MAX_GRAD_NORM, OUT, STEPS, decays, forward

import torch.optim._muon as torch_muon

CASES = ("llama_tied", "qwen3_tied_head_dim", "mistral_untied", "phi3_partial", "gpt_oss_untied")
SETTINGS = {
    "lion": dict(lr=3e-4, betas=(0.9, 0.99), weight_decay=0.1),
    "sgd": dict(lr=0.03, momentum=0.9, weight_decay=0.01),
}
ADAFACTOR_CASES = ("llama_tied", "qwen3_tied_head_dim", "mistral_untied", "phi3_partial")
ADAFACTOR = dict(lr=2e-3, weight_decay=0.1)
MUON_CASES = ("llama_tied", "qwen3_tied_head_dim", "mistral_untied", "phi3_partial")
MUON = dict(lr=0.02, momentum=0.95, nesterov=True, ns_steps=5, weight_decay=0.1)
MUON_ADAMW = dict(lr=2e-3, betas=(0.9, 0.95), eps=1e-8)


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


class Both:
    """Optimizers that step together."""

    def __init__(self, *optimizers):
        self.optimizers = optimizers

    def zero_grad(self):
        for optimizer in self.optimizers:
            optimizer.zero_grad()

    def step(self):
        for optimizer in self.optimizers:
            optimizer.step()


def exact_newton_schulz(grad, coefficients, steps, eps):
    """torch.optim.Muon's, with products in fp64."""
    a, b, c = coefficients
    round_ = lambda x: x.bfloat16().double()
    x = grad.bfloat16()
    if grad.size(0) > grad.size(1):
        x = x.T
    x = (x / x.norm().clamp(min=eps)).double()
    for _ in range(steps):
        gram = round_(x @ x.T)
        x = round_(a * x + round_(b * gram + c * (gram @ gram)) @ x)
    x = x.bfloat16()
    return x.T if grad.size(0) > grad.size(1) else x


class SplitMuon:
    """torch.optim.Muon on parts of matrices, [(parameter, outputs of each part)]."""

    def __init__(self, joined):
        self.parts = []
        for p, outputs in joined:
            first = 0
            for count in outputs:
                self.parts.append((p, first, first + count, torch.zeros_like(p[first:first + count])))
                first += count

    def zero_grad(self):
        for p, _, _, _ in self.parts:
            p.grad = None

    @torch.no_grad()
    def step(self):
        torch_muon._single_tensor_muon(
            [p[a:b] for p, a, b, _ in self.parts], [p.grad[a:b] for p, a, b, _ in self.parts],
            [m for _, _, _, m in self.parts], lr=MUON["lr"], weight_decay=MUON["weight_decay"],
            momentum=MUON["momentum"], nesterov=MUON["nesterov"], ns_coefficients=(3.4445, -4.7750, 2.0315),
            ns_steps=MUON["ns_steps"], eps=1e-7, adjust_lr_fn=None, has_complex=False)


def joined_outputs(name, config):
    """Outputs of the matrices that a joined one consists of."""
    if name.endswith("qkv_proj.weight"):
        head = config.hidden_size // config.num_attention_heads
        return [head * config.num_attention_heads, head * config.num_key_value_heads, head * config.num_key_value_heads]
    if name.endswith("gate_up_proj.weight"):
        return [config.intermediate_size] * 2
    return None


def muon_of(model):
    named = list(model.named_parameters())
    matrices = [(n, p) for n, p in named if ".layers." in n and p.dim() == 2]
    joined = [(p, joined_outputs(n, model.config)) for n, p in matrices if joined_outputs(n, model.config)]
    layers = [p for n, p in matrices if not joined_outputs(n, model.config)]
    rest = [(n, p) for n, p in named if not any(p is q for _, q in matrices)]
    groups = [dict(params=[p for n, p in rest if decays(n, p)], weight_decay=MUON["weight_decay"]),
              dict(params=[p for n, p in rest if not decays(n, p)], weight_decay=0.0)]
    return Both(torch.optim.Muon(layers, **MUON), SplitMuon(joined), torch.optim.AdamW(groups, **MUON_ADAMW))


def optimizer_of(rule, model):
    if rule.startswith("muon"):
        return muon_of(model)
    settings = dict(ADAFACTOR if rule == "adafactor" else SETTINGS[rule])
    weight_decay = settings.pop("weight_decay")
    named = list(model.named_parameters())
    groups = [dict(params=[p for n, p in named if decays(n, p)], weight_decay=weight_decay),
              dict(params=[p for n, p in named if not decays(n, p)], weight_decay=0.0)]
    if rule == "adafactor":
        return transformers.Adafactor(groups, scale_parameter=False, relative_step=False, **settings)
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
    for case in ADAFACTOR_CASES:
        curves[case]["adafactor"] = curve(case, "adafactor")
    for case in MUON_CASES:
        curves[case]["muon"] = curve(case, "muon")
        bf16 = torch_muon._zeropower_via_newtonschulz
        torch_muon._zeropower_via_newtonschulz = exact_newton_schulz
        curves[case]["muon_exact"] = curve(case, "muon_exact")
        torch_muon._zeropower_via_newtonschulz = bf16
    with open("tests/golden/optimizers/curves.json", "w") as file:
        json.dump(dict(torch=torch.__version__, transformers=transformers.__version__, curves=curves), file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
