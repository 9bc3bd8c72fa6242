#!/usr/bin/env python3
"""Gradients against PyTorch: small models, of GPT-2's and of Llama's style and a mixture of experts, begin from the
same safetensors and see the same tokens in `tidepool` and in PyTorch, in fp32 and bf16.

  tests/bench/pytorch_gradients_check.py --tidepool build/gpu/tidepool               on a GPU
  tests/bench/pytorch_gradients_check.py --tidepool build/release/tidepool --device cpu
  tests/bench/pytorch_gradients_check.py --device cpu --tokens 2048 --tile-tokens 512 --piece-tokens 512 \\
      --tidepool build/release/tidepool --precisions fp32      sequences that Tidepool cuts, and PyTorch does not

After one step without clipping exp_avg is 0.1 of the gradient, which the checkpoint holds in fp32. It is
compared, tensor by tensor, with PyTorch in fp64, and must not be further away than twice what PyTorch itself
is in that precision (TF32 off). The second step's loss shows the update. Needs torch, transformers,
safetensors and numpy.
"""

import argparse
import copy
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is fetched: models are made here

import numpy
import torch
import transformers
from safetensors.torch import load_file
from torch.nn import functional

SEQUENCES, MICRO_BATCHES, VOCABULARY = 2, 2, 509
LEARNING_RATE = 1e-3
# Relative differences, and differences of losses, that rounding alone may cause if PyTorch happens to be
# nearer.
FLOORS = {"fp32": 1e-5, "bf16": 1e-2}
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def configs(tokens):
    shape = {
        "vocab_size": VOCABULARY,
        "bos_token_id": 0,
        "eos_token_id": 0,
        "attn_implementation": "eager",
        "use_cache": False,
    }
    yield "gpt2", transformers.GPT2Config(
        n_positions=tokens,
        n_embd=128,
        n_layer=2,
        n_head=2,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        resid_pdrop=0.0,
        **shape,
    )
    yield "llama", transformers.LlamaConfig(
        hidden_size=256,
        intermediate_size=704,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=tokens,
        tie_word_embeddings=False,
        **shape,
    )
    yield "qwen3_moe", transformers.Qwen3MoeConfig(
        hidden_size=128,
        intermediate_size=256,
        moe_intermediate_size=96,
        num_experts=8,
        num_experts_per_tok=2,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        experts_implementation="eager",
        max_position_embeddings=tokens,
        tie_word_embeddings=False,
        **shape,
    )


def make_model(config, dtype):
    """Biases of a fresh model are zero and norms one: gradients that mix them up would agree by accident."""
    torch.manual_seed(7)
    model = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
            else:
                parameter.mul_(2.0)
    return model.to(dtype).train()


def make_tokens(length):
    """Returns tokens for two steps, and as many held-out tokens."""
    generator = numpy.random.default_rng(11)
    count = 400 * length
    walk = numpy.cumsum(generator.integers(0, 4, count)) % VOCABULARY  # something that can be learned
    noise = generator.random(count) < 0.2
    return numpy.where(noise, generator.integers(0, VOCABULARY, count), walk).astype(numpy.uint16)


def batches(tokens, length, step, device):
    for micro_batch in range(MICRO_BATCHES):
        begin = (step * MICRO_BATCHES + micro_batch) * SEQUENCES * length
        rows = [tokens[begin + s * length : begin + (s + 1) * length + 1] for s in range(SEQUENCES)]
        yield torch.tensor(numpy.stack(rows).astype(numpy.int64), device=device)


def loss_of(model, batch):
    logits = model(batch[:, :-1]).logits
    logits = logits if logits.dtype == torch.float64 else logits.float()
    return functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())


def as_in_files(name, gradient):
    """transformers joins the matrices of experts, and files have one of each expert."""
    path, _, matrix = name.rpartition(".")
    if not path.endswith("experts") or gradient.ndim != 3:
        return {name: gradient}
    parts = {"down_proj": ["down_proj"], "gate_up_proj": ["gate_proj", "up_proj"]}[matrix]
    return {
        f"{path}.{expert}.{part}.weight": piece
        for expert, of_expert in enumerate(gradient)
        for part, piece in zip(parts, of_expert.chunk(len(parts)))
    }


def one_step(model, tokens, length, device):
    """Loss, gradients, and the loss of the next step."""
    loss = 0.0
    for batch in batches(tokens, length, 0, device):
        part = loss_of(model, batch) / MICRO_BATCHES
        part.backward()
        loss += float(part.detach())
    gradients = {}
    for name, p in model.named_parameters():
        gradients.update(as_in_files(name, p.grad.detach().double().cpu()))
    with torch.no_grad():  # AdamW's first step; the masters of 16 bits are rounded to it once
        for parameter in model.parameters():
            gradient = parameter.grad.double()
            updated = parameter.double() - LEARNING_RATE * gradient / (gradient.abs() + 1e-8)
            parameter.copy_(updated)
        after = sum(float(loss_of(model, batch)) / MICRO_BATCHES for batch in batches(tokens, length, 1, device))
    return loss, gradients, after


def train(options, precision, model_directory, tokens, directory):
    tokens.tofile(directory / "tokens.bin")
    config = directory / "config.yaml"
    config.write_text(f"model: {model_directory}\n")
    words = [
        options.tidepool,
        "train",
        config,
        f"data.train={directory / 'tokens.bin'}",
        "data.format=nanogpt",
        "data.shuffle=false",
        f"train.precision={precision}",
        "train.max_steps=2",
        f"train.sequence_length={options.tokens}",
        f"train.tile_tokens={options.tile_tokens}",
        f"memory.piece_tokens={options.piece_tokens}",
        f"train.per_device_train_batch_size={SEQUENCES}",
        f"train.gradient_accumulation_steps={MICRO_BATCHES}",
        f"train.learning_rate={LEARNING_RATE}",
        "train.lr_scheduler_type=constant",
        "train.warmup_steps=0",
        "train.weight_decay=0",
        "train.max_grad_norm=0",
        "memory.device=256MiB",
        "memory.host=256MiB",
        f"machine.executor={options.device}",
        f"output.dir={directory / 'run'}",
        "output.save_steps=1",
        "output.save_total_limit=3",
        "output.trace=false",
    ]
    ran = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=1800)
    if ran.returncode != 0:
        raise RuntimeError(
            f"exit code {ran.returncode} of: {' '.join(str(word) for word in words)}\n"
            f"{ran.stderr.strip()[-1500:]}"
        )
    losses = json.loads((directory / "run/report.json").read_text())["losses"]
    state = load_file(directory / "run/checkpoint-1/optimizer.safetensors")
    moments = {
        name.removeprefix("exp_avg."): value for name, value in state.items() if name.startswith("exp_avg.")
    }
    return losses, {name: value.double() / 0.1 for name, value in moments.items()}


def by_ending(gradients, name):
    """GPT-2's tensors stand without `transformer.` in files that Tidepool writes."""
    for candidate in (name, "transformer." + name, "model." + name):
        if candidate in gradients:
            return gradients[candidate]
    raise KeyError(f"PyTorch's model has no tensor {name}")


def relative(ours, reference):
    return float((ours - reference).norm() / reference.norm())


def check(options, name, config, precision, directory):
    dtype = DTYPES[precision]
    plain = make_model(config, dtype)
    plain.save_pretrained(directory / "model")
    tokens = make_tokens(options.tokens)
    losses, ours = train(options, precision, directory / "model", tokens, directory)
    reference = one_step(copy.deepcopy(plain).double().to(options.device), tokens, options.tokens, options.device)
    theirs = one_step(plain.to(options.device), tokens, options.tokens, options.device)
    worst, complaints = ("", 0.0, 0.0), []
    if len(ours) != len(reference[1]):
        complaints.append(f"{len(ours)} tensors, PyTorch has {len(reference[1])}")
    for tensor, gradient in ours.items():
        wanted = by_ending(reference[1], tensor)
        error, of_torch = relative(gradient, wanted), relative(by_ending(theirs[1], tensor), wanted)
        worst = max(worst, (tensor, error, of_torch), key=lambda row: row[1])
        if not error <= max(FLOORS[precision], 2 * of_torch):
            complaints.append(f"gradient of {tensor}: {error:.1e} from fp64, PyTorch's {of_torch:.1e}")
    for step, at in ((0, 0), (1, 2)):
        error, of_torch = abs(losses[step] - reference[at]), abs(theirs[at] - reference[at])
        if not error <= max(FLOORS[precision], 2 * of_torch):
            complaints.append(
                f"loss of step {step + 1}: {losses[step]:.6f}, fp64 {reference[at]:.6f}, "
                f"PyTorch {theirs[at]:.6f}"
            )
    return {
        "model": name,
        "precision": precision,
        "holds": not complaints,
        "complaints": complaints,
        "tensors": len(ours),
        "worst_tensor": worst[0],
        "worst_error": worst[1],
        "worst_error_of_torch": worst[2],
        "losses": losses,
        "losses_fp64": [reference[0], reference[2]],
        "losses_torch": [theirs[0], theirs[2]],
    }


def tell(row):
    verdict = "holds" if row["holds"] else "DIFFERS"
    print(
        f"{row['model']} {row['precision']}: {verdict}: {row['tensors']} gradients within "
        f"{row['worst_error']:.1e} of fp64 "
        f"({row['worst_tensor']}; PyTorch's {row['worst_error_of_torch']:.1e}), "
        f"losses {row['losses'][0]:.5f} {row['losses'][1]:.5f}",
        *row["complaints"],
        sep="\n  ",
        file=sys.stderr,
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tidepool", default="build/gpu/tidepool")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"], help="of both")
    parser.add_argument("--tokens", type=int, default=96, help="of a sequence")
    parser.add_argument("--tile-tokens", type=int, default=0, help="train.tile_tokens; 0: the default")
    parser.add_argument("--piece-tokens", type=int, default=0, help="memory.piece_tokens; 0: the default")
    parser.add_argument("--precisions", nargs="+", default=list(DTYPES), choices=list(DTYPES))
    parser.add_argument("--keep", help="a folder for the models and runs, which are else removed")
    options = parser.parse_args()
    options.tidepool = str(pathlib.Path(options.tidepool).resolve())
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    folder = pathlib.Path(options.keep or tempfile.mkdtemp(prefix="tidepool-gradients-")).resolve()
    rows = []
    try:
        for name, config in configs(options.tokens):
            for precision in options.precisions:
                if name == "qwen3_moe" and precision != "fp32":
                    continue  # rounding moves tokens that are near a tie to other experts
                directory = folder / f"{name}-{precision}"
                shutil.rmtree(directory, ignore_errors=True)
                directory.mkdir(parents=True)
                rows.append(check(options, name, config, precision, directory))
                tell(rows[-1])
    finally:
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps({"torch": torch.__version__, "device": options.device, "rows": rows}))
    return 0 if all(row["holds"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
