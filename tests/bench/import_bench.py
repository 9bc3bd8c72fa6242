#!/usr/bin/env python3
"""Compares the import of a model directory into a training state on disk with the rate of the disk.

Makes a Llama of 1.2 billion parameters in bf16 (random bytes), and imports it with budgets that sum to a third of its
file, with `train.max_steps=0`. Bytes read and written (/proc/PID/io) over the time between the lines "loading weights"
and "loaded weights" are compared with two rates of the disk, measured in the same directory directly before and after
each import. The first is fio's, with the traffic of an import: it reads the model's file while it writes as many bytes to
a new file. The second is the mixed rate of `tidepool bench disk`, which reads one file repeatedly, so caches behind the
disk may hold the file. Peak memory is VmHWM; moments, which are zeros, must not be written.

tests/bench/import_bench.py path/to/tidepool DIRECTORY [--repetitions 3] [--model DIR]

DIRECTORY must be on the measured disk, with 8 GB free; the files in it stay for the next time.
"""

import argparse
import json
import os
import random
import shutil
import statistics
import struct
import subprocess
import time

MIB = 1 << 20


def make_model(directory):
    vocab, width, inner, layers, heads, kv = 32000, 2048, 5632, 24, 32, 4
    os.makedirs(directory, exist_ok=True)
    with open(directory + "/config.json", "w") as file:
        json.dump({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": vocab, "hidden_size": width,
                   "intermediate_size": inner, "num_hidden_layers": layers, "num_attention_heads": heads,
                   "num_key_value_heads": kv, "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
                   "tie_word_embeddings": False, "hidden_act": "silu", "torch_dtype": "bfloat16"}, file)
    narrow = kv * (width // heads)
    tensors = [("model.embed_tokens.weight", [vocab, width])]
    for i in range(layers):
        p = f"model.layers.{i}."
        tensors += [(p + "input_layernorm.weight", [width]), (p + "post_attention_layernorm.weight", [width])]
        tensors += [(p + f"self_attn.{n}_proj.weight", [rows, width]) for n, rows in
                    (("q", width), ("k", narrow), ("v", narrow), ("o", width))]
        tensors += [(p + f"mlp.{n}_proj.weight", [inner, width]) for n in ("gate", "up")]
        tensors += [(p + "mlp.down_proj.weight", [width, inner])]
    tensors += [("model.norm.weight", [width]), ("lm_head.weight", [vocab, width])]
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in tensors:
        size = 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    draw = random.Random(1)
    with open(directory + "/model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        while at > 0:  # about +-0.01: low byte at random, high byte 0x3c or 0xbc
            piece = bytearray(draw.randbytes(min(at, 4 * MIB)))
            piece[1::2] = bytes(0x3c | b & 0x80 for b in piece[1::2])
            file.write(piece)
            at -= len(piece)


def io_of(pid):
    with open(f"/proc/{pid}/io") as file:
        rows = dict(line.split(": ") for line in file.read().splitlines())
    return int(rows["read_bytes"]), int(rows["write_bytes"])


def vm_hwm(pid):
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM"))


def mixed_rate(tidepool, directory):
    out = subprocess.run([tidepool, "bench", "disk", "--dir", directory, "--json", "--size", "2GiB", "--seconds", "1",
                          "--repetitions", "3"], capture_output=True, text=True, check=True)
    return json.loads(out.stdout)["mixed"]["bytes_per_second"]


def fio_rate(model, directory):
    """Each byte once: the model's file read, and as many written to a file that is new."""
    fresh, size = directory + "/fio.bin", os.path.getsize(model) // MIB * MIB
    common = ["--ioengine=io_uring", "--direct=1", "--bs=1M", "--iodepth=16", f"--size={size}"]
    out = subprocess.run(["fio", "--output-format=json", "--name=read", "--rw=read", f"--filename={model}", *common,
                          "--name=write", "--rw=write", f"--filename={fresh}", "--fallocate=native", *common],
                         capture_output=True, text=True, check=True)
    os.remove(fresh)
    jobs = json.loads(out.stdout)["jobs"]
    return 2 * size / max(job["job_runtime"] / 1e3 for job in jobs)


def drop_cached(path):
    subprocess.run(["sync"], check=True)
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def import_once(tidepool, config, model_bytes):
    drop_cached(os.path.join(json.load(open(config))["model"], "model.safetensors"))
    run = subprocess.Popen([tidepool, "train", config], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines, begin, end = [], None, None
    for line in run.stdout:
        lines.append(line)
        if line.startswith("loading weights"):
            begin = (time.monotonic(), *io_of(run.pid))
        if line.startswith("loaded weights"):
            end = (time.monotonic(), *io_of(run.pid))
            peak = vm_hwm(run.pid)
    if run.wait() != 0 or end is None:
        raise SystemExit("".join(lines))
    seconds, read, written = (b - a for a, b in zip(begin, end))
    return {"seconds": seconds, "read": read, "written": written, "rate": (read + written) / seconds, "peak": peak,
            "model": model_bytes}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tidepool")
    parser.add_argument("directory")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--model", help="a model directory in the place of the one that is made")
    parser.add_argument("--device-share", type=float, default=0.76, help="of the budgets")
    arguments = parser.parse_args()
    tidepool, directory = os.path.abspath(arguments.tidepool), os.path.abspath(arguments.directory)
    model = os.path.abspath(arguments.model or directory + "/model")
    if not os.path.exists(model + "/model.safetensors"):
        make_model(model)
    model_bytes = os.path.getsize(model + "/model.safetensors")
    with open(directory + "/tokens.bin", "wb") as file:
        file.write(struct.pack("<4096H", *(i % 1000 for i in range(4096))))
    budget = model_bytes // 3
    device = int(budget * arguments.device_share) // 4096 * 4096
    config = directory + "/import.yaml"
    with open(config, "w") as file:
        json.dump({"model": model, "data": {"train": directory + "/tokens.bin", "format": "nanogpt", "validation_fraction": 0},
                   "train": {"precision": "bf16", "max_steps": 0, "sequence_length": 64},
                   "memory": {"device": f"{device}B", "host": f"{budget - device}B"},
                   "output": {"dir": directory + "/run", "save": False, "trace": False}}, file)
    ratios = {"fio": [], "bench disk": []}
    for i in range(arguments.repetitions):
        shutil.rmtree(directory + "/run", ignore_errors=True)
        weights = model + "/model.safetensors"
        rates = {"fio": [], "bench disk": []}
        one = None
        for _ in range(2):
            rates["bench disk"].append(mixed_rate(tidepool, directory))
            drop_cached(weights)
            rates["fio"].append(fio_rate(weights, directory))
            one = one or import_once(tidepool, config, model_bytes)
        for name in ratios:
            ratios[name].append(one["rate"] / statistics.mean(rates[name]))
        print(f"import {i + 1}: {one['seconds']:.2f} s, read {one['read'] / MIB:.0f} MiB, written {one['written'] / MIB:.0f} MiB, "
              f"{one['rate'] / 1e6:.0f} MB/s; "
              + "".join(f"{name} {before / 1e6:.0f} before, {after / 1e6:.0f} after, ratio {ratios[name][-1]:.2f}; "
                        for name, (before, after) in rates.items()) +
              f"peak {one['peak'] / MIB:.0f} MiB, budgets {budget / MIB:.0f} MiB, "
              f"above them {(one['peak'] - budget) / MIB:.0f} MiB; written / model {one['written'] / model_bytes:.2f}", flush=True)
    print("median ratio " + ", ".join(f"{statistics.median(each):.2f} of {name}" for name, each in ratios.items()))


if __name__ == "__main__":
    main()
