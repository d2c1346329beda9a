// Fetches the page again and morphs the document: focus, scroll position, open details and unsent forms are kept.
/* global Idiomorph */

const rows = "tbody > tr, li";
const lists = "tbody, ul, ol";
const hovers = matchMedia("(hover: hover)");
const nothing = performance.getEntriesByType("navigation")[0]?.responseStatus === 404; // a missing page is not refreshed
const content = () => document.getElementById("content");
const stays = (node) => node.nodeType === 1 && (node.id === "stale" || node.id === "said" || node.hasAttribute("data-made"));

function changed(control) {
  if (control.type === "checkbox" || control.type === "radio") return control.checked !== control.defaultChecked;
  if (control.tagName !== "SELECT") return control.type !== "hidden" && control.value !== control.defaultValue;
  const chosen = [...control.options].findIndex((option) => option.defaultSelected);
  return control.selectedIndex !== Math.max(chosen, 0);
}

// Whether a refresh would disturb the user: text input, an open dialog, a selection or an unsent form.
export function busy() {
  const main = content(), at = document.activeElement, selected = getSelection();
  if (main.querySelector("[data-hold]")) return true;
  if (main.contains(at) && at.matches("input:not([type=hidden]), select, textarea, [contenteditable]")) return true;
  if (main.querySelector("dialog[open], [popover]:popover-open")) return true;
  if (!selected.isCollapsed && selected.containsNode(main, true)) return true;
  return [...main.querySelectorAll("input, select, textarea")].some(changed);
}

// Rows get an id from their link, so that the morph never turns one row into another.
function assignRowIds(root) {
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

// The lists that contain the pointer or the focus, and the element that must not move.
function held() {
  const main = content(), inUse = [];
  const under = hovers.matches ? [...main.querySelectorAll(rows)].filter((row) => row.matches(":hover")).at(-1) : null;
  const focused = main.contains(document.activeElement) ? document.activeElement.closest(rows) : null;
  for (const row of [under, focused]) if (row) inUse.push(row.closest(lists));
  return { lists: inUse, anchor: under ?? (main.contains(document.activeElement) && document.activeElement !== main ? document.activeElement : null) };
}

export const stillHeld = () => held().lists.length > 0;

const order = (list) => [...list.children].map((row) => row.id).join("\n");

// Attributes that scripts and users set: open details stay open, a focusable time stays focusable.
const ours = { open: "DETAILS", tabindex: "TIME" };
const beforeAttributeUpdated = (attribute, node) => ours[attribute] !== node.tagName;

function morphContent(fresh) {
  const { lists: heldLists, anchor } = held();
  const top = anchor?.getBoundingClientRect().top;
  let hasHeld = false;
  Idiomorph.morph(content(), fresh, {
    callbacks: {
      beforeNodeMorphed(old, next) {
        if (stays(old)) return false;
        if (!heldLists.includes(old) || order(old) === order(next)) return true;
        hasHeld = true;
        return false;
      },
      beforeNodeRemoved: (node) => !stays(node) && !(heldLists.some((list) => node.contains(list)) && (hasHeld = true)),
      beforeAttributeUpdated,
    },
  });
  if (anchor?.isConnected) scrollBy(0, anchor.getBoundingClientRect().top - top);
  return hasHeld;
}

// Returns "done", "held" (the user is busy, retry later), "gone" (the user must sign in) or "failed".
export async function refresh() {
  if (nothing) return "done";
  if (busy()) return "held";
  let text;
  try {
    const response = await fetch(location.href, { headers: { "Tidegate-Refresh": "1" }, cache: "no-store" });
    if (response.redirected && new URL(response.url).pathname !== location.pathname) return "gone";
    if (response.status === 401) return "gone";
    if (!response.ok || !response.headers.get("content-type")?.startsWith("text/html")) return "failed";
    text = await response.text();
  } catch {
    return "failed";
  }
  if (busy()) return "held"; // the user may have started something during the fetch
  const page = new DOMParser().parseFromString(text, "text/html");
  const fresh = page.getElementById("content");
  if (!fresh) return "failed";
  assignRowIds(content());
  assignRowIds(fresh);
  const focused = document.activeElement;
  const hasHeld = morphContent(fresh);
  for (const id of ["menu", "bell", "foot"]) {
    const old = document.getElementById(id), next = page.getElementById(id);
    if (old && next) Idiomorph.morph(old, next, { callbacks: { beforeAttributeUpdated } });
  }
  document.title = page.title;
  if (!focused.isConnected) content().focus({ preventScroll: true });
  document.dispatchEvent(new Event("tidegate:refreshed"));
  return hasHeld ? "held" : "done";
}
