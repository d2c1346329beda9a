// Live updates: subscribes to /live, refreshes the page on changes, and shows when the connection is lost.
import { refresh, stillHeld } from "./refreshing.js";
import { icon, notice } from "./toasts.js";

const silence = 12_000; // milliseconds after which the page counts as stale
const pollEvery = 10_000, reopenEvery = 30_000, minBetween = 500;
const root = document.documentElement;
const base = root.dataset.base ?? "";
const chip = document.getElementById("live");
const strip = document.getElementById("stale");
const channel = "BroadcastChannel" in window ? new BroadcastChannel(`tidegate-live${base}`) : null;

let last = Number(root.dataset.live); // id of the newest message that this page reflects
let facts = { clock: "", engine: "none", away: false, spread: 0 };
let heard = Date.now(); // time of the last message
let source = null, release = null, waitingToLead = null; // set in the one tab that holds the connection for all
let connecting = true, polling = false, gone = false, held = false;
let polled = 0, opened = 0;
let due = 0, refreshed = 0, took = 0;

// -- connection status ------------------------------------------------------------------------------------------------

const statuses = {
  live: ["good", "wave", "Live", () => ""],
  held: ["calm", "hourglass", "News waits", () => ""],
  polling: ["calm", "clock", "Every 10 s", () => ""],
  connecting: ["warn", "again", "Reconnecting…", () => ""],
  off: ["calm", "pause", "Live off", () => ""],
  stale: ["bad", "unplug", "Stale", () => `The server does not answer. This is how things were at ${facts.clock}.`],
  away: ["bad", "unplug", "Stale", () => `The database cannot be reached. This is how things were at ${facts.clock}.`],
  silent: ["bad", "alert", "No worker", () => `No worker has been heard of since ${facts.heard}. Jobs wait until one runs.`],
  gone: ["warn", "key", "Signed out", () => "You are signed out. Reload the page to sign in again."],
};
const titles = {
  off: "The page stays as it is. Turn updates on",
  held: "There is news, and it waits until you have finished here. Turn updates off",
};

function state() {
  if (isOff()) return "off";
  if (gone) return "gone";
  if (Date.now() - heard > silence) return facts.clock ? "stale" : "connecting";
  if (facts.away) return "away";
  if (facts.engine === "silent") return "silent";
  if (polling) return "polling";
  if (connecting) return "connecting";
  return held ? "held" : "live";
}

const began = Date.now();
let rendered = "";
const text = (tag, words) => Object.assign(document.createElement(tag), { textContent: words });
function renderStatus() {
  const now = state(), [tone, picture, word, sentence] = statuses[now];
  const more = now === "stale" || now === "away" ? ` since ${facts.clock}` : "";
  if (rendered === now + more + sentence()) return;
  if (now === "connecting" && Date.now() - began < 2000) return; // every page starts in this state
  rendered = now + more + sentence();
  chip.className = `live ${tone}`;
  chip.dataset.state = now;
  chip.replaceChildren(icon(picture), text("span", word), ...(more ? [text("span", more)] : []));
  chip.title = titles[now] ?? "Turn updates off";
  chip.setAttribute("aria-label", `${word}${more}. ${titles[now] ?? "Turn updates off"}`);
  chip.hidden = false;
  const whole = sentence();
  strip.className = whole ? `strip ${tone}` : "";
  strip.replaceChildren(...(whole ? [icon(picture), text("p", whole)] : []));
}

// -- messages ---------------------------------------------------------------------------------------------------------

function handleMessage(kind, about, id) {
  heard = Date.now();
  if (kind === "here" || kind === "now" || kind === "beat") facts = { ...facts, ...about };
  if (kind === "here") {
    for (const unread of about.notices.slice().reverse()) notice(unread);
    if (about.id !== last && !id) scheduleRefresh(); // messages were missed
    last = about.id;
  }
  if (kind === "notice") notice(about);
  if (id && id !== last) {
    last = kind === "reset" ? id : Math.max(last, id);
    scheduleRefresh();
  }
  renderStatus();
}

function open(calmly = false) {
  source?.close();
  opened = Date.now();
  connecting = !calmly;
  const mine = source = new EventSource(`${base}/live?after=${last}&page=1`);
  for (const kind of ["here", "now", "beat", "happened", "notice", "reset"]) {
    mine.addEventListener(kind, (event) => {
      if (mine !== source) return;
      connecting = polling = gone = false;
      const message = [kind, JSON.parse(event.data), kind === "here" || kind === "beat" ? 0 : Number(event.lastEventId)];
      // Missed messages follow with their own ids, so the first message must not trigger a refresh.
      if (kind === "here") message[1].id = last;
      channel?.postMessage(message);
      handleMessage(...message);
    });
  }
  mine.addEventListener("again", () => { if (mine === source) open(true); });
  mine.addEventListener("error", () => {
    if (mine !== source) return;
    connecting = true;
    if (mine.readyState === EventSource.CLOSED) poll(); // the server rejected it, and EventSource does not retry
    renderStatus();
  });
}

channel?.addEventListener("message", (event) => {
  if (!running() || source) return;
  connecting = polling = false;
  handleMessage(...event.data);
});

// -- one connection for all tabs --------------------------------------------------------------------------------------

function requestLeadership() {
  if (source || waitingToLead) return;
  if (!navigator.locks || !channel) return open(); // without locks each visible tab has its own
  const stop = waitingToLead = new AbortController();
  navigator.locks.request(`tidegate-live${base}`, { signal: stop.signal }, () => new Promise((done) => {
    release = done;
    open();
  })).catch(() => {});
}

function leave() {
  source?.close();
  source = null;
  waitingToLead?.abort();
  release?.();
  waitingToLead = release = null;
}

async function poll(catchUp = false) {
  if (!catchUp && Date.now() - polled < pollEvery) return;
  polled = Date.now();
  try {
    const response = await fetch(`${base}/live`, { headers: { Accept: "application/json" }, cache: "no-store" });
    gone = response.status === 401;
    if (response.ok && running()) {
      if (catchUp) connecting = false;
      else polling = true;
      handleMessage("here", await response.json(), 0);
    }
  } catch { /* silence makes the page stale */ }
  renderStatus();
}

// -- refresh ----------------------------------------------------------------------------------------------------------

function scheduleRefresh() {
  if (due) return;
  const pause = Math.max(minBetween, 3 * took) - (Date.now() - refreshed);
  due = setTimeout(runRefresh, Math.max(0, pause) + Math.random() * facts.spread);
}

async function runRefresh() {
  const startedAt = Date.now();
  const result = running() ? await refresh() : "off";
  took = Date.now() - startedAt;
  refreshed = Date.now();
  due = 0;
  held = result === "held";
  gone = gone || result === "gone";
  renderStatus();
}

// -- on and off -------------------------------------------------------------------------------------------------------

function isOff() {
  try {
    return localStorage.getItem("tidegate.live") === "off";
  } catch {
    return false;
  }
}

// Another tab has the connection and forwards only new messages.
const catchUp = () => setTimeout(() => { if (running() && !source) poll(true); }, 300);
const running = () => !isOff() && !document.hidden;

function applyVisibility() {
  if (running()) {
    heard = Date.now();
    connecting = true;
    requestLeadership();
    catchUp();
  } else {
    leave();
    clearTimeout(due);
    due = 0;
  }
  renderStatus();
}

chip.addEventListener("click", () => {
  try {
    localStorage.setItem("tidegate.live", isOff() ? "live" : "off");
  } catch { return; }
  applyVisibility();
});
addEventListener("storage", (event) => { if (event.key === "tidegate.live") applyVisibility(); });
document.addEventListener("visibilitychange", applyVisibility);
addEventListener("pagehide", leave);
addEventListener("pageshow", (event) => { if (event.persisted) applyVisibility(); });

setInterval(() => {
  if (!running()) return;
  if (Date.now() - heard > silence || polling) poll();
  if (source && Date.now() - Math.max(heard, opened) > silence && Date.now() - opened > reopenEvery) open();
  if (source?.readyState === EventSource.CLOSED && Date.now() - opened > reopenEvery) open();
  if (held && !due && !stillHeld()) scheduleRefresh();
  renderStatus();
}, 1000);

// Some pages show neither jobs nor targets, so no message announces their changes. They refresh periodically.
const often = Number(document.querySelector("[data-every]")?.dataset.every ?? 0) * 1000;
if (often) setInterval(() => { if (running() && Date.now() - refreshed > often / 2) scheduleRefresh(); }, often);

applyVisibility();
