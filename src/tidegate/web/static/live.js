// Keeps an open page true: follows the server's stream, has the page refreshed on news, and says when nothing is heard.
import { refresh, stillHeld } from "./refreshing.js";
import { icon, notice } from "./toasts.js";

const silence = 12_000; // after which what is shown is called stale
const pollEvery = 10_000, reopenEvery = 30_000, leastBetween = 500;
const root = document.documentElement;
const base = root.dataset.base ?? "";
const chip = document.getElementById("live");
const strip = document.getElementById("stale");
const channel = "BroadcastChannel" in window ? new BroadcastChannel(`tidegate-live${base}`) : null;

let last = Number(root.dataset.live); // the id of the newest message that this page has in it
let facts = { clock: "", engine: "none", away: false, spread: 0 };
let heard = Date.now(); // when the last message came
let source = null, release = null, waitingToLead = null; // of the one tab that holds the connection for all
let connecting = true, polling = false, gone = false, held = false;
let polled = 0, opened = 0;
let due = 0, refreshed = 0, took = 0;

// -- what is said ---------------------------------------------------------------------------------------------------

const looks = {
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
let said = "";
const text = (tag, words) => Object.assign(document.createElement(tag), { textContent: words });
function say() {
  const now = state(), [tone, picture, word, sentence] = looks[now];
  const more = now === "stale" || now === "away" ? ` since ${facts.clock}` : "";
  if (said === now + more + sentence()) return;
  if (now === "connecting" && Date.now() - began < 2000) return; // as every page does at first
  said = now + more + sentence();
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

// -- what is heard ---------------------------------------------------------------------------------------------------

function take(kind, about, id) {
  heard = Date.now();
  if (kind === "here" || kind === "now" || kind === "beat") facts = { ...facts, ...about };
  if (kind === "here") {
    for (const each of about.notices.slice().reverse()) notice(each);
    if (about.id !== last && !id) news(); // whoever comes late has missed something
    last = about.id;
  }
  if (kind === "notice") notice(about);
  if (id && id !== last) {
    last = kind === "reset" ? id : Math.max(last, id);
    news();
  }
  say();
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
      // What was missed follows at once, with its ids; so the first message brings no news by itself.
      if (kind === "here") message[1].id = last;
      channel?.postMessage(message);
      take(...message);
    });
  }
  mine.addEventListener("again", () => { if (mine === source) open(true); });
  mine.addEventListener("error", () => {
    if (mine !== source) return;
    connecting = true;
    if (mine.readyState === EventSource.CLOSED) poll(); // it was refused, and will not come back by itself
    say();
  });
}

channel?.addEventListener("message", (event) => {
  if (!running() || source) return;
  connecting = polling = false;
  take(...event.data);
});

// -- one connection for all tabs --------------------------------------------------------------------------------------

function follow() {
  if (source || waitingToLead) return;
  if (!navigator.locks || !channel) return open(); // then each tab that is visible has its own
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
    const answer = await fetch(`${base}/live`, { headers: { Accept: "application/json" }, cache: "no-store" });
    gone = answer.status === 401;
    if (answer.ok && running()) {
      if (catchUp) connecting = false;
      else polling = true;
      take("here", await answer.json(), 0);
    }
  } catch { /* what is not heard is said to be stale */ }
  say();
}

// -- what follows from it ---------------------------------------------------------------------------------------------

function news() {
  if (due) return;
  const pause = Math.max(leastBetween, 3 * took) - (Date.now() - refreshed);
  due = setTimeout(renew, Math.max(0, pause) + Math.random() * facts.spread);
}

async function renew() {
  const asked = Date.now();
  const came = running() ? await refresh() : "off";
  took = Date.now() - asked;
  refreshed = Date.now();
  due = 0;
  held = came === "held";
  gone = gone || came === "gone";
  say();
}

// -- on and off -------------------------------------------------------------------------------------------------------

function isOff() {
  try {
    return localStorage.getItem("tidegate.live") === "off";
  } catch {
    return false;
  }
}

// Another tab has the connection, and tells only what comes.
const catchUp = () => setTimeout(() => { if (running() && !source) poll(true); }, 300);
const running = () => !isOff() && !document.hidden;

function turn() {
  if (running()) {
    heard = Date.now();
    connecting = true;
    follow();
    catchUp();
  } else {
    leave();
    clearTimeout(due);
    due = 0;
  }
  say();
}

chip.addEventListener("click", () => {
  try {
    localStorage.setItem("tidegate.live", isOff() ? "live" : "off");
  } catch { return; }
  turn();
});
addEventListener("storage", (event) => { if (event.key === "tidegate.live") turn(); });
document.addEventListener("visibilitychange", turn);
addEventListener("pagehide", leave);
addEventListener("pageshow", (event) => { if (event.persisted) turn(); });

setInterval(() => {
  if (!running()) return;
  if (Date.now() - heard > silence || polling) poll();
  if (source && Date.now() - Math.max(heard, opened) > silence && Date.now() - opened > reopenEvery) open();
  if (source?.readyState === EventSource.CLOSED && Date.now() - opened > reopenEvery) open();
  if (held && !due && !stillHeld()) news();
  say();
}, 1000);

// Of some pages the server sends no news, for what they show is no job and no target: they are looked at again.
const often = Number(document.querySelector("[data-every]")?.dataset.every ?? 0) * 1000;
if (often) setInterval(() => { if (running() && Date.now() - refreshed > often / 2) news(); }, often);

turn();
