"""Make many cases, let headcount read them, and say what became of them."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path

from tests.init.dirty_files.cases import DIRT_BY_NAME, Plan, make_plan
from tests.init.dirty_files.files import write
from tests.init.dirty_files.judge import FAULTS, KINDS, READERS, Verdict, judge
from tests.init.dirty_files.model import Case

Done = tuple[int, Case, Verdict]


def main() -> int:
    """Run the cases; 1 if one was silently wrong, or ended in a crash or a hang."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--cases", type=int, default=200)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--case", type=int, help="this one case alone")
    options.add_argument("--only", default="", help="only where shape or dirt has this in its name")
    options.add_argument("--more", type=int, default=0, help="kinds of dirt more than usual")
    options.add_argument("--reader", choices=READERS, default="headcount")
    options.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options.add_argument("--keep", type=Path, default=Path("build/dirty-files"))
    chosen = options.parse_args()
    numbers = [chosen.case] if chosen.case is not None else range(chosen.cases)
    wanted = [
        number
        for number in numbers
        if not chosen.only or chosen.only in _words(_plan(number, chosen).made())
    ]
    done: list[Done] = []
    for number, verdict in _judged(wanted, chosen):
        case = _plan(number, chosen).made()
        done.append((number, case, verdict))
        if verdict.fault or chosen.case is not None:
            _say(f"{verdict.kind}: seed {chosen.seed} case {number} ({_words(case)})")
            _say(f"  {verdict.said.strip().splitlines()[-1][:400]}")
    for line in table(done):
        _say(line)
    return int(any(verdict.fault for _, _, verdict in done) or len(done) != len(wanted))


def _judged(wanted: list[int], chosen: argparse.Namespace) -> Iterator[tuple[int, Verdict]]:
    tasks = [(_plan(number, chosen), number, chosen) for number in wanted]
    if chosen.workers == 1 or len(tasks) == 1:
        yield from map(one_case, tasks)
        return
    context = multiprocessing.get_context("spawn")  # threads of polars do not survive a fork
    # Its workers end by themselves (a signal may come while headcount has its own handler for it),
    # and one that dies is an error, not a wait for ever.
    with ProcessPoolExecutor(chosen.workers, context) as pool:
        yield from pool.map(one_case, tasks, chunksize=5)


def _plan(number: int, chosen: argparse.Namespace) -> Plan:
    return make_plan(number, seed=chosen.seed, more=chosen.more)


def one_case(task: tuple[Plan, int, argparse.Namespace]) -> tuple[int, Verdict]:
    """Judge a case; if it was read wrongly, keep its file, and one with less dirt."""
    plan, number, chosen = task
    reader = chosen.reader
    with tempfile.TemporaryDirectory() as scratch:
        verdict = _judge(plan, Path(scratch), reader)
        if not verdict.fault:
            return number, verdict
        kept = chosen.keep / f"{chosen.seed}-{number}"
        shutil.rmtree(kept, ignore_errors=True)
        less = smallest(plan, verdict, reader)
        for folder, one in ((kept, plan), (kept / "smaller", less)):
            if folder == kept or less.dirt != plan.dirt:
                folder.mkdir(parents=True)
                path = write(one.made(), folder)
                told = {"case": _words(one.made()), **asdict(_judge(one, folder, reader))}
                for made in set(folder.glob("*.*")) - {path}:
                    made.unlink()  # what a command wrote beside it
                text = json.dumps(told, indent=1, ensure_ascii=False)
                (folder / "verdict.json").write_text(text, encoding="utf-8")
    return number, verdict


def smallest(plan: Plan, verdict: Verdict, reader: str) -> Plan:
    """The same without the kinds of dirt that it takes no part of for the same fault."""
    for one in plan.dirt:
        less = replace(plan, dirt=tuple(other for other in plan.dirt if other != one))
        with tempfile.TemporaryDirectory() as scratch:
            if _judge(less, Path(scratch), reader).kind == verdict.kind:
                plan = less
    return plan


def _judge(plan: Plan, folder: Path, reader: str) -> Verdict:
    case = plan.made()
    return judge(case, write(case, folder), READERS[reader])


def _words(case: Case) -> str:
    return ", ".join([case.shape, *(f"+{one}" for one in case.dirt)])


def table(done: list[Done]) -> list[str]:
    """Ends by shape and by dirt, and one line for all."""
    lines = []
    groups: list[tuple[str, list[str]]] = [
        ("shape", sorted({case.shape for _, case, _ in done})),
        ("dirt", ["none", *DIRT_BY_NAME]),
    ]
    for title, names in groups:
        lines.append(title.ljust(28) + "".join(kind.rjust(17) for kind in KINDS))
        for name in names:
            own = [
                verdict.kind
                for _, case, verdict in done
                if name in (case.shape, *(case.dirt or ("none",)))
            ]
            if own:
                lines.append(name.ljust(28) + "".join(f"{own.count(k):17}" for k in KINDS))
        lines.append("")
    sums = Counter(verdict.kind for _, _, verdict in done)
    may = [verdict for _, case, verdict in done if not case.ask]
    must = [verdict for _, case, verdict in done if case.ask]
    asked = [verdict for verdict in must if verdict.kind == "asked"]
    right = [verdict for verdict in may if verdict.kind == "right"]
    lines.append(
        f"{len(done):,} files: silently wrong {sum(sums[k] for k in FAULTS[:3])}, "
        f"crash {sums['crash']}, hang {sums['hang']}"
    )
    lines.append(
        f"{len(may):,} that may be read: right {len(right)} "
        f"({sum(one.left_out for one in right)} without an attribute), "
        f"asked {sum(one.kind == 'asked' for one in may)}"
    )
    lines.append(
        f"{len(must):,} to be asked about: asked {len(asked)} "
        f"({sum(one.cause_named for one in asked)} with the cause named), "
        f"right numbers taken without proof {sums['unproved']}"
    )
    return lines


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
