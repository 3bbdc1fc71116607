"""The command line.

Exit status: 0 done, 1 the answer is negative, 2 usage, 3 unreadable input, 4 a dependency failed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import rewindow
from rewindow.core import Choice, folded
from rewindow.errors import (
    BadOption,
    CaptureNotOpened,
    CaptureUnreadable,
    DependencyFailed,
    NetworkUnreadable,
    RewindowError,
    ScenarioUnreadable,
    UnknownAlgorithm,
    UnknownScheduler,
)
from rewindow.findings.fairness import METHODS
from rewindow.replays.capture import candidates_beside
from rewindow.replays.replay import Batch, Replay
from rewindow.reports import analysis, exports, registries

if TYPE_CHECKING:
    from rewindow.client.service import Service
    from rewindow.client.uploads import Sent
    from rewindow.client.watching import Watch
    from rewindow.conformance.step_logs import Verdict

DONE, NEGATIVE, USAGE, UNREADABLE, FAILED = range(5)


class _Usage(Exception):
    pass


@contextlib.contextmanager
def _whole_file(path: str) -> Iterator[str]:
    """A path to write that becomes `path` only when all of it was written."""
    target = Path(path)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as e:
        raise _Usage(f"{path}: cannot be written: {e.strerror}") from e
    os.close(handle)
    try:
        yield name
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        os.replace(name, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise


def _show_progress(done: float) -> None:
    if sys.stderr.isatty():
        print(f"\r{done:6.1%}" if done < 1 else "\r       \r", end="", file=sys.stderr, flush=True)


def _progress(replay: Replay) -> Iterator[Batch]:
    for batch in replay:
        _show_progress(replay.progress())
        yield batch
    _show_progress(1)


def _options(pairs: Sequence[str], word: str = "--option") -> dict[str, object]:
    """word: the command-line option that gave them."""
    options: dict[str, object] = {}
    for pair in pairs:
        key, equals, value = (part.strip() for part in pair.partition("="))
        if not equals or not key:
            raise _Usage(f"{word} {pair}: not of the form name=value")
        if key in options:
            raise _Usage(f"{word} {pair}: {key} is given twice")
        options[key] = value
    return options


def _names(text: str | None) -> list[str]:
    return [n.strip() for n in (text or "").split(",") if n.strip()]


def _suffix(word: str, path: str) -> str:
    """The ending of a file to write: .csv or .parquet. word: the command-line option that named the file."""
    suffix = Path(path).suffix
    if suffix not in (".csv", ".parquet"):
        raise _Usage(f"{word} {path}: the name must end in .csv or .parquet")
    return suffix


@contextlib.contextmanager
def _output(path: str) -> Iterator[str | BinaryIO]:
    """The output for rows: standard output for `-`, else a file that appears when all of it was written."""
    if path != "-":
        with _whole_file(path) as name:
            yield name
        return
    yield sys.stdout.buffer
    sys.stdout.flush()


def _described(kind: str, found: list[rewindow.Algorithm], as_json: bool) -> int:
    print(json.dumps({kind: [a.as_json() for a in found]}) if as_json else registries.algorithms_text(found))
    return DONE


def _algorithms(args: argparse.Namespace) -> int:
    found = rewindow.algorithms()
    if args.markdown:
        print(registries.algorithms_markdown(found, rewindow.detectors(), rewindow.schedulers()))
        return DONE
    return _described("algorithms", found, args.json)


def _detectors(args: argparse.Namespace) -> int:
    return _described("detectors", rewindow.detectors(), args.json)


def _schedulers(args: argparse.Namespace) -> int:
    found = rewindow.schedulers()
    if args.json:
        print(json.dumps({"schedulers": [s.as_json() for s in found]}))
    else:
        print(registries.schedulers_text(found))
    return DONE


def _tally(bottlenecks: Sequence[str]) -> rewindow.FairnessTally:
    """The tally of fairness for --bottleneck: by a method of detection, or for declared bottlenecks."""
    try:
        if len(bottlenecks) == 1 and bottlenecks[0] in METHODS:
            return rewindow.FairnessTally(method=bottlenecks[0])
        return rewindow.FairnessTally([_names(b) for b in bottlenecks])
    except ValueError as e:
        raise _Usage(f"--bottleneck: {e}") from e


def _analyze(args: argparse.Namespace) -> int:
    suffix = _suffix("--series", args.series) if args.series else ""
    choices = Choice.several(_names(args.algorithms))
    labels = [c.label for c in choices]
    replayed = {"monitor": True, "candidates": candidates_beside(choices), "jobs": args.jobs}
    tally = _tally(args.bottleneck)
    compared = tally.method == "sbd"
    with (
        rewindow.open(*args.captures) as capture,
        capture.stream(choices, bottlenecks=compared, **replayed) as replay,
    ):
        if args.series:
            with _whole_file(args.series) as path:
                exports.write_series(path, suffix, replay.schema, _progress(replay))
        else:
            replay.run(_show_progress)
        summary, tables = replay.summary(), replay.tables()
        if args.json:
            windows, violations = replay.windows(labels), replay.violations()
            analysis.write_analysis(sys.stdout.buffer, summary, tables, tally, windows, violations)
            return DONE
        print(analysis.analysis_text(summary, tables, tally, capture.names))
        if labels:
            print("\n" + analysis.windows_text(replay.windows(labels)))
        violations_text = analysis.violations_text(replay.violations())
        if violations_text:
            print("\n" + violations_text)
    return DONE


def _key(path: str) -> bytes:
    from rewindow.captures.redaction import KEY_BYTES

    try:
        key = bytes.fromhex(Path(path).read_text())
    except (OSError, ValueError) as e:
        raise _Usage(f"--key {path}: {e}") from e
    if len(key) != KEY_BYTES:
        raise _Usage(f"--key {path}: {KEY_BYTES} bytes in hexadecimal are needed, not {len(key)}")
    return key


def _redact(args: argparse.Namespace) -> int:
    from rewindow.captures.redaction import redacted

    key = None if args.key is None else _key(args.key)
    with contextlib.ExitStack() as files:
        try:
            source = sys.stdin.buffer if args.capture == "-" else files.enter_context(Path(args.capture).open("rb"))
        except OSError as e:
            raise CaptureNotOpened(args.capture, e) from e
        place = files.enter_context(_output(args.output))
        target = files.enter_context(Path(place).open("wb")) if isinstance(place, str) else place
        did = redacted(args.capture, source, target, key)
    print(
        f"rewindow: {did.kept_bytes} of {did.captured_bytes} bytes of {did.records} packets are kept", file=sys.stderr
    )
    if did.unrecognised:
        print(f"rewindow: {did.unrecognised} packets have no header that is known", file=sys.stderr)
    return DONE


def _detector_of(choice: Choice, options: dict[str, object]) -> list[Choice]:
    """The algorithm's detector with these options; an empty list if there are no options."""
    if not options:
        return []
    known = {a.name: a.detector for a in rewindow.algorithms()}
    name = choice.options.get("detector") or known.get(choice.name)
    if name in (None, "none"):
        raise _Usage(f"--detector-option: {choice.name} runs without a detector")
    return [Choice(str(name), options)]


def _replay(args: argparse.Namespace) -> int:
    suffix = ".csv" if args.output == "-" else _suffix("--output", args.output)
    choice = Choice(args.algorithm, _options(args.option))
    detectors = _detector_of(choice, _options(args.detector_option, "--detector-option"))
    with (
        rewindow.open(*args.captures) as capture,
        capture.stream([choice], detectors=detectors, jobs=args.jobs) as replay,
    ):
        with _output(args.output) as out:
            exports.write_rows(out, suffix, replay, choice.label, _progress(replay))
        rows = replay.summary().rows
    if args.output != "-":
        print(f"{rows} rows: {args.output}", file=sys.stderr)
    return DONE


def _sets(args: argparse.Namespace) -> int:
    suffix = ".csv" if args.output == "-" else _suffix("--output", args.output)
    choice = Choice(args.detector, _options(args.option))
    with (
        rewindow.open(*args.captures) as capture,
        capture.stream(detectors=[choice]) as replay,
        _output(args.output) as out,
    ):
        exports.write_sets(out, suffix, _progress(replay))
    return DONE


def _chosen(
    option: str, words: Sequence[str], options: dict[str, object], transfers: Sequence[str], of: str = "transfer"
) -> dict[str, Choice]:
    """By a transfer's name: `NAME` is for all transfers, `TRANSFER=NAME` for one."""
    if options and not words:
        raise _Usage(f"there are options of {option}, which is missing")
    if words and not transfers:
        raise _Usage(f"{option}: the scenario has no {of}")
    chosen: dict[str, Choice] = {}
    for word in words:
        transfer, equals, name = word.rpartition("=")
        if equals and transfer not in transfers:
            raise _Usage(f"{option} {word}: the scenario has no {of} {transfer}, but {', '.join(transfers)}")
        chosen |= dict.fromkeys([transfer] if equals else transfers, Choice(name, options))
    return chosen


def _whatif(args: argparse.Namespace) -> int:
    from rewindow.reports import whatifs
    from rewindow.whatif import WhatIf, answers, observe

    chosen = [Choice(name, _options(args.option)) for name in dict.fromkeys(args.algorithm)]
    settings = {key: str(value) for key, value in _options(args.set, "--set").items()}
    with rewindow.open(*args.captures) as capture:
        observation = observe(capture)
    found = list(
        answers(
            WhatIf(observation, args.seed), chosen, args.connection, everyone=args.everyone, runs=args.repeat,
            settings=settings, report=_show_progress,
        )
    )  # fmt: skip
    print(json.dumps(whatifs.document(found)) if args.json else whatifs.text(found))
    return DONE if any(p.verdict == "ok" for p in found) else NEGATIVE


def _fit(args: argparse.Namespace) -> int:
    from rewindow.reports import whatifs
    from rewindow.whatif import WhatIf, observe

    with rewindow.open(*args.captures) as capture:
        whatif = WhatIf(observe(capture), args.seed)
    numbers = args.connection or [c.id for c in whatif.observation.connections]
    found = [
        whatif.fits(number, lambda done, i=i: _show_progress((i + done) / len(numbers)))  # type: ignore[misc]
        for i, number in enumerate(numbers)
    ]
    _show_progress(1)
    print(json.dumps(whatifs.fit_document(found, numbers)) if args.json else whatifs.fit_text(found, numbers))
    return DONE if any(not isinstance(f, str) for f in found) else NEGATIVE


def _simulate(args: argparse.Namespace) -> int:
    from rewindow import simulator
    from rewindow.reports import simulations
    from rewindow.scenarios import load

    if args.pcapng and args.repeat > 1:
        raise _Usage("--pcapng: a capture has one run, and --repeat asks for several")
    scenario = load(args.scenario)
    chosen = _chosen("--algorithm", args.algorithm, _options(args.option), [t.name for t in scenario.transfers])
    schedulers = _chosen(
        "--scheduler",
        args.scheduler,
        _options(args.scheduler_option, "--scheduler-option"),
        [t.name for t in scenario.transfers if t.protocol == "mptcp"],
        of="MPTCP transfer",
    )
    first = scenario.seed if args.seed is None else args.seed
    kernel = simulator.Kernel(args.hz, args.linux)
    with contextlib.ExitStack() as stack:
        capture = None
        if args.pcapng:
            capture = stack.enter_context(open(stack.enter_context(_whole_file(args.pcapng)), "wb", 0)).fileno()
        runs = [
            simulator.simulate(
                scenario,
                first + i,
                chosen,
                capture=capture,
                beside_receivers=args.beside == "receiver",
                schedulers=schedulers,
                kernel=kernel,
            )
            for i in range(args.repeat)
        ]
    print(json.dumps(simulations.document(runs)) if args.json else simulations.text(runs))
    return DONE


def _fluid(args: argparse.Namespace) -> int:
    if bool(args.network) + args.orders + args.table != 1:
        raise _Usage("fluid: give NETWORK.toml, --orders or --table")
    suffix = Path(args.plot).suffix if args.plot else ""
    if args.plot and (suffix not in (".svg", ".png") or args.table):
        raise _Usage(f"--plot {args.plot}: it needs a network or --orders, and a name that ends in .svg or .png")
    with _fluid_installed():
        return _run_fluid(args, suffix)


@contextlib.contextmanager
def _fluid_installed() -> Iterator[None]:
    """SciPy and matplotlib are an extra of the package, and are loaded for this command alone."""
    try:
        yield
    except ModuleNotFoundError as e:
        if (e.name or "").partition(".")[0] not in ("scipy", "matplotlib"):
            raise
        how = "pip install 'rewindow[fluid]', or deploy/setup.sh fluid in a checkout"
        raise DependencyFailed(f"fluid needs SciPy and matplotlib: {how}") from e


def _run_fluid(args: argparse.Namespace, suffix: str) -> int:
    from rewindow.fluid import reports as fluid_reports

    if args.table:
        print(json.dumps(fluid_reports.table_document()) if args.json else fluid_reports.table_text())
        return DONE
    solution = None
    if args.network:
        from rewindow.fluid import read_network, solve

        solution = solve(read_network(args.network))
    if args.plot:
        from rewindow.fluid import plots

        with _whole_file(args.plot) as path:
            if solution:
                plots.plot_solution(solution, path, suffix)
            else:
                plots.plot_orders(path, suffix)
    if solution is None:
        print(json.dumps(fluid_reports.orders_document()) if args.json else fluid_reports.orders_text())
        return DONE
    document, text = fluid_reports.solution_document, fluid_reports.solution_text
    print(json.dumps(document(solution)) if args.json else text(solution))
    return DONE if solution.equilibria else NEGATIVE


def _judged_steps(args: argparse.Namespace) -> list[Verdict]:
    """Of logs of steps, each of one algorithm."""
    from rewindow import specs
    from rewindow.conformance import checks, step_files
    from rewindow.controllers.steps import Step

    tlc = specs.jar(args.jar)
    verdicts: list[Verdict] = []
    for name in args.captures:
        told = step_files.read(Path(name))
        choice = next(told)
        assert isinstance(choice, Choice)
        with checks.Checker([choice], tlc, in_kernel=True) as checker:
            for step in told:
                assert isinstance(step, Step)
                if args.connection in (None, step.connection):
                    checker.add(step)
            verdicts += checker.verdicts()
    return verdicts


def _judged(args: argparse.Namespace) -> list[Verdict]:
    from rewindow import specs
    from rewindow.conformance import checks, step_logs

    if args.steps:
        if args.algorithm:
            raise _Usage("--algorithm: a log of steps is of the algorithm that it names")
        return _judged_steps(args)
    choices = [Choice(name) for name in dict.fromkeys(args.algorithm or step_logs.SPECIFIED)]
    tlc = specs.jar(args.jar)
    with (
        rewindow.open(*args.captures) as capture,
        capture.stream(choices, transitions=True) as replay,
        checks.Checker(choices, tlc) as checker,
    ):
        if args.connection is not None and args.connection >= (count := replay.connection_count()):
            raise _Usage(f"--connection {args.connection}: the capture has {count} connections, counted from 0")
        for step in replay.steps(args.connection, _show_progress):
            checker.add(step)
        return checker.verdicts()


def _trace(args: argparse.Namespace) -> int:
    from rewindow import specs
    from rewindow.conformance import reports

    trouble: Exception | None = None
    verdicts: list[Verdict] = []
    with _whole_file(args.junit) if args.junit else contextlib.nullcontext() as report:
        try:
            verdicts = _judged(args)
            cases = reports.conformance_cases(args.captures, verdicts)
        except (RewindowError, specs.CheckerMissing, MemoryError, OSError) as e:
            # A report without verdicts must say why.
            cases = [specs.Case(", ".join(args.captures), "can be followed", trouble="error", message=str(e))]
            trouble = e
        if report:
            specs.write_junit(report, "trace", cases)
    if isinstance(trouble, specs.CheckerMissing):
        print(f"rewindow: {trouble}", file=sys.stderr)
        return FAILED
    if trouble:
        raise trouble
    if args.json:
        print(json.dumps({"connections": [v.as_json() for v in verdicts]}))
    else:
        print(reports.conformance_text(verdicts))
    return DONE if all(v.conforms for v in verdicts) else NEGATIVE


def _number(text: str) -> int:
    if not text.isdecimal() or not text.isascii() or len(text) > 9:
        raise argparse.ArgumentTypeError(f"'{text[:40]}' is not the number of a connection")
    return int(text)


def _service(args: argparse.Namespace) -> Service:
    from rewindow.client.service import Service

    token = args.token or os.environ.get("REWINDOW_TOKEN")
    if not token:
        raise _Usage("no token: give --token or set REWINDOW_TOKEN")
    return Service(args.server, token)


def _upload(args: argparse.Namespace) -> int:
    from rewindow.client import uploads
    from rewindow.client.service import ServerFailed

    service = _service(args)
    tags = {k: str(v) for k, v in _options(args.tag, "--tag").items()}
    captures = [uploads.Sent(path) for path in args.captures]
    try:
        uploads.upload_each(service, captures, tags, lambda e: print(f"rewindow: {e}", file=sys.stderr))
        worst = DONE
        for sent in captures:
            if sent.capture is None:
                worst = max(worst, UNREADABLE if isinstance(sent.trouble, CaptureUnreadable) else FAILED)
                continue
            try:
                worst = max(worst, _told(args, service, sent, sent.capture))
            except ServerFailed as e:
                print(f"{sent.capture['id']}  {sent.capture['state']}  {sent.path}")
                print(f"rewindow: {e}", file=sys.stderr)
                worst = FAILED
    finally:
        if len(captures) > 1:
            accepted = sum(1 for sent in captures if sent.capture)
            print(
                f"\n{accepted} of {len(captures)} captures accepted",
                *uploads.table(captures),
                sep="\n",
                file=sys.stderr,
            )
    return worst


def _told(args: argparse.Namespace, service: Service, sent: Sent, capture: dict[str, Any]) -> int:
    """Prints the server's result for a capture that it accepted, and keeps it in `sent`; returns the exit status."""
    from rewindow.client import results, uploads

    if args.wait:
        capture = sent.capture = uploads.analysed(service, capture)
    print(f"{capture['id']}  {capture['state']}  {sent.path}", flush=True)
    if sent.outcome != "sent" and len(args.captures) == 1:
        print(f"{sent.path}: {sent.outcome}", file=sys.stderr)
    if capture["state"] == "failed":
        sent.outcome = "failed"
        print(f"{sent.path}: {capture['error']}", file=sys.stderr)
        return NEGATIVE
    if args.wait:
        print("\n" + results.server_text(capture, uploads.connections(service, capture["id"])))
    return DONE


def _watch(args: argparse.Namespace) -> int:
    import fnmatch
    import signal
    import time

    from rewindow.client import watching
    from rewindow.client.service import ServerFailed, Service
    from rewindow.client.tables import printable

    service = Service(args.server.rstrip("/"), _service(args).token, patience_s=0)
    folder = Path(args.folder)
    state = watching.State(Path(args.state) if args.state else folder / ".rewindow-watch", service.address)
    chosen = {} if args.name is None else {"matches": lambda name: fnmatch.fnmatchcase(name, args.name)}
    watch = watching.Watch(
        folder,
        service,
        state,
        tags={k: str(v) for k, v in _options(args.tag, "--tag").items()},
        report=lambda line: print(printable(line), flush=True),
        settle_s=args.every,
        unchanged_s=args.unchanged_for,
        **chosen,
    )
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    failed = False
    try:
        watch.step()
        while not args.once:
            time.sleep(max(args.every, watch.wait_s))
            watch.step()
        time.sleep(max(args.every, args.unchanged_for or 0.0))
        watch.step()
    except KeyboardInterrupt:
        pass
    except ServerFailed as e:
        print(f"rewindow: {e}", file=sys.stderr)
        failed = True
    finally:
        state.close()
        print(printable(_summary(watch)))
    left = args.once and (watch.wait_s or watch.counts.refused or watch.counts.lost)
    return FAILED if failed or left else DONE


def _summary(watch: Watch) -> str:
    from rewindow.reports.tables import si

    counts, waiting = watch.counts, watch.waiting
    parts = [f"{counts.sent} sent ({si(counts.size, 'B')})"]
    for number, what in ((counts.were_here, "were there before"), (counts.refused, "refused"), (counts.lost, "lost")):
        if number:
            parts.append(f"{number} {what}")
    if waiting:
        names = ", ".join(waiting[:3]) + (", ..." if len(waiting) > 3 else "")
        parts.append(f"{len(waiting)} not sent yet: {names}")
    return "; ".join(parts)


def _filters(words: Sequence[str]) -> list[tuple[str, str]]:
    """Of --where, which may name a filter several times."""
    found = []
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name.strip():
            raise _Usage(f"--where {word}: not of the form filter=value")
        found.append((name.strip(), value))
    return found


def _form_of_table(args: argparse.Namespace) -> str:
    from rewindow.client.tables import FORMATS

    suffix = Path(args.output).suffix.removeprefix(".")
    if args.output == "-":
        return args.format or "table"
    if suffix not in FORMATS:
        raise _Usage(f"--output {args.output}: the name must end in .csv, .jsonl or .parquet")
    if args.format not in (None, suffix):
        raise _Usage(f"--output {args.output}: the name says that it is not {args.format}")
    return suffix


def _connections(args: argparse.Namespace) -> int:
    from rewindow.client import tables
    from rewindow.client.service import Refused

    form = _form_of_table(args)
    if form == "parquet" and args.output == "-" and sys.stdout.isatty():
        raise _Usage("Parquet is no text: name a file with --output")
    filters = [*_filters(args.where), ("sort", args.sort)]
    service = _service(args)
    try:
        if form == "table":
            for line in tables.lines(service, filters, args.limit):
                print(line)
            return DONE
        with _output(args.output) as out, contextlib.ExitStack() as files:
            target = files.enter_context(Path(out).open("wb")) if isinstance(out, str) else out
            addresses = tables.write(service, "/v1/connections", form, filters, target, args.limit)
    except Refused as e:
        raise _Usage(str(e)) from e
    if addresses not in (None, "kept"):
        which = "addresses" if addresses == "replaced" else "addresses of some captures"
        print(f"rewindow: {which} are not those that were captured, but others", file=sys.stderr)
    return DONE


def _download(args: argparse.Namespace) -> int:
    from rewindow.client import downloads
    from rewindow.client.service import Refused, ServerFailed

    if bool(args.captures) == bool(args.where):
        raise _Usage("give either the ids of captures or --where")
    if args.output and len(args.captures) != 1:
        raise _Usage("--output: is for one capture; --folder is for several")
    service, folder = _service(args), Path(args.folder)
    filters = _filters(args.where)
    worst = DONE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        wanted = downloads.captures(service, filters) if filters else (None for _ in args.captures)
        for number, record in enumerate(wanted):
            name = args.captures[number] if record is None else str(record["id"])
            try:
                found = downloads.capture(service, name) if record is None else record
                _fetch(args, service, folder, found)
            except ServerFailed as e:
                print(f"rewindow: {name}: {e}", file=sys.stderr)
                worst = FAILED
    except Refused as e:
        raise _Usage(str(e)) from e
    return worst


def _fetch(args: argparse.Namespace, service: Service, folder: Path, record: dict[str, Any]) -> None:
    """Downloads one capture, and prints where it is. Raises ServerFailed."""
    from rewindow.client import downloads

    with downloads.stored(service, record) as answer:
        if args.output == "-":
            downloads.copy(answer, record, sys.stdout.buffer)
            return
        place = (
            Path(args.output) if args.output else downloads.place_for(folder, downloads.name_of(answer, record), record)
        )
        was_there = downloads.is_there(place, record)
        if not was_there:
            with _whole_file(str(place)) as part, Path(part).open("wb") as out:
                downloads.copy(answer, record, out)
    print(f"{record['id']}  {'was here' if was_there else 'written'}  {place}", flush=True)


CAPTURES_HELP = "several captures are one observation; - is standard input"


def _add_specs_commands(p: argparse.ArgumentParser) -> None:
    from rewindow import spec_mutants, spec_pictures, specs
    from rewindow.conformance import step_logs

    commands = specs.add_commands(p)
    spec_pictures.add_command(commands)
    spec_mutants.add_command(commands)
    p = commands.add_parser("trace", help="TLC decides whether controllers conform to their specifications")
    p.add_argument("captures", nargs="+", metavar="CAPTURE", help=CAPTURES_HELP)
    p.add_argument(
        "--algorithm",
        action="append",
        default=[],
        type=folded,
        choices=list(step_logs.SPECIFIED),
        help="may be given several times; default: all that have a specification",
    )
    p.add_argument("--connection", type=_number, metavar="N", help="number in the output of `analyze`; default: all")
    p.add_argument("--steps", action="store_true", help="logs of steps that `rewindow-kernel trace` wrote, no captures")
    p.add_argument(
        "--jar", metavar="FILE", help="TLC; default: REWINDOW_TLA_JAR, or the jar that deploy/setup.sh fetched"
    )
    p.add_argument("--json", action="store_true", help="print one JSON document")
    p.add_argument("--junit", metavar="FILE", help="also write a report in JUnit's XML")
    p.set_defaults(run=_trace)


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1024:
        raise argparse.ArgumentTypeError(f"'{text[:40]}' is not a number from 1 to 1024")
    return int(text)


def _version(text: str) -> tuple[int, int]:
    numbers = text.split(".")
    if len(numbers) != 2 or not all(n.isdecimal() and len(n) <= 3 for n in numbers):
        raise argparse.ArgumentTypeError(f"'{text[:40]}' is not a version of Linux, such as 6.18")
    return int(numbers[0]), int(numbers[1])


def _seed(text: str) -> int:
    if not text.isdecimal() or int(text) >= 2**63:
        raise argparse.ArgumentTypeError(f"'{text[:40]}' is not a number from 0 to 2^63 - 1")
    return int(text)


def _add_jobs(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "--jobs",
        type=_count,
        metavar="N",
        default=1,
        help="threads that share the work (default 1); the result does not depend on N",
    )


def _most(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) < 2**31:
        raise argparse.ArgumentTypeError(f"'{text[:40]}' is not a number from 1 to 2147483647")
    return int(text)


def _pause(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.01 <= seconds <= 86_400:
        raise argparse.ArgumentTypeError(f"'{text[:40]}' is not a number of seconds from 0.01 to 86400")
    return seconds


def _add_server(p: argparse.ArgumentParser) -> None:
    p.add_argument("--server", required=True, metavar="URL", help="address of the service")
    p.add_argument("--token", help="default: the environment variable REWINDOW_TOKEN")


def _add_where(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "--where",
        action="append",
        default=[],
        metavar="FILTER=VALUE",
        help="a filter of GET /v1/connections (docs/dashboards.md), such as kind=mptcp; may be repeated",
    )


def _parser(command: str | None) -> argparse.ArgumentParser:
    """command: the one that was called. Modules that load slowly are imported only for the command that needs them."""
    parser = argparse.ArgumentParser(prog="rewindow", description=rewindow.__doc__)
    parser.add_argument("--version", action="version", version=f"rewindow {rewindow.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    p = commands.add_parser("algorithms", help="list the controllers and their options")
    form = p.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print one JSON document")
    form.add_argument("--markdown", action="store_true", help="print the page docs/algorithms.md")
    p.set_defaults(run=_algorithms)

    p = commands.add_parser("schedulers", help="list the packet schedulers and their options")
    p.add_argument("--json", action="store_true", help="print one JSON document")
    p.set_defaults(run=_schedulers)

    p = commands.add_parser("analyze", help="print connections, metrics and fairness of captures")
    p.add_argument("captures", nargs="+", metavar="CAPTURE", help=CAPTURES_HELP)
    p.add_argument("--algorithms", metavar="A,B", help="also replay these algorithms")
    p.add_argument(
        "--bottleneck",
        action="append",
        default=[],
        metavar="HOW",
        help="how to find shared bottlenecks. sbd (default): by a detector; interface: flows captured on one interface "
        "share one; NET,NET: flows of these addresses or networks share one (may be given several times)",
    )
    p.add_argument("--series", metavar="OUT.{csv,parquet}", help="write a row for every ACK")
    p.add_argument("--json", action="store_true", help="print one JSON document")
    _add_jobs(p)
    p.set_defaults(run=_analyze)

    p = commands.add_parser("replay", help="write the window of one controller at every ACK")
    p.add_argument("captures", nargs="+", metavar="CAPTURE", help=CAPTURES_HELP)
    p.add_argument("--algorithm", required=True, metavar="NAME", help="`rewindow algorithms` lists them")
    p.add_argument("--option", action="append", default=[], metavar="K=V", help="an option of the algorithm")
    p.add_argument(
        "--detector-option", action="append", default=[], metavar="K=V", help="an option of the algorithm's detector"
    )
    p.add_argument("--output", required=True, metavar="OUT.{csv,parquet}", help="- writes CSV to standard output")
    _add_jobs(p)
    p.set_defaults(run=_replay)

    p = commands.add_parser("detectors", help="list the detectors of shared bottlenecks and their options")
    p.add_argument("--json", action="store_true", help="print one JSON document")
    p.set_defaults(run=_detectors)

    p = commands.add_parser(
        "sets", help="write which subflows of a connection a detector finds behind one bottleneck, over time"
    )
    p.add_argument("captures", nargs="+", metavar="CAPTURE", help=CAPTURES_HELP)
    p.add_argument("--detector", default="sbcc", metavar="NAME", help="`rewindow detectors` lists them; default: sbcc")
    p.add_argument("--option", action="append", default=[], metavar="K=V", help="an option of the detector")
    p.add_argument("--output", default="-", metavar="OUT.{csv,parquet}", help="default: CSV on standard output")
    p.set_defaults(run=_sets)

    p = commands.add_parser(
        "whatif", help="predict what another algorithm would have had, on paths fitted to the capture"
    )
    p.add_argument("captures", nargs="+", metavar="CAPTURE", help=CAPTURES_HELP)
    p.add_argument(
        "--algorithm", action="append", required=True, metavar="NAME", help="`rewindow algorithms` lists them"
    )
    p.add_argument("--option", action="append", default=[], metavar="K=V", help="an option of the algorithms")
    p.add_argument(
        "--connection",
        action="append",
        type=int,
        default=[],
        metavar="N",
        help="its number in `rewindow analyze`; default: all",
    )
    p.add_argument("--everyone", action="store_true", help="all connections that share its bottlenecks change, too")
    p.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="change the network, e.g. path2.rate=20M, or say what it sends: source=time",
    )
    p.add_argument("--repeat", type=_count, default=48, metavar="N", help="simulated runs of each world; default: 48")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--json", action="store_true", help="print one JSON document")
    p.set_defaults(run=_whatif)

    p = commands.add_parser("fit", help="find the rate, queue and losses of the paths that a capture shows")
    p.add_argument("captures", nargs="+", metavar="CAPTURE", help=CAPTURES_HELP)
    p.add_argument(
        "--connection",
        action="append",
        type=int,
        default=[],
        metavar="N",
        help="its number in `rewindow analyze`; default: all",
    )
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--json", action="store_true", help="print one JSON document")
    p.set_defaults(run=_fit)

    p = commands.add_parser("simulate", help="run a scenario with simulated senders: what would have come of it")
    p.add_argument("scenario", metavar="SCENARIO.toml", help="the lab's format: docs/scenarios.md")
    p.add_argument(
        "--algorithm",
        action="append",
        default=[],
        metavar="[TRANSFER=]NAME",
        help="in place of the scenario's congestion control, for all transfers or for one; may be given several times",
    )
    p.add_argument("--option", action="append", default=[], metavar="K=V", help="option of the algorithms given")
    p.add_argument(
        "--scheduler",
        action="append",
        default=[],
        metavar="[TRANSFER=]NAME",
        help="of MPTCP's packets, in place of the kernel's; `rewindow schedulers` lists them; may be repeated",
    )
    p.add_argument(
        "--scheduler-option", action="append", default=[], metavar="K=V", help="option of the schedulers given"
    )
    p.add_argument("--seed", type=_seed, help="of the first run; default: the scenario's")
    p.add_argument("--repeat", type=_count, default=1, metavar="N", help="with consecutive seeds; default: 1")
    p.add_argument(
        "--hz",
        type=int,
        choices=[100, 250, 1000],
        default=250,
        help="ticks a second of the hosts' kernels (CONFIG_HZ); default: 250",
    )
    p.add_argument(
        "--linux",
        type=_version,
        default="6.18",
        metavar="VERSION",
        help="of the hosts: receive buffers grow to 6 MiB, or to 32 MiB since 6.16; default: 6.18",
    )
    p.add_argument("--pcapng", metavar="FILE", help="write the headers of all packets")
    p.add_argument("--beside", choices=["sender", "receiver"], default="sender", help="where --pcapng captures")
    p.add_argument("--json", action="store_true")
    p.set_defaults(run=_simulate)

    p = commands.add_parser("fluid", help="print equilibria of a network in the fluid model, and the papers' orders")
    p.add_argument("network", nargs="?", metavar="NETWORK.toml", help="links, users and routes; - is standard input")
    p.add_argument("--orders", action="store_true", help="print where the orders of TCCC's eq. 17 to 20 hold, instead")
    p.add_argument("--table", action="store_true", help="print the papers' tables with their misprints, instead")
    p.add_argument("--plot", metavar="OUT.{svg,png}", help="also draw the result")
    p.add_argument("--json", action="store_true", help="print one JSON document")
    p.set_defaults(run=_fluid)

    p = commands.add_parser("redact", help="copy a capture without payload, and with other addresses")
    p.add_argument(
        "capture", metavar="CAPTURE", help="pcap, pcapng or snoop, which may be compressed; - is standard input"
    )
    p.add_argument("--output", required=True, metavar="FILE", help="- writes to standard output")
    p.add_argument(
        "--key",
        metavar="FILE",
        help="replace addresses, prefixes stay common; a file with 16 bytes in hexadecimal (openssl rand -hex 16)",
    )
    p.set_defaults(run=_redact)

    p = commands.add_parser("upload", help="send captures to a server")
    p.add_argument("captures", nargs="+", metavar="CAPTURE", help="each is uploaded by itself; - is standard input")
    _add_server(p)
    p.add_argument("--tag", action="append", default=[], metavar="K=V", help="a tag of the captures; may be repeated")
    p.add_argument("--wait", action="store_true", help="wait until the captures are analysed, and print the results")
    p.set_defaults(run=_upload)

    p = commands.add_parser("watch", help="send the captures that tcpdump or dumpcap write into a folder")
    p.add_argument("folder", metavar="FOLDER", help="files are sent when they are complete, once each")
    _add_server(p)
    p.add_argument("--tag", action="append", default=[], metavar="K=V", help="a tag of the captures; may be repeated")
    p.add_argument("--name", metavar="GLOB", help="of the files; default: what ends like .pcap, .pcap1, .pcapng.gz")
    p.add_argument("--state", metavar="FILE", help="what was sent; default: FOLDER/.rewindow-watch")
    p.add_argument(
        "--every",
        type=_pause,
        default=1.0,
        metavar="SECONDS",
        help="look so often, and send what has not changed for so long; default: 1",
    )
    p.add_argument(
        "--unchanged-for",
        type=_pause,
        metavar="SECONDS",
        help="where the system does not say whether a file is complete (network file systems, files of other users):"
        " it is when it has not changed for so long",
    )
    p.add_argument("--once", action="store_true", help="send what is complete, and end")
    p.set_defaults(run=_watch)

    p = commands.add_parser("connections", help="search the connections of a server, as a table or a file")
    _add_server(p)
    _add_where(p)
    p.add_argument(
        "--sort", default="-first_ns", metavar="COLUMN", help="--sort=-bytes: descending; default: -first_ns"
    )
    p.add_argument("--limit", type=_most, metavar="N", help="the most connections; default: all")
    p.add_argument(
        "--format", choices=["table", "csv", "jsonl", "parquet"], help="on standard output; default: a table"
    )
    p.add_argument("--output", default="-", metavar="OUT.{csv,jsonl,parquet}", help="default: standard output")
    p.set_defaults(run=_connections)

    p = commands.add_parser("download", help="fetch captures from a server, as it stores them")
    p.add_argument("captures", nargs="*", metavar="ID", help="of a capture")
    _add_server(p)
    _add_where(p)
    p.add_argument("--folder", default=".", metavar="DIR", help="where the files are written; default: here")
    p.add_argument("--output", metavar="FILE", help="of one capture; - writes to standard output")
    p.set_defaults(run=_download)

    p = commands.add_parser("specs", help="check specifications and controllers with TLC")
    if command == "specs":
        _add_specs_commands(p)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    # Without this, NumPy starts a thread for each core, and these threads wait in busy loops.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    words = sys.argv[1:] if arguments is None else list(arguments)
    args = _parser(words[0] if words else None).parse_args(words)
    try:
        return int(args.run(args))
    except (_Usage, UnknownAlgorithm, UnknownScheduler, BadOption) as e:
        print(f"rewindow: {e}", file=sys.stderr)
        return USAGE
    except (CaptureUnreadable, NetworkUnreadable, ScenarioUnreadable) as e:
        print(f"rewindow: {e}", file=sys.stderr)
        return UNREADABLE
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except (RewindowError, MemoryError, OSError) as e:
        print(f"rewindow: {e}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
