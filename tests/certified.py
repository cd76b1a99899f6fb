"""A certified run with everything that was made on the way, its options given by name alone."""

from dataclasses import fields
from typing import Any

from dpaudit.pipeline import certify
from dpaudit.pipeline.certify import AuditOptions, Certified, FigureOptions, RunOptions, Telling


def certified(algorithm: Any, data: Any, *, claim: Any = None, **options: Any) -> Certified:
    """Each option goes to the stage that has a field of its name."""

    def stage(kind: Any) -> Any:
        return kind(**{one.name: options.pop(one.name) for one in fields(kind) if one.name in options})

    stages = {"running": RunOptions, "auditing": AuditOptions, "figures": FigureOptions, "telling": Telling}
    given = {name: stage(kind) for name, kind in stages.items()}
    assert not options, options
    return certify.certified(algorithm, data, claim, **given)
