"""Which version of the code computed a result, as far as git knows."""

import subprocess
from pathlib import Path

SECONDS = 10  # a repository that takes longer to look at stays unnamed


def commit_of_code() -> str | None:
    """The full hash of the commit of this code, with a ``+`` where tracked files have changed.

    ``None`` outside a repository, or where git is missing or does not answer.
    """
    here, said = Path(__file__).resolve(), ""
    # An installed package may lie within the repository of something else, which does not track it.
    for words in (
        ("ls-files", "--error-unmatch", here.name),
        ("describe", "--always", "--abbrev=40", "--exclude=*", "--dirty=+"),
    ):
        command = ["git", "-C", str(here.parent), "--no-optional-locks", *words]
        try:
            said = subprocess.check_output(
                command, stderr=subprocess.PIPE, text=True, timeout=SECONDS
            )
        except (OSError, subprocess.SubprocessError):
            return None
    return said.strip()
