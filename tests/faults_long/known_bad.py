"""Rules whose loss a round has to find: known mistakes of such services."""

from tests.support.mutant import Mutant

KNOWN_BAD = {
    "an edge that is acked again counts again": Mutant(
        rule="an edge that is acked again in the slice of now is a duplicate",
        old=None,
        new="redis.call('SADD', key, member)",
    ),
    "a repeat under its key is applied again": Mutant(
        rule="a repeat is not applied", old="replay_operation", new="apply_operation"
    ),
    "a completion is written in a second step": Mutant(
        rule="a root under a removed spout task is told to nobody",
        old=None,
        new=(
            "COUNTED.owed = COUNTED.owed or {}; local place = call.base .. spout; local before = COUNTED.owed[place]; "
            "COUNTED.owed[place] = completions; if before then append_completions(call, spout, before) end"
        ),
    ),
}
