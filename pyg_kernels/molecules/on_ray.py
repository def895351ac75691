"""Chunks of tables on a cluster, by Ray."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from pyg_kernels.chem.processes import AHEAD
from pyg_kernels.molecules.streaming import Part, on_one_thread


def mapped(function: Callable[[Part], Part], parts: Iterable[Part], address: str) -> Iterator[Part]:
    """``function(part)`` of each part, in order, on the workers of a cluster.

    They must have this package.
    """
    try:
        import ray
        from ray.util import ActorPool
    except ImportError as error:
        raise ImportError("--ray needs Ray: pip install 'pyg_kernels[ray]'") from error
    begun = not ray.is_initialized()
    if begun:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        where: Any = {"num_cpus": torch.get_num_threads()} if address == "local" else {}
        ray.init(
            address,
            include_dashboard=False if where else None,
            log_to_driver=False,
            logging_level=logging.ERROR,
            **where,
        )
    try:
        number = max(1, int(ray.cluster_resources().get("CPU", 1)))
        worker, shared = ray.remote(num_cpus=1)(_Worker), ray.put(function)
        pool = ActorPool([worker.remote(shared) for _ in range(number)])
        waiting = 0
        for part in parts:
            if waiting == AHEAD * number:
                yield pool.get_next()
                waiting -= 1
            pool.submit(lambda actor, sent: actor.call.remote(sent), part)
            waiting += 1
        while pool.has_next():
            yield pool.get_next()
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None
    finally:
        if begun:
            ray.shutdown()


class _Worker:
    """The function on one worker."""

    def __init__(self, function: Callable[[Part], Part]) -> None:
        self.function = function

    def call(self, part: Part) -> Part:
        return on_one_thread(self.function, part)
