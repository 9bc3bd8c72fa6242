"""The figures of other models and settings than the 7B model of gpu_figures.py, in the same form: each function
takes a Bench and returns the figure, whether it holds (None: no verdict), and the details that bench.json keeps.
"""

import json

from gpu_bench import NotMeasured, seconds_by_kind

EXPERTS, HYBRID, LONG = "experts-5b.yaml", "hybrid-2b.yaml", "long-2b.yaml"
TINY_TRAINING = [
    "train.sequence_length=64",
    "train.per_device_train_batch_size=1",
    "train.gradient_accumulation_steps=2",
    "memory.device=64MiB",
    "memory.host=128MiB",
    "machine.executor=cpu",
]
TINY_MODEL = [
    "model.hidden_size=64",
    "model.intermediate_size=96",
    "model.num_hidden_layers=4",
    "model.num_attention_heads=4",
    "model.num_key_value_heads=2",
    "model.head_dim=16",
    "model.vocab_size=256",
]
TINY_EXPERTS = [
    *TINY_TRAINING,
    *TINY_MODEL,
    "model.num_experts=4",
    "model.num_experts_per_tok=2",
    "model.moe_intermediate_size=32",
]
TINY_HYBRID = [
    *TINY_TRAINING,
    *TINY_MODEL,
    "model.linear_num_key_heads=2",
    "model.linear_num_value_heads=4",
    "model.linear_key_head_dim=16",
    "model.linear_value_head_dim=16",
]
TINY_LONG = [
    "model.hidden_size=64",
    "model.intermediate_size=96",
    "model.num_hidden_layers=2",
    "model.num_attention_heads=4",
    "model.num_key_value_heads=2",
    "model.vocab_size=256",
    "memory.device=64MiB",
    "memory.host=128MiB",
    "machine.executor=cpu",
]
TRACED = ["output.logging_steps=1", "output.trace=true"]
ON_DISK = ["model.n_layer=4", "train.gradient_accumulation_steps=1", "memory.device=3GiB", "memory.host=4GiB"]
NEVER_CLIPPED = "train.max_grad_norm=1e6"  # six steps from random weights have large gradients


def speed(report):
    """Returns tokens per second of the median step."""
    return report["tokens_per_step"] / report["step_seconds"]


def traced(bench, name, *overrides):
    """Trains, and returns the report and the seconds of each kind of op in a steady step."""
    report = bench.train(name, *TRACED, *overrides)
    path = bench.out / f"run-{name}/step.json"
    kinds = seconds_by_kind(json.loads(path.read_text())) if path.exists() else {}
    return report, kinds


def error_of(report):
    """Returns how far the run's prediction before its first step is from the median step."""
    return report["predicted_step_seconds"] / report["step_seconds"] - 1


def against_transformers(bench, ours):
    """Returns PyTorch's result for the same model with all state on the card, as `compare` does."""
    return bench.compare(f"{speed(ours):.0f} tokens/s", ours, "pytorch_causal_lm_bench.py", bench.config)


def told_of(torch):
    return (
        f"{torch['tokens_per_second']:.0f} tokens/s, transformers {torch['transformers']}, "
        f"activations {'recomputed' if torch['recomputed'] else 'kept'}"
    )


def experts(bench):
    bench.say_without_torch()
    bench = bench.of(EXPERTS, TINY_EXPERTS)
    ours, kinds = traced(bench, "experts", "memory.home=device")
    budget = [] if bench.options.tiny else ["memory.device=20GiB"]
    bound, bound_kinds = traced(bench, "experts-offloaded", *budget)
    details = {"resident": ours, "kinds": kinds, "offloaded": bound, "offloaded_kinds": bound_kinds}
    told = (
        f"{speed(ours):.0f} tokens/s with all state on the card, predicted {100 * error_of(ours):+.1f} %; at 20 GiB "
        f"{speed(bound):.0f}, predicted {100 * error_of(bound):+.1f} %"
    )
    try:
        details["torch"] = torch = against_transformers(bench, ours)
    except NotMeasured as why:
        raise NotMeasured(f"{why}; {told}", details) from why
    value = speed(ours) / torch["tokens_per_second"]
    return f"{value:.2f} ({told}; {told_of(torch)})", value >= 1, details


def hybrid(bench):
    bench.say_without_torch()
    bench = bench.of(HYBRID, TINY_HYBRID)
    ours, kinds = traced(bench, "hybrid", "memory.home=device")
    details = {"report": ours, "kinds": kinds}
    details["torch"] = torch = against_transformers(bench, ours)
    value = speed(ours) / torch["tokens_per_second"]
    share = ours["flops_per_second"] / ours["tokens_per_second"] * speed(ours) / bench.peak_flops()
    return (
        f"{value:.2f} ({speed(ours):.0f} tokens/s, {share:.3f} of the peak, predicted {100 * error_of(ours):+.1f} %; "
        f"{told_of(torch)}; delta rule: {torch['delta_rule']})",
        value >= 1,
        details,
    )


def optimizers(bench):
    """The 7B model with a smaller state, and with Muon, whose products the prediction must know."""
    first = bench.offloaded()["report"]
    details, texts, errors = {"adamw_torch": first}, [], []
    for optim in ("adamw_8bit", "muon"):
        report, kinds = traced(bench, optim, f"memory.device={bench.device_budget()}", f"train.optim={optim}")
        details[optim] = {"report": report, "kinds": kinds}
        errors.append(error_of(report))
        text = f"{optim} {report['step_seconds'] / first['step_seconds']:.3f} of adamw_torch's step"
        text += f", predicted {100 * errors[-1]:+.1f} %"
        orthogonalized = kinds.get("orthogonalize", {"measured": 0})
        if orthogonalized["measured"] > 0:
            errors.append(orthogonalized["predicted"] / orthogonalized["measured"] - 1)
            text += f" (orthogonalizing {orthogonalized['measured']:.2f} s, predicted {100 * errors[-1]:+.1f} %)"
        texts.append(text)
    return "; ".join(texts), max(map(abs, errors)) <= 0.10, details


def speculation(bench):
    """An eighth of the layers and small steps, most of the state on the disk, in two versions."""
    small = ["memory.disk=64MiB"] if bench.options.tiny else [*ON_DISK, f"memory.disk={bench.disk_budget()}"]
    small.append(NEVER_CLIPPED)
    off, off_kinds = traced(bench, "waits", *small, "train.speculate=off")
    on, on_kinds = traced(bench, "speculates", *small, "train.speculate=on")
    value = off["step_seconds"] / on["step_seconds"]
    return (
        f"{value:.3f} times as fast ({on['step_seconds']:.2f} against {off['step_seconds']:.2f} s a step of "
        f"{off['tokens_per_step']} tokens; predicted {100 * error_of(on):+.1f} and {100 * error_of(off):+.1f} %)",
        value >= 1,
        {"waits": off, "waits_kinds": off_kinds, "speculates": on, "speculates_kinds": on_kinds},
    )


def long(bench):
    """One sequence of a quarter of the length and of all of it: the device's memory stays, and the step is predicted."""
    bench = bench.of(LONG, TINY_LONG)
    details, texts, errors = {}, [], []
    for tokens in (1024, 4096) if bench.options.tiny else (32768, 131072):
        report, kinds = traced(bench, "long", f"train.sequence_length={tokens}")
        details[str(tokens)] = {"report": report, "kinds": kinds}
        errors.append(error_of(report))
        on_device = report["tiers"]["device"]["measured_peak_bytes"] / (1 << 30)
        texts.append(
            f"{tokens} tokens: {speed(report):.0f} tokens/s, predicted {100 * errors[-1]:+.1f} %, device {on_device:.2f} GiB"
        )
    return "; ".join(texts), max(map(abs, errors)) <= 0.10, details


MODEL_ROWS = {
    "optimizers": (11, "7B with other optimizers: the step, and its prediction", "within 10 %", optimizers),
    "experts": (12, "8 layers of Qwen3-30B-A3B, against transformers", ">= 1", experts),
    "hybrid": (13, "8 layers of Qwen3.5-9B, against transformers", ">= 1", hybrid),
    "speculation": (14, "1.2B on the disk, 8k tokens a step: updates that do not wait", ">= 1", speculation),
    "long": (15, "7 layers of Qwen2.5-7B, one sequence: the step, and its prediction", "within 10 %", long),
}
