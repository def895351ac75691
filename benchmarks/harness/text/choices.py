"""What the options of the text benchmark say: models, their sizes, and texts.

Nothing here imports torch.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.harness.arguments import check_own_files
from benchmarks.harness.errors import InputError
from benchmarks.harness.text.model_config import CELLS, LAYERED, variant_name
from benchmarks.harness.text.names import (
    ACTIVATIONS,
    ALIASES,
    CELL_WIDTH,
    COMPARED,
    DATASETS,
    DECAY,
    DECAYS,
    EMBEDDING,
    HEEDED,
    LAYERS,
    MODELS,
    ORDER,
    OWN,
    PARAMETERS,
    RCNN_READOUTS,
    ROOTS,
    WHERE_THERE,
)

Value = TypeVar("Value")


def _flat(lists: Sequence[Sequence[Value]] | None) -> list[Value]:
    """What some lists hold, each once."""
    return list(dict.fromkeys(value for some in lists or [] for value in some))


def model_names(options: argparse.Namespace) -> list[str]:
    """The models to compare: those of :data:`MODELS`, or each cell with each width."""
    named, widths = _flat(options.models), _flat(options.ngram)
    if not widths and all(name in MODELS for name in named):
        _check_effects(named or COMPARED, options)
        return [name for kind in named or COMPARED for name in _variants(kind, options)]
    for name in named:
        if name not in CELLS:
            why = "--ngram" if widths else ", ".join(name for name in named if name not in MODELS)
            raise InputError(
                f"{name} does not go with {why}: it is no recurrent kernel machine; compare it in "
                "a call of its own"
            )
    _check_effects([], options)
    return [f"{cell}-{width}gram" for cell in named or CELLS for width in widths or [1]]


def _check_effects(kinds: Sequence[str], options: argparse.Namespace) -> None:
    """Refuses options that no kind of model heeds, but those that a preset filled in."""
    for option, heed in HEEDED.items():
        given = getattr(options, option) is not None and option not in options.filled_in
        if given and not set(heed) & set(kinds):
            why = "" if kinds else "; the cells have one layer and the mean over words"
            name = option.replace("_", "-")
            raise InputError(f"--{name} goes with {', '.join(heed)}{why}")


def _variants(kind: str, options: argparse.Namespace) -> list[str]:
    """The names of a kind of model with each number of layers and each decay that it takes."""
    layers: list[Any] = _flat(options.layers) if kind in LAYERED else []
    decays: list[Any] = _flat(options.decays) if kind == "rcnn" else []
    return [
        variant_name(kind, number, decay)
        for number in (layers if len(layers) > 1 else [None])
        for decay in (decays if len(decays) > 1 else [None])
    ]


def model_options(options: argparse.Namespace, cells: bool) -> dict[str, Any]:
    """The arguments of :func:`text_model_configs` besides names and texts."""
    whole = not options.parameters
    sizes: dict[str, Any] = {
        "hidden": options.hidden or (CELL_WIDTH if cells and whole else None),
        "dropout": options.dropout,
        "embedding_dim": options.embedding or EMBEDDING,
        "budget": options.parameters or PARAMETERS,
    }
    if cells:
        return {**sizes, "num_layers": 1}
    decay = (_flat(options.decays) or [DECAY])[0]
    return {
        **sizes,
        "num_layers": (_flat(options.layers) or [LAYERS])[0],
        "rcnn_hidden": options.rcnn_hidden if whole and not options.hidden else None,
        "readout": options.readout,
        "order": options.order or ORDER,
        "decay": decay if decay in DECAYS else float(decay),
        "activation": options.activation or ACTIVATIONS[0],
        "rcnn_readout": options.rcnn_readout or RCNN_READOUTS[0],
    }


def dataset_of(options: argparse.Namespace) -> str:
    """The data set of the options: one by name, or :data:`OWN`."""
    first = (options.data or DATASETS)[0]
    name = ALIASES.get(first, first)
    named = len(options.data or [first]) == 1 and name in DATASETS and name != OWN
    return name if named else OWN


def _own_files(options: argparse.Namespace) -> tuple[list[str], str]:
    """One's own training and test file, none for a folder that has both, and their folder."""
    check_own_files(options, ROOTS, folders=True)
    if len(options.data) == 1 and Path(options.data[0]).is_dir():
        return [], options.data[0]
    return options.data, str(Path(options.data[0]).parent)


def text_choice(options: argparse.Namespace) -> dict[str, Any]:
    """The arguments of the :class:`TextChoice` of the options."""
    dataset = dataset_of(options)
    files: list[str] = []
    root = options.root or ROOTS.get(dataset)
    if dataset == OWN:
        files, root = _own_files(options)
    elif options.text_column or options.label_column or options.encoding != "utf-8":
        raise InputError(
            f"--text-column, --label-column and --encoding go with your own file, not {dataset}"
        )
    if options.split_seed is not None and dataset.startswith("sst"):
        raise InputError(f"--split-seed goes with data without three parts, not {dataset}")
    if options.phrases and not dataset.startswith("sst"):
        raise InputError(f"--phrases goes with sst-fine and sst-binary, not {dataset}")
    return {
        "dataset": dataset,
        "root": root,
        "glove": options.glove,
        "tune_vectors": options.tune_vectors,
        "split_seed": options.split_seed or 0,
        "csv": files,
        "text_columns": options.text_column or [],
        "label_column": options.label_column,
        "encoding": options.encoding,
        "unit_norm": bool(options.unit_norm),
        "phrases": None if options.phrases == WHERE_THERE else bool(options.phrases),
    }
