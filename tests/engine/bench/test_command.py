"""Options that cannot be followed end with exit code 2 and one line, before anything is loaded."""

from __future__ import annotations

import pytest

from engine.cli import main


def refused(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """The line that ``paceline bench`` with these options ends with."""
    try:
        code = main(["bench", *options])
    except SystemExit as end:  # argparse's own way
        code = end.code
    out, err = capsys.readouterr()
    assert code == 2
    assert out == ""
    assert err.count("\n") == 1
    return err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--workload", "poems"), ("poems", "prose")),
        (("--peer", "nobody"), ("nobody", "genai")),
        (("--rounds", "0"), ("rounds", "at least 1")),
        (("--rounds", "two"), ("--rounds", "two")),
        (("--tokens", "1"), ("tokens", "at least 2")),
        (("--prompts", "0"), ("prompts", "at least 1")),
        (("--static", "0"), ("static", "1 to 100")),
        (("--static", "101"), ("static", "1 to 100")),
        (("--cache-precision", "f8"), ("--cache-precision", "f8")),
        (("--json", "no-such-folder/out.json"), ("no-such-folder", "cannot be written")),
        (("--model", "no-such-model"), ("no-such-model",)),
        (("--plain",), ("--plain",)),
    ],
)
def test_refuses_in_one_line(
    capsys: pytest.CaptureFixture[str], options: tuple[str, ...], words: tuple[str, ...]
) -> None:
    line = refused(capsys, *options)
    for word in words:
        assert word in line


def test_names_its_options_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["bench", "--help"])
    assert end.value.code == 0
    assert "--peer" in capsys.readouterr().out
