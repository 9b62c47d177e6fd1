"""Maps ids, which are not zero, to numbers.

Each function has two bodies: these, and those of ``id_map.pxd``, which take their place in the compiled hot path.
"""

from typing import TypeAlias

IdMap: TypeAlias = dict[int, int]

new_map: type[IdMap] = dict
find = dict[int, int].get
"""``find(ids, id, otherwise)`` returns the number of an id, or else the one that is given."""
claim = dict[int, int].setdefault
"""``claim(ids, id, number)`` returns the number of an id, which is the one that is given if it had none."""
put = dict[int, int].__setitem__
"""``put(ids, id, number)`` gives an id this number."""
