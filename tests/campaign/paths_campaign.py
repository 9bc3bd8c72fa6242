#!/usr/bin/env python3
"""Campaign of paths: puts a pipe, a device, a directory, a socket and links in the place of each path that a command opens.

strace lists the paths that each command opens, makes, replaces or looks for in its folder. Then each path in turn is
made something else, and the command is run again. The rule (docs/commands.md, "Links, pipes and devices"):

- no command waits: it ends within two seconds more than it takes with its own files;
- a file that a command writes is a regular file. Anything else there is refused by name, also a link, whose target
  stays as it was;
- a link to a regular file that a command reads is followed; anything else is refused by name.

A path that a command only looks for, or removes, may be passed over. Each row of the table that is printed says what a
command did with one kind of path. Needs strace.

Usage: paths_campaign.py TIDEPOOL [--folder DIR] [--command NAME] [--verbose]
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
WAIT_SECONDS, PATIENCE_SECONDS = 2.0, 20.0
CALLS = ("open,openat,openat2,creat,mkdir,mkdirat,rename,renameat,renameat2,link,linkat,symlink,symlinkat,"
         "access,faccessat,faccessat2,newfstatat,statx,readlink,readlinkat")
KINDS = ("pipe", "device", "directory", "socket", "link to a file", "link to nothing", "link to a pipe",
         "link to a directory", "link to itself")
LOOKED_AT_KINDS = ("pipe", "device", "link to nothing")  # of a path that is not opened: whether it is waited for
TEXT = "the tide pool fills and empties as water does so we wait by rocks until it turns\n"
MODEL = ("model: {{model_type: llama, vocab_size: {vocab}, hidden_size: 16, intermediate_size: 32, num_hidden_layers: 2,"
         " num_attention_heads: 2, max_position_embeddings: 64, tie_word_embeddings: true}}\n")
COMMON = """\
train: {precision: fp32, sequence_length: 32, max_steps: 4, learning_rate: 1e-3, eval_steps: 2, eval_batches: 1}
memory: {device: 8MiB, host: 8MiB, disk: 64MiB, home: disk, versions: 2, swap_dir: swap}
machine: {threads: 1}
output: {dir: run, save_steps: 2}
"""


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


class Scenario:
    """A command and the folder that it needs. `make` fills the folder; `words` follow the program's name. It may go on
    without paths that match `unneeded`: locks of which it asks whether somebody holds them, and adapters that lie
    beside a model."""

    def __init__(self, name, words, make, unneeded=r"tidepool\.(run|job)$|^(model/adapter_|adapter/)model\.safetensors$"):
        self.name, self.words, self.make, self.unneeded = name, words, make, re.compile(unneeded)


# A run takes another name for a checkpoint that it sets aside, and its own copies of a model's files.
RESUME_NEEDS_NOT = r"tidepool\.(run|job)$|abandoned|^model/"
# A checkpoint has a model's weights or adapters, and is asked for both.
ADAPTERS_NEED_NOT = RESUME_NEEDS_NOT + r"|/checkpoint-\d+/model\.safetensors$"
MODEL_NEEDS_NOT = r"/checkpoint-\d+/adapter_model\.safetensors$"
# A plan looks whether data and tokenizer are at hand, and needs neither.
PLAN_NEEDS_NOT = r"^chats|^data-cache|^text|^held|^model/.*(token|jinja)"


class Maker:
    """Makes the folders of the scenarios."""

    def __init__(self, tidepool, base):
        self.tidepool, self.base, self.made = tidepool, base, {}

    def run(self, folder, *words):
        done = subprocess.run([self.tidepool, *words], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{' '.join(words)} failed:\n{done.stdout}{done.stderr}")

    def once(self, name, fill):
        """The folder of that name, filled once, to copy from."""
        if name not in self.made:
            folder = self.base / "job"  # a committed state belongs to a run of this path
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            fill(folder)
            (self.base / "made").mkdir(exist_ok=True)
            self.made[name] = folder.rename(self.base / "made" / name)
        return self.made[name]

    def copy(self, name, fill):
        def make(folder):
            made = self.once(name, fill)
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(made, folder, symlinks=True)

        return make

    def bytes_run(self, folder):
        write(folder / "text.txt", TEXT * 60)
        write(folder / "held.txt", TEXT * 10)
        write(folder / "c.yaml", MODEL.format(vocab=256) + "data: {train: text.txt, validation: held.txt}\n" + COMMON)

    def trained(self, folder):
        self.bytes_run(folder)
        self.run(folder, "train", "c.yaml")

    def committed(self, folder):
        """A run that was killed, so that its state is in the swap file."""
        self.bytes_run(folder)
        words = ["train", "c.yaml", "max_steps=1000000", "persist_steps=1", "save_steps=0", "eval_steps=0"]
        job = subprocess.Popen([self.tidepool, *words], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        log = folder / "run" / "metrics.jsonl"
        while job.poll() is None and not (log.exists() and log.read_text().count("\n") > 20):
            time.sleep(0.02)
        job.send_signal(signal.SIGKILL)
        job.wait()
        steps = log.read_text().count("\n")
        config = (folder / "c.yaml").read_text().replace("max_steps: 4", f"max_steps: {steps + 4}")
        write(folder / "c.yaml", config.replace("save_steps: 2", "save_steps: 0").replace("eval_steps: 2", "eval_steps: 0"))

    def model(self, folder):
        """A model directory with each file that one may hold, and chats."""
        tokenizer = (ROOT / "tests/golden/tokenizers/gpt2.json").read_text()
        vocab = len(json.loads(tokenizer)["model"]["vocab"]) + len(json.loads(tokenizer)["added_tokens"])
        write(folder / "text.txt", TEXT * 60)
        write(folder / "held.txt", TEXT * 10)
        write(folder / "b.yaml", MODEL.format(vocab=vocab) + "data: {train: text.txt, tokenizer: tokenizer.json}\n"
              "train: {precision: fp32, sequence_length: 32, max_steps: 0}\nmemory: {device: 16MiB, host: 16MiB}\n"
              "output: {dir: base}\n")
        write(folder / "tokenizer.json", tokenizer)
        self.run(folder, "train", "b.yaml")
        self.run(folder, "export", "base", "model", "--max-shard-size", "40KB")
        template = (ROOT / "tests/golden/chat/chatml.jinja").read_text()
        write(folder / "model/tokenizer.json", tokenizer)
        write(folder / "model/tokenizer_config.json", '{"eos_token": "<|endoftext|>", "bos_token": "<|endoftext|>"}')
        write(folder / "model/special_tokens_map.json", '{"eos_token": "<|endoftext|>"}')
        write(folder / "model/generation_config.json", '{"eos_token_id": 0}')
        write(folder / "model/added_tokens.json", "{}")
        write(folder / "model/vocab.json", "{}")
        write(folder / "model/merges.txt", "#version: 0.2\n")
        write(folder / "model/chat_template.jinja", template)
        write(folder / "model/additional_chat_templates/tool_use.jinja", template)
        shutil.rmtree(folder / "base")
        shutil.rmtree(folder / "base-cache", ignore_errors=True)
        shutil.rmtree(folder / "data-cache", ignore_errors=True)
        chat = {"messages": [{"role": "user", "content": "tide"}, {"role": "assistant", "content": "the pool fills"}]}
        write(folder / "chats/a.jsonl", (json.dumps(chat) + "\n") * 40)
        write(folder / "chats/b.jsonl", (json.dumps(chat) + "\n") * 40)
        write(folder / "c.yaml", "model: model\ndata: {train: chats, validation_fraction: 0.2, packing: true}\n" + COMMON)
        write(folder / "l.yaml", "model: model\nlora: {r: 2}\ndata: {train: chats, validation_fraction: 0.2}\n" + COMMON)

    def hub(self, folder):
        """The same as a snapshot of a hub's cache: links to blobs."""
        self.model(folder)
        repository = folder / "hub/models--org--name"
        snapshot = repository / "snapshots/0123456789abcdef"
        (repository / "blobs").mkdir(parents=True)
        for path in sorted((folder / "model").rglob("*")):
            if path.is_dir():
                continue
            name = path.relative_to(folder / "model")
            blob = repository / "blobs" / f"{len(list((repository / 'blobs').iterdir())):040x}"
            path.rename(blob)
            (snapshot / name).parent.mkdir(parents=True, exist_ok=True)
            (snapshot / name).symlink_to(os.path.relpath(blob, (snapshot / name).parent))
        shutil.rmtree(folder / "model")
        (folder / "model").symlink_to("hub/models--org--name/snapshots/0123456789abcdef")

    def tuned(self, folder):
        self.model(folder)
        self.run(folder, "train", "l.yaml")
        (folder / "adapter").mkdir()
        newest = sorted((folder / "run").glob("checkpoint-[0-9]*"))[-1]
        for path in newest.glob("adapter*"):
            shutil.copy(path, folder / "adapter")

    def continued(self, folder):
        self.tuned(folder)
        write(folder / "n.yaml", "model: model\nlora: {adapter: adapter}\ndata: {train: chats, validation_fraction: 0.2}\n"
              + COMMON.replace("dir: run", "dir: next"))

    def machine(self, folder):
        self.bytes_run(folder)
        self.run(folder, "probe", "--output", "m.yaml", "--device", "cpu", "--seconds", "4")

    def two_runs(self, folder):
        self.trained(folder)
        shutil.copytree(folder / "run", folder / "other", symlinks=True)


def scenarios(make):
    bytes_run, trained = make.copy("bytes", make.bytes_run), make.copy("trained", make.trained)
    model, tuned = make.copy("model", make.model), make.copy("tuned", make.tuned)
    return [
        Scenario("train", ["train", "c.yaml"], bytes_run),
        Scenario("train, no disk", ["train", "c.yaml", "memory.disk=0", "home=auto", "versions=1", "swap_dir="], bytes_run),
        Scenario("resume a checkpoint", ["train", "c.yaml", "--resume", "auto", "max_steps=6"], trained),
        Scenario("resume a path", ["train", "c.yaml", "--resume", "run/checkpoint-2", "max_steps=6"], trained, RESUME_NEEDS_NOT),
        Scenario("resume a commit", ["train", "c.yaml", "--resume", "auto"], make.copy("committed", make.committed)),
        Scenario("train a model", ["train", "c.yaml"], model),
        Scenario("train a snapshot", ["train", "c.yaml"], make.copy("hub", make.hub)),
        Scenario("train adapters", ["train", "l.yaml"], model),
        Scenario("resume adapters", ["train", "l.yaml", "--resume", "auto", "max_steps=6"], tuned, RESUME_NEEDS_NOT),
        Scenario("continue an adapter", ["train", "n.yaml"], make.copy("continued", make.continued)),
        Scenario("train by a machine file", ["train", "c.yaml", "machine=m.yaml"], make.copy("machine", make.machine)),
        Scenario("plan", ["plan", "c.yaml"], model, PLAN_NEEDS_NOT),
        Scenario("plan by a machine file", ["plan", "c.yaml", "machine=m.yaml"], make.copy("machine", make.machine),
                 PLAN_NEEDS_NOT),
        Scenario("doctor", ["doctor", "c.yaml"], model),
        Scenario("doctor of a run", ["doctor", "c.yaml"], trained),
        Scenario("doctor --dir", ["doctor", "--dir", "swap"], lambda folder: (folder / "swap").mkdir()),
        Scenario("eval RUN", ["eval", "run"], tuned, ADAPTERS_NEED_NOT),
        Scenario("eval CHECKPOINT", ["eval", "run/checkpoint-2"], trained, MODEL_NEEDS_NOT),
        Scenario("eval a commit", ["eval", "run"], make.copy("committed", make.committed)),
        Scenario("eval MODEL", ["eval", "model", "data=held.txt", "memory.device=8MiB", "memory.host=8MiB",
                                "sequence_length=32"], model),
        Scenario("eval CONFIG", ["eval", "c.yaml"], model),
        Scenario("generate RUN", ["generate", "run", "--max-new-tokens", "2"], tuned, ADAPTERS_NEED_NOT),
        Scenario("generate MODEL", ["generate", "model", "--chat", "--prompt", "tide", "--max-new-tokens", "2",
                                    "memory.device=8MiB", "memory.host=8MiB"], model),
        Scenario("export RUN", ["export", "run", "out"], trained),
        Scenario("export MODEL", ["export", "model", "out", "--dtype", "bf16"], model),
        Scenario("export ADAPTER", ["export", "run", "out"], tuned),
        Scenario("tokenize", ["tokenize", "model", "text.txt", "held.txt", "--output", "out.bin"], model),
        Scenario("tokenize CONFIG", ["tokenize", "c.yaml"], model),
        Scenario("tokenize --show", ["tokenize", "c.yaml", "--show", "1"], model),
        Scenario("report", ["report", "run"], trained),
        Scenario("report --html", ["report", "run", "--html", "page.html"], trained),
        Scenario("report two", ["report", "run", "other"], make.copy("two", make.two_runs)),
        Scenario("config", ["config", "c.yaml"], model),
        Scenario("probe", ["probe", "--seconds", "1", "--device", "cpu", "--disk", "scratch", "--threads", "1"],
                 lambda folder: (folder / "scratch").mkdir()),
        Scenario("bench disk", ["bench", "disk", "--dir", "scratch", "--size", "16MiB", "--seconds", "0.05",
                                "--repetitions", "1"], lambda folder: (folder / "scratch").mkdir()),
    ]


# Names that hold a process's number or chance: they cannot be there before.
PASSING = re.compile(r"\.tmp-\d+(/|$)|\.unfinished-|tfevents|tidepool-doctor-|\.\d{4,}(/|$)|-\d{4,}(/|$)")


def opened(trace, folder):
    """Paths below the folder by their use: 'written', 'read', 'made' (a directory) or 'looked at'."""
    order = ("looked at", "read", "made", "written")
    uses, links = {}, set()

    def add(name, use):
        path = os.path.normpath(os.path.join(folder, name))
        if not path.startswith(str(folder) + "/"):
            return
        path = os.path.relpath(path, folder)
        if order.index(use) > order.index(uses.get(path, "looked at")) or path not in uses:
            uses[path] = use

    for line in trace.splitlines():
        call = re.match(r"\d+ +(\w+)\((.*)", line)
        if not call or " <unfinished" in line and '"' not in line:
            continue
        name, rest = call.groups()
        names = re.findall(r'"((?:[^"\\]|\\.)*)"', rest)
        if not names or names[0] == "":
            continue
        directory = re.match(r"(?:AT_FDCWD|\d+)<([^>]*)>", rest)
        if directory:
            names = [os.path.normpath(os.path.join(directory.group(1), n)) for n in names]
        if name.startswith("open") or name == "creat":
            if "O_DIRECTORY" in rest:
                add(names[0], "looked at")
            else:
                add(names[0], "written" if re.search(r"O_WRONLY|O_RDWR|O_CREAT", rest) else "read")
        elif name.startswith("mkdir"):
            add(names[0], "made")
        elif name.startswith("symlink"):
            links.add(os.path.relpath(names[-1], folder))
        elif name.startswith("rename") and os.path.relpath(names[0], folder) in links:
            links.add(os.path.relpath(names[-1], folder))
        elif name.startswith(("rename", "link")):
            add(names[-1], "written")
        else:
            add(names[0], "looked at")
    return {path: use for path, use in uses.items() if path not in links}


def put(kind, path, elsewhere):
    """Makes `path` of that kind. A link to a file leads to the file that was there, or to a new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    elsewhere.mkdir(exist_ok=True)
    old = elsewhere / "old"
    if kind == "link to a file":
        path.rename(old) if os.path.lexists(path) else old.write_text("")
        path.symlink_to(old)
        return
    if os.path.lexists(path):
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        try:
            os.mknod(path, 0o666 | 0o020000, os.makedev(1, 5))  # as /dev/zero
        except PermissionError:
            path.symlink_to("/dev/zero")
    elif kind == "directory":
        path.mkdir()
    elif kind == "socket":
        here = os.getcwd()
        os.chdir(path.parent)  # a socket's address is short
        with socket.socket(socket.AF_UNIX) as end:
            end.bind(path.name)
        os.chdir(here)
    elif kind == "link to nothing":
        path.symlink_to(elsewhere / "nothing")
    elif kind == "link to a pipe":
        os.mkfifo(old)
        path.symlink_to(old)
    elif kind == "link to a directory":
        old.mkdir()
        path.symlink_to(old)
    elif kind == "link to itself":
        path.symlink_to(path.name)


def run(command, folder, limit):
    begin = time.monotonic()
    job = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        said, _ = job.communicate(timeout=limit)
        return job.returncode, said.decode(errors="replace"), time.monotonic() - begin
    except subprocess.TimeoutExpired:
        job.kill()
        said, _ = job.communicate()
        return None, said.decode(errors="replace"), time.monotonic() - begin


class Campaign:
    def __init__(self, options):
        self.tidepool = str(pathlib.Path(options.tidepool).resolve())
        self.base = pathlib.Path(options.folder).resolve()
        shutil.rmtree(self.base, ignore_errors=True)
        self.base.mkdir(parents=True)
        self.job, self.elsewhere = self.base / "job", self.base / "elsewhere"
        self.kinds = options.kinds.split(",") if options.kinds else KINDS
        self.verbose, self.faults, self.runs = options.verbose, [], 0

    def prepare(self, scenario):
        for folder in (self.job, self.elsewhere):
            shutil.rmtree(folder, ignore_errors=True)
        self.job.mkdir()
        scenario.make(self.job)

    def undisturbed(self, scenario):
        self.prepare(scenario)
        trace = self.base / "trace"
        code, said, _ = run(["strace", "-f", "-qq", "-y", "-s", "4096", "-o", str(trace), "-e", "trace=" + CALLS,
                             self.tidepool, *scenario.words], self.job, 300)
        if code != 0:
            sys.exit(f"{scenario.name} ends with {code} undisturbed:\n{said}")
        uses = opened(trace.read_text(errors="replace"), str(self.job))
        self.prepare(scenario)
        _, _, seconds = run([self.tidepool, *scenario.words], self.job, 300)
        self.prepare(scenario)
        return {p: u for p, u in uses.items() if not PASSING.search(p)}, seconds

    def verdict(self, scenario, path, use, kind, code, said, before):
        """What the command did, and whether the rule allows it."""
        target, above = self.elsewhere / "old", os.path.dirname(path)
        named = above in said if above and above in self.absent else path in said or os.path.basename(path) in said or f"{above} already holds" in said
        if code is None:
            return "waits", False
        if code < 0 or code == 1:
            return f"dies ({code})", False
        if code != 0:
            # A directory of data stands for the files in it: none are other data than the checkpoint's.
            other = kind == "directory" and path.startswith("chats/") and "was trained on other data" in said
            return ("refuses by name", True) if named else ("refuses without the name", other or use == "looked at")
        if use == "written" and kind == "directory" and re.search(r"/checkpoint-\d+$", path):
            return "goes on by name", named  # an unfinished checkpoint
        checkpoint = re.match(r"run/checkpoint-\d+", path)
        if checkpoint and f"made {checkpoint[0]} " in said and "in the place of one that was not whole" in said:
            return "goes on by name", True
        if use == "written":
            changed = kind == "link to a file" and before != target.read_bytes() if target.is_file() else False
            changed = changed or os.path.lexists(self.elsewhere / "nothing")
            allowed = not changed and bool(scenario.unneeded.search(path))
            return ("writes through the link" if changed else "goes on"), allowed
        follows = kind == "link to a file" or kind == "directory" and path.startswith("chats/") or use == "made" and kind in ("directory", "link to a directory")
        if follows:
            return "follows", True
        if f"{path}: is not a regular file" in said or f"{path}: is a" in said or f"{path} is a" in said:
            return "passes over by name", True
        return "goes on", use in ("looked at", "made") or bool(scenario.unneeded.search(path))

    def go(self, only, first):
        started, table = time.monotonic(), {}
        all_scenarios = scenarios(Maker(self.tidepool, self.base))
        first = next(i for i, s in enumerate(all_scenarios) if not first or s.name == first)
        for scenario in all_scenarios[first:]:
            if only and only not in scenario.name:
                continue
            uses, seconds = self.undisturbed(scenario)
            self.absent = {os.path.dirname(p) for p in uses if not (self.job / p).parent.exists()}
            directories = {p for p in uses if (self.job / p).is_dir() and not (self.job / p).is_symlink()}
            for path in sorted(uses):
                if path.startswith("hub"):
                    continue  # named by the links to it
                if any((self.job / q).is_file() for q in pathlib.PurePath(path).parents if str(q) != "."):
                    continue  # below a file: looked for on the way up
                for kind in self.kinds:
                    if uses[path] == "looked at" and path not in directories and kind not in LOOKED_AT_KINDS:
                        continue
                    if path in directories and kind in ("directory", "link to a file", "link to a directory"):
                        continue
                    self.prepare(scenario)
                    put(kind, self.job / path, self.elsewhere)
                    target = self.elsewhere / "old"
                    before = target.read_bytes() if kind == "link to a file" and target.is_file() else b""
                    code, said, _ = run([self.tidepool, *scenario.words], self.job, seconds + WAIT_SECONDS)
                    if code is None:  # it waits, or the machine is busy
                        self.prepare(scenario)
                        put(kind, self.job / path, self.elsewhere)
                        code, said, _ = run([self.tidepool, *scenario.words], self.job, 10 * seconds + PATIENCE_SECONDS)
                    self.runs += 1
                    use = "made" if path in directories else uses[path]
                    what, right = self.verdict(scenario, path, use, kind, code, said, before)
                    table.setdefault((scenario.name, use, kind, what), []).append(path)
                    if not right:
                        self.faults.append((scenario.name, path, use, kind, what))
                    if self.verbose or not right:
                        lines = said.strip().splitlines() or [""]
                        first = next((n for n, line in enumerate(lines) if line.startswith("tidepool: ")), None)
                        first = next((n for n, line in enumerate(lines) if os.path.basename(path) in line), first)
                        first = " ".join(lines[-1:] if first is None else lines[first:first + 2])
                        print(f"{'' if right else 'FAULT '}{scenario.name}: {path} ({use}) as {kind}: {what} [{code}] {first}",
                              flush=True)
            print(f"{scenario.name}: {len(uses)} paths, {seconds:.2f} s", flush=True)
        print()
        for (name, use, kind, what), paths in sorted(table.items()):
            print(f"{name:24} {use:10} {kind:20} {what:26} {len(paths):4}")
        print(f"{self.runs} runs, {len(self.faults)} faults, {time.monotonic() - started:.0f} s")
        return 1 if self.faults else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tidepool")
    parser.add_argument("--folder", default="campaign_of_paths")
    parser.add_argument("--command", help="only scenarios whose name holds this text")
    parser.add_argument("--first", help="the scenario to begin with, by its name")
    parser.add_argument("--kinds", help=f"only these, with commas between them, of: {', '.join(KINDS)}")
    parser.add_argument("--verbose", action="store_true", help="print every run, not only faults")
    options = parser.parse_args()
    return Campaign(options).go(options.command, options.first)


if __name__ == "__main__":
    sys.exit(main())
