// Toasts: each notice once per tab, up to three at a time. Errors and warnings stay until the user dismisses them.

const seconds = 6, remembered = 300, usual = 150; // seconds, notices, pixels of a typical toast
const base = document.documentElement.dataset.base ?? "";
const region = document.getElementById("toasts");
const more = document.getElementById("toasts-more");
const sprite = document.querySelector(".brand use")?.getAttribute("href").split("#")[0];
const menu = document.getElementById("menu");
const wide = matchMedia("(min-width: 60rem)");
const stays = (notice) => notice.level === "error" || notice.level === "warning";
const rank = (notice) => ["error", "warning", notice.level].indexOf(notice.level); // the most severe first
const shown = new Map(); // notice id -> element
let waiting = [];

function shownBefore() {
  try {
    return JSON.parse(sessionStorage.getItem("tidegate.toasts") ?? "[]");
  } catch {
    return [];
  }
}

function remember(id) {
  try {
    sessionStorage.setItem("tidegate.toasts", JSON.stringify([...shownBefore(), id].slice(-remembered)));
  } catch { /* without storage the toast shows again, which is harmless */ }
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

function element(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

function markRead(id) {
  if (!region.hasAttribute("data-reads")) return; // the user may not mark notices as read
  fetch(`${base}/notices/${id}/read`, { method: "POST", headers: { "Tidegate-Refresh": "1" } }).catch(() => {});
}

// As many as fit below the menu. On a narrow page they overlap it, so only one.
function maxVisible() {
  const room = innerHeight - menu.offsetTop - [...menu.children].reduce((sum, child) => sum + child.offsetHeight, 0);
  return wide.matches ? Math.min(3, Math.max(1, Math.floor(room / usual))) : 1;
}

function showNext() {
  while (shown.size < maxVisible() && waiting.length) show(waiting.shift());
  more.hidden = waiting.length === 0;
  more.textContent = `${waiting.length} more`;
  makeRoom();
}

// Toasts must not cover content: the page or the menu adds padding.
function makeRoom() {
  document.documentElement.style.setProperty("--toasts", `${shown.size ? region.offsetHeight : 0}px`);
}

function remove(id) {
  shown.get(id)?.remove();
  shown.delete(id);
  showNext();
}

function dismiss(notice) {
  const toast = shown.get(notice.id), focused = toast?.contains(document.activeElement);
  if (stays(notice)) markRead(notice.id);
  remove(notice.id);
  if (focused) ([...region.querySelectorAll(".toast button")].at(-1) ?? document.getElementById("content")).focus({ preventScroll: true });
}

function startTimer(notice, toast) {
  let left = seconds * 1000, since = 0, timer = 0;
  const run = () => { since = Date.now(); clearTimeout(timer); timer = setTimeout(() => remove(notice.id), left); };
  const pause = () => { clearTimeout(timer); left = Math.max(1000, left - (Date.now() - since)); };
  toast.addEventListener("pointerenter", pause);
  toast.addEventListener("focusin", pause);
  toast.addEventListener("pointerleave", () => { if (!toast.contains(document.activeElement)) run(); });
  toast.addEventListener("focusout", () => { if (!toast.matches(":hover")) run(); });
  run();
}

function show(notice) {
  remember(notice.id);
  const close = element("button", { type: "button", class: "square plain tiny", "aria-label": `Dismiss: ${notice.title}` }, icon("close"));
  const title = element("a", { href: base + notice.href }, notice.title);
  const toast = element("div", { class: `toast ${notice.tone}`, "data-notice": notice.id }, icon(notice.icon),
    element("p", { class: "title" }, title), close, element("p", {}, notice.message));
  close.addEventListener("click", () => dismiss(notice));
  toast.dismiss = () => dismiss(notice);
  shown.set(notice.id, toast);
  document.getElementById(notice.level === "error" ? "toasts-alert" : "toasts-status").append(toast);
  if (!stays(notice)) startTimer(notice, toast);
}

// Handles a new or changed notice: shows an unread one, removes one that was read.
export function notice(about) {
  if (!about.unread) {
    waiting = waiting.filter((other) => other.id !== about.id);
    remove(about.id);
  } else if (!shown.has(about.id) && !waiting.some((other) => other.id === about.id) && !shownBefore().includes(about.id)) {
    waiting.push(about);
    waiting.sort((a, b) => rank(a) - rank(b) || a.id - b.id);
    queueMicrotask(showNext); // after all notices of this batch, so that the most severe is first
  }
}

new ResizeObserver(makeRoom).observe(region);

document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || event.defaultPrevented || document.querySelector("dialog[open], :popover-open")) return;
  const toasts = [...region.querySelectorAll(".toast")];
  (toasts.find((toast) => toast.contains(document.activeElement)) ?? toasts.at(-1))?.dismiss();
});
