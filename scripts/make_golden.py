#!/usr/bin/env python3
"""Writes tests/golden/pytorch/gpt2_tiny.safetensors: PyTorch's results for a tiny GPT-2.

Needs torch, transformers and safetensors; run from the repository root. The file's contents are
described in tests/golden/pytorch/README.md. Everything is fp32 on the CPU, one thread, no dropout.
"""

import copy
import json

import torch
import transformers
from safetensors.torch import save_file
from torch.nn import functional

OUT = "tests/golden/pytorch/gpt2_tiny.safetensors"
CONFIG = dict(vocab_size=67, n_positions=32, n_embd=48, n_layer=2, n_head=3, embd_pdrop=0.0,
              attn_pdrop=0.0, resid_pdrop=0.0, bos_token_id=0, eos_token_id=0)
STEPS, SEQUENCES, TOKENS = 20, 3, 24
ADAMW = dict(lr=1e-3, betas=(0.9, 0.95), eps=1e-8)
WEIGHT_DECAY = 0.1
MAX_GRAD_NORM = 1.0
IGNORED = -100


def make_model():
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**CONFIG, attn_implementation="eager"))
    # Fresh biases are zero and fresh norms one: gradients that mix them up would agree by accident.
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
            else:
                parameter.mul_(3.0)
    return model.train()


def make_batches():
    """Next-token batches of a noisy cyclic text, with a few ignored targets."""
    vocab = CONFIG["vocab_size"]
    start = torch.randint(vocab, (STEPS, SEQUENCES, 1))
    text = (start + 5 * torch.arange(TOKENS + 1)) % vocab
    noise = torch.rand(text.shape) < 0.2
    text = torch.where(noise, torch.randint(vocab, text.shape), text)
    tokens, targets = text[..., :-1].clone(), text[..., 1:].clone()
    targets[:, 0, :3] = IGNORED
    targets[:, 2, -1] = IGNORED
    return tokens, targets


def loss_of(model, tokens, targets):
    logits = model(tokens).logits
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED)


def parameters_of(model):
    return {name.removeprefix("transformer."): p for name, p in model.named_parameters()}


def train(model, tokens, targets, max_grad_norm):
    parameters = list(model.parameters())
    groups = [dict(params=[p for p in parameters if p.ndim >= 2], weight_decay=WEIGHT_DECAY),
              dict(params=[p for p in parameters if p.ndim < 2], weight_decay=0.0)]
    optimizer = torch.optim.AdamW(groups, **ADAMW)
    losses, norms = [], []
    for step in range(STEPS):
        loss = loss_of(model, tokens[step], targets[step])
        optimizer.zero_grad()
        loss.backward()
        limit = max_grad_norm if max_grad_norm > 0 else float("inf")
        norms.append(float(torch.nn.utils.clip_grad_norm_(parameters, limit)))
        optimizer.step()
        losses.append(float(loss.detach()))
    return torch.tensor(losses, dtype=torch.float64), torch.tensor(norms, dtype=torch.float64)


def main():
    torch.manual_seed(1234)
    torch.set_num_threads(1)
    model = make_model()
    tokens, targets = make_batches()
    out = {"tokens": tokens.int(), "targets": targets.int()}
    for name, p in parameters_of(model).items():
        out[f"weights/{name}"] = p.detach().clone()

    reference = copy.deepcopy(model)
    loss = loss_of(reference, tokens[0], targets[0])
    loss.backward()
    out["loss"] = loss.detach().double().reshape(1)
    for name, p in parameters_of(reference).items():
        out[f"gradients/{name}"] = p.grad.clone()

    for key, limit in (("unclipped", 0.0), ("clipped", MAX_GRAD_NORM)):
        losses, norms = train(copy.deepcopy(model), tokens, targets, limit)
        out[f"curve/{key}/losses"], out[f"curve/{key}/grad_norms"] = losses, norms
        print(key, [round(float(x), 4) for x in losses], [round(float(x), 2) for x in norms[:5]])

    metadata = dict(format="pt", torch=torch.__version__, transformers=transformers.__version__,
                    config=json.dumps(CONFIG),
                    training=json.dumps(dict(ADAMW, weight_decay=WEIGHT_DECAY, max_grad_norm=MAX_GRAD_NORM)))
    save_file(out, OUT, metadata=metadata)


if __name__ == "__main__":
    main()
