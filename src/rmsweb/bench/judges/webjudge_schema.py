"""The two file schemas of stored WebJudge runs, as far as they are used; public field names of others are kept. Pure.

Strict in types, open to unknown fields: a wrong one is a DataError that names file, line and field.
"""

from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rmsweb.errors import DataError

M = TypeVar("M", bound=BaseModel)


class Open(BaseModel):
    """Closed to wrong types, open to fields that nobody here needs."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)


class Picture(Open):
    """One reply to a screenshot and the score that was stored."""

    Response: str | None
    Score: int


class Message(Open):
    """A message of the final call."""

    role: str
    content: str | list[dict[str, Any]] | None = None


class ChoiceMessage(Open):
    """The text of a choice."""

    content: str | None = None


class Choice(Open):
    """One choice of the endpoint's answer."""

    message: ChoiceMessage


class Response(Open):
    """The endpoint's answer to the final call."""

    choices: list[Choice]
    model: str | None = None


class Info(Open):
    """AgentLab's summary of the agent's run."""

    n_steps: float | None = None
    input_tokens: float | None = Field(default=None, alias="stats.cum_input_tokens")
    output_tokens: float | None = Field(default=None, alias="stats.cum_output_tokens")
    cost: float | None = Field(default=None, alias="stats.cum_cost")
    reward: float | None = Field(default=None, alias="cum_reward")
    err_msg: str | None = None


class Trajectory(Open):
    """What is stored of the judged trajectory."""

    summary_info: Info | None = None


class Judgment(Open):
    """AgentRewardBench: one judged trajectory, one file."""

    benchmark: str
    goal: str
    agent: str
    task_id: str | None = None
    judge_model_name: str
    image_judge_record: list[Picture]
    key_points: str
    input_text: str
    system_msg: str
    response: Response
    chat_messages: list[Message] | None = None
    trajectory_info: Trajectory | None = None


class Details(Open):
    """The final reply."""

    response: str | None = None


class Step(Open):
    """A step of a submission's second layout (`schema_version` "online-mind2web-v2")."""

    action: str
    thought: str | None = None
    screenshot: str


class Result(Open):
    """Online-Mind2Web: one judged trajectory, one line."""

    task_id: str
    task: str
    action_history: list[str] | list[Step] | None = None
    thoughts: list[str] | None = None
    image_judge_record: list[Picture]
    key_points: str
    input_text: str
    system_msg: str
    evaluation_details: Details
    predicted_label: int | None = None


def checked(model: type[M], value: dict[str, Any], path: Path, line: int | None = None) -> M:
    """The value as the model. Raises DataError for the first field that is wrong."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise DataError(f"field {where}: {first['msg']} ({error.error_count()} wrong)", path, line) from None
