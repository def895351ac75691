"""One report on all results folders below a folder."""

import tempfile
from pathlib import Path

from benchmarks.harness.errors import InputError, as_input_error
from benchmarks.harness.files import write_bytes, write_text
from benchmarks.harness.molecules.gathering.contents import Contents, contents, counted
from benchmarks.harness.molecules.gathering.folders import Findings, find_results
from benchmarks.harness.molecules.gathering.markdown import markdown
from benchmarks.harness.molecules.gathering.page import page

PAGE = "report.html"
TEXT = "report.md"


def report(root: Path, out: Path) -> Contents:
    """Gathers the results below a folder, and writes ``report.md``, its pictures, ``report.html``.

    Args:
        root (Path): The folder to search.
        out (Path): Where the report goes; made if missing.

    Returns:
        What the report says.

    Raises:
        InputError: If `root` is no folder or holds no finished run, or `out` cannot be written.
    """
    if not root.is_dir():
        raise InputError(f"{root} is not a folder")
    findings = find_results(root)
    _check_findings(root, findings)
    _open_folder(out)
    found = contents(root, findings)
    with as_input_error():
        for section in found.sections:
            for picture in section.pictures:
                write_bytes(out / picture.file, picture.content)
        write_text(out / TEXT, markdown(found))
        write_text(out / PAGE, page(found))
    return found


def _open_folder(out: Path) -> None:
    """Makes the folder and a file in it: what cannot be written fails before the work."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise InputError(f"--out {out}: {error.strerror}") from error


def _check_findings(root: Path, findings: Findings) -> None:
    if any(folder.runs for folder in findings.folders):
        return
    others, runs = findings.others, sum(len(each.unfinished) for each in findings.folders)
    found = [f"{counted(others, 'results folder')} of other benchmarks"] * bool(others)
    found += [counted(runs, "unfinished run")] * bool(runs)
    found += findings.damage
    raise InputError(
        f"no finished run of the molecule benchmark below {root}"
        f"{': ' if found else ''}{'; '.join(found)}"
    )
