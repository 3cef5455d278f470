"""No message shows what stands for an argument: it names the argument in Python, and the flag on the command line."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import partswap
from command_line import COMMANDS
from partswap.errors import ARGUMENTS, PartswapError

SOURCES = Path(partswap.__file__).parent
PLACEHOLDER = re.compile(r"\{[a-z_]+\}")
#: Files whose texts are filled in by `str.format` or `str.replace`.
FILLED = {"apps/study/plan.py", "cut/logits.py", "words/sentences.py", "utils/options.py"}
#: Routes of web applications, the address that a study's owner gives, and how settings of methods are named.
OTHERS = re.compile(r"/\S*$|.*\{code\}|\.\{name\}$")


def strings(node: ast.AST) -> Iterator[str]:
    """Yield all strings below a node; of an f-string what stands between its values."""
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value


def is_documentation(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def messages(tree: ast.Module) -> Iterator[tuple[str, bool]]:
    """Yield all strings of a file but its documentation, and whether they say what is wrong (not what to do)."""
    nodes = [tree]
    for node in nodes:  # which grows
        nodes += (child for child in ast.iter_child_nodes(node) if not is_documentation(child))
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value, False
        elif isinstance(node, ast.Call) and node.args and getattr(node.func, "id", "").endswith("Error"):
            yield from ((text, True) for text in strings(node.args[0]))


def test_every_message_is_without_braces_in_python_and_on_the_command_line() -> None:
    raw, count = [], 0
    for path in sorted(SOURCES.rglob("*.py")):
        name = str(path.relative_to(SOURCES))
        for text, is_problem in messages(ast.parse(path.read_text())):
            if is_problem:
                raw += [(name, text)] if re.search(r"[{}]", text) else []
            elif PLACEHOLDER.search(text) and not OTHERS.match(text) and name not in FILLED:
                count += 1
                error = PartswapError("Something is wrong.", text)
                raw += [(name, said) for said in (str(error), error.in_flags()) if PLACEHOLDER.search(said)]
    assert count > 20
    assert not raw


@pytest.mark.parametrize("name", ARGUMENTS)
def test_what_a_fix_names_on_the_command_line_is_there(name: str) -> None:
    command_line = ARGUMENTS[name][1]
    if command_line.startswith("--"):
        options = {
            flag for command in COMMANDS.values() for p in command.params for flag in (*p.opts, *p.secondary_opts)
        }
        assert command_line in options
    else:
        assert tuple(command_line.split()[1:]) in COMMANDS


def test_the_messages_that_showed_braces_name_arguments_and_flags() -> None:
    error = PartswapError("Something is wrong.", "Give {fit_head}, or {words}; or leave out {pixel}.")
    assert error.fix == "Give fit_head=True, or words; or leave out pixel."
    assert error.in_flags().endswith("Give --fit-head, or --words; or leave out --pixel.")


def decisions_by_message(tree: ast.Module) -> list[int]:
    """Return lines of conditions that read the text of an error or of a note."""
    errors = {node.name for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler)} | {
        "error",
        "note",
        "warning",
    }
    lines = []
    for node in ast.walk(tree):
        conditions = [getattr(node, "test", None), *getattr(node, "ifs", ()), getattr(node, "subject", None)]
        for part in (part for condition in conditions if condition for part in ast.walk(condition)):
            if isinstance(part, ast.Call) and ast.unparse(part.func) in ("str", "repr") and part.args:
                read = ast.unparse(part.args[0])
            elif isinstance(part, ast.Attribute) and part.attr in ("args", "problem", "fix", "text"):
                read = ast.unparse(part.value)
            else:
                continue
            lines += [part.lineno] if read in errors else []
    return lines


def test_no_decision_is_made_by_looking_into_a_message() -> None:
    paths = {str(path.relative_to(SOURCES)): ast.parse(path.read_text()) for path in SOURCES.rglob("*.py")}
    assert not {name: lines for name, tree in paths.items() if (lines := decisions_by_message(tree))}
    for code in (
        "try: pass\nexcept OSError as problem:\n if 'full' in str(problem): pass",
        "[1 for note in notes if 'auxiliary' in note.text]",
        "a if error.problem.startswith('no') else b",
    ):
        assert decisions_by_message(ast.parse(code)), code
