"""Stops a stage when the model or the browser is gone: episode after episode would break, and each would be used up.

Owns the count of episodes in a row that ended without an answer of the model or without a browser. A site that does not
load is no outage. Promises that what broke is owed when the same command goes on (the stages read it so).
"""

from collections.abc import Iterable

from rmsweb.errors import RunError
from rmsweb.records import INFRA_STOPS, Stop, Trajectory

IN_A_ROW = 8
"""At least; with many episodes at once, twice as many as there are."""
BROWSER_GONE = ("launch", "browser_gone")
"""Reasons of a BrowserError that say that there is no browser."""


def owed_again(trajectory: Trajectory) -> bool:
    """Whether a stored episode says nothing of the policy and is played again by a run that goes on.

    A replay that drifted does say something: the state cannot be restored.
    """
    return trajectory.stop in INFRA_STOPS and "replay:" not in trajectory.detail


def what_broke(trajectories: Iterable[Trajectory]) -> str:
    """What to say at the end of a stage whose episodes broke at every try, so that it still owes them; else nothing."""
    owed = [trajectory for trajectory in trajectories if owed_again(trajectory)]
    if not owed:
        return ""
    first = f"{owed[0].stop.value}: {owed[0].detail}".rstrip(": ")
    return (
        f"{len(owed)} episode{'s' * (len(owed) > 1)} had no model or no browser at every try (the first says {first}); "
        "they count as infra errors and the run is not finished: the same command plays them again"
    )


class Outage:
    """Call it with each episode as it ends."""

    def __init__(self, concurrency: int) -> None:
        self._limit = max(IN_A_ROW, 2 * concurrency)
        self._streak: list[Trajectory] = []

    def __call__(self, trajectory: Trajectory) -> None:
        """Raises RunError when as many episodes in a row as the limit says had no model or no browser."""
        gone = trajectory.stop is Stop.MODEL_ERROR or (
            trajectory.stop is Stop.BROWSER_ERROR and trajectory.detail.startswith(BROWSER_GONE)
        )
        self._streak = [*self._streak, trajectory] if gone else []
        if len(self._streak) >= self._limit:
            raise RunError(
                f"{len(self._streak)} episodes in a row ended without an answer of the model or without a browser; "
                f"the first says: {self._streak[0].detail}; once it is cured the same command goes on, with these again"
            )
