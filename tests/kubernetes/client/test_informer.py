"""Objects kept up to date in memory, whatever happens to the API server and the way there."""

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grus.kubernetes.client import api as kubernetes_api
from grus.kubernetes.client.api import Api, Object, WatchEvent
from grus.kubernetes.client.informer import ObjectCache, Reflector
from grus.kubernetes.client.resource_kinds import CONFIG_MAPS, GPU_JOBS
from tests.kubernetes.clusters import PATIENCE, until
from tests.kubernetes.faults import PASS, SILENT, Faults, configuration, everything

CHOSEN = "grus.dev/test=yes"
"""Else a namespace has maps that controllers make."""


def an_object(name: str, version: int, uid: str = "u") -> Object:
    return {"metadata": {"name": name, "resourceVersion": str(version), "uid": uid}}


def told(changes: list[tuple[str, Object]]) -> list[tuple[str, str, int]]:
    return [
        (what, item["metadata"]["name"], int(item["metadata"]["resourceVersion"])) for what, item in changes
    ]


class TestShelf:
    def test_a_list_again_tells_differences_only(self) -> None:
        shelf = ObjectCache()
        first = [an_object("stays", 1), an_object("changes", 2), an_object("goes", 3)]
        assert [what for what, *_ in told(shelf.relist(first, "3"))] == ["ADDED"] * 3
        second = [an_object("stays", 1), an_object("changes", 5), an_object("comes", 4)]
        assert told(shelf.relist(second, "6")) == [
            ("DELETED", "goes", 3),
            ("MODIFIED", "changes", 5),
            ("ADDED", "comes", 4),
        ]

    def test_another_object_of_the_same_name_is_an_end_and_a_beginning(self) -> None:
        shelf = ObjectCache()
        shelf.relist([an_object("crane", 1, "first")], "1")
        changes = shelf.relist([an_object("crane", 4, "second")], "4")
        assert told(changes) == [("DELETED", "crane", 1), ("ADDED", "crane", 4)]

    def test_a_noted_write_is_seen_at_once_and_told_when_the_watch_comes_by(self) -> None:
        shelf = ObjectCache()
        shelf.relist([an_object("crane", 1)], "1")
        shelf.note(an_object("crane", 9))
        assert shelf.objects["", "crane"]["metadata"]["resourceVersion"] == "9"
        assert told(shelf.apply(WatchEvent("MODIFIED", an_object("crane", 5)))) == [("MODIFIED", "crane", 9)]
        assert shelf.objects["", "crane"]["metadata"]["resourceVersion"] == "9"
        assert told(shelf.apply(WatchEvent("MODIFIED", an_object("crane", 9)))) == []

    def test_an_older_write_noted_late_changes_nothing(self) -> None:
        shelf = ObjectCache()
        shelf.relist([an_object("crane", 7)], "7")
        shelf.note(an_object("crane", 3))
        assert shelf.objects["", "crane"]["metadata"]["resourceVersion"] == "7"

    def test_a_write_noted_after_its_object_was_deleted_brings_nothing_back(self) -> None:
        shelf = ObjectCache()
        shelf.relist([an_object("crane", 1)], "1")
        shelf.apply(WatchEvent("MODIFIED", an_object("crane", 5)))
        shelf.apply(WatchEvent("DELETED", an_object("crane", 6)))
        shelf.note(an_object("crane", 5))
        assert not shelf.objects

    def test_an_object_made_after_the_list_was_read_survives_it(self) -> None:
        shelf = ObjectCache()
        shelf.relist([], "1")
        shelf.note(an_object("crane", 9))
        assert shelf.relist([], "5") == [("ADDED", an_object("crane", 9))]
        assert shelf.relist([], "9") == [("DELETED", an_object("crane", 9))]

    def test_an_object_that_only_its_writer_knew_is_told_when_it_is_gone(self) -> None:
        shelf = ObjectCache()
        shelf.relist([], "1")
        shelf.note(an_object("crane", 5))
        assert told(shelf.relist([], "7")) == [("ADDED", "crane", 5), ("DELETED", "crane", 5)]
        assert shelf.relist([], "8") == []

    def test_the_end_of_the_former_object_does_not_take_the_new_one_along(self) -> None:
        shelf = ObjectCache()
        shelf.relist([an_object("crane", 1, "first")], "1")
        shelf.note(an_object("crane", 9, "second"))
        assert told(shelf.apply(WatchEvent("DELETED", an_object("crane", 8, "first")))) == [
            ("DELETED", "crane", 8)
        ]
        assert shelf.objects["", "crane"]["metadata"]["uid"] == "second"
        assert told(shelf.apply(WatchEvent("ADDED", an_object("crane", 9, "second")))) == [
            ("ADDED", "crane", 9)
        ]

    def test_a_cluster_put_back_to_an_older_state_is_believed(self) -> None:
        shelf = ObjectCache()
        shelf.relist([an_object("crane", 90), an_object("new", 95)], "99")
        changes = shelf.relist([an_object("crane", 4)], "5")
        assert told(changes) == [("DELETED", "new", 95), ("MODIFIED", "crane", 4)]
        assert list(shelf.objects) == [("", "crane")]

    @given(
        st.lists(
            st.tuples(
                st.sampled_from("abc"), st.sampled_from(["write", "delete"]), st.booleans(), st.booleans()
            ),
            max_size=30,
        )
    )
    def test_whatever_is_missed_noted_or_listed_the_end_is_the_truth_and_the_tale_is_whole(
        self, steps: list[tuple[str, str, bool, bool]]
    ) -> None:
        """Each step: a write or deletion on the server; whether its writer notes it; whether we list now."""
        shelf, truth, waiting, tale = ObjectCache(), dict[str, Object](), list[WatchEvent](), dict[str, str]()

        def hear(changes: list[tuple[str, Object]]) -> None:
            for what, item in changes:
                name = item["metadata"]["name"]
                assert (what == "ADDED") == (name not in tale)
                if what == "DELETED":
                    del tale[name]
                else:
                    tale[name] = item["metadata"]["resourceVersion"]

        for version, (name, what, noted, listed) in enumerate(steps, start=1):
            if what == "write":
                kind = "MODIFIED" if name in truth else "ADDED"
                uid = truth[name]["metadata"]["uid"] if name in truth else f"u{version}"
                truth[name] = an_object(name, version, uid)
                waiting.append(WatchEvent(kind, truth[name]))
                if noted:
                    shelf.note(truth[name])
            elif name in truth:
                gone = truth.pop(name)
                waiting.append(WatchEvent("DELETED", an_object(name, version, gone["metadata"]["uid"])))
            if listed:
                waiting.clear()
                hear(shelf.relist(list(truth.values()), str(version)))
        for event in waiting:
            hear(shelf.apply(event))
        assert {name: item for (_, name), item in shelf.objects.items()} == truth
        assert tale == {name: item["metadata"]["resourceVersion"] for name, item in truth.items()}


class Heard:
    def __init__(self) -> None:
        self.changes: list[tuple[str, str]] = []

    def __call__(self, what: str, item: Object) -> None:
        self.changes.append((what, item["metadata"]["name"]))


def make(api: Api, namespace: str, name: str) -> Object:
    key, _, value = CHOSEN.partition("=")
    return api.create(CONFIG_MAPS, {"metadata": {"name": name, "labels": {key: value}}}, namespace)


def names(reflector: Reflector) -> set[str]:
    return {item["metadata"]["name"] for item in reflector.all()}


def has(reflector: Reflector, *wanted: str) -> Callable[[], bool]:
    return lambda: names(reflector) == set(wanted)


def test_what_is_there_and_what_changes_is_held_and_told_in_order(api: Api, namespace: str) -> None:
    heard = Heard()
    make(api, namespace, "before")
    with Reflector(api, CONFIG_MAPS, namespace=namespace, labels=CHOSEN, on_change=heard) as reflector:
        assert reflector.wait_synced(PATIENCE)
        assert names(reflector) == {"before"}
        make(api, namespace, "after")
        api.patch(CONFIG_MAPS, "after", {"data": {"legs": "two"}}, namespace)
        api.delete(CONFIG_MAPS, "before", namespace)
        until(has(reflector, "after"), "the deletion is known")
        after = reflector.get("after", namespace)
        assert after is not None
        assert after["data"] == {"legs": "two"}
        assert "managedFields" not in after["metadata"]
        assert reflector.lists == 1
    assert heard.changes == [
        ("ADDED", "before"),
        ("ADDED", "after"),
        ("MODIFIED", "after"),
        ("DELETED", "before"),
    ]


def test_a_writer_that_notes_its_write_finds_it_at_once_and_it_is_told_once(api: Api, namespace: str) -> None:
    heard = Heard()
    with Reflector(api, CONFIG_MAPS, namespace=namespace, labels=CHOSEN, on_change=heard) as reflector:
        assert reflector.wait_synced(PATIENCE)
        made = make(api, namespace, "mine")
        reflector.note(made)
        assert (namespace, "mine") in reflector.objects
        make(api, namespace, "last")
        until(lambda: ("ADDED", "last") in heard.changes, "the watch has come by")
        assert heard.changes == [("ADDED", "mine"), ("ADDED", "last")]


def test_a_listener_that_fails_stops_nothing(
    api: Api, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    def listen(what: str, item: Object) -> None:
        raise ValueError("the listener's own fault")

    with Reflector(api, CONFIG_MAPS, namespace=namespace, labels=CHOSEN, on_change=listen) as reflector:
        make(api, namespace, "one")
        until(has(reflector, "one"), "it is known")
        make(api, namespace, "two")
        until(has(reflector, "one", "two"), "so is the next")
    assert "the listener's own fault" in caplog.text


def test_a_stream_that_is_cut_is_taken_up_where_it_broke(
    api: Api, shaky: Api, faults: Faults, namespace: str
) -> None:
    with Reflector(shaky, CONFIG_MAPS, namespace=namespace, labels=CHOSEN) as reflector:
        make(api, namespace, "one")
        until(has(reflector, "one"), "it is known")
        for number in range(3):
            faults.cut()
            make(api, namespace, f"while-cut-{number}")
            wanted = ["one", *(f"while-cut-{before}" for before in range(number + 1))]
            until(has(reflector, *wanted), "what was missed is known")


def test_a_forgotten_version_leads_to_a_new_list_and_differences_only(
    api: Api, shaky: Api, faults: Faults, namespace: str
) -> None:
    heard = Heard()
    make(api, namespace, "stays")
    with Reflector(shaky, CONFIG_MAPS, namespace=namespace, labels=CHOSEN, on_change=heard) as reflector:
        make(api, namespace, "goes")
        until(has(reflector, "stays", "goes"), "both are known")
        faults.rule = lambda method, path: 410 if "watch=true" in path else PASS
        faults.cut()
        api.delete(CONFIG_MAPS, "goes", namespace)
        make(api, namespace, "comes")
        until(has(reflector, "stays", "comes"), "it was listed again")
        faults.rule = everything(PASS)
        make(api, namespace, "last")
        until(has(reflector, "stays", "comes", "last"), "it watches again")
        assert reflector.lists > 1
    assert heard.changes.count(("ADDED", "stays")) == 1
    assert ("MODIFIED", "stays") not in heard.changes
    assert ("DELETED", "goes") in heard.changes


def test_errors_for_a_while_are_waited_out_and_what_is_held_stays(
    api: Api, shaky: Api, faults: Faults, namespace: str
) -> None:
    with Reflector(shaky, CONFIG_MAPS, namespace=namespace, labels=CHOSEN) as reflector:
        make(api, namespace, "one")
        until(has(reflector, "one"), "it is known")
        faults.rule = everything(503)
        faults.asked.clear()
        faults.cut()
        make(api, namespace, "two")
        until(lambda: len(faults.asked) >= 3, "it has asked several times")
        assert names(reflector) == {"one"}
        faults.rule = everything(PASS)
        until(has(reflector, "one", "two"), "it is up to date again")


def test_a_server_that_falls_silent_is_left(
    api: Api, shaky: Api, faults: Faults, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubernetes_api, "SLACK", 0.5)
    silent = iter([PASS, SILENT])  # the list, then the watch
    faults.rule = lambda method, path: next(silent, PASS)
    with Reflector(shaky, CONFIG_MAPS, namespace=namespace, labels=CHOSEN, period=1.0) as reflector:
        assert reflector.wait_synced(PATIENCE)
        make(api, namespace, "one")
        until(has(reflector, "one"), "another connection brings it")


def test_news_keep_it_young_though_nothing_changes(api: Api, namespace: str) -> None:
    with Reflector(api, CONFIG_MAPS, namespace=namespace, labels=CHOSEN, period=1.0) as reflector:
        assert reflector.wait_synced(PATIENCE)
        first = time.monotonic() - reflector.age()
        until(lambda: time.monotonic() - reflector.age() > first + 1, "the server was heard again")
        assert reflector.lists == 1


def test_it_waits_for_a_kind_that_the_server_does_not_know_and_closes_at_any_time(api: Api) -> None:
    unknown = GPU_JOBS._replace(version="v0")
    before = threading.active_count()
    with Reflector(api, unknown) as reflector:
        assert not reflector.wait_synced(0.3)
    assert threading.active_count() == before


class Stale(BaseHTTPRequestHandler):
    """A list, then a watch that is refused after it was opened; the next list is not answered."""

    protocol_version = "HTTP/1.1"
    lists = 0
    let_go = threading.Event()
    over = threading.Event()

    def do_GET(self) -> None:
        self.send_response(200)
        if "watch=true" in self.path:
            line = (
                json.dumps({"type": "ERROR", "object": {"code": 410, "reason": "Expired"}}).encode() + b"\n"
            )
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            if not self.rfile.read(1):
                self.let_go.set()
            return
        type(self).lists += 1
        if self.lists > 1:
            self.over.wait(PATIENCE)
        content = json.dumps({"metadata": {"resourceVersion": "7"}, "items": []}).encode()
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """The test looks at what was set."""


def test_a_watch_that_is_refused_lets_its_connection_go_before_the_next_one_is_opened(tmp_path: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Stale) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(json.dumps(configuration(f"http://127.0.0.1:{server.server_port}")))
        api = Api.connect(kubeconfig)
        with Reflector(api, CONFIG_MAPS):
            let_go = Stale.let_go.wait(10)
            Stale.over.set()
        api.close()
        server.shutdown()
    assert let_go
