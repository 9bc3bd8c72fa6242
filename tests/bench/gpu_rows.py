#!/usr/bin/env python3
"""The benchmarks of a GPU, one by one: scripts/gpu_check.sh --bench NAME runs them.

Each takes under eight minutes on one GPU, and adds its row to FOLDER/bench.json and to the table
FOLDER/bench.md as soon as it is measured. A row without a figure gives the reason; no figure is estimated.
With --tiny the same commands run on the cores with a tiny model, to try the script itself: such figures mean
nothing, and go into a folder of their own.
"""

import argparse
import json
import os
import pathlib
import sys
import time

import gpu_main
import gpu_programs
import gpu_results
from gpu_bench import Bench, NotMeasured
from gpu_dry_run import DryBench
from gpu_figures import ROWS
from gpu_main import ROOT, WrongOption
from gpu_programs import Programs


def prepare(bench):
    """Makes the results that several rows need, before the rows begin. Returns whether it succeeded."""
    try:
        bench.offloaded()
    except Exception as error:  # a row that needs it will say so in the table
        print(f"prepare: {type(error).__name__}: {error}", flush=True)
        return False
    return True


def measure(bench, name):
    """Measures a row. A failure stays in this row; the next row is measured all the same."""
    try:
        figure, holds, details = ROWS[name][3](bench)
        verdict = "tried" if holds is None or bench.options.tiny else "holds" if holds else "MISSED"
    except NotMeasured as why:
        figure, details = str(why), why.details
        verdict = "not compared" if details else "not measured"
    except Exception as error:
        figure, details, verdict = f"{type(error).__name__}: {error}", {}, "not measured"
    return {
        "row": ROWS[name][0],
        "figure": " ".join(figure.split()).replace("|", "/"),
        "verdict": verdict,
        "commands": bench.commands,
        "seconds": time.monotonic() - bench.begin,
        "details": details,
    }


def table_of(results, facts):
    lines = ["# Benchmarks on a GPU", ""] + [f"- {key}: {value}" for key, value in facts.items()]
    lines += ["", "| # | what | wanted | figure | verdict | seconds |", "|---|---|---|---|---|---:|"]
    for name, (number, what, wanted, _) in ROWS.items():
        if name in results:
            r = results[name]
            figure, verdict, seconds = gpu_results.figure_text(r, facts), r["verdict"], r["seconds"]
        else:
            figure, verdict, seconds = "", "not run", 0
        lines.append(f"| {number} | {what} | {wanted} | {figure} | {verdict} | {seconds:.0f} |")
    return "\n".join(lines) + "\n"


def parse():
    parser = argparse.ArgumentParser(
        prog="scripts/gpu_check.sh --bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "name",
        nargs="*",
        help="rows: " + ", ".join(ROWS) + "; all of them; or prepare, which makes what several stand on",
    )
    parser.add_argument("--list", action="store_true", help="names and what they measure")
    parser.add_argument("--tidepool", help="the program (build/gpu/tidepool, or that of --prebuilt)")
    parser.add_argument("--config", help="the model of rows 4 to 10 (configs/gpu/gpt-7b-20gib.yaml)")
    parser.add_argument("--out", help="folder of results (build/gpu/bench; --tiny: build/gpu/bench-tiny)")
    gpu_programs.add_options(parser)
    parser.add_argument("--tiny", action="store_true", help="try the script: a tiny model on the cores")
    parser.add_argument("--dry-run", action="store_true", help="say what would be run")
    parser.add_argument(
        "--seconds", type=float, metavar="N", help="of the whole call; rows that do not end by then are named"
    )
    options = parser.parse_args()
    options.names = list(ROWS) if options.name == ["all"] else options.name
    wrong = [name for name in options.names if name not in ROWS and name != "prepare"]
    if not options.list and (not options.names or wrong):
        parser.error(
            f"name rows: {', '.join(ROWS)}; or all" + (f" (there is no {wrong[0]})" if wrong else "")
        )
    return options


def check_options(options):
    """Makes paths absolute: default paths are in the repository, named paths in the caller's folder."""
    gpu_programs.check_options(options, options.dry_run)
    out = options.out or ROOT / ("build/gpu/bench-tiny" if options.tiny else "build/gpu/bench")
    options.out = pathlib.Path(out).resolve()
    options.deadline = time.monotonic() + (options.seconds or float("inf"))
    options.config = pathlib.Path(options.config or ROOT / "configs/gpu/gpt-7b-20gib.yaml").resolve()
    if not options.config.is_file():
        raise WrongOption(f"--config {options.config}: there is no such file")
    if options.tidepool:
        options.tidepool = pathlib.Path(options.tidepool).resolve()
        if not os.access(options.tidepool, os.X_OK) or options.tidepool.is_dir():
            raise WrongOption(f"--tidepool {options.tidepool}: there is no such program")


def programs_of(options):
    programs = Programs(options)
    how = {}
    if options.tidepool:
        programs.tidepool = options.tidepool
    elif options.tiny and not options.prebuilt and not programs.tidepool.exists():
        programs.tidepool = ROOT / "build/release/tidepool"
        how = {"how": "scripts/build.sh release tidepool"}
    if not options.dry_run:
        programs.make_ready()
        programs.require(programs.tidepool, **how)
    return programs


def list_commands(options, programs):
    for name in options.names:
        print(f"# {name}", flush=True)
        bench = DryBench(options, programs)
        if name == "prepare":
            bench.offloaded()
            continue
        try:
            ROWS[name][3](bench)
        except NotMeasured:  # there is no figure
            pass
    return 0


def work(options):
    check_options(options)
    if options.dry_run:
        return list_commands(options, programs_of(options))
    if not options.tiny:
        gpu_programs.require_gpu()
    programs = programs_of(options)
    lock = gpu_results.open_folder(options.out)
    with lock:
        missed = measure_all(options, programs)
    print(f"{options.out / 'bench.md'} and bench.json have all rows")
    return 1 if missed else 0


def measure_all(options, programs):
    """Returns the number of rows and shared results without a figure, or below the wanted figure."""
    kept = options.out / "bench.json"
    results = gpu_results.read_rows(kept)
    facts = gpu_programs.facts_of(programs, options.python)
    missed = 0
    for name in options.names:
        bench = Bench(options, programs)
        if name == "prepare":
            missed += not prepare(bench)
            continue
        row = measure(bench, name) | {key: facts[key] for key in ("commit", "card", "date")}
        missed += row["verdict"] in ("MISSED", "not compared", "not measured")
        results[name] = gpu_results.keep_better(results.get(name), row)
        print(f"{name}: {row['verdict']}: {row['figure']}", flush=True)
        if results[name] is not row:
            print(f"{name}: the earlier figure stays: {results[name]['figure']}", flush=True)
        text = json.dumps({"facts": facts, "rows": results}, indent=1)
        gpu_results.write_whole(kept, text)
        gpu_results.write_whole(options.out / "bench.md", table_of(results, facts))
    return missed


def main():
    options = parse()
    if options.list:
        for name, (number, what, wanted, _) in ROWS.items():
            print(f"{name:<14}row {number:>2}: {what} ({wanted})")
        return 0
    return gpu_main.run_main(lambda: work(options))


if __name__ == "__main__":
    sys.exit(main())
