"""Chunks of tables on a cluster, by Ray Data."""

from __future__ import annotations

import logging
import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from pyg_kernels.molecules.streaming import Part, on_one_thread, read_parts

Batch = dict[str, Any]


def mapped(
    function: Callable[[Part], Part],
    files: Sequence[str],
    encoding: str,
    address: str,
) -> Iterator[Part]:
    """Yields ``function(part)`` for all rows of files, in order, from the workers of a cluster.

    Chunks are the same as in one process, and so are results. The workers read the files: each must
    find them under the same names, and have this package.
    """
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise ImportError("--ray needs Ray Data: pip install 'pyg_kernels[ray]'") from error
    begun = not ray.is_initialized()
    if begun:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        where: Any = {"num_cpus": torch.get_num_threads()} if address == "local" else {}
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        ray.init(
            address,
            include_dashboard=False if where else None,
            log_to_driver=False,
            logging_level=logging.ERROR,
            **where,
        )
    try:
        given = {os.path.abspath(path): path for path in files}
        names = ray.data.from_items(list(given))
        names.context.execution_options.preserve_order = True
        names.context.enable_progress_bars = False
        names.context.target_max_block_size = 1  # each chunk by itself, for any worker
        workers = max(1, int(ray.cluster_resources().get("CPU", 1)))
        # Reading reserves no core, since the workers hold all of them.
        read: Any = _read
        rows = names.map_batches(
            read,
            batch_size=1,
            num_cpus=0,
            fn_kwargs={"encoding": encoding},
        )
        done = rows.map_batches(
            _Worker,
            batch_size=1,
            num_cpus=1,
            compute=ray.data.ActorPoolStrategy(size=workers),
            fn_constructor_args=(function,),
        )
        for batch in done.iter_batches(batch_size=1, batch_format="numpy"):
            path, frame = _unpacked(batch)
            if isinstance(frame, Exception):
                raise frame
            yield given[path], frame
    finally:
        if begun:
            ray.shutdown()


def _read(batch: Batch, encoding: str) -> Iterator[Batch]:
    """Reads the chunks of a file, a row each."""
    path = str(batch["item"][0])
    try:
        for _, frame in read_parts([path], encoding):
            yield _packed(path, frame)
    except Exception as error:  # Ray would pass on only its text
        yield _packed(path, error)


class _Worker:
    """The function on one worker."""

    def __init__(self, function: Callable[[Part], Part]) -> None:
        self.function = function

    def __call__(self, batch: Batch) -> Batch:
        path, found = _unpacked(batch)
        if not isinstance(found, Exception):
            try:
                found = on_one_thread(self.function, (path, found))[1]
            except Exception as error:
                found = error
        return _packed(path, found)


def _packed(path: str, found: Any) -> Batch:
    """Packs rows, with their lines and types, or an error, into a row of a Ray data set."""
    return {"path": np.array([path]), "rows": np.array([pickle.dumps(found)], dtype=object)}


def _unpacked(batch: Batch) -> tuple[str, Any]:
    return str(batch["path"][0]), pickle.loads(batch["rows"][0])
