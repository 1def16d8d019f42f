"""Which sites and templates there are, and how a suite's tasks are drawn from them.

Promises that splits have disjoint seeds, that any count is balanced over templates and sites, and that a task's id
alone (`sites/shop.add/17`) names its world. Gym and library are in no default: `SuiteConfig.sites` has to
name them.
"""

from functools import lru_cache

from rmsweb.config import SuiteConfig
from rmsweb.errors import ConfigError
from rmsweb.records import Task
from rmsweb.web.sites.booking import Bookings
from rmsweb.web.sites.forum import Forum
from rmsweb.web.sites.gym import Gym
from rmsweb.web.sites.help import Help
from rmsweb.web.sites.library import Library
from rmsweb.web.sites.shop import Shop
from rmsweb.web.sites.world import Template, World

SUITE = "sites"
SITES: dict[str, type[World]] = {site.site: site for site in (Shop, Forum, Bookings, Help, Gym, Library)}
DEFAULT_SITES = ("shop", "forum", "booking", "help")
MOST_STEPS = 12
SEEDS = {
    "train": range(0, 100_000),
    "dev": range(200_000, 300_000),
    "heldout": range(500_000, 600_000),
    "heldout_template": range(600_000, 700_000),
    "typed": range(700_000, 800_000),
}
"""Seeds of each split."""


def templates(config: SuiteConfig) -> list[tuple[str, Template]]:
    """(site, template) pairs of a suite's setting, sites taking turns. Raises ConfigError when there are none."""
    sites = config.sites or DEFAULT_SITES
    if unknown := sorted(set(sites) - set(SITES)):
        raise ConfigError(f"suite.sites: no site {', '.join(unknown)}; there are {', '.join(SITES)}")
    if config.split not in SEEDS:
        raise ConfigError(f"suite.split = {config.split!r}: the built-in sites have {', '.join(SEEDS)}")
    wanted = config.split if config.split in ("heldout_template", "typed") else "train"
    own = {site: [template for template in SITES[site].templates if template.split == wanted] for site in sites}
    longest = max(map(len, own.values()))
    turns = [(site, own[site][turn]) for turn in range(longest) for site in sites if turn < len(own[site])]
    names = {name for site, template in turns for name in (template.name, f"{site}.{template.name}")}
    if missing := sorted(set(config.templates) - names):
        raise ConfigError(
            f"suite.templates: {', '.join(missing)} not in split {config.split} of these sites; "
            f"there are {', '.join(f'{site}.{template.name}' for site, template in turns)}"
        )
    chosen = [
        (site, template)
        for site, template in turns
        if not config.templates or {template.name, f"{site}.{template.name}"} & set(config.templates)
    ]
    if not chosen:
        raise ConfigError(f"no template of split {config.split} on {', '.join(sites)}")
    return chosen


def tasks(config: SuiteConfig) -> list[Task]:
    """`count` tasks from `offset` on: templates in turn, each (template, seed) once."""
    chosen, seeds = templates(config), SEEDS[config.split]
    last = (config.offset + config.count - 1) // len(chosen)
    if last >= len(seeds):
        raise ConfigError(f"suite.offset + suite.count: split {config.split} has {len(seeds)} seeds per template")
    found = []
    for index in range(config.offset, config.offset + config.count):
        turn, place = divmod(index, len(chosen))
        site, template = chosen[place]
        found.append(make_task(site, template, seeds[turn], config.split))
    return found


def make_task(site: str, template: Template, seed: int, split: str) -> Task:
    """One task. `max_steps` is twice the scripted length plus four, at most twelve."""
    world = world_of(site, template.name, seed)
    return Task.model_validate(
        {
            "id": f"{SUITE}/{site}.{template.name}/{seed}",
            "suite": SUITE,
            "site": site,
            "template": f"{site}.{template.name}",
            "split": split,
            "goal": world.quest.goal,
            "seed": seed,
            "max_steps": min(MOST_STEPS, 2 * template.steps + 4),
        }
    )


@lru_cache(maxsize=512)
def world_of(site: str, template: str, seed: int) -> World:
    """The world of a task. Raises ConfigError for a task that these sites do not have."""
    if site not in SITES:
        raise ConfigError(f"no built-in site {site!r}; there are {', '.join(SITES)}")
    if template not in {known.name for known in SITES[site].templates}:
        raise ConfigError(f"site {site} has no template {template!r}")
    return SITES[site](template, seed)


def world_for(task: Task) -> World:
    """The world of a task of this suite."""
    return world_of(task.site, task.template.partition(".")[2], task.seed)
