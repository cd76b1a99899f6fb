"""Python with the libraries imported already: `serve` imports them once, and each `run` is a fork of it.

A test that starts a program pays a second for the imports of numpy, scipy and dpaudit before the program does
anything. ``python -IS preloaded_python.py run SOCKET`` takes the arguments that Python itself takes (``-c``,
``-m`` or a file) and has the same streams, working directory, environment and exit status. It does not pass
signals on, and of Python's own variables it follows PYTHONPATH and PYTHONWARNINGS=ignore alone: what tests
signals or the interpreter's start must use `sys.executable`.
"""

import os
import sys

LIBRARIES = (
    *("dp_accounting.pld", "flint", "jinja2", "joblib", "pytest", "scipy.stats"),
    *("sqlalchemy", "sqlalchemy.dialects.postgresql", "sqlalchemy.dialects.sqlite"),
)
OURS = (
    *("app.verbs.audit", "app.verbs.certify", "app.verbs.gate", "app.verbs.report", "app.verbs.verify"),
    *("accountants.curves.rdp", "auditors.replay.replay", "processes.host"),
)


def run(address: str, arguments: list[str]) -> None:
    """Have the server run a program on this process's streams, and end as it ends."""
    import contextlib
    import json
    import signal
    import socket

    with socket.socket(socket.AF_UNIX) as server:
        server.connect(address)
        request = json.dumps([arguments, dict(os.environ)]).encode()
        here = os.open(".", os.O_RDONLY)
        socket.send_fds(server, [len(request).to_bytes(8, "big")], [0, 1, 2, here])
        server.sendall(request)
        status = int.from_bytes(server.recv(8), "big", signed=True)
    if status < 0:
        with contextlib.suppress(OSError):  # SIGKILL has no handler
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


def serve(address: str) -> list[str]:
    """Answer requests until killed; returns a program's arguments, in the process that is to run it."""
    import gc
    import importlib
    import json
    import socket

    for name in (*LIBRARIES, *(f"dpaudit.{name}" for name in OURS)):
        importlib.import_module(name)
    gc.freeze()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    print("ready", flush=True)
    while True:
        client, _ = listener.accept()
        if os.fork() == 0:
            break
        client.close()
        while has_children() and os.waitpid(-1, os.WNOHANG)[0]:
            pass
    listener.close()
    first, opened, _, _ = socket.recv_fds(client, 8, 4)
    with client.makefile("rb") as rest:
        arguments, environment = json.loads(rest.read(int.from_bytes(first, "big")))
    if child := os.fork():
        for file in opened:
            os.close(file)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        client.sendall(status.to_bytes(8, "big", signed=True))
        os._exit(0)
    client.close()
    for stream, file in enumerate(opened[:3]):
        os.dup2(file, stream)
    os.fchdir(opened[3])
    for file in opened:
        os.close(file)
    become(arguments, environment)
    return list(arguments)


def has_children() -> bool:
    """Whether a child is left to wait for."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def become(arguments: list[str], environment: dict[str, str]) -> None:
    """Take over a program's environment, its search path and what it wants to hear of warnings."""
    import warnings
    from pathlib import Path

    import cheap_runs

    before = os.environ.get("PYTHONPATH", "")
    os.environ.clear()
    os.environ.update(environment)
    after = os.environ.get("PYTHONPATH", "")
    own, new = ([path for path in value.split(os.pathsep) if path] for value in (before, after))
    sys.path[:] = [*new, *(path for path in sys.path[1:] if path not in own)]
    if os.environ.get("PYTHONWARNINGS") == "ignore":
        warnings.simplefilter("ignore")
    # Another copy of dpaudit is imported anew.
    copy, loaded = Path(*new[:1], "dpaudit", "__init__.py"), str(sys.modules["dpaudit"].__file__)
    if new and copy.exists() and not copy.samefile(loaded):
        for name in [name for name in sys.modules if name.partition(".")[0] == "dpaudit"]:
            del sys.modules[name]
    for name, way in cheap_runs.WAYS.items():
        if name in os.environ:
            way(setattr)


def execute(arguments: list[str]) -> None:
    """Run ``-c CODE``, ``-m MODULE`` or a file as the main program."""
    import runpy
    import types
    from importlib.abc import InspectLoader
    from pathlib import Path

    class Given(InspectLoader):
        def get_source(self, fullname: str) -> str:
            return arguments[1]

    if arguments[0] == "-c":
        sys.argv[:] = ["-c", *arguments[2:]]
        sys.path.insert(0, "")
        sys.modules["__main__"] = main = types.ModuleType("__main__")
        Given().exec_module(main)
    elif arguments[0] == "-m":
        sys.argv[:] = arguments[1:]
        sys.path.insert(0, str(Path.cwd()))
        if not hasattr(sys.modules.get(arguments[1]), "__path__"):  # a module; of a package __main__ is run
            sys.modules.pop(arguments[1], None)
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv[:] = arguments
        sys.path.insert(0, str(Path(arguments[0]).resolve().parent))
        runpy.run_path(arguments[0], run_name="__main__")


def end(status: int) -> None:
    """End as Python ends, but for the taking apart of all modules, which copies the server's memory."""
    import atexit
    import threading

    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    if sys.argv[1] == "run":
        run(sys.argv[2], sys.argv[3:])
    else:
        ended = 0
        try:
            execute(serve(sys.argv[2]))
        except SystemExit as error:
            if not isinstance(error.code, int | None):
                raise
            ended = error.code or 0
        end(ended)
