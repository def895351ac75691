"""``pyg-kernels export``: the networks of a run as one ONNX graph."""

from __future__ import annotations

import io
import json
from argparse import Namespace
from contextlib import redirect_stderr
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.export import Dim

from pyg_kernels.datasets.public_file import write_whole
from pyg_kernels.molecules.command import say
from pyg_kernels.molecules.inputs import Molecules, featurizer_by_name
from pyg_kernels.molecules.methods import KernelMethod, Outputs, mixture_of
from pyg_kernels.molecules.runs import Run
from pyg_kernels.molecules.training import MoleculeBatches, quiet
from pyg_kernels.tables import FileError, refuse_existing

EXAMPLES = ["CCO", "c1ccccc1C", "CC(=O)O"]  # any will do: all sizes are left open
_FARTHEST = 1e4  # standard deviations; beyond, single precision rounds by 0.001 of one


class ExportedEnsemble(torch.nn.Module):
    """The mixture of an estimator's networks, on tensors, in the targets' own units."""

    def __init__(self, estimator: Any) -> None:
        super().__init__()
        self.members = estimator.members_
        self.kind = estimator.task_.kind
        self.nets = torch.nn.ModuleList(member.net for member in self.members)
        self.units = [
            [_tensor(getattr(member, name)) for name in ("mean", "std", "noise")]
            for member in self.members
        ]
        self.weights = _tensor(estimator.member_weights())
        varies = np.isfinite(estimator.extra_scale_)  # nothing was learned of constant columns
        self.extra_mean = _tensor(np.where(varies, estimator.extra_mean_, 0))
        self.extra_scale = _tensor(estimator.extra_scale_)

    def forward(
        self, x: Tensor, edge_index: Tensor, edge_attr: Tensor, ptr: Tensor, extra: Tensor | None
    ) -> Any:
        """Mean and standard deviation ``(B, T)`` of B molecules, or probabilities.

        Takes atoms ``(N, F)``; bonds ``(2, E)`` in both directions, with features ``(E, A)``; the
        first atom of each molecule, then N, ``(B + 1,)``; and extra columns ``(B, C)``.
        """
        starts = torch.zeros(x.size(0) + 1, dtype=ptr.dtype)
        starts = starts.scatter_add(0, ptr[1:], torch.ones_like(ptr[1:]))
        batch = SimpleNamespace(
            x=x,
            edge_index=edge_index,
            edge_attr=edge_attr,
            batch=starts.cumsum(0)[:-1],
            num_graphs=ptr.size(0) - 1,
            extra=None if extra is None else (extra - self.extra_mean) / self.extra_scale,
        )
        outputs = [net(batch) for net in self.nets]
        if self.kind != "regression":
            own = [out.sigmoid() if self.kind == "binary" else out.softmax(1) for out in outputs]
            return sum(weight * each for weight, each in zip(self.weights, own, strict=True))
        joined = []
        for out, member, (center, std, noise) in zip(
            outputs, self.members, self.units, strict=True
        ):
            found: Any = Outputs(out * std + center, noise.expand_as(out))  # type: ignore[arg-type]
            member.with_shares(found.mean, torch.sigmoid)
            joined.append(member.task.hurdles.joined(found))
        mixture: Any = mixture_of(joined, self.weights)  # type: ignore[arg-type]
        return mixture.mean, mixture.variance.clamp(min=0).sqrt()


def _tensor(values: Any) -> Tensor:
    return torch.from_numpy(np.array(values)).float()


def export(options: Namespace) -> None:
    """Writes FILE.onnx, and FILE.json, which describes its inputs and outputs."""
    path = Path(options.out)
    if path.suffix != ".onnx" or not path.parent.is_dir():
        raise FileError(f"{path}: expected a file .onnx in a folder that exists")
    described = path.with_suffix(".json")
    for each in (path, described):
        refuse_existing(each, options.overwrite)
    run = Run(options.runs[0], options.trust)
    estimator = run.estimator
    kernels = [m.model for m in estimator.members_ if isinstance(m, KernelMethod)]
    if kernels:
        raise ValueError(f"{run.folder}: {kernels[0]} keeps its molecules, only networks export")
    say("exporting ...")
    program = exported(estimator)
    write_whole(path, lambda part: part.write_bytes(program.model_proto.SerializeToString()))
    featurizer = featurizer_by_name(estimator.featurizer)
    known = {
        "featurizer": estimator.featurizer,
        "features": featurizer.fingerprint,
        "standardize": estimator.standardize,
        "inputs": {
            "x": ["atoms", featurizer.atom_dim],
            "edge_index": [2, "bonds, both directions"],
            "edge_attr": ["bonds, both directions", featurizer.bond_dim],
            "ptr": ["molecules + 1"],
            **({"extra": ["molecules", len(run.extra_columns)]} if run.extra_columns else {}),
        },
        "outputs": _outputs(estimator),
        "extra_columns": run.extra_columns,
        "targets": run.names,
        "classes": run.classes and [list(map(str, each)) for each in estimator.each_classes_],
    }
    if run.classes is None:  # mean - q std to mean + q std
        scale = estimator.interval_scale(0.9)
        known["interval_scale_90"] = [None if np.isnan(q) else float(q) for q in scale]
    described.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
    say(f"wrote {path} and {described}")


def _outputs(estimator: Any) -> list[str]:
    return ["mean", "std"] if estimator.task_.kind == "regression" else ["probability"]


def _check_range(what: str, mean: Any, *variances: Any) -> None:
    """Raises if single precision cannot hold the means or variances of these numbers."""
    limits = np.finfo(np.float32)
    for values in variances:
        known = values[(values > 0) & np.isfinite(values)]
        if ((known < limits.tiny) | (known > limits.max)).any():
            raise ValueError(f"variances of {what} do not fit single precision: rescale them")
    varies = np.isfinite(variances[0])
    if (np.abs(mean)[varies] > _FARTHEST * np.sqrt(variances[0])[varies]).any():
        raise ValueError(f"{what} are too far from 0 for single precision: subtract an offset")


def exported(estimator: Any) -> Any:
    """The program that :func:`torch.onnx.export` makes, for any numbers of atoms and bonds."""
    _check_range("extra columns", estimator.extra_mean_, estimator.extra_scale_**2)
    for member in estimator.members_:
        member.net.cpu().eval()
        _check_range("targets", member.mean, member.std**2, member.noise)
    number = len(estimator.columns_)
    molecules = Molecules(EXAMPLES, estimator.columns_, np.zeros((len(EXAMPLES), number)))
    batch = next(iter(MoleculeBatches(molecules, estimator.featurizer)))
    extra = batch.extra if number else None
    atoms, bonds, size = Dim("atoms"), Dim("bonds"), Dim("molecules")
    shapes = ({0: atoms}, {1: bonds}, {0: bonds}, {0: size + 1}, {0: size} if number else None)
    try:
        # No notes on missing torchvision, nor the graph of a network that cannot be exported.
        with quiet(["torch.onnx"], ""), redirect_stderr(io.StringIO()), torch.no_grad():
            return torch.onnx.export(
                ExportedEnsemble(estimator).eval(),
                (batch.x, batch.edge_index, batch.edge_attr, batch.ptr, extra),
                dynamo=True,
                dynamic_shapes=shapes,
                input_names=["x", "edge_index", "edge_attr", "ptr", *["extra"] * (number > 0)],
                output_names=_outputs(estimator),
                verbose=False,
            )
    except torch.onnx.errors.OnnxExporterError as error:
        models = ", ".join(dict.fromkeys(member.model for member in estimator.members_))
        raise ValueError(
            f"PyTorch cannot export {models}: pooling, as in attentive-fp, that is not told the "
            "batch_size reads it from the data"
        ) from error
