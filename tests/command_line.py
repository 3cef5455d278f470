"""All commands of the command line."""

import typer

from partswap.cli.main import app

#: Words -> command; no words for partswap itself.
COMMANDS = {(): typer.main.get_command(app)}
for _words in [(), *((name,) for name in COMMANDS[()].commands)]:
    for _name, _command in getattr(COMMANDS[_words], "commands", {}).items():
        COMMANDS[(*_words, _name)] = _command
