"""What a network that reads everything makes of the rationales of others, and of the rest."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.harness.old_experiment import RUNS
from benchmarks.harness.rationale.learner import RationaleLearner
from benchmarks.harness.rationale.names import FULL
from benchmarks.harness.rationale.spans import read_spans
from benchmarks.harness.rationale.task import RationaleTask
from benchmarks.harness.summary import by_model, seeds_text, spread
from benchmarks.harness.table import Table
from benchmarks.harness.training import BEST, Run

BATCH = 256  # items that are read at once


def judge_table(out: Path, runs: Sequence[Run], task: RationaleTask) -> Table | None:
    """The errors of the network that reads everything, of one seed, on each model's selections.

    A run is read by the network of its own seed, or of the first seed where there is none.

    Args:
        out (Path): The results folder, with the checkpoints.
        runs: Finished runs, model by model.
        task: What was learned.

    Returns:
        The table; ``None`` where there is no such network, or nothing besides it.
    """
    seeds = {run.record["seed"] for run in runs if run.record["model"] == FULL}
    judged = [group for group in by_model(runs) if group[0].record["model"] != FULL]
    if not seeds or not judged:
        return None
    judges = {seed: _judge(out, seed) for seed in sorted(seeds)}
    rows = []
    for group in judged:
        errors = []
        for run in group:
            seed = run.record["seed"] if run.record["seed"] in judges else min(judges)
            errors.append(judge(judges[seed], run, task))
        columns = zip(*errors, strict=True)
        digits = task.measure.format(error for pair in errors for error in pair)
        rows.append([group[0].record["model"], *(spread(column, digits) for column in columns)])
    caption = (
        f"Test part: {task.measure.title} of the network {FULL}, which has learned from whole "
        f"{task.items}, on rationales alone and on all but them; {seeds_text(runs)}"
    )
    return Table(caption, ("rationales of", "rationale", "rest"), rows)


@torch.no_grad()
def judge(learner: RationaleLearner, run: Run, task: RationaleTask) -> tuple[float, float]:
    """The errors of a network on the rationales of a run and on the rest, test part."""
    rows = run.predictions[run.predictions["part"] == "test"]
    lengths = task.data.lengths[task.parts["test"]].tolist()
    chosen = [
        read_spans(str(text), length)
        for text, length in zip(rows["selection"], lengths, strict=True)
    ]
    answers: list[list[Tensor]] = [[], []]
    start = 0
    for batch in task.data.loader("test", BATCH):
        inputs = learner.net.inputs(batch)
        number = len(batch.y)
        marks = torch.cat(chosen[start : start + number])
        start += number
        for found, part in zip(answers, (marks, ~marks), strict=True):
            found.append(learner.goal.answers(learner.net.reader.answer(inputs, part)))
    y = task.data.y[task.parts["test"]]
    rationale, rest = (task.goal.error(torch.cat(found), y) for found in answers)
    return rationale, rest


def _judge(out: Path, seed: int) -> RationaleLearner:
    path = out / RUNS / f"{FULL}-seed{seed}" / BEST
    found = RationaleLearner.load_from_checkpoint(path, map_location="cpu", weights_only=True)
    return found.eval()
