"""Which of several processes this is, as ``torchrun`` says in the environment.

Nothing here imports torch: what is printed is asked before anything is computed.
"""

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Processes:
    """The processes that train together, and this one's place among them.

    Args:
        rank (int): Of this process, from 0; the first one prints and writes.
        number (int): Of processes on all machines; 1: nothing is divided.
        local_rank (int): Of this process among those of its machine, which is its device as well.
        local_number (int): Of processes on each machine.
    """

    rank: int = 0
    number: int = 1
    local_rank: int = 0
    local_number: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this process prints and writes."""
        return self.rank == 0

    @property
    def share(self) -> tuple[int, int]:
        """Rank and number: what a loader of batches is told."""
        return self.rank, self.number

    @property
    def machines(self) -> int:
        """The number of machines."""
        return self.number // self.local_number


def processes() -> Processes:
    """The processes of this program: one, unless ``torchrun`` started several.

    Raises:
        ValueError: If the environment says that there are several but not which one this is, or
            machines run different numbers of them.
    """
    if os.environ.get("WORLD_SIZE", "1") == "1":
        return Processes()
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    try:
        found = Processes(*[int(os.environ[name]) for name in names])
    except (KeyError, ValueError) as error:
        raise ValueError(
            f"several processes are started by torchrun, which sets {', '.join(names)}; "
            f"here WORLD_SIZE is {os.environ['WORLD_SIZE']} and not all of them are numbers"
        ) from error
    if found.machines * found.local_number != found.number:
        raise ValueError(
            f"every machine must run as many processes as the others; here {found.number} in all "
            f"and {found.local_number} on this one"
        )
    return found


def is_first() -> bool:
    """Whether this process prints and writes: the only one, or the first of several."""
    return os.environ.get("WORLD_SIZE", "1") == "1" or os.environ.get("RANK", "0") == "0"
