"""Opening a results folder without mixing or losing anybody's files."""

from pathlib import Path

from benchmarks.harness.errors import InputError


def holds_results(out: Path, configuration: str, resume: bool, overwrite: bool) -> bool:
    """Whether a folder holds results, which are then to be continued or replaced.

    Args:
        out (Path): The folder; it need not exist.
        configuration (str): The file that every results folder has.
        resume (bool): Continue the results that are there.
        overwrite (bool): Replace them.

    Raises:
        InputError: If it holds other files, or results and neither is asked for.
    """
    if not out.exists() or not any(out.iterdir()):
        return False
    if not (out / configuration).exists():
        raise InputError(f"--out {out} holds files that are not results of this module")
    if not (resume or overwrite):
        raise InputError(
            f"--out {out} already holds results; give --resume to continue them, "
            f"--overwrite to replace them, or another --out"
        )
    return True
