"""What the steps of cells on CPU do with the rows of a token."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from pyg_kernels.ops.compiled import inlined


@inlined
def copy(row, out):
    """Copies the first entries of a row: as many as the other has, or the other way round."""
    for k in range(min(row.size, out.size)):
        out[k] = row[k]


@inlined
def add(row, out):
    """Adds a row to another, which may be longer; of arrays that are empty rows are, too."""
    for k in range(row.size):
        out[k] += row[k]


@inlined
def arrive(g_out, later, g):
    """The gradient of an output: that from later tokens, which is cleared, and its own."""
    zero = g.dtype.type(0)
    for k in range(g.size):
        g[k] = later[k]
        later[k] = zero
    for k in range(g_out.size):
        g[k] += g_out[k]
