"""The programs that the checks of a GPU run, and what a table must say of them and of the machine.

They are built on the machine (build/gpu), or packed elsewhere (scripts/gpu_check.sh --pack DIR) and named by
--prebuilt. CUDA's own libraries come with the machine's toolkit or with PyTorch. LD_LIBRARY_PATH is not used:
PyTorch would get it too.
"""

import datetime
import glob
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import tarfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Loaded at run time, each with its own parts beside it, so by name and not through a link to it.
LOADED = {"TIDEPOOL_CUDNN": "libcudnn.so.9", "TIDEPOOL_NCCL": "libnccl.so.2"}


class NoPrograms(Exception):
    """What is missing, and what to do."""


def first_line(words, otherwise="unknown"):
    try:
        asked = subprocess.run(
            [str(word) for word in words], cwd=ROOT, capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return otherwise
    return (asked.stdout.strip().splitlines() or [otherwise])[0] if asked.returncode == 0 else otherwise


def nvcc_release(nvcc):
    found = re.search(
        r"release [0-9.]+, V([0-9.]+)",
        subprocess.run([nvcc, "--version"], capture_output=True, text=True).stdout,
    )
    return found.group(1) if found else "unknown"


def folders_of_libraries(cuda, python):
    """Where a machine may have CUDA's libraries, the likeliest first."""
    named = [f"{cuda}/lib64", f"{cuda}/lib"] if cuda else []
    toolkits = ["/usr/local/cuda/lib64", *sorted(glob.glob("/usr/local/cuda-*/lib64"), reverse=True)]
    packages = first_line([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], "")
    return named + toolkits + sorted(glob.glob(f"{packages}/nvidia/*/lib")) if packages else named + toolkits


def find_library(name, folders):
    return next((path for path in (pathlib.Path(folder) / name for folder in folders) if path.exists()), None)


def open_pack(path):
    """The folder of a pack; an archive is unpacked first, unless it was."""
    if path.is_dir() or not path.name.endswith(".tar.gz"):
        return path
    folder = ROOT / "build/gpu" / f"prebuilt-{hashlib.sha256(path.read_bytes()).hexdigest()[:12]}"
    if not folder.exists():
        part = folder.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        with tarfile.open(path) as archive:
            archive.extractall(part, filter="data")
        part.rename(folder)
    return next(folder.iterdir())


class Programs:
    def __init__(self, options):
        self.prebuilt = open_pack(pathlib.Path(options.prebuilt).resolve()) if options.prebuilt else None
        self.env = dict(os.environ)
        self.folders = folders_of_libraries(options.cuda, options.python)
        if self.prebuilt is None:
            self.tidepool, self.test_gpu = ROOT / "build/gpu/tidepool", ROOT / "build/gpu/tests/test_gpu"
            self.facts = self.facts_of_build()
        else:
            self.tidepool, self.test_gpu = self.prebuilt / "tidepool", self.prebuilt / "test_gpu"
            self.facts = self.unpack()
        for variable, library in LOADED.items():
            found = find_library(library, self.folders)
            if variable not in os.environ and found:
                self.env[variable] = str(found)

    def facts_of_build(self):
        cache = ROOT / "build/gpu/CMakeCache.txt"
        nvcc = (
            re.search(r"^TIDEPOOL_NVCC:[A-Z]*=(.*)$", cache.read_text(), re.MULTILINE)
            if cache.exists()
            else None
        )
        return {
            "toolkit": nvcc_release(nvcc.group(1)) if nvcc else "unknown",
            "commit": first_line(["git", "rev-parse", "--short=12", "HEAD"]),
        }

    def unpack(self):
        """Makes what was packed ready to run here, and returns what is known of it."""
        about = self.prebuilt / "packed.json"
        if not about.exists():
            raise NoPrograms(
                f"{self.prebuilt} has no packed.json: scripts/gpu_check.sh --pack DIR makes such a folder"
            )
        packed = json.loads(about.read_text())
        for program in (self.tidepool, self.test_gpu):
            program.chmod(0o755)  # not every way of carrying files keeps that
        for library in packed["needs"]:
            here, there = self.prebuilt / "lib" / library, find_library(library, self.folders)
            if there is None:
                raise NoPrograms(
                    f"{library} is neither in CUDA's folder nor beside PyTorch: --cuda DIR names a "
                    f"toolkit of CUDA {packed['toolkit'].split('.')[0]}; looked in {', '.join(self.folders)}"
                )
            here.unlink(missing_ok=True)
            here.symlink_to(there)
        architectures = ", ".join("sm_" + number for number in packed["architectures"].split())
        return {
            "toolkit": f"{packed['toolkit']}, built elsewhere for {architectures}",
            "commit": packed["commit"],
        }

    def require(self, *programs):
        for program in programs:
            if not os.access(program, os.X_OK):
                raise NoPrograms(
                    f"{program} is not there: scripts/gpu_check.sh --build makes it, --prebuilt DIR has one"
                )
            asked = subprocess.run([program, "--help"], capture_output=True, text=True)
            if asked.returncode not in (0, 1):
                raise NoPrograms(f"{program} does not start here: {asked.stderr.strip()}")


def has_module(python, *modules):
    return subprocess.run([python, "-c", "import " + ", ".join(modules)], capture_output=True).returncode == 0


def facts_of(programs, python):
    """Of the card, the programs and the machine."""
    memory = re.search(r"MemTotal: +(\d+)", pathlib.Path("/proc/meminfo").read_text())
    return {
        "card": first_line(
            ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
        ),
        **programs.facts,
        "nvcc here": nvcc_here(),
        "PyTorch": first_line([python, "-c", "import torch; print(torch.__version__)"], "none"),
        "host": f"{os.cpu_count()} cores, {int(memory.group(1)) / (1 << 20):.1f} GiB",
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%F"),
    }


def nvcc_here():
    for nvcc in ("nvcc", "/usr/local/cuda/bin/nvcc"):
        try:
            return nvcc_release(nvcc)
        except OSError:
            continue
    return "none"


def add_options(parser):
    parser.add_argument(
        "--prebuilt", metavar="DIR", help="a folder of --pack in place of what was built here"
    )
    parser.add_argument(
        "--cuda",
        metavar="DIR",
        help="the toolkit whose libraries a prebuilt program uses (/usr/local/cuda, or "
        "those beside PyTorch)",
    )
    parser.add_argument("--python", default="python3", help="a Python with PyTorch")
