"""Tables of rankings."""

import json
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path

import matplotlib
import torch

from benchmarks.harness.files import write_bytes, write_text
from benchmarks.harness.old_experiment import RUNS
from benchmarks.harness.retrieval.data import QuestionData
from benchmarks.harness.retrieval.metrics import METRICS
from benchmarks.harness.retrieval.pictures import gate_pictures, pretraining_plot
from benchmarks.harness.retrieval.pretraining import PretrainingTask
from benchmarks.harness.retrieval.standing import RERANKER, TF_IDF, Baselines, Measures
from benchmarks.harness.retrieval.standing import baseline_name as named
from benchmarks.harness.retrieval.task import RetrievalTask
from benchmarks.harness.summary import (
    by_model,
    learning_curves,
    mean_seconds,
    png,
    seeds_text,
    spread,
)
from benchmarks.harness.table import Table
from benchmarks.harness.task import PARTS
from benchmarks.harness.training import Run

DIGITS = ".1f"
FIELDS = {"title": "title only", "title+body": "title + body"}


def describe(data: QuestionData) -> str:
    """Lines on questions, parts, words and what was left out."""
    corpus = data.corpus
    pairs = sum(len(query.positives) for query in corpus.train)
    lists = ", ".join(f"{len(data.rankings[part]):,} {part}" for part in ("valid", "test"))
    lines = [
        f"{data.choice.dataset}: {len(corpus):,} questions, {corpus.split}; {pairs:,} pairs of "
        f"similar ones to train on, lists of candidates: {lists}",
        *(f"left out: {number:,} {reason}" for reason, number in corpus.left_out.items()),
    ]
    if data.vectors is None or data.source is None:
        kind = "learned vectors"
        if not data.choice.vectors:
            kind += " (no file of word vectors at hand; --vectors FILE names one)"
    else:
        state = "to start from" if data.choice.tune_vectors else "fixed"
        kind = f"vectors of {data.vectors.vectors.size(1)} numbers from {data.source.name}, {state}"
    lines.append(f"{len(data.vocabulary):,} words with {kind}")
    counts = [(part, *data.unknown_words(part)) for part in PARTS]
    shares = (f"{n:,} of {words:,} in {part} ({n / words:.1%})" for part, n, words in counts)
    lines.append(f"Words of the texts that are unknown: {', '.join(shares)}")
    return "\n".join(lines)


def tables(runs: Sequence[Run], task: RetrievalTask, baselines: Baselines) -> list[Table]:
    """Networks and baselines, and poolings and fields where there are several.

    Args:
        runs: Finished runs, model by model.
        task: What was learned.
        baselines: Their scores.
    """
    found = [_table_of_methods(runs, task, baselines)]
    groups = by_model(runs)
    if _several(groups, "pooling"):
        found.append(_table_of_poolings(groups))
    if _several(groups, "fields"):
        found.append(_table_of_fields(groups, baselines))
    return found


def _table_of_methods(runs: Sequence[Run], task: RetrievalTask, baselines: Baselines) -> Table:
    """Thesis Table 2.9."""
    header = ["method", "parameters", *_measure_names("valid"), *_measure_names("test"), "s/epoch"]
    rows = [
        [name, "-", *_numbers([measures], "valid"), *_numbers([measures], "test"), "-"]
        for name, measures in baselines.measures.items()
    ]
    groups = by_model(runs)
    for group in groups:
        measures = [_measures(run) for run in group]
        record = group[0].record
        numbers = [*_numbers(measures, "valid"), *_numbers(measures, "test")]
        seconds = f"{mean_seconds(group):.2f}"
        rows.append([record["model"], f"{record['encoder_parameters']:,}", *numbers, seconds])
    if baselines.no_reranker:
        reranker = f"no {RERANKER}, the dev part is too small: {baselines.no_reranker}"
    else:
        best = max(groups, key=lambda group: sum(r.record["valid"] for r in group) / len(group))
        both = [_with_network(run, task, baselines) for run in best]
        numbers = [*_numbers(both, "valid"), *_numbers(both, "test")]
        rows.append([f"{RERANKER} with {best[0].record['model']}", "-", *numbers, "-"])
        reranker = (
            f"{RERANKER}: a logistic regression over the baselines' scores, and over those of the "
            "network with the best MRR on dev as well, learned on dev (cross-validated there)"
        )
    caption = (
        f"Similar questions on {task.dataset}, {task.split}\n"
        "Mean average precision, mean reciprocal rank, precision at 1 and at 5 in percent, of the "
        "dev part (valid), by whose MRR the epoch is chosen, and of the test part; "
        f"{seeds_text(runs)}\n"
        "-pt: pre-trained; parameters are those of the encoder, without word vectors\n"
        f"{'; '.join(baselines.notes)}\n"
        f"{reranker}"
    )
    return Table(caption, header, rows)


def _table_of_poolings(groups: Sequence[Sequence[Run]]) -> Table:
    """Thesis Table 2.10."""
    kind = itemgetter("encoder", "pretrained", "fields")
    ordered = sorted(groups, key=lambda group: kind(group[0].record))
    rows = []
    for group in ordered:
        record, measures = group[0].record, [_measures(run) for run in group]
        name = f"{record['encoder']}{', pt' if record['pretrained'] else ''}"
        numbers = [*_numbers(measures, "valid"), *_numbers(measures, "test")]
        rows.append([name, FIELDS[record["fields"]], record["pooling"], *numbers])
    header = ["encoder", "reads", "pooling", *_measure_names("valid"), *_measure_names("test")]
    return Table("Poolings (thesis Table 2.10)", header, rows)


def _table_of_fields(groups: Sequence[Sequence[Run]], baselines: Baselines) -> Table:
    """Thesis Table 2.11."""
    methods: dict[str, dict[str, list[Measures]]] = {
        TF_IDF: {field: [baselines.measures[named(TF_IDF, field)]] for field in FIELDS}
    }
    for group in groups:
        record = group[0].record
        name = str(record["model"]).removesuffix("-title")
        measures = [_measures(run) for run in group]
        methods.setdefault(name, {})[record["fields"]] = measures
    rows = [
        [name, FIELDS[field], *_numbers(fields[field], "test")]
        for name, fields in methods.items()
        if len(fields) == len(FIELDS)
        for field in FIELDS
    ]
    caption = "Titles alone, and titles and bodies (thesis Table 2.11), test part"
    return Table(caption, ["method", "reads", *METRICS], rows)


def pretraining_table(runs: Sequence[Run]) -> Table:
    """Perplexities of pre-trained encoder-decoders, and the ranking by their encoders as they are.

    Args:
        runs: Finished runs of pre-training, model by model.
    """
    rows = []
    for group in by_model(runs):
        best = [min(run.history, key=lambda epoch: epoch["valid_error"]) for run in group]
        rows.append(
            [
                group[0].record["model"],
                f"{group[0].record['hidden_size']:,}",
                *(
                    spread([run.record[part] for run in group], DIGITS)
                    for part in ("valid", "test")
                ),
                spread([epoch["valid_MRR"] for epoch in best], DIGITS),
                f"{mean_seconds(group):.2f}",
            ]
        )
    caption = (
        f"Pre-training on {runs[0].record['dataset']}: perplexity of titles held out, valid: those "
        "by which the epoch is chosen\n"
        "MRR of the dev part in percent, by titles alone and the encoder as it is then; "
        f"{seeds_text(runs)}"
    )
    header = ["encoder", "width", "perplexity valid", "test", "MRR", "s/epoch"]
    return Table(caption, header, rows)


def write_question_report(
    out: Path,
    runs: Sequence[Run],
    task: RetrievalTask,
    baselines: Baselines,
) -> None:
    """Writes the tables, ``baselines.json`` and the pictures.

    Args:
        out (Path): The results folder.
        runs: Finished runs, model by model.
        task: What was learned.
        baselines: Their scores.
    """
    found = tables(runs, task, baselines)
    pretraining = _runs_of_pretraining(task, runs)
    if pretraining:
        found.append(pretraining_table(pretraining))
        write_bytes(out / "pretraining.png", png(pretraining_plot(pretraining)))
    written = "\n\n".join(table.markdown() for table in found)
    write_text(out / "table.md", f"{written}\n")
    write_text(out / "baselines.json", json.dumps(baselines.measures, indent=1))
    curves = learning_curves(runs, task.measure, "MRR in percent", task.dataset)
    write_bytes(out / "learning_curves.png", png(curves))
    with matplotlib.rc_context({"text.parse_math": False}):  # a word may have a dollar sign
        for name, figure in gate_pictures(out, runs, task.data).items():
            write_bytes(out / name, png(figure))


def write_pretraining_report(out: Path, runs: Sequence[Run], task: PretrainingTask) -> None:
    """Writes ``table.md`` and ``learning_curves.png`` of pre-training."""
    write_text(out / "table.md", f"{pretraining_table(runs).markdown()}\n")
    curves = learning_curves(runs, task.measure, "perplexity", f"{task.dataset}, titles")
    write_bytes(out / "learning_curves.png", png(curves))


def _runs_of_pretraining(task: RetrievalTask, runs: Sequence[Run]) -> list[Run]:
    """Those from which networks of some runs have started, in the order of these."""
    if task.pretraining is None:
        return []
    names = dict.fromkeys(
        f"{run.record['encoder']}-seed{run.record['seed']}"
        for run in runs
        if run.record["pretrained"]
    )
    found = (Run.read(task.pretraining / RUNS / name) for name in names)
    return [run for run in found if run is not None]


def _with_network(run: Run, task: RetrievalTask, baselines: Baselines) -> Measures:
    """The measures of the re-ranker over the baselines and a network."""
    network = {}
    for part in ("valid", "test"):
        rows = run.predictions[run.predictions["part"] == part]
        network[part] = task.rankings(part, torch.tensor(rows["score"].to_numpy()))
    return baselines.measured(baselines.reranked([*baselines.scores.values(), network]))


def _measures(run: Run) -> Measures:
    """The measures of a run's record."""
    record = run.record
    return {
        part: {key: record[part if key == "MRR" else f"{part}_{key}"] for key in METRICS}
        for part in ("valid", "test")
    }


def _numbers(measures: Sequence[Measures], part: str) -> list[str]:
    """Each measure of a part, over some runs."""
    return [spread([one[part][key] for one in measures], DIGITS) for key in METRICS]


def _measure_names(part: str) -> list[str]:
    return [f"{part} {key}" for key in METRICS]


def _several(groups: Sequence[Sequence[Run]], key: str) -> bool:
    """Whether there is a model that differs from another in this alone."""
    kinds: dict[tuple[str, bool, str], set[str]] = {}
    other = "fields" if key == "pooling" else "pooling"
    for group in groups:
        record = group[0].record
        kind = (record["encoder"], record["pretrained"], record[other])
        kinds.setdefault(kind, set()).add(record[key])
    return any(len(found) > 1 for found in kinds.values())
