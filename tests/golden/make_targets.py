#!/usr/bin/env python3
"""Writes tests/golden/targets: objectives of single targets, with the results of TRL and transformers for them.

Needs torch, transformers, trl and safetensors; run from the repository root, with tests/golden/families in place.
A folder per family has expected.safetensors: `tokens` and `targets` I32 [3, T], and for each case its options in the
metadata, `CASE/loss` F64, `CASE/gradients/TENSOR` (of every tensor for the cases of ALL, else of the final norm), and
for distillation `CASE/distributions` F32 [3, T, 2 k]: log-probabilities of a teacher's k most probable tokens in the
place of each target, and then the tokens. Where k is the whole vocabulary, and for label smoothing, losses are those of
TRL's GKDTrainer and of transformers' LabelSmoother; other k have a formula of their own here. Classifiers of tokens are
directories as save_pretrained() writes them, with `logits` F32 [3, T, labels]. fp32, eager attention, one thread.
"""

import json
import os
import shutil
import sys

os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"

import torch
import transformers
import trl
from safetensors.torch import save_file
from transformers.trainer_pt_utils import LabelSmoother
from trl.experimental.gkd import GKDTrainer

OUT = "tests/golden/targets"
FAMILIES = ("llama_tied", "qwen3_untied", "gemma2_tied")
ROWS, T, LABELS = 3, 12, 3
ALL = ("distill_forward", "distill_top_5_jsd", "smoothed")


def cases(vocabulary):
    for name, beta in (("forward", 0.0), ("jsd", 0.3), ("reverse", 1.0)):
        yield f"distill_{name}", {"type": "distill", "beta": beta, "temperature": 1.7, "top_k": vocabulary}
        for remainder in ("bucket", "renormalized"):
            ending = "" if remainder == "bucket" else "_renormalized"
            yield f"distill_top_5_{name}{ending}", {"type": "distill", "beta": beta, "top_k": 5, "remainder": remainder}
    yield "smoothed", {"type": "next_token", "label_smoothing": 0.15}


def top_of(logps, k):
    values, tokens = logps.topk(k, -1)
    return torch.cat([values, tokens.float()], -1)


def with_rest(logps, tokens, remainder):
    """Logarithms of the tokens' probabilities, with those of the remainder, or renormalized."""
    chosen = logps.gather(-1, tokens)
    if remainder == "renormalized":
        return torch.log_softmax(chosen, -1)
    return torch.cat([chosen, torch.log1p(-chosen.exp().sum(-1, keepdim=True))], -1)


def distill(logits, teacher, targets, options):
    temperature = options.get("temperature", 1.0)
    teacher_logps = torch.log_softmax(teacher.double() / temperature, -1)
    distributions = top_of(teacher_logps, options["top_k"])
    learned = targets != -100
    if options["top_k"] == logits.shape[-1]:
        loss = GKDTrainer.generalized_jsd_loss(logits.double(), teacher.double(), labels=targets, beta=options["beta"],
                                               temperature=temperature)
        return loss, distributions
    tokens = distributions[..., options["top_k"]:].long()
    student, known = (with_rest(logps, tokens, options["remainder"])
                      for logps in (torch.log_softmax(logits.double() / temperature, -1), teacher_logps))
    # The logarithms are those of logits whose softmax they are.
    loss = GKDTrainer.generalized_jsd_loss(student, known, labels=targets, beta=options["beta"])
    return loss, distributions


def run_case(out, meta, name, model, data, options):
    model.zero_grad()
    logits = model(data["tokens"]).logits
    targets = data["targets"]
    if options["type"] == "distill":
        loss, distributions = distill(logits, data["teacher"], targets, options)
        out[f"{name}/distributions"] = distributions.float()
    else:
        loss = LabelSmoother(epsilon=options["label_smoothing"])({"logits": logits}, targets)
    loss.backward()
    meta[name] = json.dumps(options)
    out[f"{name}/loss"] = loss.detach().double().reshape(1)
    for tensor, parameter in model.named_parameters():
        if name in ALL or tensor == "model.norm.weight":
            out[f"{name}/gradients/{tensor}"] = parameter.grad.clone()


def data_for(vocabulary):
    tokens, targets = torch.randint(vocabulary, (ROWS, T)), torch.randint(vocabulary, (ROWS, T))
    targets[torch.rand(ROWS, T) < 0.3] = -100
    return {"tokens": tokens, "targets": targets, "teacher": 2 * torch.randn(ROWS, T, vocabulary)}


def write(directory, out, meta, data):
    os.makedirs(directory, exist_ok=True)
    out.update(tokens=data["tokens"].int(), targets=data["targets"].int())
    save_file(out, f"{directory}/expected.safetensors", metadata={
        "format": "pt", "torch": torch.__version__, "transformers": transformers.__version__, "trl": trl.__version__,
        **meta})


def write_classifier(family):
    config = transformers.AutoConfig.from_pretrained(
        f"tests/golden/families/{family}", num_labels=LABELS,
        id2label={0: "O", 1: "B-LOC", 2: "I-LOC"}, label2id={"O": 0, "B-LOC": 1, "I-LOC": 2})
    config.classifier_dropout = 0.0
    config._attn_implementation = "eager"
    model = transformers.AutoModelForTokenClassification.from_config(config).train()
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn_like(parameter)
            parameter.copy_(parameter + 0.1 * noise if parameter.ndim == 1 else 0.12 * noise)
    data, out = data_for(config.vocab_size), {}
    data["targets"] = torch.where(data["targets"] == -100, -100, data["targets"] % LABELS)
    result = model(data["tokens"], labels=data["targets"])
    result.loss.backward()
    out.update(logits=result.logits.detach().clone(), loss=result.loss.detach().double().reshape(1))
    for name, parameter in model.named_parameters():
        out[f"gradients/{name}"] = parameter.grad.clone()
    directory = f"{OUT}/tokens_{family}"
    shutil.rmtree(directory, ignore_errors=True)
    model.save_pretrained(directory)
    write(directory, out, {}, data)


def main():
    torch.set_num_threads(1)
    for family in FAMILIES:
        torch.manual_seed(len(family))
        model = transformers.AutoModelForCausalLM.from_pretrained(
            f"tests/golden/families/{family}", dtype=torch.float32, attn_implementation="eager").train()
        data, out, meta = data_for(model.config.vocab_size), {}, {}
        for name, options in cases(model.config.vocab_size):
            run_case(out, meta, name, model, data, options)
        write(f"{OUT}/{family}", out, meta, data)
        write_classifier(family)
    print(f"wrote {OUT} with torch {torch.__version__}, transformers {transformers.__version__}, trl {trl.__version__}",
          file=sys.stderr)


if __name__ == "__main__":
    main()
