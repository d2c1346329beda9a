"""What nobody writes here, because each has been a hole somewhere: found in the syntax trees and templates of src."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parents[2] / "src"
LOOKED_AT = (ast.Call, ast.Attribute, ast.ExceptHandler, ast.Assign, ast.Compare)
Rule = Callable[[ast.AST, str], bool]

# Where the time of day is read, and handed on from; and simulated services, which hold no lease.
CLOCKS = ("tidegate/clock/__init__.py", "tidegate/durations.py", "tidegate/web/", "tidegate_apps/", "tidegate_demo/")
MIGRATORS = ("tidegate/store/migrate.py",)


def _called(node: ast.AST, *names: str) -> ast.Call | None:
    """The node if it calls one of these: `jwt.decode` by its whole name, `.decode` by the last one."""
    if not isinstance(node, ast.Call):
        return None
    name = _dotted(node.func)
    return node if any(name == each or (each[0] == "." and name.endswith(each)) for each in names) else None


def _dotted(node: ast.AST) -> str:
    """`a.b.c`; what stands before a call or an index is left out."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=name):
            return f"{_dotted(value)}.{name}"
    return ""


def _given(call: ast.Call, name: str) -> ast.expr | None:
    return next((each.value for each in call.keywords if each.arg == name), None)


def _is(node: ast.expr | None, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def _jwt_without_algorithms(node: ast.AST, _: str) -> bool:
    call = _called(node, "jwt.decode")
    if call is None:
        return False
    options = ast.unparse(_given(call, "options") or ast.Constant(""))
    return _given(call, "algorithms") is None or "'require'" not in options or "verify_signature" in options


def _through_a_shell(node: ast.AST, _: str) -> bool:
    if _called(node, "os.system", "os.popen", "subprocess.getoutput", ".create_subprocess_shell", ".subprocess_shell"):
        return True
    return isinstance(node, ast.Call) and (shell := _given(node, "shell")) is not None and not _is(shell, False)


def _script_outside_the_migrator(node: ast.AST, path: str) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "executescript" and not path.startswith(MIGRATORS)


def _time_of_day(node: ast.AST, path: str) -> bool:
    named = isinstance(node, ast.Attribute) and _dotted(node) in ("time.time", "time.time_ns", "datetime.now")
    compared = path.startswith("tidegate/durations.py")
    return named and not compared and not path.startswith(CLOCKS)


def _swallowed(node: ast.AST, _: str) -> bool:
    if isinstance(node, ast.ExceptHandler):
        whatever = node.type is None or _dotted(node.type) in ("Exception", "BaseException")
        silent = all(isinstance(each, (ast.Pass, ast.Continue)) or _is_word(each) for each in node.body)
        return whatever and silent
    call = _called(node, "suppress", "contextlib.suppress")
    return call is not None and any(_dotted(each) in ("Exception", "BaseException") for each in call.args)


def _is_word(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _unpickled(node: ast.AST, _: str) -> bool:
    names = (".pickle.loads", "pickle.loads", "pickle.load", "marshal.loads", "shelve.open", "yaml.load", "dill.loads")
    return _called(node, *names, "yaml.unsafe_load", "pickle.Unpickler") is not None


def _guessable_file(node: ast.AST, _: str) -> bool:
    return _called(node, "tempfile.mktemp", "mktemp", "os.tempnam", "os.tmpnam") is not None


def _any_certificate(node: ast.AST, _: str) -> bool:
    if isinstance(node, ast.Call):
        return _is(_given(node, "verify"), False) or bool(_called(node, "ssl._create_unverified_context"))
    if isinstance(node, ast.Attribute):
        return node.attr == "CERT_NONE"
    named = isinstance(node, ast.Assign) and _dotted(node.targets[0]).endswith("check_hostname")
    return isinstance(node, ast.Assign) and named and _is(node.value, False)


def _unescaped(node: ast.AST, _: str) -> bool:
    call = _called(node, "Environment", "jinja2.Environment", "Template", "jinja2.Template", "SandboxedEnvironment")
    return call is not None and not _is(_given(call, "autoescape"), True)


def _run_as_code(node: ast.AST, _: str) -> bool:
    return _called(node, "eval", "exec", "builtins.eval", "builtins.exec") is not None


def _compared_in_the_open(node: ast.AST, _: str) -> bool:
    """A digest or signature compared with ==, which takes longer the more of it is right."""
    if not isinstance(node, ast.Compare) or not isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
        return False
    return any(
        re.search(r"(?:hex)?digest\(\)|signature\b", ast.unparse(each)) for each in (node.left, *node.comparators)
    )


# rule -> how it is seen, and a line that breaks it
RULES: dict[str, tuple[Rule, str]] = {
    "a token is read with its algorithms and with the claims it must have": (
        _jwt_without_algorithms, "jwt.decode(token, key, options={'require': ['exp']})",
    ),
    "no command goes through a shell": (_through_a_shell, "subprocess.run(line, shell=True)"),
    "scripts of SQL are run by the migrator alone": (_script_outside_the_migrator, "db.executescript(text)"),
    "time is handed in, so that no lease hangs on the clock of a wall": (_time_of_day, "until = time.time() + 30"),
    "what went wrong is never thrown away unseen": (_swallowed, "try:\n    f()\nexcept Exception:\n    pass"),
    "nothing that could run code is read": (_unpickled, "pickle.loads(body)"),
    "a file has a name that nobody can guess, or is made by its opener": (_guessable_file, "tempfile.mktemp()"),
    "whom we talk to is checked": (_any_certificate, "client.get(url, verify=False)"),
    "what is shown is escaped": (_unescaped, "Environment(loader=loader)"),
    "no text is run": (_run_as_code, "eval(text)"),
    "signatures are compared in constant time": (_compared_in_the_open, "made.hexdigest() == given"),
}  # fmt: skip
MORE_EXAMPLES = (
    ("no command goes through a shell", "os.system(line)"),
    ("what went wrong is never thrown away unseen", "with contextlib.suppress(Exception):\n    f()"),
    ("what went wrong is never thrown away unseen", "try:\n    f()\nexcept:\n    ..."),
    ("nothing that could run code is read", "yaml.load(text)"),
    ("whom we talk to is checked", "context.check_hostname = False"),
    ("whom we talk to is checked", "context.verify_mode = ssl.CERT_NONE"),
    ("what is shown is escaped", "jinja2.Environment(autoescape=False)"),
    ("a token is read with its algorithms and with the claims it must have", "jwt.decode(token, algorithms=['HS256'])"),
)  # fmt: skip


# rule -> file -> why it may
ALLOWED = {
    "time is handed in, so that no lease hangs on the clock of a wall": {
        "tidegate/jobs/scheduler.py": "whether a schedule ever comes does not depend on when it is asked",
    },
    "what went wrong is never thrown away unseen": {
        "tidegate/faults/rule.py": "a rule of a user that cannot read an answer does not match it",
        "tidegate/process.py": "there is nothing left to tell it to: the process ends",
        "tidegate_apps/music/sync_loop.py": "a provider that is thrown away cannot be closed twice",
    },
    "signatures are compared in constant time": {
        "tidegate_demo/simulators/music/lastfm.py": "a simulated service has no secret",
    },
}


def nodes(text: str | bytes, path: str) -> Iterator[tuple[ast.AST, str]]:
    """Those that a rule may look at."""
    yield from ((node, path) for node in ast.walk(ast.parse(text)) if isinstance(node, LOOKED_AT))


@cache
def written() -> tuple[tuple[ast.AST, str], ...]:
    paths = sorted(SRC.rglob("*.py"))
    return tuple(each for path in paths for each in nodes(path.read_bytes(), path.relative_to(SRC).as_posix()))


def broken(rule: Rule, found: Iterable[tuple[ast.AST, str]]) -> list[str]:
    return [f"{path}:{getattr(node, 'lineno', 0)}" for node, path in found if rule(node, path)]


@pytest.mark.parametrize("said", RULES)
def test_the_rule_holds(said: str) -> None:
    rule, example = RULES[said]
    examples = [example, *(text for name, text in MORE_EXAMPLES if name == said)]
    assert all(broken(rule, nodes(text, "tidegate/jobs/leases.py")) for text in examples)
    found = broken(rule, written())
    allowed = ALLOWED.get(said, {})
    assert [each for each in found if each.rpartition(":")[0] not in allowed] == []
    assert {each.rpartition(":")[0] for each in found} == {*allowed}, "what is allowed and not needed goes"


def test_no_template_shows_anything_unescaped() -> None:
    unsafe = re.compile(r"\|\s*safe\b|autoescape\s+false|\bon[a-z]+=|javascript:|<script(?![^>]*\bsrc=)", re.IGNORECASE)
    assert all(map(unsafe.search, ("{{ x|safe }}", "{% autoescape false %}", '<a onclick="x">', "<script>x</script>")))
    templates = [path for path in SRC.rglob("templates/**/*") if path.is_file()]
    assert len(templates) > 40
    found = [f"{path.name}: {each[0]}" for path in templates for each in unsafe.finditer(path.read_text())]
    assert found == []


def test_a_warning_is_silenced_by_its_name_and_with_its_reason() -> None:
    marked = re.compile(r"#\s*nosec\b(?P<rest>.*)")
    good = re.compile(r" B\d{3} # \w.{10,}")
    assert good.match(" B704 # our own shapes around numbers")
    lines = [
        (path.name, found["rest"])
        for path in SRC.rglob("*.py")
        if "nosec" in (text := path.read_text())
        for found in marked.finditer(text)
    ]
    assert [each for each in lines if not good.match(each[1])] == []
