#!/usr/bin/env python3
"""Training of a config's model with transformers on one device, all state there, to set beside `tidepool train`.

The model section of a config of ours has the keys of Hugging Face's config.json. Parameters, gradients and AdamW's
moments are in bf16 (8 bytes per parameter), attention is fused, experts are grouped products, and the gated delta
rule is that of flash-linear-attention where it is installed. Micro-batches, accumulation and clipping are those of
the config. Activations are kept if they fit, and otherwise every layer is recomputed. Prints one JSON object.
"""

import argparse
import json
import statistics
import sys
import time

import torch
import transformers
import yaml


def build(model_keys, device):
    keys = dict(model_keys)
    config = transformers.AutoConfig.for_model(keys.pop("model_type"), **keys)
    config.use_cache = False
    more = {"attn_implementation": "sdpa"}
    if hasattr(config, "num_experts") and device == "cuda":
        more["experts_implementation"] = "grouped_mm"
    with torch.device(device):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16, **more)
    return model.train()


def delta_rule():
    """Returns where the gated delta rule came from, after a step: transformers loads the package if it is used."""
    if "fla.ops.gated_delta_rule" in sys.modules:
        return f"flash-linear-attention {sys.modules['fla'].__version__}"
    return "PyTorch's own operations"


def step(model, optimizer, train, vocabulary, device):
    for _ in range(train["gradient_accumulation_steps"]):
        shape = (train["per_device_train_batch_size"], train["sequence_length"])
        tokens = torch.randint(0, min(256, vocabulary), shape, device=device)
        loss = model(input_ids=tokens, labels=tokens).loss
        (loss / train["gradient_accumulation_steps"]).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()


def steps(model, options, train, vocabulary):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    seconds = []
    for _ in range(options.steps):
        begin = time.perf_counter()
        step(model, optimizer, train, vocabulary, options.device)
        if options.device == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
        print(f"step {len(seconds)}: {seconds[-1]:.3f} s", file=sys.stderr, flush=True)
    return seconds


def measure(options, config, recomputed):
    torch.manual_seed(1)
    model = build(config["model"], options.device)
    if recomputed:
        model.gradient_checkpointing_enable()
    train = config["train"]
    seconds = steps(model, options, train, config["model"]["vocab_size"])
    steady = statistics.median(seconds[2:])
    names = ("per_device_train_batch_size", "gradient_accumulation_steps", "sequence_length")
    tokens = train[names[0]] * train[names[1]] * train[names[2]]
    return {
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "delta_rule": delta_rule(),
        "recomputed": recomputed,
        "tokens_per_second": tokens / steady,
        "step_seconds": seconds,
        "device_bytes_max": torch.cuda.max_memory_reserved() if options.device == "cuda" else 0,
        "parameters": sum(p.numel() for p in model.parameters()),
    }


def make_tiny(config):
    """Shrinks the model, to try the script."""
    small = {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4, "num_key_value_heads": 2}
    small |= {"head_dim": 16, "vocab_size": 256, "num_hidden_layers": 4, "num_experts": 4, "moe_intermediate_size": 32}
    small |= {"num_experts_per_tok": 2, "linear_num_key_heads": 2, "linear_num_value_heads": 4}
    small |= {"linear_key_head_dim": 16, "linear_value_head_dim": 16}
    config["model"] |= {key: value for key, value in small.items() if key in config["model"]}
    config["train"] |= {"per_device_train_batch_size": 1, "gradient_accumulation_steps": 2, "sequence_length": 64}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("config", help="a config of ours: its model and its train section")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--recompute", action="store_true", help="every layer, also if its activations would fit")
    parser.add_argument("--tiny", action="store_true", help="try the script")
    options = parser.parse_args()
    with open(options.config) as file:
        config = yaml.safe_load(file)
    if options.tiny:
        make_tiny(config)
    result = None
    if not options.recompute:
        try:
            result = measure(options, config, False)
        except torch.OutOfMemoryError as error:
            print(f"recomputed instead: {str(error).splitlines()[0]}", file=sys.stderr, flush=True)
    if result is None:
        if options.device == "cuda":
            torch.cuda.empty_cache()
        result = measure(options, config, True)
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
