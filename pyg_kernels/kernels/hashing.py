"""64-bit hashes of labels and tokens, equal in every collection, process and device."""

from __future__ import annotations

from hashlib import blake2b

import torch
from torch import Tensor

ALIKE = -7046029254386353131  # 2^64 divided by the golden ratio, as a signed number
ODD = -4658895280553007687
ODDER = -7723592293110705685
_MOST_EXACT = 2.0**53


def token_hash(token: str) -> int:
    """The hash of a string."""
    encoded = token.encode(errors="surrogatepass")
    return int.from_bytes(blake2b(encoded, digest_size=8).digest(), "big", signed=True)


def mixed(values: Tensor) -> Tensor:
    """A bijection of 64-bit numbers that maps similar numbers to unrelated ones."""
    values = values ^ _shifted(values, 30)
    values = values * ODD
    values = values ^ _shifted(values, 27)
    values = values * ODDER
    return values ^ _shifted(values, 31)


def row_hashes(values: Tensor) -> Tensor:
    """A hash of each row, (N,); whole numbers below 2^53 have the same hash in every dtype."""
    numbers = _as_integers(values if values.dim() == 2 else values.unsqueeze(1))
    # Each number is mixed weakly: differences in high bits reach the low ones. The products with
    # random factors mix the rest.
    numbers = numbers * ODD
    numbers = numbers ^ _shifted(numbers, 32)
    generator = torch.Generator().manual_seed(0)
    limits = torch.iinfo(torch.int64)
    factors = torch.randint(limits.min, limits.max, (numbers.size(1),), generator=generator)
    return mixed((numbers * factors.to(numbers.device)).sum(dim=1) + ALIKE + numbers.size(1))


def _as_integers(values: Tensor) -> Tensor:
    if not values.is_floating_point():
        return values.long()
    values = values.double()
    whole = (values == values.round()) & (values.abs() < _MOST_EXACT)
    numbers = values.where(whole, 0).long()
    if bool(whole.all()):
        return numbers
    return numbers.where(whole, mixed(values.view(torch.int64) + ALIKE))


def _shifted(values: Tensor, bits: int) -> Tensor:
    """The values shifted right by some bits, zeros shifted in (`>>` alone repeats the sign)."""
    return (values >> bits) & ((1 << (64 - bits)) - 1)
