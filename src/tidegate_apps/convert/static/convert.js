// Drops files, shows how far an upload is, and keeps the list true while something is in work. All works without it.
"use strict";

// Looked up each time: a refresh of the page may take the form away, and bring it back.
const at = (id) => document.getElementById(id);
const every = 2000; // ms between two looks, for whoever has no live page

async function refresh() {
  const answer = await fetch(location.href, { headers: { "tidegate-refresh": "1" } });
  if (!answer.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const id of ["files", "gateway"]) {
    const old = at(id), next = fresh.getElementById(id);
    if (old && next && !old.contains(document.activeElement)) old.replaceWith(document.adoptNode(next));
    else if (old && !next) old.remove();
    else if (next && !old) document.querySelector(".head").after(document.adoptNode(next));
  }
  document.dispatchEvent(new Event("tidegate:refreshed")); // what is new gets its buttons, as on a page that is live
}

// A page that is live refreshes itself, but not while somebody has begun to fill in a form.
function begun() {
  const form = at("upload");
  if (!form) return false;
  return form.contains(document.activeElement) || at("file").value || !at("mapping").selectedOptions[0]?.defaultSelected;
}

async function look() {
  const live = document.documentElement.dataset.live;
  if ((!live || begun()) && !document.hidden && Number(at("files")?.dataset.active) > 0) {
    await refresh().catch(() => {}); // the server may be away for a moment
  }
  setTimeout(look, every);
}

function line(name) {
  const row = document.createElement("li"), title = document.createElement("span");
  const word = document.createElement("span"), bar = document.createElement("progress");
  title.className = "name";
  title.textContent = name;
  word.className = "small quiet";
  bar.max = 1;
  bar.value = 0;
  bar.setAttribute("aria-label", `Upload of ${name}`);
  row.append(title, word, bar);
  row.dataset.hold = ""; // the page does not refresh itself meanwhile
  at("progress").prepend(row);
  return {
    at: (share) => { bar.value = share; word.textContent = share < 1 ? `${Math.floor(share * 100)} %` : "Storing"; },
    end: (text, bad) => {
      bar.remove();
      delete row.dataset.hold;
      word.textContent = text;
      word.className = bad ? "state bad" : "state good";
      if (!bad) setTimeout(() => row.remove(), 4000);
    },
  };
}

function send(file, how) {
  const shown = line(file.name), { most, shown: limit, api } = at("upload").dataset;
  if (file.size > Number(most)) {
    const size = (file.size / 1048576).toFixed(1);
    shown.end(`File exceeds ${limit} limit. It has ${size} MB.`, true);
    return Promise.resolve();
  }
  const body = new FormData();
  body.append("mapping", how);
  body.append("file", file);
  return new Promise((done) => {
    const request = new XMLHttpRequest();
    request.upload.addEventListener("progress", (event) => { if (event.lengthComputable) shown.at(event.loaded / event.total); });
    request.addEventListener("load", () => {
      const told = answered(request);
      if (request.status === 202) shown.end("In line");
      else if (request.status === 200) shown.end("Already there: same result");
      else shown.end(told.detail ?? "It was not taken.", true);
      refresh().catch(() => {}).finally(done);
    });
    for (const name of ["error", "abort", "timeout"]) {
      request.addEventListener(name, () => { shown.end("The connection broke. Try again.", true); done(); });
    }
    request.open("POST", api);
    request.setRequestHeader("Accept", "application/json");
    request.send(body);
  });
}

function answered(request) {
  try { return JSON.parse(request.responseText); } catch { return {}; }
}

async function sendAll(files) {
  const how = at("mapping").value;
  for (const file of files) {
    if (!at("upload")) return; // uploads were paused meanwhile
    await send(file, how); // one after the other: the line is the same
  }
}

// A refresh puts the form back to what it is without script.
function prepare() {
  at("upload")?.classList.add("scripted");
  if (at("file")) at("file").multiple = true;
}

document.addEventListener("submit", (event) => {
  if (event.target.id !== "upload") return;
  event.preventDefault();
  const files = [...at("file").files];
  at("file").value = ""; // what was chosen beside it stays
  sendAll(files);
});

// Anywhere on the page: whoever misses the field would get the file in place of the page.
for (const name of ["dragenter", "dragover"]) {
  document.addEventListener(name, (event) => {
    if (!at("upload") || ![...event.dataTransfer.types].includes("Files")) return;
    event.preventDefault();
    at("upload").classList.add("over");
  });
}
document.addEventListener("dragleave", (event) => { if (!event.relatedTarget) at("upload")?.classList.remove("over"); });
document.addEventListener("drop", (event) => {
  const files = [...event.dataTransfer.files];
  if (!at("upload") || !files.length) return;
  event.preventDefault();
  at("upload").classList.remove("over");
  sendAll(files);
});
document.addEventListener("tidegate:refreshed", prepare);
prepare();
setTimeout(look, every);
