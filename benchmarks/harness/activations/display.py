"""What is shown before and while trials are trained."""

from collections.abc import Sequence
from typing import Any

from tqdm import tqdm

from benchmarks.harness.activations.trial import Trial, seconds_per_iteration
from benchmarks.harness.errors import say

Record = dict[str, Any]


class Display:
    """What is shown while trials are trained: a bar over all iterations, or a line a trial."""

    def __init__(self, todo: Sequence[Trial], total: int, show: str) -> None:
        self._lines = show == "lines"
        self._total = total
        self._finished = total - len(todo)
        self._done = dict.fromkeys((trial.name for trial in todo), 0)
        self._started: set[str] = set()
        self._bar = tqdm(
            total=sum(trial.most for trial in todo),
            disable=show != "bar",
            bar_format="{desc} {percentage:3.0f}%|{bar:24}| {elapsed}<{remaining}{postfix}",
            dynamic_ncols=True,
            leave=False,
        )

    def checked(self, name: str, check: Record) -> None:
        """A trial has read its test set."""
        iteration = check["iteration"]
        if name not in self._started:
            self._started.add(name)
            self._done[name] = 0
        self._bar.set_description_str(f"{self._finished}/{self._total}", refresh=False)
        self._bar.set_postfix_str(f"{name}: {iteration:,}, accuracy {check['accuracy']:.4f}")
        self._bar.update(iteration - self._done[name])
        self._done[name] = iteration

    def finished(self, trial: Trial, record: Record) -> None:
        """A trial has ended."""
        self._finished += 1
        self._bar.update(trial.most - self._done[trial.name])
        self._done[trial.name] = trial.most
        if self._lines:
            say(f"{self._finished}/{self._total} {trial.title}: {_outcome(record)}")

    def close(self) -> None:
        """Removes the bar."""
        self._bar.close()


def _outcome(record: Record) -> str:
    """How a trial ended, in words."""
    if record["diverged"]:
        end = "diverged"
    else:
        end = "learned" if record["learned"] else f"not learned, accuracy {record['accuracy']:.4f}"
    return f"{end} after {record['iterations']:,} iterations ({record['seconds']:.1f} s)"


def estimate(trials: Sequence[Trial], processes: int) -> str:
    """How long some trials take if none is learned early, by a few iterations of each kind."""
    seconds: dict[str, float] = {}
    for trial in trials:
        if trial.kind not in seconds:
            seconds[trial.kind] = seconds_per_iteration(trial)
    total = sum(trial.most * seconds[trial.kind] for trial in trials)
    each = "; ".join(f"{kind}: {1000 * value:.1f} ms" for kind, value in seconds.items())
    return (
        f"{len(trials)} trials, at most {_duration(total / min(processes, len(trials)))} with "
        f"{processes} process{'es' * (processes > 1)} by what an iteration takes now, {each}"
    )


def _duration(seconds: float) -> str:
    for size, name in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= size:
            return f"{seconds / size:.1f} {name}"
    return f"{seconds:.0f} seconds"
