"""Results folders of the molecule benchmark, written as files without training."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas

SIZES = {
    "name": "gine",
    "node_dim": 65,
    "edge_dim": 7,
    "num_targets": 1,
    "hidden": 8,
    "num_layers": 4,
    "order": None,
}
TRAINING = {
    "epochs": 3,
    "batch_size": 16,
    "patience": 10,
    "clip": 5.0,
    "optimizer": {"learning_rate": 0.001, "schedule": "cosine", "factor": 1.0, "weight_decay": 0.0},
    "device": "cpu",
    "precision": "auto",
    "show": "nothing",
}
DATA = {"dataset": "chembl", "split": "random", "split_seed": 0, "root": "data", "csv": None}


def record(model: str, seed: int, test: float, **changes: Any) -> dict[str, Any]:
    """An object of ``metrics.json`` whose train and valid errors are 0.5 and 0.75 of the test's."""
    return {
        "dataset": "chembl",
        "split": "random",
        "model": model,
        "seed": seed,
        "num_parameters": 1000,
        "metric": "rmse",
        "train": 0.5 * test,
        "valid": 0.75 * test,
        "test": test,
        "epochs": 3,
        "seconds_per_epoch": 0.25,
        **changes,
    }


def write_results(
    folder: Path,
    records: Sequence[Mapping[str, Any]],
    *,
    digest: str = "0123456789abcdef",
    data: Mapping[str, Any] = DATA,
    training: Mapping[str, Any] = TRAINING,
    sizes: Mapping[str, Any] = SIZES,
    targets: Sequence[str] = ("potency",),
    versions: Mapping[str, str] | None = None,
    **more: Any,
) -> Path:
    """Writes a results folder with the runs of some records; gives its path."""
    names = dict.fromkeys(each["model"] for each in records)
    write_json(
        folder / "configuration.json",
        {
            "data": dict(data),
            "molecules": {"number": 10, "digest": digest},
            "training": dict(training),
            "models": [{**sizes, "name": name} for name in names],
            "seeds": sorted({each["seed"] for each in records}),
            "parts": {"train": 6, "valid": 2, "test": 2},
            "versions": dict(versions or {"python": "3.11.7", "torch": "2.13.0"}),
            "backend": {"products": "torch.mm"},
            "threads": 1,
            **more,
        },
    )
    write_json(folder / "metrics.json", list(records))
    tables = []
    for each in records:
        run = folder / "runs" / f"{each['model']}-seed{each['seed']}"
        epochs = [epoch(each, number + 1) for number in range(each["epochs"])]
        write_json(run / "run.json", {"record": each, "history": epochs})
        tables.append(predictions(each, targets))
        tables[-1].to_csv(run / "predictions.csv", index=False)
    pandas.concat(tables).to_csv(folder / "predictions.csv", index=False)
    return folder


def epoch(each: Mapping[str, Any], number: int) -> dict[str, float]:
    """An entry of a history."""
    metric = each["metric"]
    return {
        "epoch": number,
        f"train_{metric}": each["train"] + 1 / number,
        f"valid_{metric}": each["valid"] + 1 / number,
        "seconds": 0.25,
    }


def predictions(each: Mapping[str, Any], targets: Sequence[str]) -> pandas.DataFrame:
    """Four molecules a part, off by the record's error of the part upwards and downwards."""
    rows = [
        {
            "model": each["model"],
            "seed": each["seed"],
            "part": part,
            "row": row + 2,
            "smiles": "C" * (row + 1),
            "target": target,
            "y": 1.5 * row,
            "prediction": 1.5 * row + (-1) ** row * each[part],
        }
        for part in ("train", "valid", "test")
        for target in targets
        for row in range(4)
    ]
    return pandas.DataFrame(rows)


def write_json(path: Path, content: Any) -> None:
    """Writes a file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")
