"""A pytest plugin that runs the collected tests once, and then against each mutant those that come to its line.

A mutant lives in the memory of a child process alone: the code of the living function is replaced there, so that no
file is ever changed and nothing is imported twice. The quickest tests come first, and before them those that have
killed a mutant of the same function.
"""

from __future__ import annotations

import ast
import builtins
import gc
import json
import math
import os
import resource
import select
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType

import psutil
import pytest
from _pytest.runner import runtestprotocol
from hypothesis import Phase, settings

from tools.mutants.living import Functions, become, codes, living
from tools.mutants.making import Mutant, Statements, blocks

_REACHED = "__reached__"
_FILE = 100_000  # more lines than a file has
_LEAST_SECONDS = 5.0  # of the processor, before a mutant is held to loop for ever
_TIMES = 5  # and so many times what its tests need
_BROKEN = 3  # how a child ends that could not become its mutant
_IDLE_SECONDS = 20.0  # without a step of the processor, before it is held to wait for ever


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--mutants", metavar="FILE", help="the mutants to run, as JSON")
    parser.addoption("--results", metavar="FILE", help="to which a line of JSON is added for each")
    parser.addoption("--budget", type=float, default=math.inf, help="seconds of the processor for one mutant's tests")
    parser.addoption("--children", type=int, default=2, help="how many mutants run at once")


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    # What fails need not be made smaller: that it fails is all there is to know.
    settings.register_profile("mutants", settings(), phases=(Phase.explicit, Phase.generate), max_examples=40)
    settings.load_profile("mutants")


def pytest_runtestloop(session: pytest.Session) -> bool:
    option, root = session.config.getoption, Path(session.config.rootpath)
    told = json.loads(Path(option("--mutants")).read_text(encoding="utf-8"))
    explained = [each.pop("explained") for each in told]
    mutants = [Mutant(**each) for each in told]
    functions = living({each.file for each in mutants}, root)
    suite = Suite(session.items)
    suite.learn(functions, root)
    # Most die within the budget; who does not, and is not explained, meets every test.
    again: list[Mutant] = []
    with Path(option("--results")).open("a", encoding="utf-8") as out:
        for budget, some in ((option("--budget"), mutants), (math.inf, again)):
            for number, (mutant, result) in enumerate(suite.run(some, functions, budget, option("--children"))):
                if result["result"] == "survived" and budget < math.inf and not explained[mutants.index(mutant)]:
                    again.append(mutant)
                out.write(json.dumps({"id": mutant.id, **result}) + "\n")
                out.flush()
                print(f"\r{number + 1} of {len(some)} mutants", end="", file=sys.__stderr__, flush=True)
    return True


class Suite:
    """The tests, how long each takes, and which come to which line."""

    def __init__(self, items: list[pytest.Item]) -> None:
        self.items = items
        self.took: list[float] = []
        self.reach: dict[tuple[str, int], set[int]] = defaultdict(set)
        variants: Counter[str] = Counter()
        self.variant: list[int] = []  # the first of the variants of each test before the second of any
        for each in items:
            test = each.nodeid.partition("[")[0]
            self.variant.append(variants[test])
            variants[test] += 1
        self.killers: dict[tuple[str, str], list[int]] = defaultdict(list)
        self.trusted: set[int] = set()

    def learn(self, functions: Functions, root: Path) -> None:
        """Runs every test once, on functions that tell which lines are reached."""
        files = sorted({file for file, _, _ in functions})
        originals: list[tuple[FunctionType, CodeType]] = []
        for number, file in enumerate(files):
            for code in codes(_telling(root / file, number * _FILE)):
                for function in functions.get((file, code.co_firstlineno, code.co_name), []):
                    if len(function.__code__.co_freevars) == len(code.co_freevars):
                        originals.append((function, function.__code__))
                        function.__code__ = code
        for index, item in enumerate(self.items):
            reached: set[int] = set()
            setattr(builtins, _REACHED, reached.add)
            start = time.process_time()
            failed = _failed(item, self.items[index + 1] if index + 1 < len(self.items) else None)
            self.took.append(time.process_time() - start)
            if failed:
                pytest.exit(f"{item.nodeid} fails without any mutant:\n{failed}", returncode=2)
            for each in reached:
                self.reach[files[each // _FILE], each % _FILE].add(index)
            if index % 200 == 0:
                print(f"\r{index} of {len(self.items)} tests", end="", file=sys.__stderr__, flush=True)
        for function, code in originals:
            function.__code__ = code
        gc.collect()
        gc.freeze()  # so that no child looks at it, and copies it by looking

    def run(
        self, mutants: list[Mutant], functions: Functions, budget: float, children: int
    ) -> Iterator[tuple[Mutant, dict[str, object]]]:
        """The result of each mutant: killed (by which test), timeout, survived, unreached or broken."""
        queue = list(reversed(mutants))
        running: dict[int, tuple[Mutant, Child]] = {}
        while queue or running:
            while queue and len(running) < children:
                mutant = queue.pop()
                tests = self._order(mutant, budget)
                if not tests:
                    yield mutant, {"result": "unreached", "took": 0.0, "by": ""}
                    continue
                child = self._child(tests, partial(become, functions, mutant))
                running[child.output] = mutant, child
            ready, _, _ = select.select(list(running), [], [], 1.0)
            for output in ready:
                mutant, child = running.pop(output)
                result, index = child.result()
                if index is not None:
                    self._trust(index)
                    killers = self.killers[mutant.file, mutant.function]
                    if index in killers:
                        killers.remove(index)
                    killers.insert(0, index)
                by = "" if index is None else self.items[index].nodeid
                yield mutant, {"result": result, "took": child.took, "by": by}
            for _, child in running.values():
                child.end_if_idle()

    def _trust(self, index: int) -> None:
        """A test that has killed passes once more without a mutant; else it would kill everything it is run on."""
        if index not in self.trusted:
            self.trusted.add(index)
            result, _ = self._child([index], lambda: None).result()
            if result != "survived":
                pytest.exit(f"{self.items[index].nodeid} fails when it is run a second time", returncode=2)

    def _order(self, mutant: Mutant, budget: float) -> list[int]:
        """Those that have killed its like, for half of the budget the first variant of each test, then the quickest."""
        known = self.reach.get((mutant.file, mutant.line), set())
        quickest = sorted(known, key=lambda each: self.took[each])
        killers = [each for each in self.killers[mutant.file, mutant.function] if each in known][:10]
        order: dict[int, None] = {}
        used = 0.0
        for most, tests in (
            (budget, killers),
            (budget / 2, [each for each in quickest if not self.variant[each]]),
            (budget, quickest),
        ):
            for each in tests:
                if each not in order and (not order or used + self.took[each] <= most):
                    used += self.took[each]
                    order[each] = None
        return list(order)

    def _child(self, tests: list[int], prepare: Callable[[], None]) -> Child:
        limit = _LEAST_SECONDS + _TIMES * sum(self.took[each] for each in tests)
        return Child({each: self.items[each] for each in tests}, prepare, limit)


class Child:
    """A process that runs some tests, up to the first that fails, after something was prepared in it."""

    def __init__(self, tests: dict[int, pytest.Item], prepare: Callable[[], None], limit: float) -> None:
        self.seen = (0.0, time.monotonic())  # what it had used of the processor, and since when
        self.output, inside = os.pipe()
        self.pid = os.fork()
        if self.pid:
            os.close(inside)
            self.process = psutil.Process(self.pid)
            return
        code = _BROKEN
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit) + 1))
            gc.disable()
            prepare()
            code = 1
            for number, item in tests.items():
                if _failed(item, None):
                    os.write(inside, str(number).encode())
                    break
            code = 0
        finally:
            os._exit(code)  # whatever is raised here, by a test that is left at once, is for nobody to see

    def end_if_idle(self) -> None:
        times = self.process.cpu_times()
        used, now = times.user + times.system, time.monotonic()
        if used != self.seen[0]:
            self.seen = (used, now)
        elif now > self.seen[1] + _IDLE_SECONDS:
            self.process.kill()

    def result(self) -> tuple[str, int | None]:
        told = os.read(self.output, 100)
        os.close(self.output)
        _, status, used = os.wait4(self.pid, 0)
        self.took = round(used.ru_utime + used.ru_stime, 3)
        if told:
            return "killed", int(told)
        if os.WIFSIGNALED(status):
            return ("timeout" if os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL) else "killed"), None
        return {0: "survived", _BROKEN: "broken"}.get(os.WEXITSTATUS(status), "killed"), None


def _failed(item: pytest.Item, following: pytest.Item | None) -> str:
    """What the test says when it fails; nothing when it passes, or is skipped."""
    reports = runtestprotocol(item, log=False, nextitem=following)
    return next((f"{each.longreprtext or 'failed'}" for each in reports if each.failed), "")


def _telling(path: Path, base: int) -> CodeType:
    """The file, with each statement inside its functions preceded by one that tells its line."""
    statements = Statements(path.read_text(encoding="utf-8"))
    for function in statements.functions():
        for block in list(blocks(function)):
            told: list[ast.stmt] = []
            for each in block:
                call = ast.Call(ast.Name(_REACHED, ast.Load()), [ast.Constant(base + each.lineno)], [])
                told += [ast.copy_location(ast.Expr(call), each), each]
            block[:] = told
    return compile(ast.fix_missing_locations(statements.tree), str(path), "exec", dont_inherit=True)
