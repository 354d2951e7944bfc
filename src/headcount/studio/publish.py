"""The screen before publishing: what goes out, what must not, and how to do it all again."""

from __future__ import annotations

from tempfile import SpooledTemporaryFile

from starlette.responses import Response, StreamingResponse

from headcount.errors import RunError
from headcount.release.directory import RunDirectory, write_zip
from headcount.release.store import MANIFEST, guarantee_from_json, read_receipt
from headcount.studio.app import Asked, Studio
from headcount.studio.checklist import WITHHELD, ReleaseAgain, outgoing, publish_checks

IN_MEMORY = 64 << 20


def show(studio: Studio, asked: Asked) -> Response:
    """File by file, with checks and scripts."""
    directory = RunDirectory(studio.texts.load(asked.config).run.out)
    out = studio.folder.name_of(directory.path)
    if not directory.is_complete:
        return studio.page(
            "said.html.j2",
            here="publish",
            config=asked.config,
            title="There is no release yet",
            said=f"{out} holds no finished release. Run the config first.",
        )
    for path in (directory.release / MANIFEST, directory.internal / "config.json"):
        studio.folder.name_of(path)  # which is no link
    again = ReleaseAgain.of(directory, asked.config, root=studio.folder.root)
    return studio.page(
        "publish.html.j2",
        here="publish",
        config=asked.config,
        command=studio.command("protect", asked.config),
        out=out,
        files=outgoing(directory),
        withheld=WITHHELD,
        checks=publish_checks(directory),
        promise=guarantee_from_json(read_receipt(directory.release)["guarantee"]),
        shell=again.shell(),
        python=again.python(),
    )


def archive(studio: Studio, asked: Asked) -> Response:
    """A zip of ``release/`` alone."""
    directory = RunDirectory(studio.texts.load(asked.config).run.out)
    if not directory.is_complete:
        raise RunError(f"{directory.path.name}: found no finished release, expected one to pack")
    packed = SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 - closed when it is sent
    write_zip(directory, packed)
    packed.seek(0)
    named = "".join(c if c.isascii() and c.isalnum() else "-" for c in directory.path.name)
    return StreamingResponse(
        iter(lambda: packed.read(1 << 20), b""),
        media_type="application/zip",
        headers={"content-disposition": f'attachment; filename="{named}-release.zip"'},
    )
