// The console: shows incidents as they change. Every text from outside goes through textContent, never through HTML.
"use strict";

const state = { token: "", incidents: new Map(), chosen: "", status: {}, follow: true };
const $ = (id) => document.getElementById(id);

function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "class") element.className = value;
    else if (name === "on") for (const [event, handler] of Object.entries(value)) element.addEventListener(event, handler);
    else if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

const time = (text) => (text ? new Date(text).toISOString().slice(11, 19) : "");
const seconds = (value) => (value === null || value === undefined ? "" : value < 10 ? `${value.toFixed(1)} s` : `${Math.round(value)} s`);
const name = (ref) => (ref ? [ref.kind.toLowerCase(), ref.namespace, ref.name].filter(Boolean).join("/") : "");

const TONES = {
  "open": "wait", "awaiting approval": "wait", "acting": "act", "verifying": "act",
  "undoing": "act", "escalated": "bad", "closed": "good",
};

async function ask(method, path, body) {
  const headers = { Authorization: `Bearer ${state.token}` };
  if (body) headers["Content-Type"] = "application/json";
  const answer = await fetch(path, { method, headers, body: body ? JSON.stringify(body) : undefined });
  if (answer.status === 401) { login("That token is not the right one."); throw new Error("401"); }
  return answer.json();
}

// Who is there -------------------------------------------------------------------------------------------------------

function login(why) {
  sessionStorage.removeItem("token");
  $("login").hidden = false;
  $("main").hidden = true;
  $("login-why").textContent = why || "";
  $("token").focus();
}

function begin(token) {
  state.token = token;
  sessionStorage.setItem("token", token);
  $("login").hidden = true;
  $("main").hidden = false;
  listen();
}

// What happens -------------------------------------------------------------------------------------------------------

async function listen() {
  for (;;) {
    try {
      const found = await ask("GET", "/api/v1/incidents?limit=200");
      for (const incident of found.reverse()) {
        const known = state.incidents.get(incident.id);
        state.incidents.set(incident.id, { timeline: known ? known.timeline : [], ...incident });
      }
      if (state.chosen) await choose(state.chosen, state.follow);
      else if (state.incidents.size) await choose([...state.incidents.keys()].pop(), true);
      await stream();
    } catch (error) {
      if (!state.token || error.message === "401") return;
    }
    connection("wait", "reconnecting");
    await new Promise((resolve) => setTimeout(resolve, 1500));
  }
}

async function stream() {
  const answer = await fetch("/api/v1/events", { headers: { Authorization: `Bearer ${state.token}` } });
  if (answer.status === 401) { login("That token is not the right one."); throw new Error("401"); }
  connection("good", "live");
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    let end;
    while ((end = text.indexOf("\n\n")) >= 0) {
      const lines = text.slice(0, end).split("\n");
      text = text.slice(end + 2);
      const event = lines[0].slice(7);
      const data = JSON.parse(lines[1].slice(6));
      if (event === "incident") changed(data);
      else { state.status = data; showStatus(); }
    }
  }
}

function changed(incident) {
  const isNew = !state.incidents.has(incident.id);
  state.incidents.delete(incident.id);
  state.incidents.set(incident.id, incident);
  if (isNew && state.follow) state.chosen = incident.id;
  if (!state.chosen) state.chosen = incident.id;
  showList();
  if (incident.id === state.chosen) showDetail();
}

async function choose(id, follow) {
  state.chosen = id;
  state.follow = follow;
  const whole = await ask("GET", `/api/v1/incidents/${encodeURIComponent(id)}`);
  if (whole.id) state.incidents.set(id, whole);
  showList();
  showDetail();
}

function connection(tone, text) {
  $("connection").className = `pill ${tone}`;
  $("connection").textContent = text;
}

// What is shown ------------------------------------------------------------------------------------------------------

function showStatus() {
  const { paused, clusters = [], not_ready: missing = [], demo, now } = state.status;
  $("paused").hidden = !paused;
  $("paused").textContent = paused ? `paused by ${paused}` : "";
  $("pause").textContent = paused ? "Resume" : "Pause";
  $("clock").textContent = time(now);
  if (missing.length) connection("bad", missing[0]);
  else connection("good", "live");
  $("clusters").replaceChildren(...clusters.map(showCluster));
  showHarm(demo);
}

function showCluster(cluster) {
  const zones = new Map();
  for (const node of cluster.nodes) zones.set(node.zone, [...(zones.get(node.zone) || []), node]);
  return make("div", { class: "cluster" }, ...[...zones].map(([zone, nodes]) => make("div", { class: "zone" },
    make("h2", {}, `${cluster.name} ${zone || "no zone"}`),
    make("div", { class: "nodes" }, ...nodes.map((node) => {
      const health = node.ready === "True" ? "up" : "down";
      const cordoned = node.unschedulable ? " cordoned" : "";
      const word = node.ready === "True" ? (node.unschedulable ? "cordoned" : "ready") : node.ready === "False" ? "not ready" : "unknown";
      return make("div", { class: `node ${health}${cordoned}`, title: node.taints.join("\n") },
        make("b", {}, node.name), make("span", {}, `${word}, ${node.pods} pods`));
    })))));
}

function showHarm(demo) {
  const place = $("harm");
  place.hidden = !demo;
  if (!demo || place.childElementCount) return;
  place.append(make("b", {}, "Do harm:"), ...demo.faults.map((fault) => make("button", {
    type: "button", on: { click: () => ask("POST", `/api/demo/harm/${encodeURIComponent(fault)}`, {}) },
  }, fault)));
}

function showList() {
  const newest = [...state.incidents.values()].sort((a, b) => (a.opened_at < b.opened_at ? 1 : -1));
  $("count").textContent = newest.filter((incident) => incident.state !== "closed").length || "";
  const rows = newest.slice(0, 200).map((incident) => make("li", {
    class: incident.id === state.chosen ? "chosen" : "", tabIndex: 0,
    on: {
      click: () => choose(incident.id, false),
      keydown: (event) => { if (event.key === "Enter") choose(incident.id, false); },
    },
  },
  make("div", { class: "row" }, make("b", {}, incident.title), make("span", { class: `pill ${TONES[incident.state]}` }, incident.state)),
  make("small", {}, `${name(incident.target || incident.owner)}, ${time(incident.opened_at)}`)));
  $("incidents").replaceChildren(...(rows.length ? rows : [make("li", { class: "nothing" }, "Nothing is wrong.")]));
}

function showDetail() {
  const incident = state.incidents.get(state.chosen);
  if (!incident) return;
  const waiting = incident.state === "awaiting approval";
  const running = incident.state === "acting";
  $("detail").replaceChildren(
    make("div", { class: "title" }, make("strong", {}, incident.title), make("span", { class: `pill ${TONES[incident.state]}` }, incident.state),
      incident.flapping ? make("span", { class: "pill wait" }, "flapping") : null,
      incident.incomplete ? make("span", { class: "pill wait" }, "incomplete") : null,
      make("span", { class: "info" }, `${incident.id}, ${incident.cluster}, ${name(incident.target || incident.owner)}`)),
    reason(incident), phases(incident),
    waiting ? make("div", { class: "buttons" },
      make("button", { type: "button", class: "go", id: "approve", on: { click: () => answer(incident, "approve") } }, "Approve"),
      make("button", { type: "button", class: "no", id: "deny", on: { click: () => answer(incident, "deny") } }, "Deny"),
      make("span", {}, `${incident.approvals.length} of ${incident.approvals_needed}, until ${time(incident.approval_expires_at)}`)) : null,
    running ? make("div", { class: "buttons" },
      make("button", { type: "button", class: "no", id: "cancel", on: { click: () => answer(incident, "cancel") } }, "Cancel")) : null,
    ...plan(incident), ...alerts(incident), ...timeline(incident));
}

function reason(incident) {
  if (!incident.detail && incident.reason === "ok") return null;
  const tone = TONES[incident.state];
  return make("div", { class: `why ${tone}` }, make("b", {}, incident.reason), incident.detail ? `: ${incident.detail}` : "");
}

function phases(incident) {
  const { times } = incident;
  const now = { open: 1, "awaiting approval": 1, acting: 2, undoing: 2, verifying: 3 }[incident.state];
  return make("div", { class: "phases" }, ...["detect", "decide", "act", "verify"].map((phase, index) => {
    const value = times[phase];
    const known = value !== null && value !== undefined;
    return make("div", { class: `phase ${now === index ? "now" : known ? "done" : ""}` },
      make("b", {}, phase), make("span", {}, known ? seconds(value) : now === index ? "…" : "–"));
  }));
}

function plan(incident) {
  if (!incident.plan) return [];
  const radius = Object.entries(incident.plan.blast_radius || {}).map(([kind, count]) => `${count} ${kind}`).join(", ");
  return [make("h3", {}, `Plan: ${incident.plan.remedy} (${incident.mode}), touches ${radius || "nothing"}`),
    make("table", {}, ...incident.plan.previews.map((preview) => make("tr", {}, make("th", {}, preview.action),
      make("td", {}, preview.summary, ...preview.warnings.map((warning) => make("div", { class: "wait" }, warning)),
        preview.blocked ? make("div", { class: "bad" }, preview.blocked.detail) : null))))];
}

function alerts(incident) {
  if (!incident.alerts.length) return [];
  return [make("h3", {}, "Alerts"), make("table", {}, ...incident.alerts.slice(0, 20).map((alert) => make("tr", {},
    make("th", {}, make("span", { class: `pill ${alert.firing ? "bad" : "good"}` }, alert.firing ? "firing" : "resolved")),
    make("td", {}, make("b", {}, alert.name), ` ${alert.summary || alert.labels}`),
    make("td", {}, `${time(alert.starts_at)} ${alert.source}`))))];
}

function timeline(incident) {
  return [make("h3", {}, "What happened"), make("ol", { class: "timeline" }, ...incident.timeline.map((entry) => make("li", {},
    make("time", {}, time(entry.at)), make("span", { class: entry.tone }, entry.text))))];
}

async function answer(incident, verb) {
  await ask("POST", `/api/v1/incidents/${encodeURIComponent(incident.id)}/${verb}`, { by: "console", digest: incident.approval_digest });
}

// Begin --------------------------------------------------------------------------------------------------------------

$("login-form").addEventListener("submit", (event) => { event.preventDefault(); begin($("token").value.trim()); });
$("pause").addEventListener("click", () => ask("POST", `/api/v1/${state.status.paused ? "resume" : "pause"}`, { by: "console" }));

const wanted = new URLSearchParams(location.hash.slice(1));
if (wanted.get("incident")) { state.chosen = wanted.get("incident"); state.follow = false; }
if (wanted.get("token")) history.replaceState(null, "", location.pathname);
const token = wanted.get("token") || sessionStorage.getItem("token");
if (token) begin(token);
else login("");
