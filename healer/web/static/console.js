// The console: shows incidents as they change, and takes answers. Every text from outside goes through textContent, never
// through HTML. What can be pressed stays in its place while things change, so that no press is lost.
"use strict";

const state = { token: "", by: "", incidents: new Map(), chosen: "", follow: true, status: {}, now: "", live: false };
const $ = (id) => document.getElementById(id);

function make(tag, { text, tone, ...attributes } = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  if (tone) element.dataset.tone = tone;
  element.append(...children.filter(Boolean));
  return element;
}

// Change only what differs: a selection, a focus or a press under way stays.
function say(element, text, tone) {
  if (element.textContent !== text) element.textContent = text;
  if (tone !== undefined && element.dataset.tone !== tone) element.dataset.tone = tone;
}
const show = (element, visible) => { if (element.hidden === Boolean(visible)) element.hidden = !visible; };

const time = (text) => (text ? new Date(text).toISOString().slice(11, 19) : "");
const between = (from, to) => (new Date(to) - new Date(from)) / 1000;
const known = (value) => value !== null && value !== undefined;
function lasted(seconds) {
  if (seconds < 10) return `${Math.max(0, seconds).toFixed(1)} s`;
  if (seconds < 120) return `${Math.floor(seconds)} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min ${String(Math.floor(seconds % 60)).padStart(2, "0")} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
}
function ago(text) {
  const seconds = between(text, state.now || new Date().toISOString());
  if (seconds < 60) return "just now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86400)} d ago`;
}
const named = (ref) => [ref.kind.toLowerCase(), ref.namespace, ref.name].filter(Boolean).join("/");
const about = (incident) => incident.target || incident.owner;
const radius = (plan) => Object.entries(plan.blast_radius || {}).map(([kind, n]) => `${n} ${kind}${n > 1 ? "s" : ""}`).join(", ") || "nothing";

// How it stands: the tone it is shown in, how urgent it is (less is more), and the sentence.
const STATES = {
  "awaiting approval": { tone: "wait", order: 0, headline: "Waiting for your approval" },
  "escalated": { tone: "bad", order: 1, headline: "A person is needed" },
  "undoing": { tone: "act", order: 2, headline: "The repair is being taken back" },
  "acting": { tone: "act", order: 3, headline: "Being repaired" },
  "verifying": { tone: "act", order: 4, headline: "Repaired; the cure is being verified" },
  "open": { tone: "wait", order: 5, headline: "Nothing is done now" },
  "closed": { tone: "good", order: 9, headline: "Closed" },
};
const standing = (incident) => STATES[incident.state] || STATES.open;
function headline(incident) {
  if (incident.state === "open" && incident.reason === "ok") return "Being decided";
  if (incident.state !== "closed") return standing(incident).headline;
  const took = incident.closed_at ? ` after ${lasted(between(incident.opened_at, incident.closed_at))}` : "";
  const ends = { Fixed: "Fixed and verified", ResolvedOnItsOwn: "Resolved on its own" };
  return (ends[incident.reason] || "Closed") + took;
}
// What it is waiting for, or how it came to its end; while something is done, the newest of what is done.
function whyOf(incident) {
  const newest = (incident.timeline || []).at(-1);
  if (standing(incident).tone === "act" && newest) return newest.text;
  const told = incident.reason === "ok" || ["Fixed", "ResolvedOnItsOwn"].includes(incident.reason);
  return [told ? "" : incident.reason, incident.detail].filter(Boolean).join(": ");
}
const needsPerson = (incident) => standing(incident).order <= 1;

// Asking -------------------------------------------------------------------------------------------------------------

class NotLetIn extends Error {}

async function ask(method, path, body) {
  const headers = { Authorization: `Bearer ${state.token}` };
  if (body) headers["Content-Type"] = "application/json";
  const answer = await fetch(path, { method, headers, body: body ? JSON.stringify(body) : undefined, cache: "no-store" });
  if (answer.status === 401) throw new NotLetIn();
  return answer;
}

function login(why) {
  state.token = "";
  state.live = false;
  sessionStorage.removeItem("token");
  show($("login"), true);
  show($("main"), false);
  show($("pause"), false);
  say($("connection"), "signed out", "plain");
  say($("clock"), "");
  say($("login-why"), why || "");
  $("person").value = localStorage.getItem("person") || "";
  $("token").focus();
}

async function begin(token, person) {
  state.token = token;
  state.by = (person || "").trim().replace(/[\s:]+/g, "-") || "console"; // one word, as approvers are written
  try {
    await ask("GET", "/api/v1/incidents?limit=0");
  } catch (error) {
    if (error instanceof NotLetIn) return login("That token is not the right one.");
  }
  sessionStorage.setItem("token", token);
  show($("login"), false);
  show($("main"), true);
  show($("pause"), true);
  return follow();
}

// Following ----------------------------------------------------------------------------------------------------------

let followers = 0;

async function follow() {
  const mine = ++followers; // a new token ends whoever followed with the old one
  const current = () => state.token && mine === followers;
  for (let wait = 500; current(); wait = Math.min(wait * 2, 10000)) {
    try {
      const answer = await ask("GET", "/api/v1/events");
      if (answer.ok) await read(answer.body, () => { wait = 500; return current(); });
    } catch (error) {
      if (error instanceof NotLetIn) return login("The token is no longer the right one.");
    }
    if (!current()) return;
    lost();
    await new Promise((resolve) => setTimeout(resolve, wait + Math.random() * 250));
  }
}

async function read(body, heard) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done || !heard()) return reader.cancel();
    text += value;
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const [event, data] = text.slice(0, end).split("\n");
      text = text.slice(end + 2);
      take(event.slice("event: ".length), JSON.parse(data.slice("data: ".length)));
    }
  }
}

function take(event, value) {
  switch (event) {
    case "incidents":
      snapshot(value);
      break;
    case "incident":
      changed(value);
      break;
    case "status":
      state.status = value;
      state.now = value.now || state.now;
      showStatus();
      break;
    case "tick":
      state.now = value.now || state.now;
      break;
  }
  if (!state.live) found();
  showTime();
}

function found() {
  state.live = true;
  $("main").classList.remove("stale");
  show($("lost"), false);
  say($("connection"), "live", "good");
}

function lost() {
  state.live = false;
  $("main").classList.add("stale");
  say($("connection"), "reconnecting", "bad");
  say($("lost"), `Healer cannot be reached. What is shown is as of ${time(state.now) || "a while ago"}.`);
  show($("lost"), true);
}

function snapshot(incidents) {
  const before = state.incidents;
  state.incidents = new Map(incidents.map((incident) => {
    const old = before.get(incident.id);
    return [incident.id, { ...incident, timeline: old ? old.timeline : undefined }];
  }));
  if (!state.chosen) state.chosen = incidents.length ? sorted()[0].id : "";
  showList();
  if (state.chosen) fetchWhole(state.chosen);
  else showDetail();
}

function changed(incident) {
  const isNew = !state.incidents.has(incident.id);
  state.incidents.set(incident.id, incident);
  const chosen = state.incidents.get(state.chosen);
  if (!chosen || (isNew && state.follow && !needsPerson(chosen))) choose(incident.id, state.follow);
  showList();
  if (incident.id === state.chosen) showDetail();
}

function choose(id, following) {
  if (id !== state.chosen) show($("d-said"), false);
  state.chosen = id;
  state.follow = following;
  if (!following) history.replaceState(null, "", `#incident=${encodeURIComponent(id)}`);
  const incident = state.incidents.get(id);
  if (!incident || !incident.timeline) fetchWhole(id);
  showList();
  showDetail();
}

async function fetchWhole(id) {
  try {
    const answer = await ask("GET", `/api/v1/incidents/${encodeURIComponent(id)}`);
    if (answer.ok) state.incidents.set(id, await answer.json());
    else if (id === state.chosen && !state.incidents.has(id)) state.chosen = state.incidents.size ? sorted()[0].id : "";
  } catch (error) {
    if (error instanceof NotLetIn) return login("The token is no longer the right one.");
    return; // the stream says that the connection is lost
  }
  showList();
  showDetail();
}

// Showing ------------------------------------------------------------------------------------------------------------

function showTime() {
  say($("clock"), state.now ? `${time(state.now)} UTC` : "");
  const incident = state.incidents.get(state.chosen);
  if (incident) {
    showPhases(incident);
    showApproval(incident);
  }
  for (const place of document.querySelectorAll("[data-ago]")) say(place, ago(place.dataset.ago));
}

function showStatus() {
  const { paused, clusters = [], not_ready: missing = [], demo } = state.status;
  say($("paused"), paused ? `Paused by ${paused}. No new repair starts until somebody resumes.` : "");
  show($("paused"), paused);
  say($("pause"), paused ? "Resume" : "Pause");
  say($("missing"), missing.join("; "));
  show($("missing"), missing.length);
  $("clusters").replaceChildren(...clusters.map((cluster) => cluster.nodes.length ? showCluster(cluster) : ""));
  markTarget();
  showHarm(demo);
}

function markTarget() {
  const incident = state.incidents.get(state.chosen);
  const target = incident && incident.state !== "closed" && about(incident).kind === "Node" ? incident : null;
  for (const node of document.querySelectorAll(".node")) {
    const chosen = target && node.dataset.node === about(target).name && node.dataset.cluster === target.cluster;
    node.dataset.chosen = Boolean(chosen);
  }
}

function showCluster(cluster) {
  const zones = new Map();
  for (const node of cluster.nodes) zones.set(node.zone, [...(zones.get(node.zone) || []), node]);
  const down = cluster.nodes.filter((node) => node.ready !== "True").length;
  const summary = `${cluster.name}, ${cluster.nodes.length} nodes${down ? `, ${down} down` : ""}${cluster.synced ? "" : ", not read yet"}`;
  return make("div", { class: `cluster${cluster.nodes.length > 60 ? " many" : ""}` },
    make("h2", { text: summary }),
    make("div", { class: "zones" }, ...[...zones].map(([zone, nodes]) => make("div", { class: "zone" },
      make("h4", { text: zone || "no zone" }),
      make("div", { class: "nodes" }, ...nodes.map((node) => showNode(node, cluster.name)))))));
}

function showNode(node, cluster) {
  const up = node.ready === "True";
  const word = up ? (node.unschedulable ? "cordoned" : "ready") : node.ready === "False" ? "not ready" : "silent";
  const ready = node.pods - node.pods_not_ready;
  const pods = `${node.pods_not_ready ? `${ready}/` : ""}${node.pods} pods`;
  return make("div", {
    class: "node", tone: up ? (node.unschedulable ? "wait" : "good") : "bad", "data-node": node.name, "data-cluster": cluster,
    title: [node.name, word, `${ready} of ${node.pods} pods are ready`, ...node.taints].join("\n"),
  }, make("b", { text: node.name }), make("span", { text: `${word}, ${pods}` }));
}

function showHarm(demo) {
  const place = $("harm");
  show(place, demo);
  if (!demo || place.childElementCount) return;
  place.append(make("span", { text: "Do harm to the simulated cluster:" }), ...demo.faults.map((fault) => {
    const button = make("button", { type: "button", text: fault });
    button.addEventListener("click", () => ask("POST", `/api/demo/harm/${encodeURIComponent(fault)}`, {}));
    return button;
  }));
}

const sorted = () => [...state.incidents.values()].sort((a, b) =>
  standing(a).order - standing(b).order || (a.opened_at < b.opened_at ? 1 : -1));

const rows = new Map();

function row(id) {
  const button = make("button", { type: "button" },
    make("div", { class: "row" }, make("b"), make("span", { class: "pill" })),
    make("small", {}, make("span"), make("span")));
  button.addEventListener("click", () => {
    choose(id, false);
    if (matchMedia("(max-width: 860px)").matches) $("detail").scrollIntoView({ block: "start" });
  });
  return make("li", {}, button);
}

function showList() {
  const incidents = sorted().slice(0, 200);
  const wanted = new Set(incidents.map((incident) => incident.id));
  for (const [id, item] of rows) if (!wanted.has(id)) { item.remove(); rows.delete(id); }
  incidents.forEach((incident, index) => {
    if (!rows.has(incident.id)) rows.set(incident.id, row(incident.id));
    const item = rows.get(incident.id);
    const [title, pill, where, when] = item.querySelectorAll("b, .pill, small span");
    const { tone } = standing(incident);
    say(title, incident.title);
    say(pill, incident.state, tone);
    say(where, named(about(incident)));
    when.dataset.ago = incident.opened_at;
    say(when, ago(incident.opened_at));
    const button = item.firstChild;
    button.dataset.tone = tone;
    button.dataset.over = incident.state === "closed";
    button.setAttribute("aria-current", incident.id === state.chosen);
    if ($("incidents").children[index] !== item) $("incidents").insertBefore(item, $("incidents").children[index] || null);
  });
  const waiting = [...state.incidents.values()].filter(needsPerson).length;
  say($("count"), waiting === 1 ? "1 needs you" : `${waiting} need you`);
  show($("count"), waiting);
  document.title = waiting ? `(${waiting}) Healer` : "Healer";
  document.querySelector(".nothing")?.remove();
  if (!incidents.length) $("incidents").append(make("li", { class: "nothing", text: "None." }));
}

function showDetail() {
  const incident = state.incidents.get(state.chosen);
  show($("detail"), incident);
  show($("quiet"), !incident);
  markTarget();
  if (!incident) return;
  const { tone } = standing(incident);
  say($("d-title"), incident.title);
  say($("d-state"), incident.state, tone);
  show($("d-flapping"), incident.flapping);
  show($("d-incomplete"), incident.incomplete);
  $("d-where").replaceChildren(make("b", { text: named(about(incident)) }), ` in ${incident.cluster}, since ${time(incident.opened_at)} UTC, ${incident.id}`);
  $("d-standing").dataset.tone = tone;
  say($("d-headline"), headline(incident));
  say($("d-why"), whyOf(incident));
  showApproval(incident);
  show($("d-running"), incident.state === "acting");
  if ($("d-said").dataset.state !== incident.state) show($("d-said"), false);
  showPhases(incident);
  showPlan(incident);
  showAlerts(incident);
  showTimeline(incident);
}

function showApproval(incident) {
  const waiting = incident.state === "awaiting approval";
  show($("d-answer"), waiting);
  if (!waiting) return;
  say($("d-question"), incident.plan ? `Carry out ${incident.plan.remedy} on ${named(incident.plan.target)}? It touches ${radius(incident.plan)}.` : `Carry out ${incident.remedy}?`);
  const left = between(state.now || new Date().toISOString(), incident.approval_expires_at);
  const given = incident.approvals.length ? `approved by ${incident.approvals.join(", ")}` : "";
  const needed = incident.approvals_needed > 1 ? `${incident.approvals.length} of ${incident.approvals_needed} approvals` : given;
  say($("d-approvals"), [needed, left > 0 ? `${lasted(left)} left` : "the time is over"].filter(Boolean).join(", "));
}

const PHASES = ["detect", "decide", "act", "verify"];

function showPhases(incident) {
  const { times } = incident;
  const current = { open: 1, "awaiting approval": 1, acting: 2, undoing: 2, verifying: 3 }[incident.state];
  const since = [0, 0, times.decide || 0, (times.decide || 0) + (times.act || 0)];
  const place = $("d-phases");
  if (!place.childElementCount) place.append(...PHASES.map((phase) => make("li", {}, make("b", { text: phase }), make("span"))));
  PHASES.forEach((phase, index) => {
    const item = place.children[index];
    const over = known(times[phase]) && current !== index;
    item.dataset.is = current === index ? "now" : over ? "over" : "to come";
    const running = current === index && state.now ? between(incident.opened_at, state.now) - since[index] : null;
    say(item.lastChild, over ? lasted(times[phase]) : running !== null ? lasted(running) : "–");
  });
}

const MARKS = { done: ["✓", "good"], started: ["…", "act"], failed: ["✗", "bad"], undone: ["↩", "wait"] };

// How far each step has got, as the timeline has it.
function progress(incident) {
  const got = new Map();
  for (const { text } of incident.timeline || []) {
    const match = /^(undo )?([a-z-]+): (started|done|failed)/.exec(text);
    if (match) got.set(match[2], match[1] ? (match[3] === "done" ? "undone" : got.get(match[2])) : match[3]);
    else if (text.startsWith("carrying out ")) got.clear();
  }
  return got;
}

function showPlan(incident) {
  const { plan } = incident;
  show($("d-plan"), plan);
  if (!plan) return;
  say($("d-plan-title"), plan.remedy);
  say($("d-plan-what"), `in ${incident.mode} mode, touches ${radius(plan)}`);
  const got = progress(incident);
  $("d-steps").replaceChildren(...plan.previews.map((preview, index) => {
    const [sign, tone] = MARKS[got.get(preview.action)] || [String(index + 1), "plain"];
    return make("li", {},
      make("span", { class: "mark", text: sign, tone }), make("b", { text: preview.action }),
      make("span", { text: preview.summary + (preview.reversible ? "" : " (cannot be taken back)") }),
      ...preview.warnings.map((warning) => make("span", { class: "note", text: `⚠ ${warning}`, tone: "wait" })),
      preview.blocked ? make("span", { class: "note", text: `${preview.blocked.reason}: ${preview.blocked.detail}`, tone: "bad" }) : null);
  }));
}

function showAlerts(incident) {
  show($("d-alerts"), incident.alerts.length);
  const more = incident.alerts.length - 20;
  $("d-alert-list").replaceChildren(...incident.alerts.slice(0, 20).map((alert) => make("li", {},
    make("span", { class: "pill", text: alert.firing ? "firing" : "resolved", tone: alert.firing ? "bad" : "good" }),
    make("b", { text: alert.name }), make("span", { text: alert.summary }),
    make("small", { text: `${alert.labels} since ${time(alert.starts_at)} UTC, from ${alert.source}` }))),
  more > 0 ? make("li", { text: `and ${more} more` }) : "");
}

function showTimeline(incident) {
  const place = $("d-timeline");
  const entries = [...(incident.timeline || [])].reverse();
  const same = place.dataset.incident === incident.id;
  const shown = same ? Number(place.dataset.seq || 0) : 0;
  place.dataset.incident = incident.id;
  place.dataset.seq = entries.length ? entries[0].seq : 0;
  const lines = entries.filter((entry) => entry.seq > shown).map((entry) => make("li", { tone: entry.tone },
    make("time", { text: time(entry.at), datetime: entry.at }), make("span", { text: entry.text })));
  if (same) place.prepend(...lines);
  else place.replaceChildren(...lines);
}

// Answering ----------------------------------------------------------------------------------------------------------

const REFUSED = {
  AlreadyDecided: "It has been decided already.",
  NoLongerNeeded: "It is no longer needed.",
  PlanChanged: "The plan has changed since it was shown; read it again.",
  ApprovalExpired: "The time for an answer is over.",
  NotAllowed: "Those who use this console are not among the approvers of this remedy.",
};
const DONE = { approve: "Approved.", deny: "Denied.", cancel: "It stops before its next change that cannot be taken back." };

async function answer(verb) {
  const incident = state.incidents.get(state.chosen);
  if (!incident) return;
  $("d-said").dataset.state = incident.state;
  const buttons = [$("approve"), $("deny"), $("cancel")];
  for (const button of buttons) button.disabled = true;
  try {
    const path = `/api/v1/incidents/${encodeURIComponent(incident.id)}/${verb}`;
    const told = await (await ask("POST", path, { by: state.by, digest: incident.approval_digest })).json();
    say($("d-said"), told.ok ? DONE[verb] : told.error || REFUSED[told.reason] || `It does not count: ${told.reason}.`, told.ok ? "good" : "bad");
  } catch (error) {
    if (error instanceof NotLetIn) login("The token is no longer the right one.");
    else say($("d-said"), "Healer cannot be reached; the answer did not arrive.", "bad");
  }
  show($("d-said"), state.incidents.get(incident.id)?.state === $("d-said").dataset.state);
  for (const button of buttons) button.disabled = false;
}

async function pauseOrResume() {
  $("pause").disabled = true;
  try {
    const told = await ask("POST", `/api/v1/${state.status.paused ? "resume" : "pause"}`, { by: state.by });
    const { paused, error } = await told.json();
    if (error) throw new Error(error);
    state.status.paused = paused;
    showStatus();
  } catch (error) {
    if (error instanceof NotLetIn) login("The token is no longer the right one.");
    else { say($("lost"), `That did not work: ${error.message}`); show($("lost"), true); }
  }
  $("pause").disabled = false;
}

// Begin --------------------------------------------------------------------------------------------------------------

$("login-form").addEventListener("submit", (event) => {
  event.preventDefault();
  localStorage.setItem("person", $("person").value.trim());
  begin($("token").value.trim(), $("person").value);
});
$("pause").addEventListener("click", pauseOrResume);
for (const verb of ["approve", "deny", "cancel"]) $(verb).addEventListener("click", () => answer(verb));

function readHash() {
  const wanted = new URLSearchParams(location.hash.slice(1));
  const incident = wanted.get("incident") || "";
  const token = wanted.get("token");
  // The token leaves the address bar, and so the history, at once.
  if (token) history.replaceState(null, "", incident ? `#incident=${encodeURIComponent(incident)}` : location.pathname);
  return { incident, token };
}
window.addEventListener("hashchange", () => {
  const { incident, token } = readHash();
  if (token) begin(token, localStorage.getItem("person"));
  else if (incident && state.token) choose(incident, false);
});

const first = readHash();
if (first.incident) { state.chosen = first.incident; state.follow = false; }
const token = first.token || sessionStorage.getItem("token");
if (token) begin(token, localStorage.getItem("person"));
else login("");
