"""The folder that scripts/gpu_check.sh --pack made, or its archive."""

import hashlib
import json
import pathlib
import shutil
import tarfile
import tempfile
import zlib

from gpu_main import ROOT, WrongOption

FACTS = ("commit", "architectures", "toolkit", "needs")


def open_pack(path, dry_run=False):
    """Returns the folder. An archive is unpacked once; for a dry run it is only read."""
    if path.is_dir():
        facts_of_pack(path)
        return path
    if not path.is_file() or not path.name.endswith(".tar.gz"):
        raise WrongOption(f"--prebuilt {path}: there is no such folder or .tar.gz")
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
        folder = ROOT / "build/gpu" / f"prebuilt-{digest}"
        if dry_run and not folder.exists():
            with tarfile.open(path, "r:gz") as archive:
                return folder / pathlib.PurePath(archive.getnames()[0]).parts[0]
        if not folder.exists():
            unpack(path, folder)
        return inner_of(folder)
    except (tarfile.TarError, EOFError, zlib.error, LookupError) as error:
        raise WrongOption(f"--prebuilt {path} is no whole archive of --pack: {error}") from None
    except OSError as error:
        raise WrongOption(f"--prebuilt {path} cannot be unpacked in {ROOT / 'build/gpu'}: {error}") from None


def inner_of(folder):
    """Returns the one folder of an archive."""
    folders = [inner for inner in folder.iterdir() if inner.is_dir()]
    if not folders:
        raise LookupError("it holds no folder")
    return folders[0]


def unpack(path, folder):
    """Unpacks under another name first, so that a folder of this name is complete."""
    if not hasattr(tarfile, "data_filter"):
        raise WrongOption(f"this Python cannot unpack safely: tar -xf {path}, and --prebuilt the folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = pathlib.Path(tempfile.mkdtemp(prefix="unpacking-", dir=folder.parent))
    try:
        with tarfile.open(path, "r:gz") as archive:
            archive.extractall(part, filter="data")
        facts_of_pack(inner_of(part))
        if not folder.exists():  # otherwise another run was faster
            part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def facts_of_pack(folder):
    about = folder / "packed.json"
    try:
        packed = json.loads(about.read_text())
        return {key: packed[key] for key in FACTS}
    except (OSError, ValueError, LookupError, TypeError):
        raise WrongOption(
            f"--prebuilt: {about} is missing or cannot be read; scripts/gpu_check.sh --pack DIR makes such "
            "a folder"
        ) from None
