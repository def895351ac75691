"""Scans of recurrences on CPU: programs, called in loops that threads share."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from pyg_kernels.ops.compiled import array, run
from pyg_kernels.ops.product import products
from pyg_kernels.ops.program import Program
from pyg_kernels.ops.ragged import Layout
from pyg_kernels.ops.scan.loop import Tasks, along, along_fed, back_fed, rows_of
from pyg_kernels.ops.scan.traced import Kernels, Memory


def _run(program: Program, layout: Layout, memory: Memory, fed: Sequence[Any], back: bool) -> None:
    rows = memory["c"][0][0]
    tasks = Tasks.of(layout, rows.size(1), len(fed) > 0, program.whole)
    given = tasks.number, rows.numel(), tuple(tasks), program.address, program.table(memory)
    if not fed:
        run(along, *given, back)
        return
    feed, mask, *others = fed
    arrays = array(feed), array(mask, feed), *map(array, others)
    run(back_fed if back else along_fed, *given, products(rows.dtype), *arrays)


def _parts(layout: Layout, together: bool) -> int:
    parts = layout.num_texts
    parts = min(torch.get_num_threads(), parts) if together else parts
    return parts * rows_of(layout, together)[1]


kernels = partial(Kernels, Program, _run, _parts)
