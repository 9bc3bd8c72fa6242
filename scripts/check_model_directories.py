#!/usr/bin/env python3
"""Checks with transformers the model directories that Tidepool reads and writes.

For each family, with tied and untied heads, in fp32 and bf16: a small random model with a tokenizer, a chat template
and a generation config goes through `tidepool train` with max_steps=0 and, from there, through `tidepool export` in
several files. transformers must open both, find the same bytes in every tensor, give equal logits, the same token
ids, the same rendered chat and the same generation config. Then the model directory is taken away, and the run must
resume and generate.

Needs torch, transformers and tokenizers: scripts/check_model_directories.py path/to/tidepool
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (ArceeConfig, AutoConfig, AutoModelForCausalLM, AutoTokenizer, Gemma2Config, Gemma3TextConfig,
                          Gemma4TextConfig, GenerationConfig, GPT2Config, LlamaConfig, MistralConfig, Phi3Config, PreTrainedTokenizerFast,
                          Qwen2Config, Qwen3Config)

TEMPLATE = ("{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
            "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
WORDS = "The tide fills the pool, and the pool waits for the tide. Déjà vu, naïve café, 水の流れ, 🌊 and rocks. "


def make_tokenizer():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator([WORDS], trainers.BpeTrainer(
        vocab_size=300, special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    out = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<|endoftext|>", eos_token="<|im_end|>",
                                  pad_token="<|endoftext|>")
    out.chat_template = TEMPLATE
    return out


def cases(vocab):
    common = dict(vocab_size=vocab, hidden_size=48, intermediate_size=80, num_hidden_layers=2, num_attention_heads=4,
                  num_key_value_heads=2, max_position_embeddings=64, bos_token_id=0, eos_token_id=2, pad_token_id=0)
    yield "gpt2", GPT2Config(vocab_size=vocab, n_embd=48, n_layer=2, n_head=4, n_positions=64, bos_token_id=0,
                             eos_token_id=2, embd_pdrop=0, attn_pdrop=0, resid_pdrop=0)
    for tied in (True, False):
        end = "tied" if tied else "untied"
        yield f"llama_{end}", LlamaConfig(**common, tie_word_embeddings=tied)
        yield f"mistral_{end}", MistralConfig(**common, tie_word_embeddings=tied, sliding_window=None)
        yield f"qwen2_{end}", Qwen2Config(**common, tie_word_embeddings=tied)
        yield f"qwen3_{end}", Qwen3Config(**common, tie_word_embeddings=tied, head_dim=16)
        yield f"phi3_{end}", Phi3Config(**common, tie_word_embeddings=tied, sliding_window=None,
                                        rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5))
        yield f"arcee_{end}", ArceeConfig(**common, tie_word_embeddings=tied, mlp_bias=tied)
        yield f"gemma2_{end}", Gemma2Config(**common, tie_word_embeddings=tied, head_dim=16, sliding_window=24,
                                            query_pre_attn_scalar=20, attn_logit_softcapping=1.5, final_logit_softcapping=2.0)
        yield f"gemma3_{end}", Gemma3TextConfig(**common, tie_word_embeddings=tied, head_dim=16, sliding_window=64,
                                                sliding_window_pattern=2, query_pre_attn_scalar=20)
        yield f"gemma4_{end}", Gemma4TextConfig(**common | dict(num_hidden_layers=4), tie_word_embeddings=tied, head_dim=16,
                                                global_head_dim=24, sliding_window=24, attention_k_eq_v=tied,
                                                num_global_key_value_heads=1, final_logit_softcapping=2.0,
                                                layer_types=["sliding_attention", "full_attention"] * 2,
                                                hidden_size_per_layer_input=8, vocab_size_per_layer_input=vocab,
                                                num_kv_shared_layers=2, use_double_wide_mlp=tied)


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def opened(directory):
    model = AutoModelForCausalLM.from_pretrained(directory, dtype="auto").eval()
    ids = torch.arange(40).reshape(2, 20) * 7 % 300
    with torch.no_grad():
        return {"state": model.state_dict(), "logits": model(ids).logits, "config": AutoConfig.from_pretrained(directory),
                "tokenizer": AutoTokenizer.from_pretrained(directory), "generation": GenerationConfig.from_pretrained(directory)}


def compare(before, after, what):
    assert before["state"].keys() == after["state"].keys(), what
    for name, tensor in before["state"].items():
        other = after["state"][name]
        assert tensor.dtype == other.dtype and torch.equal(tensor.view(torch.uint8), other.view(torch.uint8)), (what, name)
    assert torch.equal(before["logits"], after["logits"]), what
    for key in ("bos_token_id", "eos_token_id", "pad_token_id"):
        assert getattr(before["config"], key) == getattr(after["config"], key), (what, key)
    a, b = before["tokenizer"], after["tokenizer"]
    assert a(WORDS)["input_ids"] == b(WORDS)["input_ids"] and a.eos_token == b.eos_token, what
    chat = [{"role": "user", "content": "Hi"}]
    assert a.apply_chat_template(chat, tokenize=False) == b.apply_chat_template(chat, tokenize=False), what
    assert before["generation"].to_diff_dict() == after["generation"].to_diff_dict(), what


def check(tidepool, work, name, config, dtype):
    case = f"{name}_{dtype}"
    source, out, runs = (os.path.join(work, f"{case}_{part}") for part in ("source", "out", "run"))
    torch.manual_seed(1)
    tokenizer = make_tokenizer()
    model = AutoModelForCausalLM.from_config(config).to(torch.bfloat16 if dtype == "bf16" else torch.float32)
    for buffer_name, buffer in model.named_buffers():
        if buffer_name.endswith("layer_scalar"):
            buffer.fill_(0.75)
    model.generation_config.temperature = 0.6
    model.generation_config.do_sample = True
    model.save_pretrained(source)
    tokenizer.save_pretrained(source)
    data = os.path.join(work, "data.jsonl")
    with open(data, "w") as file:
        for i in range(64):
            file.write(json.dumps({"messages": [{"role": "user", "content": f"{i}?"}, {"role": "assistant", "content": WORDS}]}) + "\n")
    yaml = os.path.join(work, case + ".yaml")
    with open(yaml, "w") as file:
        json.dump({"model": source, "data": {"train": data}, "memory": {"device": "8MiB", "host": "8MiB"},
                   "train": {"precision": dtype, "max_steps": 0, "sequence_length": 64},
                   "output": {"dir": runs, "max_shard_size": "40KB"}}, file)
    run(tidepool, "train", yaml)
    before = opened(source)
    compare(before, opened(runs + "/checkpoint-0"), case + " checkpoint-0")
    run(tidepool, "export", runs, out, "--max-shard-size", "60KB")
    assert os.path.exists(out + "/model.safetensors.index.json"), case
    compare(before, opened(out), case + " export")
    run(tidepool, "export", source, out + "_32", "--dtype", "fp32")
    wide = opened(out + "_32")["state"]
    assert all(torch.equal(t.float(), wide[n]) for n, t in before["state"].items()), case
    shutil.move(source, source + "_gone")
    run(tidepool, "train", yaml, "--resume", "auto", "train.max_steps=2")
    run(tidepool, "generate", runs, "--chat", "--prompt", "Hi", "--max-new-tokens", "4")
    text = run(tidepool, "generate", runs, "--prompt", "The tide", "--max-new-tokens", "8", "--temperature", "0")
    greedy = AutoModelForCausalLM.from_pretrained(runs + "/checkpoint-2", dtype=torch.float32)
    ids = before["tokenizer"]("The tide", return_tensors="pt")["input_ids"]
    made = greedy.generate(ids, max_new_tokens=8, do_sample=False, pad_token_id=0)
    expected = before["tokenizer"].decode(made[0], skip_special_tokens=False).removesuffix("<|im_end|>")
    assert dtype != "fp32" or text == expected + "\n", (case, text, expected)
    print(case, "ok", flush=True)


def main():
    tidepool = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else None) as work:
        vocab = len(make_tokenizer()) + 5  # as in real models: more rows than tokens
        for name, config in cases(vocab):
            for dtype in ("fp32", "bf16"):
                check(tidepool, work, name, config, dtype)


if __name__ == "__main__":
    main()
