"""Plays a scenario: its steps, one after the other, with a driver, the acker and the proxy between them."""

import contextlib
import http.client
import itertools
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from acker_protocol import signature
from acker_protocol.anchors_signature import secret_keys, write_signature

from tests.conformance.expectations import mismatch
from tests.conformance.programs import Driver, DriverError, Pending
from tests.conformance.proxy import Fault, FaultProxy, Match

WITHIN_S = 40.0
"""How long a step waits for what it expects of the acker."""

TOPOLOGY = {"message_timeout_ms": 60_000, "dedupe_window_ms": None, "retention_ms": 60_000}
"""The topology of a scenario, but for what it says itself: an automatic dedupe window."""

LOOKS = ("root", "mailbox", "requests", "spout")
"""Steps that look at the acker or the proxy, again and again until they see what they expect."""

OWN_WORDS = ("about", "save", "expect", "calm", "error", "background", "until")
"""What a step says to the player; all else goes to who carries it out."""

Step = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A scenario of a file: ``calm`` says why it is not played in a storm, if it is not."""

    file: str
    name: str
    steps: list[Step]
    topology: dict[str, Any] = field(default_factory=dict)
    calm: str = ""


def scenarios() -> list[Scenario]:
    """Read all scenarios."""
    folder = Path(__file__).parent / "scenarios"
    return [
        Scenario(file=path.stem, **found)
        for path in sorted(folder.glob("*.json"))
        for found in json.loads(path.read_text())
    ]


@dataclass(slots=True, kw_only=True)
class Stage:
    """All that a scenario is played with. In a ``storm``, what depends on a calm network is not compared."""

    driver: Driver
    proxy: FaultProxy
    acker: httpx.Client
    topology: str
    storm: bool = False
    values: dict[str, Any] = field(default_factory=dict)
    pending: dict[str, Pending] = field(default_factory=dict)

    def play(self, scenario: Scenario) -> None:
        """Play a scenario. Raises ``AssertionError`` with the step that was not as it says."""
        self.proxy.reset(storm=self.storm)
        self.acker.put(f"/v1/topologies/{self.topology}", json=TOPOLOGY | scenario.topology).raise_for_status()
        for number, step in enumerate(scenario.steps, start=1):
            try:
                self._step(self._filled(step))
            except AssertionError as error:
                raise AssertionError(f"step {number}, {json.dumps(step)}: {error}\n{self._told()}") from None

    def _step(self, step: Step) -> None:
        told = {name: value for name, value in step.items() if name not in OWN_WORDS}
        if "background" in step:
            self.pending[step["background"]] = self.driver.begin(self._command(told))
            return
        do = told["do"]
        look = getattr(self, f"_do_{do}", None) or (lambda **_: self.driver.begin(self._command(told)).answer())
        arguments = {name: value for name, value in told.items() if name != "do"}
        retried = step.get("until", do in LOOKS)
        found = self._see(lambda: look(**arguments), step, retried=retried)
        for name, path in step.get("save", {}).items():
            self.values[name] = _at(found, path)

    def _see(self, look: Callable[[], Any], step: Step, *, retried: bool) -> Any:
        """Look, again and again if it is ``retried``, and compare what is seen with what the step expects."""
        until = time.monotonic() + WITHIN_S
        while True:
            found, wrong = self._seen(look, step)
            if not wrong:
                return found
            assert retried, wrong
            assert time.monotonic() < until, wrong
            time.sleep(0.02)

    def _seen(self, look: Callable[[], Any], step: Step) -> tuple[Any, str]:
        try:
            found = look()
        except DriverError as error:
            wanted = step.get("error")
            return None, f"raised {error}" if wanted is None else mismatch(error.error, wanted)
        if "error" in step:
            return found, f"did not raise {step['error']}, but answered {found}"
        wanted = [step[name] for name in ("expect", "calm") if name in step and not (name == "calm" and self.storm)]
        return found, "; ".join(filter(None, (mismatch(found, each) for each in wanted)))

    def _command(self, told: Step) -> Step:
        """Complete a command: clients talk to the proxy, unless the step says something else."""
        if told["do"] == "open":
            return {"url": self.proxy.url, "topology": self.topology} | told
        return told

    def _do_await(self, *, of: str) -> Any:
        return self.pending.pop(of).answer()

    def _do_fault(self, *, on: dict[str, str] | None = None, **fault: Any) -> Any:
        self.proxy.add(Fault(on=Match(**(on or {})), **fault))

    def _do_thaw(self) -> Any:
        self.proxy.thaw()

    def _do_kill(self) -> Any:
        self.driver.kill()
        self.pending.clear()
        self.driver.start()

    def _do_calm_down(self) -> Any:
        self.proxy.reset(storm=self.storm)

    def _do_root(self, *, root: str) -> Any:
        return self._get(f"roots/{root}")

    def _do_mailbox(self, *, spout: str) -> Any:
        found = self._get(f"spouts/{spout}/completions?limit=1000&wait_ms=0")
        completions = found.get("completions", [])
        return {"message_ids": [each["message_id"] for each in completions], "completions": completions}

    def _do_spout(self, *, spout: str) -> Any:
        return self._get(f"spouts/{spout}")

    def _do_ask(self, *, method: str, path: str, body: Any = None) -> Any:
        """Ask the acker itself, as an operator does."""
        response = self.acker.request(method, f"/v1/topologies/{self.topology}/{path}", json=body)
        return {"status": response.status_code} | (response.json() if response.content else {})

    def _do_requests(self, **match: str) -> Any:
        """Count the requests that came at the proxy so far."""
        passed = [each for each in self.proxy.requests if Match(**match).fits(each)]
        gaps = [round(1000 * (later.at - former.at)) for former, later in itertools.pairwise(passed)]
        return {
            "count": len(passed),
            "answered": sum(each.answered for each in passed),
            "keys": len({each.key for each in passed if each.key is not None}),
            "without_key": sum(each.key is None for each in passed),
            "bodies": len({each.body for each in passed}),
            "authorization": sorted({each.authorization or "" for each in passed}),
            "gaps_ms": gaps,
            "operations": [each for one in passed for each in one.operations],
        }

    def _do_prove(self, *, header: str, secret: str) -> Any:
        """Sign anchors, as a caller that has the secret does."""
        return {"signature": write_signature(secret_keys(secret), header, now_s=time.time())}

    def _do_http(
        self,
        *,
        url: str,
        method: str = "POST",
        header: str | None = None,
        headers: dict[str, str] | None = None,
        body: Any = None,
        sign: dict[str, Any] | None = None,
    ) -> Any:
        """Ask a server of the driver, as a caller of the bolt or as the acker posts completions."""
        content = body.encode() if isinstance(body, str) else json.dumps(body).encode() if body is not None else b""
        all_headers = dict(headers or {}) | ({} if header is None else {"Acker-Anchors": header})
        if sign is not None:
            all_headers |= _signed(sign, content)
        try:
            response = httpx.request(method, url, headers=all_headers, content=content, timeout=30)
        except httpx.TransportError:
            return {"status": 0}
        kind = response.headers.get("content-type", "")
        document = response.json() if "json" in kind or response.content.startswith(b"{") else None
        allow = response.headers.get("allow")
        return {"status": response.status_code, "text": response.text, "json": document, "type": kind, "allow": allow}

    def _do_http_leave(self, *, url: str, header: str, body: Any) -> Any:
        """Ask a server of the driver, and go away without waiting for its answer."""
        connection = http.client.HTTPConnection(httpx.URL(url).netloc.decode(), timeout=30)
        with contextlib.closing(connection):
            connection.request("POST", "/", body=json.dumps(body), headers={"Acker-Anchors": header})

    def _do_http_head(self, *, url: str, length: int, sign: dict[str, Any] | None = None) -> Any:
        """Ask a server of the driver by the head of a request alone, whose body does not come."""
        with _begun(url, {"Content-Length": str(length)}, sign) as connection:
            return {"status": connection.getresponse().status}

    def _do_http_part(self, *, url: str, length: int, body: str, sign: dict[str, Any] | None = None) -> Any:
        """Ask a server of the driver, and go away when no more than this of the body was sent."""
        with _begun(url, {"Content-Length": str(length)}, sign) as connection:
            connection.send(body.encode())

    def _do_http_chunks(self, *, url: str, length: int, sign: dict[str, Any] | None = None) -> Any:
        """Ask a server of the driver with a body of so many bytes whose head does not tell how many."""
        with _begun(url, {"Transfer-Encoding": "chunked"}, sign) as connection:
            connection.send(b"%x\r\n%b" % (length, b" " * length))
            return {"status": connection.getresponse().status}

    def _get(self, path: str) -> dict[str, Any]:
        response = self.acker.get(f"/v1/topologies/{self.topology}/{path}")
        return response.json() if response.is_success else {"state": response.json()["code"]}  # type: ignore[no-any-return]

    def _filled(self, value: Any) -> Any:
        """Put in what was saved: a text that is ``$name`` is the value of that name."""
        match value:
            case dict():
                return {name: self._filled(each) for name, each in value.items()}
            case list():
                return [self._filled(each) for each in value]
            case str() if value.startswith("$"):
                assert value[1:] in self.values, f"{value} was not saved"
                return self.values[value[1:]]
            case _:
                return value

    def _told(self) -> str:
        """Describe the last requests, for who looks into a scenario that failed."""
        lines = [
            f"  {each.method} {each.path} {each.fate} {each.key or ''} {json.dumps(each.operations)[:200]}"
            for each in self.proxy.requests[-30:]
        ]
        return "\n".join(["the requests:", *lines])


@contextlib.contextmanager
def _begun(url: str, headers: dict[str, str], sign: dict[str, Any] | None) -> Iterator[http.client.HTTPConnection]:
    """Send the head of a request, and close the connection in the end."""
    connection = http.client.HTTPConnection(httpx.URL(url).netloc.decode(), timeout=30)
    with contextlib.closing(connection):
        connection.putrequest("POST", "/")
        for name, value in (headers | ({} if sign is None else _signed(sign, b""))).items():
            connection.putheader(name, value)
        connection.endheaders()
        yield connection


def _signed(sign: dict[str, Any], content: bytes) -> dict[str, str]:
    """Return the headers of a webhook that is signed as a step says."""
    timestamp = int(time.time()) + sign.get("late_s", 0)
    message = sign.get("message", "msg_1")
    return signature.signed_headers(sign["secrets"], message=message, timestamp=timestamp, body=content)


def _at(found: Any, path: str) -> Any:
    """Return what lies at a path of names and numbers, as ``headers.0``."""
    for name in path.split("."):
        found = found[int(name)] if isinstance(found, list) else found[name]
    return found
