"""Text form of actions: what a model writes <-> what it means. Pure.

Tolerant where the meaning is certain (every leniency is named in `Parsed.repairs`), a typed ReplyError where it is not.
Never executes JSON that is only talked about (see blocks.py for where a call may stand), nor a call that was cut.
Calls that mean the same count once; `answer` followed by `terminate` with success is the answer; any other two valid
calls that differ are an error; a broken call beside a valid one is ignored and noted.

    reading.py    parse_reply: thought, intent, action      writing.py   format_call: its inverse
    blocks.py     where the committed call stands           arguments.py its JSON -> an Action
    fields.py     typed readers, errors                     repair.py    nearly JSON -> JSON      keys.py  key names
"""

from rmsweb.replies.fields import ParseErrorKind, ReplyError
from rmsweb.replies.keys import canonical_key
from rmsweb.replies.reading import Parsed, parse_command, parse_reply
from rmsweb.replies.writing import call_fields, format_call, resized_size, written_point

__all__ = [
    "ParseErrorKind",
    "Parsed",
    "ReplyError",
    "call_fields",
    "canonical_key",
    "format_call",
    "parse_command",
    "parse_reply",
    "resized_size",
    "written_point",
]
