#!/usr/bin/env bash
# Version: OpenSSL 3.4.1 (in cryptography 44.0.2) and OpenSSL 4.0.3 (in cryptography 50.0.2), asked through pyOpenSSL.
# Behaviour: a server that speaks TLS and gets a request of plain HTTP learns so from OpenSSL ("http request"), but only
# for some methods. Up to 3.x the length of a record is checked before: what stands where the length should is too long
# for POST and HEAD, although the code knows them, so only GET and PUT are named. 4.0 names eight methods, and no other:
# QUERY is a "wrong version number", as of a client that speaks an old TLS. Whoever wants to answer "use https" has to
# look at the first bytes himself.
# Seen: the lines at the end of this script.
# Needs python3 with venv.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat >program.py <<'PROGRAM'
from cryptography.hazmat.backends.openssl.backend import backend
from OpenSSL import SSL

print(" ".join(backend.openssl_version_text().split()[:2]))
for method in ("GET", "POST", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY"):
    connection = SSL.Connection(SSL.Context(SSL.TLS_SERVER_METHOD))
    connection.set_accept_state()
    connection.bio_write(f"{method} /orders HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    try:
        connection.do_handshake()
    except SSL.Error as error:
        print(f"  {method}: {error.args[0][0][-1]}")
PROGRAM
for versions in "cryptography==44.0.2 pyopenssl==25.0.0" "cryptography==50.0.2 pyopenssl==26.4.0"; do
    python3 -m venv --clear venv
    # shellcheck disable=SC2086 # two requirements
    venv/bin/pip install --quiet --disable-pip-version-check $versions
    venv/bin/python program.py
done | tee seen
diff - seen <<'SEEN'
OpenSSL 3.4.1
  GET: http request
  POST: packet length too long
  HEAD: packet length too long
  PUT: http request
  PATCH: packet length too long
  DELETE: packet length too long
  OPTIONS: packet length too long
  TRACE: packet length too long
  QUERY: packet length too long
OpenSSL 4.0.3
  GET: http request
  POST: http request
  HEAD: http request
  PUT: http request
  PATCH: http request
  DELETE: http request
  OPTIONS: http request
  TRACE: http request
  QUERY: wrong version number
SEEN
