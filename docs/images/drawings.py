"""The drawings: a tree and its number, a root's life, the parts, the mailbox, what dies, a deployment."""

from docs.images.svg import Drawing, Kind, Point


def tree() -> Drawing:
    """A tree of three edges, and the number that the acker keeps for it."""
    drawing = Drawing(
        width=860, height=310, title="A tree of three edges and the one number that the acker keeps for it"
    )
    drawing.text(24, 34, "The tree of one message", style="h")
    drawing.box(24, 115, 96, 50, "spout")
    drawing.box(206, 115, 96, 50, "split")
    drawing.box(376, 60, 84, 44, "count")
    drawing.box(376, 176, 84, 44, "count")
    drawing.arrow((120, 140), (204, 140), label="edge 7d1f")
    drawing.arrow((302, 130), (374, 84), label="e4b2", at=(330, 94))
    drawing.arrow((302, 150), (374, 196), label="95c3", at=(330, 194))
    drawing.text(24, 250, "Each edge has a random id (64 bits; four digits here).", style="s d")
    drawing.text(24, 270, "It enters the number once when it is sent", style="s d")
    drawing.text(24, 290, "and once when it is acked: x XOR x = 0.", style="s d")
    drawing.text(500, 34, "What the acker is sent", style="h")
    drawing.text(748, 34, "Its number", style="h")
    steps: tuple[tuple[str, str, str, Kind], ...] = (
        ("spout: init", "7d1f", "7d1f", "acker"),
        ("split: ack", "7d1f ^ e4b2 ^ 95c3", "7171", "acker"),
        ("count: ack", "e4b2", "95c3", "acker"),
        ("count: ack", "95c3", "0000", "good"),
    )
    for place, (what, sent, number, kind) in enumerate(steps):
        y = 50 + 50 * place
        drawing.text(500, y + 25, what)
        drawing.text(582, y + 25, sent, style="m s")
        drawing.arrow((728, y + 20), (748, y + 20))
        drawing.box(750, y, 86, 40, number, kind=kind)
    drawing.text(500, 274, "Zero: nothing is left. The spout gets the completion", style="s d")
    drawing.text(500, 292, "of this message: acked.", style="s d")
    return drawing


def root_life() -> Drawing:
    """The states of a root, from its first operation until its outcome is forgotten."""
    drawing = Drawing(width=860, height=392, title="The states of a root from init to release")
    drawing.box(30, 40, 120, 54, "early", "ack before init", kind="quiet")
    drawing.box(30, 160, 120, 54, "no root", kind="quiet")
    drawing.box(270, 148, 130, 78, "pending", "ack val, deadline;", "acks are XORed in", kind="acker")
    drawing.arrow((150, 187), (268, 187), label="init")
    drawing.arrow((90, 160), (90, 96), label="ack or fail", at=(132, 132))
    drawing.arrow((150, 67), (335, 67), (335, 146), label="init")
    ends: tuple[tuple[str, str, Kind, float, str, Point], ...] = (
        ("acked", "the number is 0", "good", 60, "last ack", (424, 128)),
        ("failed", "reason, component", "bad", 160, "fail", (456, 180)),
        ("timed_out", "message timeout", "bad", 260, "deadline", (418, 258)),
    )
    for name, why, kind, y, operation, at in ends:
        drawing.box(510, y, 130, 54, name, why, kind=kind)
        drawing.arrow((400, 187), (508, y + 27), label=operation, at=at)
        drawing.arrow((640, y + 27), (702, 187 + (y - 160) / 5))
    drawing.box(704, 148, 134, 78, "completion", "in the mailbox until", "it is released", kind="store")
    drawing.text(30, 346, "An early root whose init does not come is dropped after one message timeout.", style="s d")
    drawing.text(30, 364, "After its end a root's outcome is remembered for the retention;", style="s d")
    drawing.text(30, 380, "later operations on it are answered finished.", style="s d")
    return drawing


def parts() -> Drawing:
    """Spout, acker and bolt, and what travels between them."""
    drawing = Drawing(width=860, height=330, title="Spout, acker and bolt, and what travels between them")
    drawing.box(30, 50, 150, 70, "spout", "your program")
    drawing.box(350, 50, 160, 70, "your queue", "HTTP, AMQP, Kafka, …", kind="quiet")
    drawing.box(680, 50, 150, 70, "bolt", "your program")
    drawing.box(290, 220, 280, 80, "acker", "one number for each root, in Redis", kind="acker")
    drawing.arrow((180, 85), (348, 85), label="message + Acker-Anchors")
    drawing.arrow((510, 85), (678, 85), label="message + Acker-Anchors")
    drawing.arrow((90, 120), (90, 250), (288, 250), label="1  init: root and edges", at=(184, 242))
    drawing.arrow((755, 120), (755, 260), (572, 260), label="2  ack, or fail", at=(660, 252))
    drawing.arrow((288, 282), (60, 282), (60, 122), label="3  completion, with the outcome", at=(172, 300))
    drawing.arrow((830, 85), (846, 85), (846, 24), (430, 24), (430, 48), label="what the bolt sends on", at=(640, 18))
    return drawing


def mailbox() -> Drawing:
    """How completions enter a mailbox, and the three ways out of it."""
    drawing = Drawing(width=860, height=330, title="A mailbox and the three ways out of it")
    for y, name in ((50, "last ack"), (138, "fail"), (226, "timeout")):
        drawing.box(24, y, 110, 50, name)
        drawing.arrow((134, y + 25), (234, 163 + (y - 138) / 5))
    drawing.box(
        236,
        108,
        170,
        110,
        "mailbox",
        "of one spout task,",
        "in Redis; written in the",
        "step that ends the root",
        kind="store",
    )
    ways = (
        (34, "pull", "GET …/completions: long poll or SSE", "released when the reader says so"),
        (130, "webhook", "POST, signed; tried again for hours", "released when it is answered 2xx"),
        (226, "pub/sub", "Redis publishes it at once", "released when the reader says so"),
    )
    for y, name, how, until in ways:
        drawing.arrow((406, 163), (490, y + 35))
        drawing.box(492, y, 344, 70, name, how, until, kind="acker")
    drawing.text(
        24,
        318,
        "A completion stays until it is released: a reader that dies gets it again, with the same id.",
        style="s d",
    )
    return drawing


def failures() -> Drawing:
    """What happens to a message when a part of the pipeline dies."""
    drawing = Drawing(width=860, height=356, title="What dies, and what happens to the message")
    drawing.text(30, 32, "What dies", style="h")
    drawing.text(300, 32, "What happens", style="h")
    rows = (
        ("a bolt, before its ack", "The root times out; the spout sends the message again."),
        ("a message, on its way", "The same: its edge is never acked."),
        ("the spout", "Completions wait in its mailbox. Its source sends again what was not acked."),
        ("one acker process", "Clients retry with the same idempotency key; another process answers."),
        ("all acker processes", "Roots wait in Redis. Overdue ones time out after the restart."),
        ("a primary of Redis", "Its replica takes over; ACKER_DURABILITY says what an answer was worth."),
    )
    for place, (what, then) in enumerate(rows):
        y = 46 + 50 * place
        drawing.box(30, y, 220, 38, what, kind="bad")
        drawing.arrow((250, y + 19), (292, y + 19))
        drawing.text(304, y + 24, then)
    return drawing


def deployment() -> Drawing:
    """An acker in production: replicas of both roles, Redis with replicas, and who calls whom."""
    drawing = Drawing(width=860, height=350, title="A deployment: clients, API replicas, workers and Redis")
    drawing.box(24, 50, 130, 56, "spouts")
    drawing.box(24, 140, 130, 56, "bolts")
    for shift in (12, 6, 0):
        drawing.box(
            270 + shift, 70 - shift, 170, 90, "acker, role api", "stateless replicas", "port 8700", kind="acker"
        )
    for shift in (12, 6, 0):
        drawing.box(
            270 + shift, 226 - shift, 170, 90, "acker, role worker", "timeouts, delivery", "one at least", kind="acker"
        )
    drawing.arrow((154, 78), (268, 100), label="HTTP", at=(212, 80))
    drawing.arrow((154, 168), (268, 128), label="HTTP", at=(206, 140))
    drawing.box(
        590,
        70,
        240,
        90,
        "Redis or Valkey, primary",
        "noeviction, append-only file;",
        "a cluster: one per slot range",
        kind="store",
    )
    drawing.box(590, 226, 240, 90, "replica", "replica:n waits for n of them", kind="store")
    drawing.arrow((452, 110), (588, 110), label="Lua functions")
    drawing.arrow((452, 250), (520, 250), (520, 136), (588, 136))
    drawing.arrow((710, 160), (710, 224), label="replication", at=(752, 196))
    drawing.box(24, 243, 130, 56, "webhooks")
    drawing.arrow((268, 271), (156, 271), label="completions")
    return drawing


DRAWINGS = {
    "tree": tree,
    "root-life": root_life,
    "parts": parts,
    "mailbox": mailbox,
    "failures": failures,
    "deployment": deployment,
}
"""What makes each drawing, by the name of its file."""
