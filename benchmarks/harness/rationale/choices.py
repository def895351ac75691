"""What the options of the comparison of rationales say; nothing here imports torch."""

import argparse
from pathlib import Path
from typing import Any

from benchmarks.harness.rationale.model_config import model_name
from benchmarks.harness.rationale.names import (
    ANNEAL,
    ASPECTS,
    COHERENCE,
    DROPOUT,
    EMBEDDING,
    ESTIMATOR,
    HIDDEN,
    LAYERS,
    MARGIN,
    MODELS_OF,
    NAMED,
    NEGATIVES,
    NUM_SAMPLES,
    OWN,
    QUESTIONS_AROUND,
    RATE,
    READOUT,
    ROOTS,
    SELECTING,
)


def item_choice(options: argparse.Namespace) -> dict[str, Any]:
    """The arguments of the ``RationaleChoice`` of the options."""
    return {
        "dataset": options.dataset,
        "root": options.root or _own_folder(options) or ROOTS.get(options.dataset, ""),
        "glove": options.glove,
        "questions": tuple(options.questions or QUESTIONS_AROUND),
        "aspect": ASPECTS.index(options.aspect or ASPECTS[0]),
        "decorrelate": options.decorrelate,
        "smarts": options.smarts,
        "split_seed": options.split_seed,
        "files": options.data if options.dataset == OWN else [],
        "text_column": options.text_column,
        "target_column": options.target_column,
        "evidence_column": options.evidence_column,
        "task": options.task,
        "encoding": options.encoding,
    }


def dataset_of(options: argparse.Namespace) -> str:
    """The data set of the options: one by name, or :data:`OWN`."""
    return options.data[0] if len(options.data) == 1 and options.data[0] in NAMED else OWN


def _own_folder(options: argparse.Namespace) -> str:
    """The folder of one's own texts, where word vectors may lie too."""
    return str(Path(options.data[0]).parent) if options.dataset == OWN else ""


def estimator_of(options: argparse.Namespace) -> str:
    """The estimator of the gradient."""
    return str(options.estimator or ESTIMATOR[options.dataset])


def stages(options: argparse.Namespace) -> tuple[float, float]:
    """The fractions of the training in which everything is read, and in which the share falls."""
    return options.warm_up or 0.0, ANNEAL if options.anneal is None else options.anneal


def models(options: argparse.Namespace) -> list[tuple[str, str, dict[str, Any]]]:
    """Name, kind and further fields of the configuration of each model to compare.

    Where several shares or prices are given, a model for each; models that do not select are there
    once, and those that score words take the first share.
    """
    kinds = dict.fromkeys(options.models or MODELS_OF[options.dataset])
    rates: list[float] = list(dict.fromkeys(options.rates or [RATE[options.dataset]]))
    prices: list[float] = list(dict.fromkeys(options.sparsity or []))
    found = []
    for kind in kinds:
        sizes = _sizes(options) | {"share": rates[0]}
        if kind not in SELECTING:
            found.append((kind, kind, sizes))
        elif prices:
            for price in prices:
                name = model_name(kind, sparsity=price if len(prices) > 1 else None)
                found.append((name, kind, sizes | {"sparsity": price} | _selection(options)))
        else:
            for rate in rates:
                name = model_name(kind, rate=rate if len(rates) > 1 else None)
                found.append((name, kind, sizes | {"rate": rate} | _selection(options)))
    return found


def _sizes(options: argparse.Namespace) -> dict[str, Any]:
    dataset = options.dataset
    dropout = DROPOUT[dataset] if options.dropout is None else options.dropout
    return {
        "hidden": options.hidden or HIDDEN[dataset],
        "num_layers": options.layers or LAYERS[dataset],
        "readout": options.readout or READOUT,
        "dropout": dropout,
        "embedding_dim": options.embedding or EMBEDDING,
    }


def _selection(options: argparse.Namespace) -> dict[str, Any]:
    price = options.coherence
    warm_up, anneal = stages(options)
    return {
        "selection_size": options.selection_size,
        "estimator": estimator_of(options),
        "warm_up": warm_up,
        "anneal": anneal,
        "coherence": COHERENCE[options.dataset] if price is None else price,
        "num_samples": options.samples or NUM_SAMPLES[options.dataset],
        "temperature": options.temperature or 1.0,
    }


def ranking(options: argparse.Namespace) -> dict[str, Any]:
    """The fields of a configuration on how questions are ranked."""
    return {
        "num_negatives": options.negatives or NEGATIVES,
        "margin": options.margin or MARGIN,
    }
