// The page: its head, the key, and the view that the address names.

import { useReadOnly } from "./access.js";
import { get, keepKey, readKey } from "./api.js";
import { time } from "./format.js";
import { restart, useLive } from "./live.js";
import { MessageUrl, ReadOnly, sayProblem, useLoaded } from "./ui.js";
import { html, render, useEffect, useState } from "./vendor/preact-htm.js";
import { Audit } from "./views/audit.js";
import { Failures } from "./views/failures.js";
import { Find } from "./views/find.js";
import { Overview } from "./views/overview.js";
import { Root } from "./views/root.js";
import { Roots } from "./views/roots.js";
import { Runbook } from "./views/runbook.js";
import { Spout } from "./views/spout.js";
import { Spouts } from "./views/spouts.js";
import { System } from "./views/system.js";
import { Topology } from "./views/topology.js";
import { TryIt } from "./views/tryit.js";

const ROUTES = [
  [/^$/, Overview],
  [/^t\/([^/]+)$/, Topology],
  [/^t\/([^/]+)\/roots$/, Roots],
  [/^t\/([^/]+)\/roots\/([0-9a-f]{16})$/, Root],
  [/^t\/([^/]+)\/failures$/, Failures],
  [/^t\/([^/]+)\/spouts$/, Spouts],
  [/^t\/([^/]+)\/spouts\/([^/]+)$/, Spout],
  [/^find$/, Find],
  [/^system$/, System],
  [/^audit$/, Audit],
  [/^runbook$/, Runbook],
  [/^runbook\/([a-z-]+)$/, Runbook],
  [/^try$/, TryIt],
];
const PLACES = [["", "Topologies"], ["try", "Try it"], ["system", "System"], ["audit", "Audit"], ["runbook", "Runbook"]];

// The place of the navigation that an address belongs to.
function placeOf({ path }) {
  const [first] = path.split("/");
  return first === "t" ? "" : first;
}

// The title of the window: the heading of the view, without what stands in it to press.
function titleOf(heading) {
  const words = [...(heading?.childNodes || [])].filter((node) => !node.classList?.contains("copy")).map((node) => node.textContent);
  return [words.join("").trim(), "Acker"].filter(Boolean).join(" - ");
}

function useAddress() {
  const [address, setAddress] = useState(location.hash);
  useEffect(() => {
    const moved = () => setAddress(location.hash);
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  const [path, query] = address.replace(/^#\/?/, "").split("?");
  return { path: path.replace(/\/$/, ""), query: Object.fromEntries(new URLSearchParams(query || "")) };
}

function Key({ problem }) {
  const [typed, setTyped] = useState("");
  const show = (event) => {
    event.preventDefault();
    keepKey(typed.trim());
    restart();
  };
  return html`<form class="key" onSubmit=${show}>
    <h1>A key is needed</h1>
    <p>This acker has keys. The one that you show is kept in this tab, and forgotten with it.</p>
    ${readKey() && html`<p class="problem" role="alert">${sayProblem(problem)}</p>`}
    <label>Key <input type="password" autocomplete="off" value=${typed} onInput=${(e) => setTyped(e.target.value)} /></label>
    <button type="submit">Use this key</button>
  </form>`;
}

function forgetKey() {
  keepKey("");
  restart();
}

function Search() {
  const search = (event) => {
    event.preventDefault();
    const id = new FormData(event.target).get("id").trim();
    if (id) location.hash = `#/find?${new URLSearchParams({ id })}`;
  };
  return html`<form role="search" aria-label="Find" class="search" onSubmit=${search}>
    <input name="id" type="search" aria-label="Root id or message id" placeholder="Whole root id or message id" />
    <button type="submit">Find</button>
  </form>`;
}

const State = ({ live }) =>
  html`<p id="state" role="status" class=${live.problem ? "away" : ""}>
    ${live.problem ? `${sayProblem(live.problem)}${live.topologies ? ` What is shown is of ${time(live.at_ms)}.` : ""}` : live.at_ms ? "live" : "connecting…"}
  </p>`;

// In place of the views of a topology that the acker does not list: it is said once.
const NoTopology = ({ name }) => html`<div>
  <h1>No topology ${name}</h1>
  <p class="problem" role="alert">There is no topology ${name}, or the key is not for it. It may have been deleted, or nothing has created it yet:${" "}
    <code>acker topology create ${name}</code> does.</p>
  <p><a href="#/">All topologies</a></p>
</div>`;

function View({ address, live }) {
  const [, named] = /^t\/([^/]+)/.exec(address.path) || [];
  if (named && live.topologies && !live.topologies.some(({ topology }) => topology === decodeURIComponent(named))) {
    return html`<${NoTopology} name=${decodeURIComponent(named)} />`;
  }
  if (named && !live.topologies && !live.problem) return html`<div><p class="muted">Waiting for the first second…</p></div>`;
  for (const [pattern, Component] of ROUTES) {
    const found = pattern.exec(address.path);
    if (found) {
      const names = found.slice(1).map(decodeURIComponent);
      return html`<${Component} key=${address.path} names=${names} query=${address.query} />`;
    }
  }
  return html`<h1>No such view</h1><p><a href="#/">All topologies</a></p>`;
}

function Page() {
  const live = useLive();
  const address = useAddress();
  useEffect(() => document.querySelector("main")?.scrollTo?.(0, 0), [address.path]);
  const readOnly = useReadOnly();
  const asks = live.problem?.needsKey;
  const key = readKey();
  const { document: links } = useLoaded(() => get("/v1/links"), key);
  useEffect(() => { document.title = titleOf(document.querySelector("main h1")); });
  return html`
    <a class="skip" href="#main" onClick=${(e) => { e.preventDefault(); document.querySelector("main").focus(); }}>To the content</a>
    <header><div class="head">
      <a class="name" href="#/"><img src="icon.svg" alt="" />Acker</a>
      <nav aria-label="Views">${PLACES.map(([path, name]) =>
        html`<a key=${path} href=${`#/${path}`} aria-current=${path === placeOf(address) ? "page" : null}>${name}</a>`)}</nav>
      <${Search} />
      <${State} live=${live} />
      ${readKey() && html`<button type="button" onClick=${forgetKey}>Forget the key</button>`}
      ${readOnly && html`<p id="read-only">Read-only: what changes something needs a key of scope admin.</p>`}
    </div></header>
    <main id="main" tabindex="-1" class=${live.problem && live.topologies ? "old" : ""}>
      ${asks ? html`<${Key} problem=${live.problem} />` : html`<${ReadOnly.Provider} value=${readOnly}><${MessageUrl.Provider} value=${links?.message_url ?? null}>
        <${View} address=${address} live=${live} /><//><//>`}
    </main>`;
}

render(html`<${Page} />`, document.getElementById("app"));
