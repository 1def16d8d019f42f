"""Stops a stage when the model or the browser is gone: episode after episode would break, and each would be used up.

Owns the count of episodes in a row that ended without an answer of the model or without a browser. A site that does not
load is no outage. Promises that what broke is owed when the same command goes on (the stages read it so).
"""

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
