"""The figures of the benchmarks, row by row: each function takes a Bench and returns the figure, whether it
holds (None: no verdict), and the details that bench.json keeps.
"""

import json

import gpu_memory
from gpu_bench import NotMeasured
from gpu_memory import GIB
from gpu_model_figures import MODEL_ROWS, speed

FSDP_LAYERS = [32, 24, 16]  # the whole model first; fewer layers if the host's memory is not enough


# 7B with all state takes 112 GB plus activations; half of its layers fit 80 GB.
RESIDENT_WHOLE_GIB, RESIDENT_FEWER_LAYERS, RESIDENT_BESIDE = 130, 16, 4 * GIB


def products(bench):
    bench.say_without_torch()
    ours = bench.bench("gemm")["shapes"]
    # The cores have another table.
    fastest = max((shape.get("flops_per_second", 0) for shape in ours), default=0)
    told = f"best shape {fastest / 1e12:.3g} TFLOP/s" if fastest else f"{len(ours)} shapes"
    torch = bench.compare(told, ours, "pytorch_gemm_bench.py")
    if bench.options.tiny:
        return f"{len(ours)} and {len(torch['shapes'])} shapes", None, {"ours": ours, "torch": torch}
    theirs = {shape["name"]: shape["flops_per_second"] for shape in torch["shapes"]}
    seconds = [0.0, 0.0]
    worst = ("", 9.0)
    for shape in ours:
        flops = 2.0 * shape["m"] * shape["n"] * shape["k"]
        rates = (shape["flops_per_second"], theirs[shape["name"]])
        for i in range(2):
            seconds[i] += flops / rates[i]
        worst = min(worst, (shape["name"], rates[0] / rates[1]), key=lambda pair: pair[1])
    layer = seconds[1] / seconds[0]
    best = fastest / max(theirs.values())
    value = min(layer, best)
    written = torch.get("weight_gradients", "bf16")
    theirs_written = "" if written == "fp32" else f"; PyTorch's weight gradients in {written}, ours in fp32"
    return (
        f"{value:.3f} (whole layer {layer:.3f}, best shape {best:.3f}, worst {worst[0]} {worst[1]:.3f}"
        f"{theirs_written})",
        value >= 0.95,
        {"ours": ours, "torch": torch},
    )


def attention(bench):
    bench.say_without_torch()
    ours = bench.bench("attention")
    shape = [
        word
        for key in ("sequences", "tokens", "heads", "head_size")
        for word in ("--" + key.replace("_", "-"), str(ours[key]))
    ]

    def both(result):
        return next(row["flops_per_second"] for row in result["attention"] if row["name"] == "both")

    details, by = {"ours": ours}, ""
    told = f"{both(ours) / 1e12:.3g} TFLOP/s"
    if ours["library"]:
        details["own_kernels"] = bench.bench("attention", TIDEPOOL_CUDNN="off")
        by = f"; by {ours['library']}, own kernels {both(details['own_kernels']) / 1e12:.3g}"
    details["torch"] = torch = bench.compare(told + by, details, "pytorch_attention_bench.py", *shape)
    value = both(ours) / torch["flops_per_second"]
    if torch.get("deterministic"):
        name, rate = max(torch["deterministic"].items(), key=lambda pair: pair[1])
        by += f"; PyTorch's fastest deterministic one, {name}: {rate / 1e12:.3g}"
    text = (
        f"{value:.3f} ({both(ours) / 1e12:.3g} against {torch['flops_per_second'] / 1e12:.3g} TFLOP/s, "
        f"{torch['backend']})"
    )
    return text + by, value >= 0.9, details


def mfu(bench):
    report = bench.offloaded()["report"]
    share = report["flops_per_second"] / report["tokens_per_second"] * speed(report) / bench.peak_flops()
    on_device = report["tiers"]["device"]
    return (
        f"{share:.3f} of {bench.peak_flops() / 1e12:.3g} TFLOP/s, {speed(report):.0f} tokens/s, "
        f"device {on_device['measured_peak_bytes'] / GIB:.2f} of {on_device['budget_bytes'] / GIB:.2f} GiB",
        share >= 0.55,
        {"report": report},
    )


def resident_size(bench):
    """Returns device and host budgets of a run with all state on the card, and how many layers fit."""
    if bench.options.tiny:
        return "64MiB", "64MiB", []
    free_gib = (bench.card_bytes() - RESIDENT_BESIDE) // GIB
    if free_gib >= RESIDENT_WHOLE_GIB:
        return f"{RESIDENT_WHOLE_GIB}GiB", "20GiB", []
    return f"{free_gib}GiB", "20GiB", [f"model.n_layer={RESIDENT_FEWER_LAYERS}"]


def resident(bench):
    device, host, fewer = resident_size(bench)
    both = ["train.recompute=recompute", *fewer]
    whole = bench.train("resident", f"memory.device={device}", "memory.home=device", f"memory.host={host}", *both)
    bound = bench.train("offloaded-recompute", f"memory.device={bench.device_budget()}", *both)
    value = speed(bound) / speed(whole)
    return (
        f"{value:.3f} ({speed(bound):.0f} against {speed(whole):.0f} tokens/s, both with {', '.join(both)})",
        value >= 0.95,
        {"offloaded": bound, "resident": whole},
    )


def fsdp(bench):
    bench.say_without_torch()
    refusals = []
    for layers in [None] if bench.options.tiny else FSDP_LAYERS:
        fewer = [] if layers in (None, FSDP_LAYERS[0]) else [f"model.n_layer={layers}"]
        report = bench.offloaded(*fewer)["report"]
        shape = ["--device-gib", "20"] + ([] if layers is None else ["--layers", str(layers)])
        told = f"{speed(report):.0f} tokens/s"
        torch = bench.compare(told, report, "pytorch_fsdp_bench.py", *shape)
        if "does_not_fit" not in torch:
            break
        refusals.append(f"{layers} layers: {torch['does_not_fit']}")
    else:
        raise NotMeasured("; ".join(refusals))
    value = speed(report) / torch["tokens_per_second"]
    exposed = report["exposed_seconds"]
    exposed = exposed.get("update", exposed.get("host_adam", 0.0)) / report["train_seconds"]
    smaller = (
        f"; both with {layers} layers, as the whole model is too large for PyTorch here" if refusals else ""
    )
    return (
        f"{value:.2f} times ({speed(report):.0f} against {torch['tokens_per_second']:.0f} tokens/s, "
        f"micro-batches of {torch['micro_batch']}), optimizer exposed {100 * exposed:.1f} %{smaller}",
        value >= 2 and exposed < 0.05,
        {"report": report, "torch": torch, "refusals": refusals},
    )


def plan_of(bench):
    return json.loads(bench.plan(*bench.settings(f"memory.device={bench.device_budget()}"), "--json"))


def copies(bench):
    rates = (bench.offloaded_before() or {"rates": {}})["rates"]  # shown beside the figure
    chunk = plan_of(bench)["chunk_bytes"]
    result = bench.bench("copy")
    # The largest copy measured that is not larger than a chunk of the plan; if all are larger, the smallest.
    sizes = {row["piece_bytes"]: row for row in result["pieces"]}
    piece = sizes[max((size for size in sizes if size <= chunk), default=min(sizes))]
    both = next(way for way in piece["ways"] if way["name"] == "both")
    trained = ", ".join(f"{name} {rate / 1e9:.1f} GB/s" for name, rate in rates.items()) or "not told"
    return (
        f"{both['fraction']:.3f} of {result['plain'][2]['bytes_per_second'] / 1e9:.1f} GB/s, in copies of "
        f"{piece['piece_bytes'] >> 20} MiB (the plan's chunks: {chunk / (1 << 20):.3g} MiB); "
        f"while training: {trained}",
        both["fraction"] >= 0.95,
        {"copies": result, "chunk_bytes": chunk, "training": rates},
    )


def prediction(bench):
    report = bench.offloaded()["report"]
    plan = plan_of(bench)
    predicted = plan.get("predicted_step_seconds")
    if not predicted:
        raise NotMeasured("plan --json predicts no step")
    before = report["predicted_step_seconds"]
    errors = [seconds / report["step_seconds"] - 1 for seconds in (predicted, before)]
    return (
        f"{100 * errors[0]:+.1f} % by plan, {100 * errors[1]:+.1f} % by the run itself before its first step "
        f"({predicted:.3f} and {before:.3f} s predicted, {report['step_seconds']:.3f} s measured)",
        max(map(abs, errors)) <= 0.10,
        {"plan": plan, "report": report},
    )


def memory(bench):
    run = bench.offloaded()
    if bench.options.tiny:
        return "the cores have no device memory", None, {}
    tier, samples = run["report"]["tiers"]["device"], run["memory"]["samples"]
    if not samples:
        raise NotMeasured("nvidia-smi shows no memory in use")
    if run["first_step_at"] is None:
        raise NotMeasured("the run told of no first step")
    budget, arena = tier["budget_bytes"], tier["planned_peak_bytes"]
    told = gpu_memory.judge(samples, arena, budget, run["first_step_at"])
    if told is None:
        raise NotMeasured(
            "the driver never showed as much memory as the plan takes, or nothing after the first step"
        )
    gib = {name: f"{value / GIB:.3f}" for name, value in told.items()}
    return (
        f"{gib['after_first_step']} GiB after the first step ({gib['before_first_step']} before it): arena "
        f"{arena / GIB:.3f} of {budget / GIB:.3f} GiB budget, context and libraries {gib['start']}; "
        f"later at most {gib['most_later']} ({len(samples)} samples of {run['memory']['of']})",
        told["holds"],
        {**told, "arena": arena, "budget": budget, "samples": samples},
    )


def largest(bench, disk="0"):
    budgets = [f"memory.device={bench.device_budget()}", f"memory.disk={disk}"]
    text = bench.plan(*bench.settings(*budgets), "--max")
    size, layers, width, heads = bench.largest_model(text)
    if bench.options.tiny:
        return f"{size} parameters planned", None, {"plan": text}
    report = bench.train(
        "largest",
        *budgets,
        f"model.n_layer={layers}",
        f"model.n_embd={width}",
        f"model.n_head={heads}",
        "train.max_steps=3",
    )
    bench.drop_run("largest")
    return (
        f"{size} parameters, {layers} layers x {width}, disk {disk}: {report['steps']} steps, "
        f"{speed(report):.0f} tokens/s",
        report["steps"] == 3,
        {"plan": text, "report": report},
    )


def largest_disk(bench):
    return largest(bench, disk=bench.disk_budget())


ROWS = {
    "products": (2, "matrix products of a 7B layer, 8k tokens, bf16, against PyTorch", ">= 0.95", products),
    "attention": (
        3,
        "attention forward + backward, causal, against PyTorch's fused one",
        ">= 0.9",
        attention,
    ),
    "mfu": (4, "7B, device 20 GiB, 65k tokens a step: share of the measured peak", ">= 0.55", mfu),
    "resident": (5, "the same against all state on the card", ">= 0.95", resident),
    "fsdp": (6, "the same against FSDP2 with CPU offload and fused CPU Adam", ">= 2 times, < 5 %", fsdp),
    "copies": (7, "copies, both directions, against a plain 256 MiB", ">= 0.95", copies),
    "prediction": (8, "step time that `plan` and the run predict", "both within 10 %", prediction),
    "memory": (9, "device memory, from the driver", "budget + start, no growth after the first step", memory),
    "largest": (10, "largest model for 20 GiB + 100 GiB, 3 steps", "trained", largest),
    "largest-disk": (10, "the same with the disk", "trained", largest_disk),
    **MODEL_ROWS,
}
