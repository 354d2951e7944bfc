"""Where confidential files of a run may be: never below a release, its own or another's."""

from __future__ import annotations

from pathlib import Path

from headcount.config.settings import Config, OutputSettings
from headcount.errors import ConfigError, RunError
from headcount.mechanisms import Chain
from headcount.release.directory import refuse_open, release_around
from headcount.storage import DiskStorage, storage_at


def check_places(config: Config) -> None:
    """Refuse a run, a workspace or a key file in a place where it could be published."""
    check_output(config.run)
    _check_key_files(config)


def check_output(run: OutputSettings) -> None:
    """Refuse a run or a workspace in a place where it could be published, or cannot be."""
    _refuse_in_release("run.out", run.out)
    _check_workspace(run)


def _check_key_files(config: Config) -> None:
    """Record keys must outlive the run, and stay secret."""
    out = config.run.out.resolve()
    for file in Chain.of(config.mechanism).secret_files:
        if file.resolve().is_relative_to(out):
            raise ConfigError(
                "config",
                place="mechanism.keys",
                found=f"{file}, inside the run {config.run.out}",
                expected="a file outside it: record keys are kept for later releases",
            )
        _refuse_in_release("mechanism.keys", file)


def _check_workspace(run: OutputSettings) -> None:
    """Refuse a workspace that cannot be used, or that is not apart from the run."""
    if run.workspace is None:
        return
    workspace = storage_at(run.workspace)
    if isinstance(workspace, DiskStorage):
        folder, out = workspace.folder.resolve(), run.out.resolve()
        if folder.is_relative_to(out) or out.is_relative_to(folder):
            how = (
                "the same as" if folder == out else "in" if folder.is_relative_to(out) else "above"
            )
            raise ConfigError(
                "config",
                place="run.workspace",
                found=f"{folder}, {how} the run's directory {out}",
                expected="a folder apart from it: true counts are never beside a release",
            )
        _refuse_in_release("run.workspace", folder)
        if folder.exists() and not folder.is_dir():
            raise RunError(f"{folder}: found a file, expected a folder for the run's workspace")
        refuse_open(workspace.folder)
    workspace.check()


def _refuse_in_release(place: str, path: Path) -> None:
    if (release := release_around(path)) is not None:
        raise ConfigError(
            "config",
            place=place,
            found=f"{path}, in the release {release}",
            expected="a place outside it: whoever publishes the release would publish this too",
        )
