"""Which version of the code a result names."""

import subprocess
from pathlib import Path

from benchmarks.harness.study import commit_of_code

ROOT = Path(__file__).parents[3]


def test_commit_is_that_of_the_repository():
    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
        return done.stdout.strip()

    found = commit_of_code()
    if git("ls-files", "benchmarks/harness/study.py"):
        changed = git("status", "--porcelain", "--untracked-files=no")
        assert found == git("rev-parse", "HEAD") + "+" * bool(changed)
    else:
        assert found is None
