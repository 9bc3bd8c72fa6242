#!/usr/bin/env python3
"""Compares exports of reward models and classifiers with what the run itself says: transformers opens the directories.

Trains a reward model, a classifier of texts and one of tokens, whole and with LoRA, for a few steps, and exports each.
Rewards by `tidepool score RUN` and the loss by `tidepool eval RUN` must be those that transformers computes from the
export, within 1e-5. Adapters are opened with PEFT as well. Needs torch, transformers and peft. Exit code 1: they differ.

Usage: classifier_exports.py TIDEPOOL DIR
"""

import json
import os
import pathlib
import random
import shutil
import subprocess
import sys

import torch
import transformers
from peft import PeftModel

PROGRAM, DIR = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
WORDS = "tide pool Crab limpet shell rock wave kelp star Moon sand salt".split()
LABELS = ["calm", "rough", "still"]
TOLERANCE = 1e-5


def words():
    return [random.choice(WORDS) for _ in range(random.randint(3, 12))]


def base():
    torch.manual_seed(3)
    config = transformers.LlamaConfig(vocab_size=256, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
                                      num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256,
                                      tie_word_embeddings=False, initializer_range=0.1)
    transformers.LlamaForCausalLM(config).save_pretrained(DIR / "base")


def write_lines(name, lines):
    (DIR / name).write_text("".join(json.dumps(line) + "\n" for line in lines))


def tidepool(*arguments):
    done = subprocess.run([PROGRAM, *arguments], cwd=DIR, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(arguments)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def train(name, data, objective, lora):
    (DIR / f"{name}.yaml").write_text(json.dumps({
        "model": "base", "data": {"train": [data]}, "objective": objective, **({"lora": {"r": 4}} if lora else {}),
        "train": {"precision": "fp32", "sequence_length": 256, "max_steps": 20, "learning_rate": 3e-3},
        "memory": {"device": "64MiB", "host": "64MiB", "disk": 0}, "output": {"dir": name, "save_steps": 0}}))
    tidepool("train", f"{name}.yaml")
    tidepool("export", name, f"{name}-export")


def ids_of(text):
    """Without a tokenizer, bytes are tokens."""
    return torch.tensor([list(text.encode())])


def logits_of(model, text):
    with torch.no_grad():
        return model(ids_of(text)).logits[0]


def reward(name, model):
    lines = [json.loads(line) for line in tidepool("score", name, "data=texts.jsonl").splitlines()]
    return max(abs(line["reward"] - logits_of(model, line["text"])[0].item()) for line in lines)


def mean_loss(logits, labels):
    return torch.nn.functional.cross_entropy(torch.cat(logits), torch.cat(labels)).item()


def of_texts(name, model):
    said = json.loads(tidepool("eval", name, "data=labelled.jsonl", "--json"))["eval_loss"]
    lines = [json.loads(line) for line in open(DIR / "labelled.jsonl")]
    return abs(said - mean_loss([logits_of(model, line["text"])[None] for line in lines],
                                [torch.tensor([LABELS.index(line["label"])]) for line in lines]))


def of_tokens(name, model):
    said = json.loads(tidepool("eval", name, "data=tagged.jsonl", "--json"))["eval_loss"]
    logits, labels = [], []
    for line in map(json.loads, open(DIR / "tagged.jsonl")):
        begins = [len(" ".join(line["tokens"][:i])) + (i > 0) for i in range(len(line["tokens"]))]
        logits.append(logits_of(model, " ".join(line["tokens"]))[begins])
        labels.append(torch.tensor(line["labels"]))
    return abs(said - mean_loss(logits, labels))


def data():
    random.seed(4)
    texts = [" ".join(words()) for _ in range(60)]
    write_lines("texts.jsonl", [{"text": text} for text in texts])
    write_lines("pairs.jsonl", [{"prompt": "say: ", "chosen": text, "rejected": text[::-1] + "!"} for text in texts])
    write_lines("labelled.jsonl", [{"text": text, "label": random.choice(LABELS)} for text in texts])
    tagged = [words() for _ in range(60)]
    write_lines("tagged.jsonl", [{"tokens": line, "labels": [int(word[0].isupper()) for word in line]} for line in tagged])


CASES = {
    "reward": ("pairs.jsonl", {"type": "reward"}, reward, transformers.AutoModelForSequenceClassification),
    "texts": ("labelled.jsonl", {"type": "sequence_classification", "labels": LABELS}, of_texts,
              transformers.AutoModelForSequenceClassification),
    "tokens": ("tagged.jsonl", {"type": "token_classification", "labels": ["O", "NAME"]}, of_tokens,
               transformers.AutoModelForTokenClassification),
}


def main():
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    shutil.rmtree(DIR, ignore_errors=True)
    DIR.mkdir(parents=True)
    base()
    data()
    worst = 0
    for case, (lines, objective, compare, model_class) in CASES.items():
        for lora in (False, True):
            name = f"{case}-{'lora' if lora else 'whole'}"
            train(name, lines, objective, lora)
            model = model_class.from_pretrained(DIR / f"{name}-export", dtype=torch.float32).eval()
            found = {"export": compare(name, model)}
            if lora:
                labels = model.config.num_labels
                whole = model_class.from_pretrained(DIR / "base", num_labels=labels, dtype=torch.float32)
                adapter = next((DIR / name).glob("checkpoint-*"))
                whole.config.pad_token_id = model.config.pad_token_id
                found["adapter"] = compare(name, PeftModel.from_pretrained(whole, adapter).eval())
            print(f"{name:13}", "  ".join(f"{what} {difference:.1e}" for what, difference in found.items()), flush=True)
            worst = max(worst, *found.values())
    sys.exit(worst > TOLERANCE)


if __name__ == "__main__":
    main()
