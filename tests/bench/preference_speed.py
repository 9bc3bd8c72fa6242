#!/usr/bin/env python3
"""Compares the speed of DPO's steps with TRL: 33M parameters, 2 pairs of 2 x 256 tokens a step, fp32, two threads.

Needs torch, transformers, tokenizers, datasets and trl. Runs both in turns and prints the median of a run's steps: of
TRL with the reference model beside the policy, which is its default, and with its log-probabilities made before.
Usage: preference_speed.py TIDEPOOL DIR [ROUNDS]
"""
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import time

import torch
import transformers
from datasets import Dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM, TrainerCallback
from trl import DPOConfig, DPOTrainer

PROGRAM, DIR = sys.argv[1], sys.argv[2]
ROUNDS = int(sys.argv[3]) if len(sys.argv) > 3 else 3
STEPS, PAIRS, TOKENS = 6, 2, 2 * 2 * 256


def make_base():
    vocab = {c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>", pad_token="<|pad|>")
    torch.manual_seed(5)
    config = Qwen3Config(vocab_size=8192, hidden_size=512, intermediate_size=1536, num_hidden_layers=8,
                         num_attention_heads=8, num_key_value_heads=4, head_dim=64, max_position_embeddings=512,
                         tie_word_embeddings=False, eos_token_id=fast.eos_token_id, pad_token_id=fast.pad_token_id,
                         bos_token_id=None)
    Qwen3ForCausalLM(config).save_pretrained(f"{DIR}/base")
    fast.save_pretrained(f"{DIR}/base")


def pairs():
    random.seed(1)
    text = lambda n: "".join(random.choice("abcdefgh ") for _ in range(n))
    return [{"prompt": text(64), "chosen": text(191), "rejected": text(191)} for _ in range(STEPS * PAIRS)]


class Clock(TrainerCallback):
    def __init__(self):
        self.seconds = []

    def on_step_begin(self, *unused, **more):
        self.began = time.perf_counter()

    def on_step_end(self, *unused, **more):
        self.seconds.append(time.perf_counter() - self.began)


def theirs(precomputed):
    load = lambda: transformers.AutoModelForCausalLM.from_pretrained(f"{DIR}/base", dtype=torch.float32)
    clock = Clock()
    settings = DPOConfig(output_dir=f"{DIR}/trl", per_device_train_batch_size=PAIRS, max_steps=STEPS, learning_rate=1e-3,
                         lr_scheduler_type="constant", logging_steps=1, save_strategy="no", report_to="none", use_cpu=True,
                         bf16=False, gradient_checkpointing=False, max_length=512, dataloader_num_workers=0,
                         precompute_ref_log_probs=precomputed)
    DPOTrainer(model=load(), ref_model=load(), args=settings, train_dataset=Dataset.from_list(pairs()),
               processing_class=transformers.AutoTokenizer.from_pretrained(f"{DIR}/base"), callbacks=[clock]).train()
    return statistics.median(clock.seconds[1:])


def ours():
    with open(f"{DIR}/dpo.jsonl", "w") as file:
        file.writelines(json.dumps(row) + "\n" for row in pairs())
    config = {"model": f"{DIR}/base", "objective": {"type": "dpo"},
              "data": {"train": [f"{DIR}/dpo.jsonl"], "shuffle": False, "packing": False, "validation_fraction": 0},
              "train": {"precision": "fp32", "sequence_length": 512, "per_device_train_batch_size": PAIRS,
                        "max_steps": STEPS, "learning_rate": 1e-3, "lr_scheduler_type": "constant"},
              "memory": {"device": "2GiB", "host": "2GiB", "disk": 0},
              "output": {"dir": f"{DIR}/ours", "logging_steps": 1, "save_steps": 0}}
    with open(f"{DIR}/dpo.yaml", "w") as file:
        json.dump(config, file)
    shutil.rmtree(f"{DIR}/ours", ignore_errors=True)
    done = subprocess.run([PROGRAM, "train", f"{DIR}/dpo.yaml"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr[-3000:])
    lines = [json.loads(line) for line in open(f"{DIR}/ours/metrics.jsonl")]
    return statistics.median([line["step_seconds"] for line in lines if "step_seconds" in line][1:])


def main():
    os.makedirs(DIR, exist_ok=True)
    torch.set_num_threads(2)
    make_base()
    for number in range(ROUNDS):
        mine, beside, before = ours(), theirs(False), theirs(True)
        print(f"round {number + 1}: {TOKENS / mine:.0f} tokens/s; TRL {TOKENS / beside:.0f}, so {beside / mine:.2f}; "
              f"with its reference made before {TOKENS / before:.0f}, so {before / mine:.2f}", flush=True)


if __name__ == "__main__":
    main()
