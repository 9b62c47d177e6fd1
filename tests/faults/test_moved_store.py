"""What docs/redis.md says: a store moves to another server, with all that is pending and unread."""

from pathlib import Path

from bench.servers import Member
from tests.support.servers import acker_serve
from tests.support.stores import paired
from tests.support.waiting import eventually_true

TOPOLOGY = "/v1/topologies/default"
ROOT, EDGE = "00000000000000a1", "00000000000000b1"


def offset(member: Member) -> str:
    [line] = [
        line for line in member.info("INFO", "replication").splitlines() if line.startswith("master_repl_offset:")
    ]
    return line


def test_a_root_that_was_begun_on_the_old_server_is_acked_on_the_new_one(tmp_path: Path) -> None:
    with paired(tmp_path / "pair") as (old, new):
        with acker_serve(tmp_path / "first", "--redis-url", old.url) as acker:
            begun = {"root_id": ROOT, "spout_task": "shop", "message_id": "42", "edges": [EDGE]}
            assert acker.http.post(f"{TOPOLOGY}/init", json=begun).json()["state"] == "pending"
        eventually_true(lambda: offset(new) == offset(old.members[0]), within=10)
        new.ask("REPLICAOF", "NO", "ONE")
        old.members[0].stop()
        with acker_serve(tmp_path / "second", "--redis-url", new.url) as acker:
            acked = acker.http.post(f"{TOPOLOGY}/ack", json={"root_id": ROOT, "edge_id": EDGE})
            assert acked.json()["state"] == "acked"
            [completion] = acker.http.get(f"{TOPOLOGY}/spouts/shop/completions").json()["completions"]
            assert (completion["message_id"], completion["outcome"]) == ("42", "acked")
