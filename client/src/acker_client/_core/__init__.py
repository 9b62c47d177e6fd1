"""The decisions of the client, without I/O: generators yield effects, and a driver runs them."""

from acker_client._core.hot_path_form import search_path

__path__ = search_path(__path__[-1])
