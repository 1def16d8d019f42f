"""A run's trajectories step by step: in the browser (a server on loopback, or a folder of files), or in the terminal.

Everything that a page, a model or a judge said is shown as text: escaped in the markup, and a Content-Security-Policy
forbids scripts other than the viewer's own. The viewer reads run directories and never writes into them.
"""

from pathlib import Path

from rmsweb.errors import ConfigError


def show(run: Path, out: Path | None = None, port: int = 0) -> None:
    """The verb `view`: serve a run (or a folder of runs) until interrupted, or write it to the folder `out`."""
    from rich.console import Console

    from rmsweb.view.index import Index

    index = Index.open(run)
    if out is not None:
        if out.exists() and not out.is_dir():
            raise ConfigError(f"-o {out} is a file; choose a folder")
        from rmsweb.view.export import export

        print(export(index, out))
        return
    from rmsweb.view.app import serve
    from rmsweb.view.terminal import listing

    Console().print(listing(index.rows(), most=20))
    serve(index, port, announce=lambda url: print(f"{url}  (Ctrl-C ends)", flush=True))
