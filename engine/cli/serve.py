"""``paceline serve``: the OpenAI-compatible server, alone or as the child of the window.

As a child (``--child``) it says where it listens in one line of JSON on standard output, stays up
when the model cannot be loaded, so that the window can ask why, and ends when standard input
closes.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping

from engine.cli.session import engine_config, model_folder
from engine.cli.terminal import say, tell
from engine.errors import PacelineError
from engine.interface import Engine
from engine.library.folder import read_model_folder
from engine.paths import Folders
from engine.server.app import Server
from engine.server.host import EngineHost, Progress
from engine.server.run import Address, LocalServer, end_with_parent, listen
from engine.version import paceline_version

_KEY_VARIABLE = "PACELINE_API_KEY"


def run(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Serve until told to stop.

    Raises:
        PacelineError: address or options are wrong, or, outside a window, the model is.
    """
    folders = Folders.from_environment(environ)
    if args.model is not None and not args.child:
        read_model_folder(args.model)  # a wrong path should not wait for the background

    def load(progress: Progress) -> Engine:
        from engine.load import load_engine  # heavy: imports OpenVINO

        folder = model_folder(args, folders, progress)
        return load_engine(engine_config(args, folder, folders), progress)

    failures: list[PacelineError] = []

    def on_failure(error: PacelineError) -> None:
        if args.child:
            return
        failures.append(error)
        server.stop()

    api_key = args.api_key or environ.get(_KEY_VARIABLE) or None
    listening = listen(Address(args.host, args.port), api_key)
    host = EngineHost(load, on_failure)
    server = LocalServer(host)
    app = Server(host, paceline_version(), _devices, stop=server.stop, api_key=api_key).app()
    _announce(args, listening.getsockname()[1])
    if args.child:
        end_with_parent(server)
    host.start()
    server.run(app, listening)
    if failures:
        raise failures[0]
    if host.is_loading:  # native code cannot be interrupted, and must not outlive the interpreter
        os._exit(0)
    return 0


def _announce(args: argparse.Namespace, port: int) -> None:
    if args.child:
        say(json.dumps({"port": port, "pid": os.getpid(), "version": paceline_version()}))
        return
    shown = f"[{args.host}]" if ":" in args.host else args.host
    tell(f"Listening on http://{shown}:{port}/v1 (Ctrl-C stops). The model is being loaded.")


def _devices() -> list[dict[str, object]]:
    import openvino

    from engine.devices import detect_devices

    return [device.to_json() for device in detect_devices(openvino.Core())]
