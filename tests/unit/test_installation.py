"""What is installed: a wheel outside of the checkout, and a copy of the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "tests" / "captures" / "mptcp-ecn.pcap"
SITE = Path(sysconfig.get_path("purelib"))


def committed(*folders: str) -> set[str]:
    listed = subprocess.run(
        ["git", "ls-files", *folders], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split()
    return {name for name in listed if (ROOT / name).exists()}


def test_lock_files_hold_no_addresses() -> None:
    """Where packages come from is the machine's to say."""
    locks = [n for n in committed() if n.endswith((".lock", "package-lock.json"))]
    assert {Path(n).name for n in locks} >= {"run.lock", "test.lock", "installer.lock", "package-lock.json"}
    assert [n for n in locks if "://" in (ROOT / n).read_text()] == []


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--disable-pip-version-check", "--no-build-isolation", "--no-deps",
         "-w", folder, ROOT],
        check=True,
    )  # fmt: skip
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with the wheel. What it depends on is borrowed from the tests' own one, from
    which Python takes no package that the environment itself has."""
    folder = tmp_path_factory.mktemp("elsewhere") / "venv"
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--disable-pip-version-check", "--no-deps",
         wheel],
        check=True,
    )  # fmt: skip
    return folder / "bin"


def run(program: Path, *arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("REWINDOW_", "PYTHON"))}
    environment["PYTHONPATH"] = str(SITE)
    return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, cwd=cwd, env=environment)


def test_a_wheel_has_all_of_the_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    built = ("rewindow/binding/", "lab/emulator/")
    packages = committed("rewindow", "lab", "kernel")
    code = {n for n in packages if not n.startswith(built) and not Path(n).name.startswith(".")}
    specifications = {n for n in committed("specs") if n.endswith((".tla", ".cfg", ".json"))}
    assert "rewindow/py.typed" in code
    assert code - names == set()
    assert {n.replace("specs/", "rewindow/specifications/", 1) for n in specifications} - names == set()
    sources = {n for n in committed("core-c/include", "core-c/src/control") if n.endswith((".c", ".h"))}
    sources.add("core-c/src/bottleneck/sbcc.c")
    assert {f"kernel/{n}" for n in sources} - names == set()
    texts = {n.partition("/licenses/")[2] for n in names if ".dist-info/licenses/" in n}
    assert texts == {"LICENSE", "LICENSES/GPL-2.0-only.txt"}


def test_a_source_distribution_has_all_that_the_build_needs(tmp_path: Path) -> None:
    code = f"from scikit_build_core import build; build.build_sdist({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True)
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        names = {n.partition("/")[2] for n in archive.getnames()}
    needed = committed(
        "rewindow", "core-c/include", "core-c/src", "specs", "pyproject.toml", "README.md", "LICENSE", "LICENSES"
    )
    assert needed - names == set()


def test_a_wheel_works_outside_of_the_checkout(installed: Path, tmp_path: Path) -> None:
    told = run(installed / "python", "-c", "import rewindow._core; print(rewindow._core.__file__)", cwd=tmp_path)
    assert told.stdout.startswith(str(installed.parent)), told.stderr
    analysis = run(installed / "rewindow", "analyze", SAMPLE, cwd=tmp_path)
    assert analysis.returncode == 0, analysis.stderr
    assert "newreno" in analysis.stdout
    assert run(installed / "rewindow", "algorithms", cwd=tmp_path).returncode == 0
    assert run(installed / "rewindow", "--version", cwd=tmp_path).stdout.startswith("rewindow ")
    jar = next((ROOT / ".local" / "tla").glob("*.jar"))
    trace = run(
        installed / "rewindow", "specs", "trace", SAMPLE, "--algorithm", "css", "--connection", 1, "--jar", jar,
        cwd=tmp_path,
    )  # fmt: skip
    assert trace.returncode == 0, trace.stderr
    assert "conforms" in trace.stdout
    missing = run(installed / "rewindow", "specs", "check", cwd=tmp_path)
    assert missing.returncode == 4
    assert missing.stderr.endswith("TLC is missing; --jar or REWINDOW_TLA_JAR names it\n")


def test_a_wheel_builds_controllers_for_the_kernel(installed: Path, tmp_path: Path) -> None:
    """From the C files that are in it, into the user's folder for caches."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(SITE), "XDG_CACHE_HOME": str(tmp_path / "caches")}
    words = [installed / "rewindow-kernel", "build", "tccc", "sbcc"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    made = [tmp_path / "caches" / "rewindow" / "kernel" / f"rw_{name}.bpf.o" for name in ("tccc", "sbcc")]
    assert done.stdout.split() == [str(path) for path in made]
    assert [path.read_bytes()[:4] for path in made] == [b"\x7fELF"] * 2


def test_a_copy_of_the_checkout_runs_its_own_code(tmp_path: Path) -> None:
    """As `cp -r` makes it; what is large and not ours stays where it is."""
    copy = tmp_path / "copy"
    ours = {".venv", "build", ".local", "node_modules", ".git", "dashboard", "core-c", "tests", "__pycache__"}
    shutil.copytree(ROOT, copy, ignore=lambda _, names: ours & set(names))
    site = copy / SITE.relative_to(ROOT)
    site.mkdir(parents=True)
    for entry in SITE.iterdir():
        if "rewindow" not in entry.name:
            (site / entry.name).symlink_to(entry)
        elif entry.is_dir():
            shutil.copytree(entry, site / entry.name)
        else:
            shutil.copy(entry, site)
    shutil.copytree(ROOT / ".venv" / "bin", copy / ".venv" / "bin", symlinks=True)
    shutil.copy(ROOT / ".venv" / "pyvenv.cfg", copy / ".venv")
    changed = copy / "rewindow" / "__init__.py"
    changed.write_text(changed.read_text() + '\n__version__ = "of the copy"\n')
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    for place in (tmp_path, copy):
        done = subprocess.run(
            [copy / ".venv" / "bin" / "rewindow", "--version"],
            cwd=place,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.stdout == "rewindow of the copy\n", done.stderr
    where = "import rewindow.reports.exports as e, rewindow._core as c; print(e.__file__, c.__file__)"
    done = subprocess.run(
        [copy / ".venv" / "bin" / "python", "-c", where], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert [Path(p).is_relative_to(copy) for p in done.stdout.split()] == [True, True], done.stderr
    link = tmp_path / "rewindow"
    link.symlink_to(copy / ".venv" / "bin" / "rewindow")
    done = subprocess.run([link, "--version"], env=environment, capture_output=True, text=True)
    assert done.stdout == "rewindow of the copy\n", done.stderr
