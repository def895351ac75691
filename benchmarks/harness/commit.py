"""Which version of the code computed a result, as far as git knows."""

import subprocess
from pathlib import Path

SECONDS = 10  # a repository that takes longer to look at stays unnamed


def commit_of_code() -> str | None:
    """The commit of the repository that holds this code, with a ``+`` where files have changed.

    New files that git does not track are not counted, as in ``git describe --dirty``.
    """
    here = Path(__file__).resolve()
    # An installed package may lie within the repository of something else, which does not track it.
    if _git("ls-files", "--error-unmatch", here.name) is None:
        return None
    commit = _git("rev-parse", "--verify", "HEAD")
    changed = _git("status", "--porcelain", "--untracked-files=no")
    if commit is None or changed is None:
        return None
    return commit + "+" * bool(changed)


def _git(*words: str) -> str | None:
    """What git says in this file's folder, ``None`` if it fails."""
    try:
        done = subprocess.run(
            ["git", "--no-optional-locks", *words],
            cwd=Path(__file__).resolve().parent,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=SECONDS,
        )
    except (OSError, subprocess.SubprocessError, UnicodeError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
