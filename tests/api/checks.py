"""What schemathesis holds answers against besides its own checks: a request as the description wants it is carried out,
and every message stands in the reference with its remedy.

schemathesis' own check of that takes no refusal at all. No schema can say whether values fit one another and what there
is, so the program names such refusals, and only these are taken.
"""
import itertools
import os
import re

import schemathesis
from schemathesis.specs.openapi.checks import positive_data_acceptance

# Reasons of a 400 that say so (docs/reference/errors.md); no other reason, and no 400 without one.
REASONS = ("does-not-fit", "wrong-cursor")
# The object is not as `If-Match` says it was seen; the key belongs to another request.
OF_WHAT_IS_THERE = (412, 422)


def reason(response):
    try:
        return response.json().get("reason")
    except ValueError:
        return None


def has_described_headers(case):
    """Coverage makes headers of letters and digits alone, also where a pattern wants others."""
    for parameter in case.operation.definition.raw.get("parameters", []):
        value = (case.headers or {}).get(parameter["name"]) if parameter["in"] == "header" else None
        wanted = parameter["schema"].get("pattern")
        if value is not None and wanted is not None and re.search(wanted, str(value)) is None:
            return False
    return True


MADE_UP = itertools.count()


def look_briefly(case):
    """A look at a volume takes as many seconds as it is told, up to a minute: one says the same."""
    for parameter in case.operation.definition.raw.get("parameters", []):
        if parameter["in"] != "query" or parameter["name"] != "seconds":
            continue
        told = str((case.query or {}).get("seconds", ""))
        if told.isdecimal() and 1 < int(told) <= parameter["schema"]["maximum"]:
            case.query["seconds"] = 1


@schemathesis.hook
def before_call(_context, case, _kwargs):
    """A key is made up for each request of a story: with one of an earlier story a create gets that one's answer, of an
    object that may be deleted since."""
    look_briefly(case)
    phase = case.meta.phase.name if case.meta is not None else None
    key = (case.headers or {}).get("Idempotency-Key")
    if getattr(phase, "name", None) == "STATEFUL" and key is not None and has_described_headers(case):
        case.headers["Idempotency-Key"] = f"{str(key)[:200]}-{next(MADE_UP)}"


@schemathesis.check
def what_is_described_is_carried_out(ctx, response, case):
    if not has_described_headers(case):
        return None
    if response.status_code in OF_WHAT_IS_THERE:
        return None
    if response.status_code == 400 and reason(response) in REASONS:
        return None
    return positive_data_acceptance(ctx, response, case)


def pattern(template):
    """Of a text with what is filled in between braces."""
    return re.compile(".*".join(re.escape(part) for part in re.split("[{}]", template)[::2]), re.DOTALL)


def messages():
    """Patterns of every message of the reference, each with those of what to do."""
    page = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "reference", "messages.md")
    found = []
    with open(page, encoding="utf-8") as file:
        for line in file:
            cells = line.rstrip(" |\n").removeprefix("| ").replace("\\|", "\0").split(" | ")
            if len(cells) == 3 and cells[0] != "message" and not cells[0].startswith("---"):
                said, remedies = (cell.replace("\0", "|") for cell in cells[:2])
                found.append((pattern(said), [pattern(one) for one in remedies.split("; or: ")]))
    if len(found) < 300:
        raise SystemExit(f"api: {page} has {len(found)} messages")
    return found


MESSAGES = messages()
KNOWN = set()


@schemathesis.check
def message_stands_in_the_reference(_ctx, response, _case):
    if response.status_code < 400:
        return
    problem = response.json()
    detail, remedy = problem["detail"], problem["remedy"]["command"]
    if (detail, remedy) in KNOWN:
        return
    for said, remedies in MESSAGES:
        if said.search(detail) and any(one.search(remedy) for one in remedies):
            KNOWN.add((detail, remedy))
            return
    raise AssertionError(f"docs/reference/messages.md lacks `{detail}` with `{remedy}`")
