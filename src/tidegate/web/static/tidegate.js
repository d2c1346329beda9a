// Updates relative times, adds copy buttons and keyboard shortcuts. Every page works without it.
"use strict";

const units = [[86400, "day"], [3600, "h"], [60, "min"], [1, "s"]];

// The same rounding as span() in pages/formatters.py: past times round down, future times to the nearest unit.
function span(seconds, round = Math.floor) {
  for (const [size, unit] of units) {
    if (seconds >= size) {
      const n = round(seconds / size);
      return `${n} ${unit}${unit === "day" && n !== 1 ? "s" : ""}`;
    }
  }
  return "1 s";
}

function updateTimes() {
  for (const time of document.querySelectorAll("time:not([data-still])")) {
    const away = Date.parse(time.dateTime) / 1000 - Date.now() / 1000;
    if (Math.abs(away) >= 30 * 86400) continue;
    time.textContent = Math.abs(away) < 1 ? "just now" : away > 0 ? `in ${span(Math.ceil(away), Math.round)}` : `${span(-away)} ago`;
  }
}

// With a pointer, the title shows the exact time. With a keyboard, the focused row shows it (live.css). A time in a row
// without focusable elements gets the focus itself.
function makeTimesFocusable() {
  for (const time of document.querySelectorAll("time[title]")) {
    if (!time.closest("tr, li")?.querySelector("a, button, summary") && !time.closest("a, button")) time.tabIndex = 0;
  }
}

function addCopyButtons() {
  if (!navigator.clipboard) return; // needs a secure context; the user can still select the text
  for (const pre of document.querySelectorAll("pre[data-copy]")) {
    if (pre.nextElementSibling?.hasAttribute("data-made")) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "tiny";
    button.textContent = "Copy";
    button.dataset.made = ""; // a refresh keeps the button
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(pre.textContent);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
    pre.after(button);
  }
}

const shortcuts = { o: "/", t: "/targets", q: "/queue", w: "/workers", n: "/notices", p: "/people", s: "/settings", h: "/help" };
let goPressedAt = 0;

function onShortcut(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, select, textarea, [contenteditable]")) return;
  const base = document.documentElement.dataset.base ?? "";
  if (event.key === "/") {
    event.preventDefault();
    document.getElementById("find")?.focus();
  } else if (event.key === "?") {
    location.assign(`${base}/help`);
  } else if (event.key === "g") {
    goPressedAt = Date.now();
  } else if (Date.now() - goPressedAt < 1500 && shortcuts[event.key]) {
    goPressedAt = 0;
    location.assign(base + shortcuts[event.key]);
  }
}

// The browser's clock may be wrong. The page contains the server's time of rendering.
const skew = Math.abs(Date.now() / 1000 - Number(document.documentElement.dataset.now));
if (skew < 60) setInterval(updateTimes, 10_000);
addCopyButtons();
makeTimesFocusable();
document.addEventListener("tidegate:refreshed", () => {
  if (skew < 60) updateTimes();
  addCopyButtons();
  makeTimesFocusable();
});
if (document.documentElement.dataset.keys === "on") document.addEventListener("keydown", onShortcut);
