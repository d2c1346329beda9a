// Fetches the page again and changes only what differs: focus, scroll, open details and half-written forms stay.
/* global Idiomorph */

const rows = "tbody > tr, li";
const lists = "tbody, ul, ol";
const hovers = matchMedia("(hover: hover)");
const nothing = performance.getEntriesByType("navigation")[0]?.responseStatus === 404; // there is nothing to ask for
const content = () => document.getElementById("content");
const stays = (node) => node.nodeType === 1 && (node.id === "stale" || node.id === "said" || node.hasAttribute("data-made"));

function changed(control) {
  if (control.type === "checkbox" || control.type === "radio") return control.checked !== control.defaultChecked;
  if (control.tagName !== "SELECT") return control.type !== "hidden" && control.value !== control.defaultValue;
  const chosen = [...control.options].findIndex((option) => option.defaultSelected);
  return control.selectedIndex !== Math.max(chosen, 0);
}

// Whether the reader is in the middle of something that a refresh would spoil.
export function busy() {
  const main = content(), at = document.activeElement, selected = getSelection();
  if (main.querySelector("[data-hold]")) return true;
  if (main.contains(at) && at.matches("input:not([type=hidden]), select, textarea, [contenteditable]")) return true;
  if (main.querySelector("dialog[open], [popover]:popover-open")) return true;
  if (!selected.isCollapsed && selected.containsNode(main, true)) return true;
  return [...main.querySelectorAll("input, select, textarea")].some(changed);
}

// Rows get the name of what they are about, so that one is never changed into another.
function name(root) {
  const taken = new Set();
  for (const row of root.querySelectorAll(rows)) {
    if (row.id && !row.id.startsWith("row:")) continue;
    const about = row.querySelector("a[href]")?.getAttribute("href") ?? row.querySelector("form")?.getAttribute("action");
    if (!about) continue;
    let id = `row:${about}`;
    for (let n = 2; taken.has(id); n++) id = `row:${about} ${n}`;
    taken.add(id);
    row.id = id;
  }
}

// The lists under the pointer and around the focus, and what must not move there.
function held() {
  const main = content(), found = [];
  const under = hovers.matches ? [...main.querySelectorAll(rows)].filter((row) => row.matches(":hover")).at(-1) : null;
  const focused = main.contains(document.activeElement) ? document.activeElement.closest(rows) : null;
  for (const row of [under, focused]) if (row) found.push(row.closest(lists));
  return { found, anchor: under ?? (main.contains(document.activeElement) && document.activeElement !== main ? document.activeElement : null) };
}

export const stillHeld = () => held().found.length > 0;

const order = (list) => [...list.children].map((row) => row.id).join("\n");

// What the reader has opened stays open, and a time that can have the focus keeps it.
const ours = { open: "DETAILS", tabindex: "TIME" };
const beforeAttributeUpdated = (attribute, node) => ours[attribute] !== node.tagName;

function morphed(fresh) {
  const { found, anchor } = held();
  const top = anchor?.getBoundingClientRect().top;
  let kept = false;
  Idiomorph.morph(content(), fresh, {
    callbacks: {
      beforeNodeMorphed(old, made) {
        if (stays(old)) return false;
        if (!found.includes(old) || order(old) === order(made)) return true;
        kept = true;
        return false;
      },
      beforeNodeRemoved: (node) => !stays(node) && !(found.some((list) => node.contains(list)) && (kept = true)),
      beforeAttributeUpdated,
    },
  });
  if (anchor?.isConnected) scrollBy(0, anchor.getBoundingClientRect().top - top);
  return kept;
}

// "done", "held" when something must wait until the reader has finished, "gone" when somebody has to sign in, "failed".
export async function refresh() {
  if (nothing) return "done";
  if (busy()) return "held";
  let text;
  try {
    const answer = await fetch(location.href, { headers: { "Tidegate-Refresh": "1" }, cache: "no-store" });
    if (answer.redirected && new URL(answer.url).pathname !== location.pathname) return "gone";
    if (answer.status === 401) return "gone";
    if (!answer.ok || !answer.headers.get("content-type")?.startsWith("text/html")) return "failed";
    text = await answer.text();
  } catch {
    return "failed";
  }
  if (busy()) return "held"; // while it was on its way
  const page = new DOMParser().parseFromString(text, "text/html");
  const fresh = page.getElementById("content");
  if (!fresh) return "failed";
  name(content());
  name(fresh);
  const focused = document.activeElement;
  const kept = morphed(fresh);
  for (const id of ["menu", "bell", "foot"]) {
    const old = document.getElementById(id), made = page.getElementById(id);
    if (old && made) Idiomorph.morph(old, made, { callbacks: { beforeAttributeUpdated } });
  }
  document.title = page.title;
  if (!focused.isConnected) content().focus({ preventScroll: true });
  document.dispatchEvent(new Event("tidegate:refreshed"));
  return kept ? "held" : "done";
}
