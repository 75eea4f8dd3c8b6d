"""Ways in which no client asks: paths, bombs, giants, slow ones, header games, smuggling, forged forms.

Each attack is a name, a kind and a question with a judge; `survived` says how many were answered as they
should be: never by a server's error, never by silence, never with what is not theirs. Run by `attack`.
"""

import gzip
import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from grus.dashboard import static_files
from tests.trust.asking import Answer, Door, read
from tests.trust.projects import CLOSED, OTHER, Projects, digest

LONGEST = 10.0
"""Seconds within which even the worst input is answered, on a busy machine."""
SLOW_ONES = 40
SLOW_END = 25.0
"""Seconds after which no slow connection may be left; the server's own limit is 10."""


@dataclass(frozen=True)
class Attack:
    """`run` returns what went wrong, or "" if nothing did."""

    kind: str
    name: str
    run: Callable[[], str]


def refused(answer: Answer, *allowed: int) -> str:
    """Nothing but an error of the asker's, or what is allowed besides."""
    if 400 <= answer.status < 500 or answer.status in allowed:
        return ""
    return f"status {answer.status}: {answer.text[:200]}"


def _posted(door: Door, path: str, body: Any, **headers: str) -> str:
    return refused(door.ask("POST", path, body, more=headers))


def refused_or_cut(answer: Answer) -> str:
    """A connection that is closed without a word is an answer to what is no HTTP."""
    return "" if answer.status == 0 and answer.closed else refused(answer)


# -------------------------------------------------------------------------------------------------- paths

CLIMBS = (
    "../../../../etc/passwd",
    "..%2f..%2f..%2f..%2fetc%2fpasswd",
    "%2e%2e/%2e%2e/%2e%2e/etc/passwd",
    "..%252f..%252f..%252fetc%252fpasswd",
    "..%5c..%5c..%5cetc%5cpasswd",
    "%c0%ae%c0%ae%2f%c0%ae%c0%ae%2fetc%2fpasswd",
    quote("．．／．．／etc／passwd"),
    "/etc/passwd",
    "%2fetc%2fpasswd",
    "grus.css%00.png",
    "%00",
    "....//....//etc/passwd",
    "file:%2f%2f%2fetc%2fpasswd",
)
"""Out of a folder: plain, encoded once and twice, by backslash, overlong, wide, absolute, cut by NUL."""


def paths(pool: Projects) -> Iterator[Attack]:
    """Every place where a string could become a path."""
    door, job = Door(pool.address, "grus_admin"), pool.live[0]
    places = (
        f"/static/{static_files.present()}/{{}}",
        "/static/{}/grus.css",
        "/v1/jobs/{}",
        "/v1/jobs/{}/log",
        f"/v1/jobs/{job}/artefacts/{{}}",
        "/v1/runs/{}",
        "/v1/sweeps/{}",
        "/v1/graphs/{}",
        "/v1/profiles/{}",
        "/v1/telemetry/series?of=job&measure=host_memory&name={}",
        "/jobs/{}",
        "/runs/{}",
    )
    for place in places:
        for climb in CLIMBS:
            yield Attack("path", place.format(climb), partial(_climbs, door, place.format(climb)))
    texts = (
        "../../../etc/passwd",
        "/etc/../etc/passwd",
        "a\x00b",
        "．．／x",
        "\u202e..",
        "..",
        "con\r\nX: y",
    )
    for field in ("name", "queue", "image", "inputs", "outputs"):
        for text in texts:
            body = {"run": "true", "workdir": "/", field: _field(field, text)}
            yield Attack(
                "path",
                f"{field}={text!r}",
                partial(_planned, door, body),
            )


def _planned(door: Door, body: Any) -> str:
    return refused(door.ask("POST", "/v1/jobs?plan=true", body), 200)


def _climbs(door: Door, path: str) -> str:
    answer = door.ask("GET", path)
    if "root:" in answer.body:
        return f"a file of the machine: {answer.body[:80]}"
    # Any text may stand where a version does: its files are then simply asked for again.
    return refused(answer, 200) if "/static/" not in path or "grus.css" in path else refused(answer)


def _field(field: str, text: str) -> Any:
    if field in ("inputs", "outputs"):
        return {"a": text}
    return text


# -------------------------------------------------------------------------------------------------- bombs


def bombs(pool: Projects) -> Iterator[Attack]:
    """Small texts that want to become large ones, through the API and through the page."""
    door = Door(pool.address, "grus_member")
    laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
    )
    texts = {
        "billion laughs": laughs + "run: *a11\n",
        "quadratic": f"a: &a {'x' * 100_000}\nrun: [{', '.join(['*a'] * 8000)}]\n",
        "merge keys": "a0: &a0 {x: 1}\n"
        + "".join(f"a{n}: &a{n}\n  <<: [*a{n - 1}, *a{n - 1}]\n  k{n}: 1\n" for n in range(1, 40))
        + "run: a\n",
        "deep list": "run: " + "[" * 200_000,
        "deep mapping": "run: " + "{a: " * 50_000,
        "huge number": f"run: a\npriority: {'9' * 500_000}\n",
        "huge exponent": "run: a\npriority: 1e999999999\n",
        "base 60": "run: a\npriority: " + ":".join(["59"] * 100_000) + "\n",
        "many anchors": "\n".join(f"a{n}: &b{n} x" for n in range(50_000)) + "\nrun: a\n",
        "itself": "a: &a [*a]\nrun: *a\n",
        "a Python object": "run: !!python/object/apply:os.system ['touch /tmp/owned']\n",
        "many documents": "---\nrun: a\n" * 40_000,
        "many keys": "run: a\nenv: {" + ", ".join(f"K{n}: v" for n in range(60_000)) + "}\n",
    }
    for name, text in texts.items():
        sent = json.dumps({"text": text}).encode()
        yield Attack("bomb", f"{name}, page", partial(_defused, door, "/submit/plan", sent))
        yield Attack("bomb", f"{name}, API", partial(_defused, door, "/v1/jobs?plan=true", text.encode()))
    deep = b'{"run":' + b"[" * 300_000
    wide = b'{"run":"a","env":{' + b",".join(b'"K%d":"v"' % n for n in range(70_000)) + b"}}"
    twice = b'{"run":"a"' + b',"run":"a"' * 90_000 + b"}"
    for name, body in {"deep JSON": deep, "wide JSON": wide, "repeated key": twice}.items():
        yield Attack("bomb", name, partial(_defused, door, "/v1/jobs?plan=true", body))


def _defused(door: Door, path: str, body: bytes) -> str:
    began = time.monotonic()
    answer = door.ask("POST", path, body, LONGEST)
    took = time.monotonic() - began
    if took >= LONGEST:
        return f"it took {took:.1f} s"
    return refused(answer, 200)


# ------------------------------------------------------------------------------------------------- giants


def giants(pool: Projects) -> Iterator[Attack]:
    """Bodies that are too large: as they say, as they do not say, and packed."""
    door = Door(pool.address, "grus_member")
    auth = f"Host: {door.host}\r\nAuthorization: Bearer grus_member\r\nContent-Type: application/json\r\n"
    head = f"POST /v1/jobs HTTP/1.1\r\n{auth}"
    form = f"POST /sign-in HTTP/1.1\r\nHost: {door.host}\r\nOrigin: {pool.address}\r\n"
    piece = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    packed = gzip.compress(b" " * (200 << 20))
    yield Attack(
        "giant",
        "1 TB declared",
        lambda: refused(door.raw(f"{head}Content-Length: {1 << 40}\r\n\r\n".encode(), LONGEST)),
    )
    yield Attack("giant", "2 MB sent", lambda: refused(door.ask("POST", "/v1/jobs", b" " * (2 << 20))))
    yield Attack(
        "giant",
        "chunked without end",
        lambda: refused_or_cut(
            door.raw(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + piece * 64, LONGEST)
        ),
    )
    yield Attack(
        "giant",
        "gzip of 200 MB",
        lambda: refused(door.ask("POST", "/v1/jobs", packed, Content_Encoding="gzip")),
    )
    yield Attack(
        "giant",
        "64 kB to sign in",
        lambda: refused(
            Door(pool.address).ask("POST", "/sign-in", b"token=" + b"x" * 65536, Origin=pool.address)
        ),
    )
    yield Attack(
        "giant",
        "chunked to sign in",
        lambda: refused_or_cut(
            door.raw(f"{form}Transfer-Encoding: chunked\r\n\r\n".encode() + piece, LONGEST)
        ),
    )


# ------------------------------------------------------------------------------------------------ headers


def headers(pool: Projects) -> Iterator[Attack]:
    """Who it is for, where it comes from and where it ends, said twice, wrongly or for others."""
    door, host = Door(pool.address), Door(pool.address).host
    auth = "Authorization: Bearer grus_eve\r\n"
    ours = f"Host: {host}\r\n"

    def sent(name: str, head: str, body: str = "", judge: Callable[[Answer], str] = refused_or_cut) -> Attack:
        ends = "" if body else "Connection: close\r\n" * ("HTTP/1.1\r\n" in head)
        return Attack(
            "header", name, lambda: judge(door.raw(f"{head}{ends}\r\n{body}".encode("latin-1"), 2.0))
        )

    get = "GET /v1/jobs HTTP/1.1\r\n"
    post = f"POST /v1/jobs HTTP/1.1\r\n{ours}{auth}"
    yield sent("two hosts", f"{get}{ours}Host: evil.example\r\n{auth}")
    yield sent("two hosts, ours last", f"{get}Host: evil.example\r\n{ours}{auth}")
    yield sent("no host", f"{get}{auth}")
    yield sent("another host", f"{get}Host: evil.example\r\n{auth}")
    yield sent("our name and another's", f"{get}Host: {host}.evil.example\r\n{auth}")
    yield sent("a host with a name before it", f"{get}Host: evil.example@{host}\r\n{auth}")
    yield sent(
        "another host in the target",
        f"GET http://evil.example/v1/jobs HTTP/1.1\r\nHost: evil.example\r\n{auth}",
    )
    yield sent("forwarded host", f"{get}Host: evil.example\r\nX-Forwarded-Host: {host}\r\n{auth}")
    yield sent("forwarded for loopback", f"{get}{ours}X-Forwarded-For: 127.0.0.1\r\nX-Real-IP: 127.0.0.1\r\n")
    yield sent("forwarded user", f"{get}{ours}X-Forwarded-User: root\r\nRemote-User: root\r\n")
    yield sent(
        "another target",
        f"GET /healthz HTTP/1.1\r\n{ours}X-Original-URL: /v1/jobs\r\nX-Rewrite-URL: /v1/jobs\r\n",
        judge=_only_health,
    )
    yield sent("a public path before", f"GET /healthz/../v1/jobs HTTP/1.1\r\n{ours}")
    yield sent("a static path before", f"GET /static/../v1/jobs HTTP/1.1\r\n{ours}", judge=_no_jobs)
    yield sent(
        "an encoded static path before", f"GET /static/%2e%2e/v1/jobs HTTP/1.1\r\n{ours}", judge=_no_jobs
    )
    yield sent("two slashes", f"GET //v1/jobs HTTP/1.1\r\n{ours}")
    yield sent("two tokens", f"{get}{ours}{auth}Authorization: Bearer grus_admin\r\n")
    yield sent(
        "a token in the query", f"GET /v1/jobs?token=grus_admin&access_token=grus_admin HTTP/1.1\r\n{ours}"
    )
    yield sent("a token with a name", f"{get}{ours}Authorization: Basic Z3J1c19hZG1pbjo=\r\n")
    yield sent("another method", f"{get}{ours}{auth}X-HTTP-Method-Override: DELETE\r\n", judge=_still_a_list)
    yield sent("CONNECT", f"CONNECT {host} HTTP/1.1\r\n{ours}{auth}")
    yield sent("TRACE", f"TRACE /v1/jobs HTTP/1.1\r\n{ours}{auth}")
    yield sent("OPTIONS", f"OPTIONS * HTTP/1.1\r\n{ours}")
    yield sent("HTTP/0.9", "GET /v1/jobs\r\n")
    yield sent("HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n")
    yield sent("two lengths", f"{post}Content-Length: 2\r\nContent-Length: 3\r\n", "{}x")
    yield sent(
        "a length and chunks",
        f"{post}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        f"0\r\n\r\nGET /v1/jobs HTTP/1.1\r\n{ours}{auth}\r\n",
        _one_answer,
    )
    yield sent(
        "chunks and a length",
        f"{post}Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
        f"0\r\n\r\nGET /v1/jobs HTTP/1.1\r\n{ours}{auth}\r\n",
        _one_answer,
    )
    yield sent("chunks under another name", f"{post}Transfer-Encoding: xchunked\r\n", "0\r\n\r\n")
    yield sent("chunks twice", f"{post}Transfer-Encoding: chunked, identity\r\n", "0\r\n\r\n")
    yield sent("a space before the colon", f"{post}Transfer-Encoding : chunked\r\n", "0\r\n\r\n")
    yield sent("a negative length", f"{post}Content-Length: -1\r\n")
    yield sent("a length with a sign", f"{post}Content-Length: +2\r\n", "{}")
    yield sent("a bad chunk", f"{post}Transfer-Encoding: chunked\r\n", "zz\r\n{}\r\n0\r\n\r\n")
    yield sent("a NUL in a value", f"{get}{ours}Authorization: Bearer grus_\x00eve\r\n")
    yield sent("a CR in a value", f"{get}{ours}X-A: b\rAuthorization: Bearer grus_eve\r\n")
    yield sent("a folded line", f"{get}{ours}Authorization: Bearer\r\n grus_eve\r\n", judge=_no_error)
    yield sent("100 kB in one header", f"{get}{ours}X-A: {'a' * 100_000}\r\n")
    yield sent("100 kB of token", f"{get}{ours}Authorization: Bearer {'a' * 60_000}\r\n")
    yield sent("10,000 headers", get + ours + "".join(f"X-{n}: a\r\n" for n in range(10_000)))
    yield sent("a target of 100 kB", f"GET /{'a' * 100_000} HTTP/1.1\r\n{ours}")
    yield sent("no UTF-8 in the target", f"GET /v1/jobs/\xff\xfe HTTP/1.1\r\n{ours}{auth}")
    yield sent(
        "a line's end in an answer",
        f"GET /sign-in?next=/%0d%0aSet-Cookie:%20a=b HTTP/1.1\r\n{ours}",
        judge=_no_cookie,
    )


def _only_health(answer: Answer) -> str:
    return "" if answer.status == 200 and '"ok"' in answer.body else f"status {answer.status}"


def _no_jobs(answer: Answer) -> str:
    return "" if answer.status in (400, 401, 404) else f"status {answer.status}: {answer.text[:200]}"


def _still_a_list(answer: Answer) -> str:
    return "" if answer.status == 200 and answer.body.startswith("[") else f"status {answer.status}"


def _one_answer(answer: Answer) -> str:
    """The rest of an ambiguous request must not be taken for another one."""
    more = len(re.findall(r"HTTP/1\.1 \d{3}", answer.text)) > 1
    return "two requests were seen in one" if more else refused_or_cut(answer)


def _no_error(answer: Answer) -> str:
    return "" if answer.status < 500 else f"status {answer.status}"


def _no_cookie(answer: Answer) -> str:
    return "a header of the asker's is in the answer" if "set-cookie" in answer.head.lower() else ""


# -------------------------------------------------------------------------------------------------- forms


def forms(pool: Projects) -> Iterator[Attack]:
    """Changes that a page of another site makes a signed-in person's browser ask for."""
    whole = Door(pool.address, "grus_admin").signed_in()
    job, evil = pool.live[1], "http://evil.example"
    stop = f"/v1/jobs/{job}/stop"
    form = whole.headers["Grus-Form"]
    cookie = {"Cookie": whole.headers["Cookie"]}
    bare = Door(pool.address, headers=cookie)
    own = {"Origin": pool.address}
    ways: dict[str, dict[str, str]] = {
        "the cookie alone": {},
        "no proof": own,
        "a wrong proof": {**own, "Grus_Form": "0" * 64},
        "no origin": {"Grus_Form": form},
        "another origin": {"Origin": evil, "Grus_Form": form},
        "no origin at all": {"Origin": "null", "Grus_Form": form},
        "another port of this host": {"Origin": "http://127.0.0.1:1", "Grus_Form": form},
        "another site": {**own, "Grus_Form": form, "Sec_Fetch_Site": "cross-site"},
        "another page of this site": {**own, "Grus_Form": form, "Sec_Fetch_Site": "same-site"},
        "a plain form": {"Origin": evil, "Content_Type": "text/plain"},
    }
    for name, sent in ways.items():
        for path in (stop, "/submit", "/simulate", "/v1/tokens", "/sign-out"):
            yield Attack(
                "form",
                f"{name}: {path}",
                partial(_posted, bare, path, b"{}", **sent),
            )
    yield Attack(
        "form",
        "signing in from elsewhere",
        lambda: refused(Door(pool.address).ask("POST", "/sign-in", b"token=grus_eve", Origin=evil)),
    )
    yield Attack("form", "a page that frames ours", lambda: _framed(whole.ask("GET", "/jobs")))
    yield Attack(
        "form",
        "two sessions at once",
        lambda: refused(
            Door(pool.address, headers={"Cookie": f"{cookie['Cookie']}; grus_session=x"}).ask(
                "GET", "/v1/jobs"
            )
        ),
    )
    for name in ("//evil.example", "/\\evil.example", "https://evil.example", "/%09/evil.example"):
        yield Attack("form", f"sent on to {name}", partial(_sent_on, whole, name))


def _framed(answer: Answer) -> str:
    head = answer.head.lower()
    return "" if "x-frame-options: deny" in head and "frame-ancestors 'none'" in head else head


def _sent_on(door: Door, to: str) -> str:
    answer = door.ask("GET", f"/sign-in?next={to}")
    where = re.search(r"(?im)^location: (.*)$", answer.head)
    away = where is not None and not re.match(r"/(?![/\\\t])", where[1])
    return f"sent to {where[1]}" if where is not None and away else ""


# --------------------------------------------------------------------------------------------------- texts


def texts(pool: Projects) -> Iterator[Attack]:
    """What people write into jobs, for whoever reads it later: a terminal, a log file, another header."""
    door = Door(pool.address, "grus_eve")
    for text in ("\x1b]0;owned\x07", "\x1b[2Jx", "a\nb", "a\r\nX: y", "\x9b6n", "\u202ea", "<script>"):
        body = {"run": "true", "queue": OTHER, "workdir": "/", "name": text}
        yield Attack("text", f"a name {text!r}", partial(_posted, door, "/v1/jobs", body))
    path = "/v1/jobs/%0a2026-01-01T00:00:00Z%20ERROR%20forged%1b%5b2J"
    yield Attack("text", "a line in the server's log", lambda: _not_in_log(door, path, pool.home))


def _not_in_log(door: Door, path: str, home: Path) -> str:
    door.ask("GET", path)
    text = (home / "state" / "server.log").read_text()
    return "a line was forged" if "\n2026-01-01T00:00:00Z ERROR forged" in text or "\x1b" in text else ""


# ------------------------------------------------------------------------------------------------ abuse


def floods(pool: Projects) -> Iterator[Attack]:
    """Wrong tokens in a row find nobody, and hold nobody else up."""
    yield Attack("flood", "300 wrong tokens", lambda: _guessed(pool))
    yield Attack(
        "flood",
        "a digest in place of its token",
        lambda: refused(Door(pool.address, digest("grus_admin")).ask("GET", "/v1/jobs")),
    )
    yield Attack(
        "flood",
        "another's queue, by its name",
        lambda: refused(
            Door(pool.address, "grus_eve").ask(
                "POST", "/v1/jobs", {"run": "a", "workdir": "/", "queue": CLOSED}
            )
        ),
    )


def _guessed(pool: Projects) -> str:
    door = Door(pool.address, "grus_admin")
    for number in range(300):
        if (status := Door(pool.address, f"grus_{number}").ask("GET", "/v1/jobs").status) != 401:
            return f"token {number} got {status}"
    return "" if door.ask("GET", "/v1/status").status == 200 else "the administrator is locked out"


# --------------------------------------------------------------------------------------------------- slow


class SlowOnes:
    """Connections that send a byte now and then; the others must be served meanwhile, and these cut off."""

    def __init__(self, pool: Projects) -> None:
        self._pool = pool
        door = Door(pool.address)
        self._all = [door.connect() for _ in range(SLOW_ONES)]
        head = f"POST /v1/jobs HTTP/1.1\r\nHost: {door.host}\r\nAuthorization: Bearer grus_eve\r\n"
        for number, connection in enumerate(self._all):
            whole = number % 2 == 0
            text = f"{head}Content-Length: 1000\r\n\r\n{{" if whole else "GET / HTTP/1.1\r\nHo"
            connection.sendall(text.encode())
            connection.setblocking(False)

    def attacks(self) -> Iterator[Attack]:
        """Ask for these last: until then they have been slow."""
        yield Attack("slow", "the others are served", self._others)
        yield Attack("slow", "none of them is kept", self._cut)

    def trickle(self) -> None:
        """One more byte by each that is still there."""
        for connection in self._all:
            try:
                connection.send(b"x")
            except OSError:
                continue

    def _others(self) -> str:
        answer = Door(self._pool.address, "grus_eve").ask("GET", "/v1/jobs", patience=LONGEST)
        return "" if answer.status == 200 else f"status {answer.status}"

    def _cut(self) -> str:
        left, deadline = list(self._all), time.monotonic() + SLOW_END
        while left and time.monotonic() < deadline:
            left = [one for one in left if not read(one, 0.05).closed]
        for connection in self._all:
            connection.close()
        return f"{len(left)} are still connected after {SLOW_END:g} s" if left else ""


# ---------------------------------------------------------------------------------------------------- all


def survived(pool: Projects, say: Callable[[str], None]) -> dict[str, Any]:
    """Run all of them; figures, with every one that got through."""
    slow = SlowOnes(pool)
    kinds = (paths, bombs, giants, headers, forms, texts, floods)
    through: list[str] = []
    count = 0
    for attacks in (*(kind(pool) for kind in kinds), slow.attacks()):
        for attack in attacks:
            count += 1
            slow.trickle()
            if wrong := attack.run():
                through.append(f"{attack.kind}, {attack.name[:100]}: {wrong}")
                say(f"  got through: {through[-1]}")
    if Door(pool.address, "grus_admin").ask("GET", "/healthz").status != 200:
        through.append("the server is no longer well")
    return {"attacks": count, "survived": count - len(through), "got_through": through}
