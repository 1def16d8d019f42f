"""The closed vocabulary that the built-in sites write with and the tiny base model can read.

Owns words only: no page, goal or world. The sites may show no word outside this list in the compact theme
(a test holds them to it); the tiny tokenizer has one token for each entry. Numbers 0..99 belong to it too.
"""

COLORS = tuple("red blue green black white pink gold grey".split())
NOUNS = tuple("mug lamp chair bag shoe clock desk phone book ring hat drum".split())
PEOPLE = tuple("ann bob cal dee eve fay gus hal ivy jon".split())
TOPICS = tuple("cats dogs games music cars films food art maps chess golf yoga".split())
CITIES = tuple("rome paris oslo cairo lima delhi tokyo quito".split())
ROOMS = tuple("single twin double suite".split())
SUBJECTS = tuple("refund billing login delivery account password order coupon".split())
REMARKS = tuple("thanks agreed great hello".split())
PRIORITIES = tuple("low normal urgent".split())
STATES = tuple("open closed late paid".split())

THINGS: tuple[tuple[str, ...], ...] = (
    COLORS, NOUNS, PEOPLE, TOPICS, CITIES, ROOMS, SUBJECTS, REMARKS, PRIORITIES, STATES,
)  # fmt: skip

CONTROLS = tuple(
    "home search sort next prev help comment like liked confirm contact send add cart accept reject cancel "
    "follow following status save cases bookings guests filter post close move topic priority details members "
    "join joined classes reply rules hide show more top new continue done go remove".split()
)
"""Labels of links, buttons and fields."""

NOTES = tuple(
    "empty results no cookies booked sent missing added posted cancelled moved blocked robot check loading code "
    "wait stars price by on at replies likes seats closed".split()
)
"""Words of plain text on pages."""

GOAL_WORDS = tuple(
    "the a an to of in for on about with by and what who how many is are has have wrote does cost thread threads "
    "ticket case booking room item cheapest most least answer question put leave remark member class tell me find "
    "long time author site page write order buy stay night one two it from".split()
)
"""Words of task goals that stand on no page."""

ACTION_WORDS = tuple("click type answer select scroll wait key stop into then".split())
"""Words of the one-line action history."""

NUMBERS = tuple(str(i) for i in range(100))


def words() -> tuple[str, ...]:
    """Every entry once, in a stable order."""
    seen: dict[str, None] = {}
    for group in (*THINGS, CONTROLS, NOTES, GOAL_WORDS, ACTION_WORDS, NUMBERS, ("$", "?", "*")):
        for word in group:
            seen.setdefault(word)
    return tuple(seen)
