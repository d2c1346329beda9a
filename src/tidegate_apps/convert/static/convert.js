// Drops files, shows how far an upload is, and keeps the list true while something is in work. All works without it.
"use strict";

const upload = document.getElementById("upload");
const input = document.getElementById("file");
const progress = document.getElementById("progress");
const every = 2000; // ms between two looks, for whoever has no live page

async function refresh() {
  const answer = await fetch(location.href, { headers: { "tidegate-refresh": "1" } });
  if (!answer.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const id of ["files", "gateway"]) {
    const old = document.getElementById(id), next = fresh.getElementById(id);
    if (old && next && !old.contains(document.activeElement)) old.replaceWith(document.adoptNode(next));
    else if (old && !next) old.remove();
    else if (next && !old) document.querySelector(".head").after(document.adoptNode(next));
  }
}

async function look() {
  const live = document.documentElement.dataset.live; // then the page refreshes itself
  if (!live && !document.hidden && Number(document.getElementById("files")?.dataset.active) > 0) {
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
  progress.prepend(row);
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

function send(file, mapping) {
  const shown = line(file.name);
  const most = Number(upload.dataset.most);
  if (file.size > most) {
    const size = (file.size / 1048576).toFixed(1);
    shown.end(`File exceeds ${upload.dataset.shown} limit. It has ${size} MB.`, true);
    return Promise.resolve();
  }
  const body = new FormData();
  body.append("mapping", mapping);
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
    request.open("POST", upload.dataset.api);
    request.setRequestHeader("Accept", "application/json");
    request.send(body);
  });
}

function answered(request) {
  try { return JSON.parse(request.responseText); } catch { return {}; }
}

async function sendAll(files) {
  const mapping = document.getElementById("mapping").value;
  for (const file of files) await send(file, mapping); // one after the other: the line is the same
}

if (upload) {
  upload.classList.add("scripted");
  input.multiple = true;
  upload.addEventListener("submit", (event) => {
    event.preventDefault();
    const files = [...input.files];
    upload.reset();
    sendAll(files);
  });
  for (const name of ["dragenter", "dragover"]) {
    upload.addEventListener(name, (event) => { event.preventDefault(); upload.classList.add("over"); });
  }
  for (const name of ["dragleave", "drop"]) {
    upload.addEventListener(name, (event) => { event.preventDefault(); upload.classList.remove("over"); });
  }
  upload.addEventListener("drop", (event) => sendAll([...event.dataTransfer.files]));
}
setTimeout(look, every);
