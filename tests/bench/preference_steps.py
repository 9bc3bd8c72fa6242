#!/usr/bin/env python3
"""Compares 50 steps of DPO, KTO and ORPO with TRL: the loss of every step, whole models and LoRA.

Needs torch, transformers, tokenizers, peft, datasets and trl. Prints the largest difference of a step's loss for
each objective.
Usage: preference_steps.py TIDEPOOL DIR
"""
import json
import os
import random
import subprocess
import sys

import torch, transformers
from datasets import Dataset
from peft import LoraConfig, PeftModel, get_peft_model
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

PROGRAM, DIR = sys.argv[1], sys.argv[2]
STEPS, BATCH, LR = 50, 4, 1e-3


WORDS = "tide pool crab limpet shell rock wave kelp star moon sand salt".split()


def words(n):
    return " ".join(random.choice(WORDS) for _ in range(n))


def make_base():
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {c: i for i, c in enumerate(alphabet)}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>", pad_token="<|pad|>")
    torch.manual_seed(5)
    config = Qwen3Config(vocab_size=len(fast), hidden_size=64, intermediate_size=160, num_hidden_layers=3,
                         num_attention_heads=4, num_key_value_heads=2, head_dim=16, max_position_embeddings=512,
                         tie_word_embeddings=False, eos_token_id=fast.eos_token_id, pad_token_id=fast.pad_token_id,
                         bos_token_id=None)
    model = Qwen3ForCausalLM(config)
    with torch.no_grad():
        for p in model.parameters():
            if p.ndim > 1:
                p.mul_(2.5)
    model.save_pretrained(f"{DIR}/base")
    model.save_pretrained(f"{DIR}/reference")
    for d in ("base", "reference"):
        fast.save_pretrained(f"{DIR}/{d}")
    torch.manual_seed(6)
    adapted = get_peft_model(model, LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", task_type="CAUSAL_LM"))
    adapted.save_pretrained(f"{DIR}/adapter")


def pairs():
    random.seed(1)
    return [{"prompt": words(random.randint(1, 6)) + ": ", "chosen": words(random.randint(1, 9)),
             "rejected": words(random.randint(1, 9)) + "!"} for _ in range(STEPS * BATCH)]


def answers():
    """The last completion of every batch is the same text: TRL turns the completions of a batch, Tidepool takes that of
    the line before."""
    random.seed(2)
    out = [{"prompt": f"{i} {words(random.randint(1, 6))}: ", "completion": words(random.randint(1, 9)),
            "label": i % 3 != 1} for i in range(STEPS * BATCH)]
    for i, row in enumerate(out):
        if i % BATCH == BATCH - 1 or i == 1:
            row["completion"] = "the tide is out"
    return out


def settings(cls, **more):
    return cls(output_dir=f"{DIR}/trl", per_device_train_batch_size=BATCH, max_steps=STEPS, learning_rate=LR,
               lr_scheduler_type="constant", warmup_steps=0, weight_decay=0.0, logging_steps=1, save_strategy="no",
               report_to="none", use_cpu=True, bf16=False, gradient_checkpointing=False, max_length=512,
               dataloader_num_workers=0, **more)


def trl_losses(kind, lora):
    from trl import DPOConfig, DPOTrainer, KTOConfig, KTOTrainer
    from trl.experimental.orpo import ORPOConfig, ORPOTrainer
    tokenizer = transformers.AutoTokenizer.from_pretrained(f"{DIR}/base")
    load = lambda d: transformers.AutoModelForCausalLM.from_pretrained(f"{DIR}/{d}", dtype=torch.float32)
    model = load("base")
    if lora:
        model = PeftModel.from_pretrained(model, f"{DIR}/adapter", is_trainable=True)
    if kind == "dpo":
        trainer = DPOTrainer(model=model, ref_model=None if lora else load("base"), processing_class=tokenizer,
                             args=settings(DPOConfig), train_dataset=Dataset.from_list(pairs()))
    elif kind == "kto":
        trainer = KTOTrainer(model=model, ref_model=None if lora else load("base"), processing_class=tokenizer,
                             args=settings(KTOConfig, train_sampling_strategy="sequential"),
                             train_dataset=Dataset.from_list(answers()))
    else:
        trainer = ORPOTrainer(model=model, processing_class=tokenizer, args=settings(ORPOConfig),
                              train_dataset=Dataset.from_list(pairs()))
    trainer._get_train_sampler = lambda *a, **k: torch.utils.data.SequentialSampler(trainer.train_dataset)
    trainer.train()
    return [l["loss"] for l in trainer.state.log_history if "loss" in l]


def our_losses(kind, lora):
    rows = answers() if kind == "kto" else pairs()
    with open(f"{DIR}/{kind}.jsonl", "w") as f:
        f.writelines(json.dumps(r) + "\n" for r in rows)
    out = f"{DIR}/ours-{kind}-{int(lora)}"
    subprocess.run(["rm", "-rf", out])
    config = {"model": f"{DIR}/base", "data": {"train": [f"{DIR}/{kind}.jsonl"], "shuffle": False, "packing": False,
                                              "validation_fraction": 0},
              "objective": {"type": kind, **({} if kind == "orpo" else {"reference": f"{DIR}/reference"})},
              "train": {"precision": "fp32", "sequence_length": 512, "per_device_train_batch_size": BATCH,
                        "max_steps": STEPS, "learning_rate": LR, "lr_scheduler_type": "constant", "warmup_steps": 0,
                        "weight_decay": 0, "max_grad_norm": 1.0},
              "memory": {"device": "256MiB", "host": "256MiB"}, "output": {"dir": out, "logging_steps": 1}}
    if lora:
        config["lora"] = {"adapter": f"{DIR}/adapter"}
    with open(f"{DIR}/{kind}.yaml", "w") as f:
        json.dump(config, f)
    done = subprocess.run([PROGRAM, "train", f"{DIR}/{kind}.yaml"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr[-3000:])
    lines = [json.loads(l) for l in open(f"{out}/metrics.jsonl")]
    return [l["loss"] for l in lines if "loss" in l]


def main():
    os.makedirs(DIR, exist_ok=True)
    torch.set_num_threads(2)
    make_base()
    for kind in ("dpo", "kto", "orpo"):
        for lora in (False, True):
            theirs = trl_losses(kind, lora)
            ours = our_losses(kind, lora)
            worst = max(abs(a - b) for a, b in zip(ours, theirs))
            print(f"{kind:5} {'LoRA ' if lora else 'whole'} {len(ours)} steps, loss {ours[0]:.4f} to {ours[-1]:.4f}; "
                  f"TRL {theirs[0]:.4f} to {theirs[-1]:.4f}; largest difference of a step {worst:.2e}", flush=True)


if __name__ == "__main__":
    main()
