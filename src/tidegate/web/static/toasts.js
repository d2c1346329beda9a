// Notices beside the page: each once per tab, three at a time; what is wrong stays until somebody has dismissed it.

const seconds = 6, remembered = 300, usual = 150; // pixels of one of them, roughly
const base = document.documentElement.dataset.base ?? "";
const region = document.getElementById("toasts");
const more = document.getElementById("toasts-more");
const sprite = document.querySelector(".brand use")?.getAttribute("href").split("#")[0];
const menu = document.getElementById("menu");
const wide = matchMedia("(min-width: 60rem)");
const stays = (notice) => notice.level === "error" || notice.level === "warning";
const rank = (notice) => ["error", "warning", notice.level].indexOf(notice.level); // what is worst comes first
const shown = new Map(); // by the id of the notice: its element
let waiting = [];

function seen() {
  try {
    return JSON.parse(sessionStorage.getItem("tidegate.toasts") ?? "[]");
  } catch {
    return [];
  }
}

function remember(id) {
  try {
    sessionStorage.setItem("tidegate.toasts", JSON.stringify([...seen(), id].slice(-remembered)));
  } catch { /* a browser that keeps nothing shows it again, which does no harm */ }
}

export function icon(id) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  use.setAttribute("href", `${sprite}#${id}`);
  svg.append(use);
  return svg;
}

function made(tag, attributes, ...children) {
  const found = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) found.setAttribute(key, value);
  found.append(...children);
  return found;
}

function markRead(id) {
  if (!region.hasAttribute("data-reads")) return; // this reader may not say so for all
  fetch(`${base}/notices/${id}/read`, { method: "POST", headers: { "Tidegate-Refresh": "1" } }).catch(() => {});
}

// As many as fit under the menu; on a narrow page, where they are over it, one.
function most() {
  const room = innerHeight - menu.offsetTop - [...menu.children].reduce((sum, each) => sum + each.offsetHeight, 0);
  return wide.matches ? Math.min(3, Math.max(1, Math.floor(room / usual))) : 1;
}

function next() {
  while (shown.size < most() && waiting.length) put(waiting.shift());
  more.hidden = waiting.length === 0;
  more.textContent = `${waiting.length} more`;
  makeRoom();
}

// What is under them must be reachable: the page or the menu makes room.
function makeRoom() {
  document.documentElement.style.setProperty("--toasts", `${shown.size ? region.offsetHeight : 0}px`);
}

function remove(id) {
  shown.get(id)?.remove();
  shown.delete(id);
  next();
}

function dismiss(notice) {
  const toast = shown.get(notice.id), focused = toast?.contains(document.activeElement);
  if (stays(notice)) markRead(notice.id);
  remove(notice.id);
  if (focused) ([...region.querySelectorAll(".toast button")].at(-1) ?? document.getElementById("content")).focus({ preventScroll: true });
}

function count(notice, toast) {
  let left = seconds * 1000, since = 0, timer = 0;
  const run = () => { since = Date.now(); clearTimeout(timer); timer = setTimeout(() => remove(notice.id), left); };
  const pause = () => { clearTimeout(timer); left = Math.max(1000, left - (Date.now() - since)); };
  toast.addEventListener("pointerenter", pause);
  toast.addEventListener("focusin", pause);
  toast.addEventListener("pointerleave", () => { if (!toast.contains(document.activeElement)) run(); });
  toast.addEventListener("focusout", () => { if (!toast.matches(":hover")) run(); });
  run();
}

function put(notice) {
  remember(notice.id);
  const close = made("button", { type: "button", class: "square plain tiny", "aria-label": `Dismiss: ${notice.title}` }, icon("close"));
  const title = made("a", { href: base + notice.href }, notice.title);
  const toast = made("div", { class: `toast ${notice.tone}`, "data-notice": notice.id }, icon(notice.icon),
    made("p", { class: "title" }, title), close, made("p", {}, notice.message));
  close.addEventListener("click", () => dismiss(notice));
  toast.dismiss = () => dismiss(notice);
  shown.set(notice.id, toast);
  document.getElementById(notice.level === "error" ? "toasts-alert" : "toasts-status").append(toast);
  if (!stays(notice)) count(notice, toast);
}

// A notice as it is now: new ones are shown, those that somebody has read are taken away.
export function notice(about) {
  if (!about.unread) {
    waiting = waiting.filter((each) => each.id !== about.id);
    remove(about.id);
  } else if (!shown.has(about.id) && !waiting.some((each) => each.id === about.id) && !seen().includes(about.id)) {
    waiting.push(about);
    waiting.sort((one, other) => rank(one) - rank(other) || one.id - other.id);
    queueMicrotask(next); // when all that came together are there, the worst is the first of them
  }
}

new ResizeObserver(makeRoom).observe(region);

document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || event.defaultPrevented || document.querySelector("dialog[open], :popover-open")) return;
  const toasts = [...region.querySelectorAll(".toast")];
  (toasts.find((each) => each.contains(document.activeElement)) ?? toasts.at(-1))?.dismiss();
});
