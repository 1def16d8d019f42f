"""The four judges that go by the name WebVoyager: original, Fara, MolmoWeb, OSU."""

from rmsweb.bench.judges.webvoyager_parse import Interact, read_interact_messages

__all__ = ["Interact", "read_interact_messages"]
