"""The plan of a periodic task, for the server. What it does not know stays with Celery's own beat."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

from celery.schedules import BaseSchedule, crontab, schedule

#: The fields of a cron, with what all of their values are.
_FIELDS = {
    "minute": range(60),
    "hour": range(24),
    "day_of_month": range(1, 32),
    "month_of_year": range(1, 13),
    "day_of_week": range(7),
}


def plan_of(when: BaseSchedule) -> dict[str, Any] | None:
    """Returns the plan of an interval or a crontab, as `Queue.every` has it, or None."""
    if type(when) is schedule and not when.relative:
        return {"seconds": max(when.run_every, timedelta(milliseconds=1))}
    if type(when) is not crontab or (zone := _zone(when)) is None:
        return None
    fields = {name: _field(when, name) for name in _FIELDS}
    if "*" not in (fields["day_of_month"], fields["day_of_week"]):
        # Both must match in Celery, and one of them in a cron.
        return None
    return {"cron": " ".join(fields.values()), "zone": zone}


def _field(when: Any, name: str) -> str:
    told = str(getattr(when, f"_orig_{name}"))
    if re.fullmatch(r"\*(/\d+)?", told):
        return told
    values = set(getattr(when, name))
    return "*" if values == set(_FIELDS[name]) else ",".join(map(str, sorted(values)))


def _zone(when: BaseSchedule) -> str | None:
    """Returns the name of the zone; None for that of the machine, which has none."""
    if (name := getattr(when.tz, "key", None) or getattr(when.tz, "zone", None)) is not None:
        return str(name)
    return "UTC" if str(when.tz) == "UTC" else None
