"""Resumes interrupted commands, with the same options and in the same folder."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from pyg_kernels.datasets.public_file import file_sha256, write_whole
from pyg_kernels.molecules.command import say
from pyg_kernels.tables import FileError, refuse_existing

BEGUN = "begun.json"
# Options that change no number of a run; the table is compared by content, not by name.
FREE = {
    "begins", "command", "config", "data", "out", "overwrite", "resume", "threads",
    "traceback", "trials", "trust",
}  # fmt: skip


def output_folder(path: str | Path, overwrite: bool) -> Path:
    """The path of a folder that can be made, or that exists and may be written to."""
    path = Path(path)
    there = next(each for each in (path, *path.absolute().parents) if each.exists())
    if not there.is_dir():
        raise FileError(f"{there} is a file: {path} is to be a folder")
    return refuse_existing(path, overwrite)


def begun_output(options: Namespace, finished: str) -> Path:
    """The output folder of a command that can be resumed; raises if it may not be written to."""
    out = Path(options.out)
    files = {path.name for path in out.iterdir()} if out.is_dir() else set()
    if files == {BEGUN}:  # it ended before there was anything to keep
        return out
    begun, whole = BEGUN in files, finished in files
    if begun and not (whole or options.resume or options.overwrite):
        raise FileError(
            f"{out} has an interrupted run: --resume goes on with it, --overwrite begins anew"
        )
    out = output_folder(out, options.overwrite or (options.resume and begun))
    if files and not (begun or whole):
        raise FileError(f"{out} is no run: --overwrite does not replace it")
    return out


def begin(out: Path, options: Namespace) -> None:
    """Writes the options that a run begins with; if it is resumed, compares them."""
    told = {name: value for name, value in vars(options).items() if name not in FREE}
    told["content of DATA"] = file_sha256(Path(options.data))
    if options.resume and (out / BEGUN).is_file():
        check_begun(out / BEGUN, told, out)
        say(f"going on with {out}")
    else:
        out.mkdir(parents=True, exist_ok=True)
        write_begun(out / BEGUN, told)


@contextmanager
def replacing(out: Path, files: Sequence[str], members: Path) -> Iterator[None]:
    """Restores the files of a finished run if the next one fails before it has a member.

    The first file marks a run as finished. With a member, the next run is kept, to be resumed.
    """
    kept = {file: (out / file).read_bytes() for file in files if (out / file).is_file()}
    try:
        yield
    except Exception:
        finished = files[0] in kept and not (out / files[0]).is_file()
        if finished and not any(members.glob("*")):
            for file, content in kept.items():
                (out / file).write_bytes(content)
            say(f"{out} is left as it was")
        raise


def write_begun(path: Path, told: dict[str, Any], made: Mapping[str, str] | None = None) -> None:
    """Writes the options that a command begins with, the number of threads, and `made`.

    `made` has, for each file that is written, the digest of the file that it is made of.
    """
    content = {"options": told, "threads": torch.get_num_threads(), "made": made or {}}
    text = json.dumps(content, indent=1) + "\n"
    write_whole(path, lambda part: part.write_text(text, encoding="utf-8"))


def check_begun(path: Path, told: dict[str, Any], out: Path) -> dict[str, str]:
    """Compares options with those that :func:`write_begun` wrote; returns its `made`."""
    try:
        began = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise FileError(f"{path} is damaged: --overwrite begins anew") from error
    before, now = began["options"], json.loads(json.dumps(told))
    changed = [
        f"{name if ' ' in name else '--' + name.replace('_', '-')} was "
        f"{_shown(before.get(name))}, is {_shown(now.get(name))}"
        for name in dict.fromkeys([*before, *now])
        if before.get(name) != now.get(name)
    ]
    if changed:
        raise ValueError(f"--resume: {out} began with other options: {'; '.join(changed)}")
    threads = torch.get_num_threads()
    if began["threads"] != threads:
        say(
            f"warning: {out} began with {began['threads']} threads, now {threads}: "
            "the last bits of numbers may differ"
        )
    return dict(began.get("made", {}))


def _shown(value: Any) -> str:
    if value is None or value == []:
        return "not given"
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
