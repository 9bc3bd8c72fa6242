"""Programs that the checks of a GPU run, and facts about them and the machine for the tables.

They are built on the machine (build/gpu), or packed elsewhere (scripts/gpu_check.sh --pack DIR) and named by
--prebuilt. CUDA's own libraries come with the machine's toolkit or with PyTorch. LD_LIBRARY_PATH is not used:
PyTorch would get it too.
"""

import datetime
import functools
import glob
import os
import pathlib
import re
import shutil
import subprocess

import gpu_pack
from gpu_main import ROOT, NoPrograms, WrongOption

# Loaded at run time, each with its own parts in the same folder, so by its real path and not through a link.
LOADED = {"TIDEPOOL_CUDNN": "libcudnn.so.9", "TIDEPOOL_NCCL": "libnccl.so.2"}


def first_line(words, otherwise="unknown"):
    try:
        asked = subprocess.run(
            [str(word) for word in words], cwd=ROOT, capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return otherwise
    return (asked.stdout.strip().splitlines() or [otherwise])[0] if asked.returncode == 0 else otherwise


def nvcc_release(nvcc):
    """Returns the release of nvcc, or "unknown" if it is gone."""
    try:
        told = subprocess.run([nvcc, "--version"], capture_output=True, text=True, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    found = re.search(r"release [0-9.]+, V([0-9.]+)", told)
    return found.group(1) if found else "unknown"


def folders_of_libraries(cuda, python):
    """Returns places of CUDA's libraries, the likeliest first."""
    named = [f"{cuda}/lib64", f"{cuda}/lib"] if cuda else []
    toolkits = ["/usr/local/cuda/lib64", *sorted(glob.glob("/usr/local/cuda-*/lib64"), reverse=True)]
    packages = first_line([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], "")
    return named + toolkits + sorted(glob.glob(f"{packages}/nvidia/*/lib")) if packages else named + toolkits


def find_library(name, folders):
    return next((path for path in (pathlib.Path(folder) / name for folder in folders) if path.exists()), None)


class Programs:
    def __init__(self, options):
        self.prebuilt = options.prebuilt  # a folder; archives were unpacked
        self.env = dict(os.environ)
        self.folders = folders_of_libraries(options.cuda, options.python)
        if self.prebuilt is None:
            self.tidepool, self.test_gpu = ROOT / "build/gpu/tidepool", ROOT / "build/gpu/tests/test_gpu"
            self.facts = self.facts_of_build()
        else:
            self.tidepool, self.test_gpu = self.prebuilt / "tidepool", self.prebuilt / "test_gpu"
            self.facts = {}  # set by make_ready
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

    def make_ready(self):
        """Links packed programs to the libraries of this machine, and sets `facts`."""
        if self.prebuilt is None:
            return
        packed = gpu_pack.facts_of_pack(self.prebuilt)
        architectures = ", ".join("sm_" + number for number in packed["architectures"].split())
        built = f"{packed['toolkit']}, built elsewhere for {architectures}"
        self.facts = {"toolkit": built, "commit": packed["commit"]}
        try:
            for program in (self.tidepool, self.test_gpu):
                if not os.access(program, os.X_OK):  # some ways of copying lose the mode
                    program.chmod(0o755)
            for library in packed["needs"]:
                self.link(library, packed["toolkit"])
        except OSError as error:
            raise WrongOption(f"--prebuilt {self.prebuilt} is not whole, or read-only: {error}") from None

    def link(self, library, toolkit):
        here, there = self.prebuilt / "lib" / library, find_library(library, self.folders)
        if there is None:
            raise NoPrograms(
                f"{library} is neither in CUDA's folder nor beside PyTorch: --cuda DIR names a "
                f"toolkit of CUDA {toolkit.split('.')[0]}; looked in {', '.join(self.folders)}"
            )
        if not here.is_symlink() or os.readlink(here) != str(there):
            here.unlink(missing_ok=True)
            here.symlink_to(there)

    def require(self, *programs, how="scripts/gpu_check.sh --build makes it, --prebuilt DIR has one"):
        for program in programs:
            if not os.access(program, os.X_OK):
                raise NoPrograms(f"{program} is not there: {how}")
            try:
                asked = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=60)
            except (OSError, subprocess.TimeoutExpired) as error:
                raise NoPrograms(f"{program} does not start here: {error}") from None
            if asked.returncode not in (0, 1):
                raise NoPrograms(f"{program} does not start here: {asked.stderr.strip()}")


@functools.cache  # a second or more each time
def has_module(python, *modules):
    words = [python, "-c", "import " + ", ".join(modules)]
    try:
        return subprocess.run(words, capture_output=True, timeout=120).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def facts_of(programs, python):
    """Returns facts about the card, the programs and the machine."""
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


@functools.cache
def card_name():
    return first_line(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], "none")


@functools.cache
def card_memory_mib():
    told = first_line(["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"], "0")
    return int(told) if told.isdecimal() else 0


def nvcc_here():
    nvcc = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
    return nvcc_release(nvcc) if nvcc else "none"


def require_gpu():
    try:
        asked = subprocess.run(["nvidia-smi"], capture_output=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        asked = None
    if asked is None or asked.returncode != 0:
        raise NoPrograms("no GPU here (nvidia-smi finds none); --tiny tries the script without one")


def add_options(parser):
    parser.add_argument(
        "--prebuilt",
        metavar="DIR",
        help="a folder of --pack, or its archive, in place of what was built here",
    )
    parser.add_argument(
        "--cuda",
        metavar="DIR",
        help="the toolkit whose libraries a prebuilt program uses (/usr/local/cuda, or "
        "those beside PyTorch)",
    )
    parser.add_argument("--python", default="python3", help="a Python with PyTorch")


def check_options(options, dry_run=False):
    """Makes paths absolute, so that programs can be started in any folder."""
    # Not resolved: a virtual environment's Python is a link, and works as such only under the link's name.
    python = shutil.which(options.python)
    if python is None:
        raise WrongOption(f"--python {options.python}: there is no such program")
    options.python = os.path.abspath(python)
    if options.cuda:
        if not os.path.isdir(options.cuda):
            raise WrongOption(f"--cuda {options.cuda}: there is no such folder")
        options.cuda = os.path.abspath(options.cuda)
    if options.prebuilt is None and (ROOT / "packed.json").exists():
        options.prebuilt = ROOT  # this script itself came in a pack
    if options.prebuilt:
        options.prebuilt = gpu_pack.open_pack(pathlib.Path(options.prebuilt).resolve(), dry_run)
