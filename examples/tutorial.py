"""The program of docs/tutorial.md; it needs an acker: ``acker serve``, or one at ``ACKER_URL``."""

import queue

from acker_client import Acker

acker = Acker.from_env(topology="tutorial")  # at ACKER_URL, or http://127.0.0.1:8700
acker.topologies.create("tutorial")
spout = acker.spout("reader")
lines, words = queue.Queue(), queue.Queue()  # stand for your queues


def emit(message_id, line, **timeouts):
    with spout.emit(message_id=message_id, **timeouts) as root:
        lines.put((root.headers(), line))
    return root


root = emit("line-1", "every word is an edge")


def look(root):
    acker.flush()  # acks wait 5 ms, so that several go out together; this sends them now
    found = acker.roots.get(root.root_id)
    print(found.state, found.outstanding)


look(root)

counted = {}


def split(acker, headers, line):
    with acker.receive(headers, component="split") as tup:
        for word in line.split():
            words.put((tup.headers(), word))


def count(acker, headers, word):
    with acker.receive(headers, component="count"):
        if not word.isalpha():
            raise ValueError(f"{word!r} is not a word")
        counted[word] = counted.get(word, 0) + 1


split(acker, *lines.get())
look(root)
count(acker, *words.get())
look(root)

while not words.empty():
    count(acker, *words.get())


def listen(how_many):
    completions = []
    for completion in spout.completions(stop=lambda: len(completions) >= how_many):
        completions.append(completion)
        print(completion.message_id, completion.outcome, completion.reason)


listen(1)
print(counted)

emit("line-2", "there are 2 sorts")
split(acker, *lines.get())
while not words.empty():
    try:
        count(acker, *words.get())
    except ValueError as error:
        print("count:", error)
listen(1)

emit("line-3", "this line gets lost", message_timeout=0.5)
lines.get()  # and the worker dies
listen(1)

import threading

from acker_client import FailTuple, ReplayPolicy

failures = iter([FailTuple("the database is away")])  # the second call finds the database again


def store(acker, headers, word):
    with acker.receive(headers, component="store"):
        for error in failures:
            raise error
        counted[word] = counted.get(word, 0) + 1


def work(bolt, tuples):
    while (received := tuples.get()) is not None:
        bolt(acker, *received)


workers = [threading.Thread(target=work, args=each) for each in ((split, lines), (store, words))]
for worker in workers:
    worker.start()


def send(root, line):
    print("attempt", root.attempt)
    lines.put((root.headers(), line))


replay = spout.replay(send, ReplayPolicy(max_attempts=5, wait_initial=0.1))
replay.emit("line-4", "twice or once")
replay.run(on_ack=print, stop=lambda: not replay.pending)
print(counted["once"])

for tuples in (lines, words):
    tuples.put(None)
for worker in workers:
    worker.join()
acker.topologies.delete("tutorial")
acker.close()

from acker_client.testing import MemoryAcker


def test_a_line_is_done_when_its_last_word_is_counted():
    memory = MemoryAcker()
    with memory.acker() as acker:
        with acker.shared_spout("reader").emit(message_id="7") as root:
            lines.put((root.headers(), "two words"))
        split(acker, *lines.get())
        count(acker, *words.get())
        acker.flush()
        assert memory.completions("reader") == []
        count(acker, *words.get())
        acker.flush()
        assert memory.completions("reader") == ["7"]


def test_a_line_that_gets_lost_times_out():
    memory = MemoryAcker()
    with memory.acker() as acker:
        reader = acker.shared_spout("reader")
        with reader.emit(message_id="8") as root:
            root.headers()
        memory.clock.advance(31)
        assert [completion.outcome for completion in reader.completions(until=0)] == ["timed_out"]


test_a_line_is_done_when_its_last_word_is_counted()  # pytest does this for you
test_a_line_that_gets_lost_times_out()
