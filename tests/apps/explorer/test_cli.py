"""``partswap explore``: what is served when, and where."""

from __future__ import annotations

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from partswap.apps.explorer import serving
from partswap.cli.main import app
from partswap.errors import SettingError


@pytest.fixture
def asked(monkeypatch, run_context):
    """What would be served, and where."""
    found = []
    monkeypatch.setattr(serving, "serve", lambda *given: found.append(given))
    monkeypatch.setattr("partswap.cli.explore.open_context", lambda config: run_context)
    return found


def test_the_aviary_on_this_machine_only_when_nothing_is_given(asked):
    shown = CliRunner().invoke(app, ["explore", "--port", "0"])
    assert shown.exit_code == 0, shown.output
    _, config, host, _, memory = asked[0]
    assert (config.data, config.model, host, memory) == ("aviary", "aviary:vgg", "127.0.0.1", 2048)
    assert "http://127.0.0.1:0" in shown.output


def test_another_data_set_needs_a_classifier(asked):
    shown = CliRunner().invoke(app, ["explore", "--data", "cub", "--path", "."])
    assert isinstance(shown.exception, SettingError)
    assert "--model" in str(shown.exception)
    assert asked == []


def test_importing_partswap_and_its_command_line_does_not_import_the_web():
    web = {"fastapi", "uvicorn", "jinja2", "torch"}
    code = f"import sys, partswap, partswap.cli.main; assert not {web} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
