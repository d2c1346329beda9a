// Keeps "12 min ago" true while a page stays open, offers to copy code, and "/" finds. Everything works without it.
"use strict";

const units = [[86400, "day"], [3600, "h"], [60, "min"], [1, "s"]];

// What is ahead is nearly two days away, and not one; what lasted for nearly two days lasted for one.
function span(seconds, rounded = Math.floor) {
  for (const [size, unit] of units) {
    if (seconds >= size) {
      const n = rounded(seconds / size);
      return `${n} ${unit}${unit === "day" && n !== 1 ? "s" : ""}`;
    }
  }
  return "1 s";
}

function tell() {
  for (const each of document.querySelectorAll("time:not([data-still])")) {
    const away = Date.parse(each.dateTime) / 1000 - Date.now() / 1000;
    if (Math.abs(away) >= 30 * 86400) continue;
    each.textContent = Math.abs(away) < 1 ? "just now" : away > 0 ? `in ${span(Math.ceil(away), Math.round)}` : `${span(-away)} ago`;
  }
}

// A pointer shows the exact time by its title. For the keyboard it shows in the row that has the focus (live.css), and
// where nothing else could have it, the time itself can.
function offerTimes() {
  for (const each of document.querySelectorAll("time[title]")) {
    if (!each.closest("tr, li")?.querySelector("a, button, summary") && !each.closest("a, button")) each.tabIndex = 0;
  }
}

function offerCopies() {
  if (!navigator.clipboard) return; // it needs a secure context; the text can be selected all the same
  for (const pre of document.querySelectorAll("pre[data-copy]")) {
    if (pre.nextElementSibling?.hasAttribute("data-made")) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "tiny";
    button.textContent = "Copy";
    button.dataset.made = ""; // a refresh leaves it there
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(pre.textContent);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
    pre.after(button);
  }
}

const places = { o: "/", t: "/targets", q: "/queue", w: "/workers", n: "/notices", p: "/people", s: "/settings", h: "/help" };
let going = 0;

function keys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, select, textarea, [contenteditable]")) return;
  const base = document.documentElement.dataset.base ?? "";
  if (event.key === "/") {
    event.preventDefault();
    document.getElementById("find")?.focus();
  } else if (event.key === "?") {
    location.assign(`${base}/help`);
  } else if (event.key === "g") {
    going = Date.now();
  } else if (Date.now() - going < 1500 && places[event.key]) {
    going = 0;
    location.assign(base + places[event.key]);
  }
}

// The clock of the browser may be wrong; the page says what the server's was when it was made.
const skew = Math.abs(Date.now() / 1000 - Number(document.documentElement.dataset.now));
if (skew < 60) setInterval(tell, 10_000);
offerCopies();
offerTimes();
document.addEventListener("tidegate:refreshed", () => {
  if (skew < 60) tell();
  offerCopies();
  offerTimes();
});
if (document.documentElement.dataset.keys === "on") document.addEventListener("keydown", keys);
