#!/usr/bin/env python3
"""Cuts the power of a file system under a live run, again and again, and checks the files that are left.

A cut is ext4's shutdown ioctl without a flush of its journal: from that moment nothing reaches the device, and the
page cache is lost. Then the run is killed and the file system is mounted again. The checks are:
  - every save that the run had acknowledged ("saved ...") is there and verifies,
  - config.yaml, plan.txt and model files are whole, reports are whole: the new text or the old text,
  - metrics.jsonl has every line up to the acknowledged save, and at most its last line is torn,
  - `--resume auto` ends with the weights of an undisturbed run.

Needs root (loop devices) and mkfs.ext4. Usage: scripts/check_power_cuts.py [--cuts 50] [--seed 1] [--binary PATH]
"""
import argparse
import fcntl
import json
import os
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile
import time

SHUTDOWN = 0x8004587D  # EXT4_IOC_SHUTDOWN
NO_LOG_FLUSH = 2
STEPS = 60
CONFIG = """\
model:
  model_type: gpt2
  vocab_size: 256
  n_positions: 32
  n_embd: 64
  n_layer: 3
  n_head: 4
data:
  train: {data}
train:
  max_steps: {steps}
  sequence_length: 32
  per_device_train_batch_size: 2
  precision: fp32
  eval_steps: 10
memory:
  device: 16MiB
  host: 16MiB
  swap_dir: {swap}
machine:
  threads: 1
output:
  dir: {run}
  save_steps: 2
  save_total_limit: 2
"""


def run(*words, **options):
    return subprocess.run([str(w) for w in words], check=True, **options)


class Disk:
    """An ext4 image behind a loop device."""

    def __init__(self, folder):
        self.image, self.at = folder / "disk.img", folder / "disk"
        with open(self.image, "wb") as image:
            image.truncate(96 << 20)
        run("mkfs.ext4", "-q", "-F", self.image)
        self.at.mkdir()

    def mount(self):
        run("mount", "-o", "loop", self.image, self.at)

    def cut(self):
        fd = os.open(self.at, os.O_RDONLY)
        fcntl.ioctl(fd, SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        os.close(fd)

    def unmount(self):
        run("umount", self.at)

    def check(self):
        run("e2fsck", "-f", "-n", self.image, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def weights_of(run_dir):
    return json.loads((run_dir / "report.json").read_text())["weights_xxh3"]


def faults_of_files(run_dir, acknowledged, reference):
    """Returns the faults of the small files after a cut."""
    faults = []
    for name in ("config.yaml", "plan.txt"):
        path = run_dir / name
        if not path.exists():
            if acknowledged:
                faults.append(f"{name} is not there")
        elif path.read_text() != reference[name]:
            faults.append(f"{name} is not whole: {path.stat().st_size} bytes")
    for name in ("report.json", "step.json", "trace.json"):
        path = run_dir / name
        if path.exists():
            try:
                json.loads(path.read_text())
            except ValueError as error:
                faults.append(f"{name}: {error}")
    metrics = run_dir / "metrics.jsonl"
    lines = metrics.read_bytes().split(b"\n") if metrics.exists() else [b""]
    steps = set()
    for number, line in enumerate(lines[:-1]):
        try:
            entry = json.loads(line)
        except ValueError:
            if number != len(lines) - 2:
                faults.append(f"metrics.jsonl: line {number + 1} of {len(lines) - 1} is torn")
            continue
        if "loss" in entry:
            steps.add(entry["step"])
    missing = [step for step in range(1, acknowledged + 1) if step not in steps]
    if missing:
        faults.append(f"metrics.jsonl lacks steps {missing} before the save of step {acknowledged}")
    return faults


def cut_once(disk, binary, config, seconds, log):
    """Returns the newest step whose save was acknowledged before the cut; 0: none."""
    with open(log, "w") as out:
        child = subprocess.Popen([binary, "train", config], stdout=out, stderr=subprocess.STDOUT)
        time.sleep(seconds)
        disk.cut()
        child.kill()
        child.wait()
    disk.unmount()
    saved = re.findall(r"^saved \S*/checkpoint-(\d+) in", pathlib.Path(log).read_text(), re.MULTILINE)
    return max(map(int, saved), default=0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cuts", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--binary", default="build/release/tidepool")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("check_power_cuts.py: loop devices need root")
    binary = str(pathlib.Path(arguments.binary).resolve())
    random.seed(arguments.seed)
    faults, acknowledged_cuts, after_the_end = 0, 0, 0
    with tempfile.TemporaryDirectory(prefix="tidepool-power-", dir="/var/tmp") as name:
        folder = pathlib.Path(name)
        data, config, log = folder / "data.txt", folder / "config.yaml", folder / "log"
        data.write_text("the tide fills the pool and empties it, and we wait by the rocks.\n" * 300)
        disk = Disk(folder)
        run_dir = disk.at / "runs" / "one"
        config.write_text(CONFIG.format(data=data, steps=STEPS, swap=folder / "swap", run=run_dir))

        disk.mount()
        began = time.monotonic()
        run(binary, "train", config, stdout=subprocess.DEVNULL)
        whole_seconds = time.monotonic() - began
        weights = weights_of(run_dir)
        reference = {file: (run_dir / file).read_text() for file in ("config.yaml", "plan.txt")}
        run("rm", "-r", run_dir.parent)
        disk.unmount()

        for cut in range(arguments.cuts):
            disk.mount()
            seconds = random.uniform(0, 1.1 * whole_seconds)
            acknowledged = cut_once(disk, binary, config, seconds, log)
            disk.mount()  # replays the journal
            found = faults_of_files(run_dir, acknowledged, reference) if run_dir.exists() else []
            if acknowledged and not (run_dir / f"checkpoint-{acknowledged}").is_dir():
                found.append(f"checkpoint-{acknowledged} was acknowledged and is gone")
            resumed = subprocess.run([binary, "train", config, "--resume", "auto"], capture_output=True, text=True)
            said = resumed.stdout + resumed.stderr
            if resumed.returncode != 0:
                found.append(f"resume ends with {resumed.returncode}: {said[-300:]}")
            elif weights_of(run_dir) != weights:
                found.append("the resumed run has other weights")
            if skipped := re.search(r"skipped \S*checkpoint-.*", said):
                found.append(f"resume {skipped[0]}")
            step = re.search(r"resumed from \S+ \(step (\d+)\)", said)
            if acknowledged and step and int(step[1]) < acknowledged:
                found.append(f"resumed from step {step[1]}, and {acknowledged} was acknowledged")
            for fault in found:
                print(f"cut {cut} after {seconds:.2f} s: {fault}")
            faults += len(found)
            acknowledged_cuts += acknowledged > 0
            after_the_end += acknowledged == STEPS
            run("rm", "-rf", run_dir.parent)
            disk.unmount()
            disk.check()
    print(f"{arguments.cuts} power cuts of ext4, {acknowledged_cuts} of them after a save was acknowledged, "
          f"{after_the_end} after the last: {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
