#!/usr/bin/env python3
"""The benchmarks of a GPU, one by one: scripts/gpu_check.sh --bench NAME runs them.

Each takes under eight minutes on one GPU, and adds its row to FOLDER/bench.json and to the table
FOLDER/bench.md as soon as it is there. What could not be measured says why; no figure is estimated. With
--tiny the same commands run on the cores with a tiny model, to try the script itself: such figures say
nothing, and go into a folder of their own.
"""

import argparse
import json
import pathlib
import sys
import time

import gpu_programs
from gpu_bench import Bench, NotMeasured
from gpu_figures import ROWS
from gpu_programs import ROOT, Programs


def prepare(bench):
    """What several rows stand on, so that each of them begins with itself. Whether that went well."""
    try:
        bench.offloaded()
    except Exception as error:  # a row that needs it will say so in the table
        print(f"prepare: {type(error).__name__}: {error}", flush=True)
        return False
    return True


def measure(bench, name):
    """A row. Whatever goes wrong in it is its own; the next one is measured all the same."""
    try:
        figure, holds, details = ROWS[name][3](bench)
        verdict = "tried" if holds is None or bench.options.tiny else "holds" if holds else "MISSED"
    except NotMeasured as why:
        figure, details, verdict = str(why), {}, "not measured"
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


def write_table(out, results, facts):
    lines = ["# Benchmarks on a GPU", ""] + [f"- {key}: {value}" for key, value in facts.items()]
    lines += ["", "| # | what | wanted | figure | verdict | seconds |", "|---|---|---|---|---|---:|"]
    for name, (number, what, wanted, _) in ROWS.items():
        r = results.get(name, {"figure": "", "verdict": "not run", "seconds": 0})
        lines.append(
            f"| {number} | {what} | {wanted} | {r['figure']} | {r['verdict']} | {r['seconds']:.0f} |"
        )
    (out / "bench.md").write_text("\n".join(lines) + "\n")


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "name",
        nargs="*",
        help="rows: " + ", ".join(ROWS) + "; all of them; or prepare, which makes what " "several stand on",
    )
    parser.add_argument("--list", action="store_true", help="names and what they measure")
    parser.add_argument("--tidepool", help="the program (build/gpu/tidepool, or that of --prebuilt)")
    parser.add_argument("--config", default="configs/gpu/gpt-7b-20gib.yaml", help="the model of rows 4 to 10")
    parser.add_argument("--out", help="folder of results (build/gpu/bench; --tiny: build/gpu/bench-tiny)")
    gpu_programs.add_options(parser)
    parser.add_argument("--tiny", action="store_true", help="try the script: a tiny model on the cores")
    parser.add_argument("--dry-run", action="store_true", help="say what would be run")
    options = parser.parse_args()
    options.names = list(ROWS) if options.name == ["all"] else options.name
    wrong = [name for name in options.names if name not in ROWS and name != "prepare"]
    if not options.list and (not options.names or wrong):
        parser.error(
            f"name rows: {', '.join(ROWS)}; or all" + (f" (there is no {wrong[0]})" if wrong else "")
        )
    if options.out is None:
        options.out = "build/gpu/bench-tiny" if options.tiny else "build/gpu/bench"
    options.out = pathlib.Path(options.out).resolve()
    return options


def programs_of(options):
    programs = Programs(options)
    if options.tidepool:
        programs.tidepool = pathlib.Path(options.tidepool).resolve()
    elif options.tiny and not options.prebuilt and not programs.tidepool.exists():
        programs.tidepool = ROOT / "build/release/tidepool"
    if not options.dry_run:
        programs.require(programs.tidepool)
    return programs


def main():
    options = parse()
    if options.list:
        for name, (number, what, wanted, _) in ROWS.items():
            print(f"{name:<14}row {number:>2}: {what} ({wanted})")
        return 0
    try:
        programs = programs_of(options)
    except gpu_programs.NoPrograms as why:
        print(f"gpu_check: {why}", file=sys.stderr)
        return 1
    options.out.mkdir(parents=True, exist_ok=True)
    kept = options.out / "bench.json"
    results = json.loads(kept.read_text())["rows"] if kept.exists() else {}
    facts = gpu_programs.facts_of(programs, options.python)
    missed = 0
    for name in options.names:
        bench = Bench(options, programs)
        if name == "prepare":
            missed += not prepare(bench)
            continue
        row = results[name] = measure(bench, name)
        missed += row["verdict"] in ("MISSED", "not measured") and not options.dry_run
        print(f"{name}: {row['verdict']}: {row['figure']}", flush=True)
        if not options.dry_run:
            kept.write_text(json.dumps({"facts": facts, "rows": results}, indent=1))
            write_table(options.out, results, facts)
    if not options.dry_run:
        print(f"{options.out / 'bench.md'} and bench.json have all rows")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
