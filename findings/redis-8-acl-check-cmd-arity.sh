#!/usr/bin/env bash
# Versions: Redis 7.0.15 of Debian 12 and Redis 8.0.2 of Debian 13, each from the package redis-tools.
# Behaviour: redis.acl_check_cmd, asked whether a login may run a command on a key, needs only the words up to the key in
# Redis 7.0. Redis 8.0 raises an error unless the command has all the words that it takes to run.
# Seen:
#   7.0.15 hset key: 1
#   7.0.15 hset key field value: 1
#   8.0.2 hset key: ERR Wrong number of args for redis.acl_check_cmd()
#   8.0.2 hset key field value: 1
# Needs mmdebstrap; packages come from the mirror that MIRROR names, or else from mmdebstrap's own.
set -euo pipefail

folder=$(mktemp -d)
server=
clean() {
    [[ -z $server ]] || kill "$server" 2>/dev/null || true
    rm -rf "$folder"
}
trap clean EXIT

# start ROLE FILE …: become a program of $root, by its own loader and libraries.
start() {
    local libraries
    libraries=$(dirname "$(find "$root" -path '*-linux-gnu/ld-linux-*.so.*' -print -quit)")
    exec "$libraries"/ld-linux-*.so.* --argv0 "$1" \
        --library-path "$root/lib/${libraries##*/}:$root/usr/lib/${libraries##*/}" "$root/usr/bin/$2" "${@:3}"
}
cli() { (start redis-cli redis-cli -s "$root.sock" "$@"); }

for suite in bookworm trixie; do
    root=$folder/$suite
    mmdebstrap --quiet --variant=extract --include=redis-tools --dpkgopt='path-exclude=/usr/share/*' \
        "$suite" "$root" ${MIRROR:+"$MIRROR"}
    start redis-server redis-check-rdb --port 0 --unixsocket "$root.sock" --save '' --dir "$folder" >"$root.log" &
    server=$!
    for _ in {1..100}; do [[ -S $root.sock ]] && break; sleep 0.1; done
    version=$(cli INFO server | sed -n 's/^redis_version:\([0-9.]*\).*/\1/p')
    for words in "hset key" "hset key field value"; do
        # shellcheck disable=SC2086  # each word is an argument
        said=$(cli EVAL 'local _, may = pcall(redis.acl_check_cmd, unpack(ARGV)) return may' 0 $words)
        echo "$version $words: $said" | tee -a "$folder/seen"
    done
    kill "$server"
    wait "$server" || true
    server=
done
diff - "$folder/seen" <<'SEEN'
7.0.15 hset key: 1
7.0.15 hset key field value: 1
8.0.2 hset key: ERR Wrong number of args for redis.acl_check_cmd()
8.0.2 hset key field value: 1
SEEN
