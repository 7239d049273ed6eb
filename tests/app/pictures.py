"""Renders the window's states, light and dark, 100% and 200%, into PNGs for a person to look at.

    python tests/app/pictures.py OUT [--scale 1] [--scheme light]

Without ``--scale`` it runs itself for each scaling, since Qt reads that once.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

_HERE = Path(__file__).parent
_SIZE = (1200, 760)


async def _shoot(session: object, out: Path, tag: str) -> None:
    from app.application import Session

    assert isinstance(session, Session)
    window = session.window

    async def settle(seconds: float) -> None:
        await asyncio.sleep(seconds)

    def save(name: str) -> None:
        window.grab().save(str(out / f"{name}-{tag}.png"))

    async def idle() -> None:
        while session.chat.is_busy:
            await asyncio.sleep(0.05)
        await settle(0.1)

    window.resize(*_SIZE)
    window.show()
    await settle(0.3)
    save("loading")
    await session.warm_up()
    await session.connection.ready()
    await settle(0.3)
    save("empty")
    window.composer.set_text("Repeat this code exactly, but rename total to amount.")
    await settle(0.1)
    session.chat.send("Repeat this code, but rename total to amount:\n\n```python\ntotal = 0\n```")
    await settle(0.7)
    save("streaming")
    await idle()
    save("finished")
    window.composer.set_text("")
    session.chat.compare("Write a story")
    await idle()
    save("compared")
    session.chat.send("refuse this please")
    await idle()
    session.chat.send("die")
    await idle()
    await settle(0.3)
    window.notice.details.setChecked(True)
    await settle(0.2)
    save("error")


def _render(out: Path, scheme: str, tag: str) -> None:
    from app.application import Session, event_loop, make_application

    application = make_application()
    command = [sys.executable, str(_HERE / "fake_server.py"), "--pace-ms", "25", "--load-s", "1.5"]
    session = Session(application, command)
    session.theme.fix(dark=scheme == "dark")
    with closing(event_loop(application)) as loop:
        loop.run_until_complete(_shoot(session, out, tag))
        loop.run_until_complete(session.close())


def main() -> None:
    """Render every picture."""
    options = argparse.ArgumentParser()
    options.add_argument("out", type=Path)
    options.add_argument("--scale", choices=["1", "1.5", "2"])
    options.add_argument("--scheme", choices=["light", "dark"])
    chosen = options.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    if chosen.scale and chosen.scheme:
        _render(chosen.out, chosen.scheme, f"{chosen.scheme}-{chosen.scale}x")
        return
    for scale in [chosen.scale] if chosen.scale else ["1", "2"]:
        for scheme in [chosen.scheme] if chosen.scheme else ["light", "dark"]:
            environment = os.environ | {
                "QT_QPA_PLATFORM": "offscreen",
                "QT_SCALE_FACTOR": scale,
                "PYTHONPATH": str(_HERE.parents[1]),
            }
            command = [sys.executable, __file__, str(chosen.out), "--scale", scale]
            subprocess.run([*command, "--scheme", scheme], env=environment, check=True)


if __name__ == "__main__":
    main()
