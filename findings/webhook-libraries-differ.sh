#!/usr/bin/env bash
# Versions: the libraries of Standard Webhooks and of Svix for Node, Python, Go, Java and Rust that are named below.
# Behaviour: of the same signed message, with a secret as it is made, without its padding, and with a last character whose
# low bits belong to no byte. JavaScript's read headers by name from a plain object, and find none in a Fetch Headers.
# `verify` of Svix returns the parsed body up to version 1, and nothing from version 2 on. The jar of
# com.standardwebhooks:standardwebhooks 1.0.0 holds no class.
# Seen: the end of this file.
# Needs node with npm, python3, go, java with mvn, and cargo.
set -euo pipefail

folder=$(mktemp -d)
trap 'chmod -R u+w "$folder"; rm -rf "$folder"' EXIT
cd "$folder"
python3 - <<'PROGRAM'
import base64, hashlib, hmac, json, time

key, body, at = b"k" * 25, '{"type": "completion.batch"}', str(int(time.time()))
secret = base64.b64encode(key).decode()
signature = base64.b64encode(hmac.digest(key, f"msg_1.{at}.{body}".encode(), hashlib.sha256)).decode()
headers = {"webhook-id": "msg_1", "webhook-timestamp": at, "webhook-signature": f"v1,{signature}"}
secrets = {"padded": secret, "unpadded": secret.rstrip("="), "loose bits": secret[:-3] + "x=="}
assert base64.b64decode(secrets["loose bits"]) == key
case = {"body": body, "headers": headers, "secrets": {name: "whsec_" + text for name, text in secrets.items()}}
json.dump(case, open("case.json", "w"))
PROGRAM

npm install --silent --no-audit --no-fund standardwebhooks@1.1.1 svix@2.5.0 svix1@npm:svix@1.99.1 >/dev/null
cat >node.cjs <<'PROGRAM'
const { body, headers, secrets } = JSON.parse(require("fs").readFileSync("case.json"));
for (const name of ["standardwebhooks", "svix1", "svix"]) {
  const { version } = JSON.parse(require("fs").readFileSync(`node_modules/${name}/package.json`));
  const tell = (what, verify) => {
    let came;
    try { came = verify() === undefined ? "verified, returns nothing" : "verified, returns the body"; } catch (error) { came = error.message; }
    console.log(`node ${name.replace("1", "")} ${version}, ${what}: ${came}`);
  };
  const { Webhook } = require(name);
  for (const [kind, secret] of Object.entries(secrets)) tell(kind, () => new Webhook(secret).verify(body, headers));
  tell("Headers", () => new Webhook(secrets.padded).verify(body, new Headers(headers)));
  tell("Object.fromEntries(Headers)", () => new Webhook(secrets.padded).verify(body, Object.fromEntries(new Headers(headers))));
}
PROGRAM
node node.cjs | tee seen

cat >call.py <<'PROGRAM'
import json
import sys
from importlib import import_module
from importlib.metadata import version

case, package = json.load(open("case.json")), sys.argv[1]
webhook = import_module(sys.argv[2]).Webhook
for kind, secret in case["secrets"].items():
    try:
        came = webhook(secret).verify(case["body"], case["headers"])
        said = "verified, returns " + ("nothing" if came is None else "the body")
    except Exception as error:
        said = str(error)
    print(f"python {package} {version(package)}, {kind}: {said}")
PROGRAM
python3 -m venv venv
for package in "standardwebhooks 1.1.0 standardwebhooks" "svix 1.99.1 svix.webhooks" "svix 2.9.1 svix.webhooks"; do
    read -r name version module <<<"$package"
    venv/bin/pip install --quiet --disable-pip-version-check "$name==$version"
    venv/bin/python call.py "$name" "$module" | tee -a seen
done

mkdir go && cat >go/main.go <<'PROGRAM'
package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"
	svix "github.com/svix/svix-webhooks/go"
)

type verifier interface {
	Verify(body []byte, headers http.Header) error
}

func tell(name, kind string, webhook verifier, err error, body string, headers http.Header) {
	if err == nil {
		err = webhook.Verify([]byte(body), headers)
	}
	if err == nil {
		fmt.Printf("%s, %s: verified\n", name, kind)
	} else {
		fmt.Printf("%s, %s: %s\n", name, kind, err)
	}
}

func main() {
	var given struct {
		Body             string
		Headers, Secrets map[string]string
	}
	text, _ := os.ReadFile("../case.json")
	json.Unmarshal(text, &given)
	headers := http.Header{}
	for name, value := range given.Headers {
		headers.Set(name, value)
	}
	for _, kind := range []string{"padded", "unpadded", "loose bits"} {
		one, err := standard.NewWebhook(given.Secrets[kind])
		tell("go standardwebhooks 0.0.1", kind, one, err, given.Body, headers)
		other, err := svix.NewWebhook(given.Secrets[kind])
		tell("go svix 1.44.0", kind, other, err, given.Body, headers)
	}
}
PROGRAM
(
    cd go
    go mod init example.test/finding 2>/dev/null
    go get github.com/standard-webhooks/standard-webhooks/libraries@v0.0.1 github.com/svix/svix-webhooks@v1.44.0 2>/dev/null
    go mod tidy 2>/dev/null
    go run .
) | tee -a seen

for version in 1.0.0 1.1.0; do
    mvn --quiet --batch-mode org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy -DoutputDirectory="$folder" \
        -Dartifact="com.standardwebhooks:standardwebhooks:$version" >/dev/null
    echo "java standardwebhooks $version, classes: $(jar tf "standardwebhooks-$version.jar" | grep -c '\.class$' || true)" | tee -a seen
done
cat >Call.java <<'PROGRAM'
import com.standardwebhooks.Webhook;
import java.net.http.HttpHeaders;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

class Call {
    public static void main(String[] given) {
        var headers = Map.of("webhook-id", List.of(given[3]), "webhook-timestamp", List.of(given[4]), "webhook-signature", List.of(given[5]));
        try {
            new Webhook(given[1]).verify(given[2], HttpHeaders.of(headers, (name, value) -> true));
            System.out.println("java standardwebhooks 1.1.0, " + given[0] + ": verified");
        } catch (Exception error) {
            System.out.println("java standardwebhooks 1.1.0, " + given[0] + ": " + error.getMessage());
        }
    }
}
PROGRAM
javac -cp standardwebhooks-1.1.0.jar Call.java
python3 - <<'PROGRAM' | tee -a seen
import json, subprocess

case = json.load(open("case.json"))
for kind, secret in case["secrets"].items():
    command = ["java", "-cp", "standardwebhooks-1.1.0.jar:.", "Call", kind, secret, case["body"], *case["headers"].values()]
    print(subprocess.run(command, capture_output=True, text=True, check=True).stdout, end="")
PROGRAM

cargo new --quiet rust 2>/dev/null
(
    cd rust
    cargo add --quiet standardwebhooks@=1.0.1 serde_json@1 http@1 2>/dev/null
    cat >src/main.rs <<'PROGRAM'
use standardwebhooks::Webhook;

fn main() {
    let case: serde_json::Value = serde_json::from_str(&std::fs::read_to_string("../case.json").unwrap()).unwrap();
    let mut headers = http::HeaderMap::new();
    for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
        headers.insert(name, case["headers"][name].as_str().unwrap().parse().unwrap());
    }
    let body = case["body"].as_str().unwrap().as_bytes();
    for kind in ["padded", "unpadded", "loose bits"] {
        let made = Webhook::new(case["secrets"][kind].as_str().unwrap());
        match made.and_then(|webhook| webhook.verify(body, &headers)) {
            Ok(_) => println!("rust standardwebhooks 1.0.1, {kind}: verified"),
            Err(error) => println!("rust standardwebhooks 1.0.1, {kind}: {error}"),
        }
    }
}
PROGRAM
    cargo run --quiet
) | tee -a seen

diff - seen <<'SEEN'
node standardwebhooks 1.1.1, padded: verified, returns the body
node standardwebhooks 1.1.1, unpadded: verified, returns the body
node standardwebhooks 1.1.1, loose bits: verified, returns the body
node standardwebhooks 1.1.1, Headers: Missing required headers
node standardwebhooks 1.1.1, Object.fromEntries(Headers): verified, returns the body
node svix 1.99.1, padded: verified, returns the body
node svix 1.99.1, unpadded: verified, returns the body
node svix 1.99.1, loose bits: verified, returns the body
node svix 1.99.1, Headers: Missing required headers
node svix 1.99.1, Object.fromEntries(Headers): verified, returns the body
node svix 2.5.0, padded: verified, returns nothing
node svix 2.5.0, unpadded: verified, returns nothing
node svix 2.5.0, loose bits: verified, returns nothing
node svix 2.5.0, Headers: Missing required headers
node svix 2.5.0, Object.fromEntries(Headers): verified, returns nothing
python standardwebhooks 1.1.0, padded: verified, returns the body
python standardwebhooks 1.1.0, unpadded: verified, returns the body
python standardwebhooks 1.1.0, loose bits: verified, returns the body
python svix 1.99.1, padded: verified, returns the body
python svix 1.99.1, unpadded: verified, returns the body
python svix 1.99.1, loose bits: verified, returns the body
python svix 2.9.1, padded: verified, returns nothing
python svix 2.9.1, unpadded: verified, returns nothing
python svix 2.9.1, loose bits: verified, returns nothing
go standardwebhooks 0.0.1, padded: verified
go svix 1.44.0, padded: verified
go standardwebhooks 0.0.1, unpadded: unable to create webhook, err: illegal base64 data at input byte 32
go svix 1.44.0, unpadded: illegal base64 data at input byte 32
go standardwebhooks 0.0.1, loose bits: verified
go svix 1.44.0, loose bits: verified
java standardwebhooks 1.0.0, classes: 0
java standardwebhooks 1.1.0, classes: 5
java standardwebhooks 1.1.0, padded: verified
java standardwebhooks 1.1.0, unpadded: verified
java standardwebhooks 1.1.0, loose bits: verified
rust standardwebhooks 1.0.1, padded: verified
rust standardwebhooks 1.0.1, unpadded: invalid secret
rust standardwebhooks 1.0.1, loose bits: invalid secret
SEEN
