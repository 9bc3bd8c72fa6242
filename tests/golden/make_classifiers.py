#!/usr/bin/env python3
"""Writes tests/golden/classifiers: small classifiers of sequences, and the results of transformers for them.

Needs torch, transformers and safetensors; run from the repository root. Each folder is a model directory as
save_pretrained() writes it. expected.safetensors has `tokens` I32 [3, 20], texts of `lengths` tokens followed by
padding; `labels` I32 [3]; `logits` F32 [3, labels] of each text; `loss` F64 [1], their mean; and
`gradients/<name>` of it. fp32, eager attention, no dropout, one thread.
"""

import os
import shutil

import torch
import transformers
from safetensors.torch import save_file

from make_families import GEMMA, GPT2_SIZES, SIZES, TOKENS, by_layer, default

OUT = "tests/golden/classifiers"
LENGTHS, PAD = (20, 7, 13), 52
NAMES = ("anger", "joy", "fear", "calm")

# name: (class, its config, differences from the sizes, labels, their names)
CASES = {
    "gpt2": ("GPT2", "GPT2Config", dict(GPT2_SIZES), 2, None),
    "llama": ("Llama", "LlamaConfig", dict(SIZES, rope_parameters=default(10000.0)), 4, NAMES),
    "qwen2_tied": ("Qwen2", "Qwen2Config", dict(SIZES, rope_parameters=default(10000.0), tie_word_embeddings=True), 3, None),
    "gemma3_text": ("Gemma3Text", "Gemma3TextConfig",
                    dict(SIZES, **GEMMA, rope_parameters=by_layer(default(50000.0)), num_hidden_layers=3,
                         sliding_window_pattern=3), 3, None),
}


def write_case(name, kind, config, options, labels, names):
    options = dict(options, pad_token_id=PAD, num_labels=labels)
    if names:
        options.update(id2label=dict(enumerate(names)), label2id={n: i for i, n in enumerate(names)})
    config = getattr(transformers, config)(**options)
    config._attn_implementation = "eager"
    model = getattr(transformers, kind + "ForSequenceClassification")(config).train()
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn_like(parameter)
            parameter.copy_(parameter + 0.1 * noise if parameter.ndim == 1 else 0.12 * noise)
    tokens = torch.full((len(LENGTHS), TOKENS), PAD)
    for row, length in enumerate(LENGTHS):
        tokens[row, :length] = torch.randint(PAD, (length,))
    mask = (torch.arange(TOKENS) < torch.tensor(LENGTHS)[:, None]).long()
    answers = torch.randint(labels, (len(LENGTHS),))
    result = model(tokens, attention_mask=mask, labels=answers)
    result.loss.backward()
    directory = f"{OUT}/{name}"
    shutil.rmtree(directory, ignore_errors=True)
    model.save_pretrained(directory)
    out = {"tokens": tokens.int(), "lengths": torch.tensor(LENGTHS).int(), "labels": answers.int(),
           "logits": result.logits.detach().clone(), "loss": result.loss.detach().double().reshape(1)}
    for parameter_name, parameter in model.named_parameters():
        out[f"gradients/{parameter_name.removeprefix('transformer.')}"] = parameter.grad.clone()
    save_file(out, f"{directory}/expected.safetensors",
              metadata=dict(format="pt", torch=torch.__version__, transformers=transformers.__version__))
    print(name, result.logits.tolist(), float(result.loss), os.listdir(directory))


if __name__ == "__main__":
    torch.set_num_threads(1)
    for number, (name, case) in enumerate(CASES.items()):
        torch.manual_seed(5000 + number)
        write_case(name, *case)
