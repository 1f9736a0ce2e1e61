// The console's one script: it keeps a page up to date, says how long ago things were, and sends
// what Try asks for. Pages work without it, but for Try.

const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

function ago(at) {
  const seconds = (Date.now() - at) / 1000, past = seconds >= 0, span = Math.abs(seconds);
  if (span < 1) return "now";
  const i = units.findIndex(([n]) => span >= n), [n, unit] = units[i];
  let text = `${Math.floor(span / n)} ${unit}`;
  if (i === 0 || i === 1) text += ` ${Math.floor((span % n) / units[i + 1][0])} ${units[i + 1][1]}`;
  return past ? `${text} ago` : `in ${text}`;
}

function sayAgo(root) {
  for (const t of root.querySelectorAll("time:not(.clock)")) {
    if (!t.title) t.title = `${t.textContent} UTC`;
    let text = ago(Date.parse(t.dateTime));
    if (t.classList.contains("since")) text = text.replace(" ago", "").replace("now", "0 s");
    if (t.textContent !== text) t.textContent = text;
  }
}

// keyOf names an element among its siblings. (The property id of a form may be one of its fields.)
const keyOf = (node) => node.getAttribute?.("id");

// update makes a part of the page like another one, and leaves alone what is the same, so that
// what is open, selected or typed stays.
function update(old, now) {
  if (old.nodeType !== now.nodeType || old.nodeName !== now.nodeName || keyOf(old) !== keyOf(now)) {
    old.replaceWith(now);
    return;
  }
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== now.data) old.data = now.data;
    return;
  }
  if (old.nodeType !== Node.ELEMENT_NODE || old.nodeName === "FORM" && old.contains(document.activeElement) || old.dataset.events) return;
  if (old.nodeName === "TIME" && old.dateTime === now.dateTime) return;
  for (const { name, value } of now.attributes) {
    if (old.getAttribute(name) !== value && !(name === "open" && old.nodeName === "DETAILS")) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    const mine = name === "open" && old.nodeName === "DETAILS" || name === "title" && old.nodeName === "TIME";
    if (!now.hasAttribute(name) && !mine) old.removeAttribute(name);
  }
  if (["INPUT", "SELECT", "TEXTAREA"].includes(old.nodeName)) return;
  updateChildren(old, now);
}

// updateChildren keeps an element that has a name where others come in or go away around it, so
// that what has the focus stays what it is.
function updateChildren(old, now) {
  const named = (parent) => new Map([...parent.children].map((e) => [keyOf(e), e]).filter(([name]) => name));
  const had = named(old), has = named(now);
  let at = old.firstChild;
  const next = (node) => { at = node.nextSibling; return node; };
  for (const node of [...now.childNodes]) {
    const same = had.get(keyOf(node));
    if (same) {
      while (at && at !== same && !has.has(keyOf(at))) next(at).remove();
      if (at === same) next(at); else old.insertBefore(same, at);
      update(same, node);
    } else if (at && !keyOf(node) && !has.has(keyOf(at))) update(next(at), node);
    else old.insertBefore(node, at);
  }
  while (at) next(at).remove();
}

// stream opens a source of events while the page is seen: a browser has few connections to a host,
// and each open tab would keep one. It opens it again at once where the server ended it, and every
// few seconds where the server refused, went away or, as the caller of silent says, sends nothing.
// lost is called for each of these.
function stream(url, setUp, lost = () => {}) {
  const shortest = 5000;
  let source = null, over = false, opened = 0;
  const close = () => { source?.close(); source = null; };
  const lose = () => {
    close();
    const ended = opened && Date.now() - opened > shortest;
    opened = 0;
    if (ended) return open();
    lost();
    setTimeout(open, 3000);
  };
  const open = () => {
    if (source || over || document.hidden) return;
    const mine = source = new EventSource(url());
    mine.addEventListener("open", () => { opened = Date.now(); });
    mine.addEventListener("error", () => { if (mine === source) lose(); });
    setUp(mine);
  };
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  addEventListener("pagehide", close);
  open();
  return { end() { over = true; close(); }, go() { over = false; open(); }, silent() { if (source) { opened = 0; lose(); } } };
}

function follow(main) {
  const live = document.getElementById("live"), pause = document.getElementById("pause"), away = document.createElement("p");
  away.id = "away";
  away.className = "error";
  away.setAttribute("role", "status");
  main.before(away);
  const say = (text, off) => { if (live) { live.textContent = text; live.className = off ? "off" : ""; } };
  // What is shown was last known to be so at the time heard. The server sends a ping every 15 s.
  let heard = Date.now(), timer;
  const hear = () => {
    if (!away.textContent) heard = Date.now();
    clearTimeout(timer);
    timer = setTimeout(() => updates.silent(), 45000);
  };
  const grey = (why) => {
    away.textContent = why && `${why} since ${new Date(heard).toISOString().slice(11, 19)} UTC; retrying.`;
    document.body.classList.toggle("stale", Boolean(why));
    say(why ? "not live" : "live", why);
  };
  const updates = stream(() => location.pathname + location.search, (source) => {
    source.addEventListener("page", (e) => {
      const page = new DOMParser().parseFromString(e.data, "text/html").querySelector("main");
      if (!page) return;
      update(main, page);
      sayAgo(main);
      grey("");
      hear();
    });
    source.addEventListener("ping", hear);
    source.addEventListener("trouble", () => grey("No data"));
    source.addEventListener("login", () => location.reload());
  }, () => grey("No connection"));
  if (!pause) return;
  pause.hidden = false;
  pause.addEventListener("click", () => {
    const paused = pause.getAttribute("aria-pressed") === "true";
    pause.setAttribute("aria-pressed", String(!paused));
    if (paused) updates.go(); else { updates.end(); grey(""); say("paused"); }
  });
}

const main = document.getElementById("main");
sayAgo(document);
setInterval(() => sayAgo(document), 1000);
if (main?.hasAttribute("data-live")) follow(main);
main?.querySelector(":scope > .done, :scope > .error")?.focus(); // so that it is read out

document.addEventListener("keydown", (e) => {
  if (e.key !== "/" || e.ctrlKey || e.altKey || e.metaKey || /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.nodeName)) return;
  const find = document.getElementById("find");
  if (!find) return;
  e.preventDefault();
  find.focus();
});

// A form that does something is sent once, however often it is clicked.
const sent = new WeakSet();
document.addEventListener("submit", (e) => {
  if (e.target.getAttribute("method") !== "post") return;
  if (sent.has(e.target)) e.preventDefault();
  sent.add(e.target);
});

// What the browser kept of a page that was left is not up to date any more.
addEventListener("pageshow", (e) => { if (e.persisted) location.reload(); });

document.addEventListener("click", async (e) => {
  const from = e.target.closest?.("[data-copy]");
  if (!from) return;
  await navigator.clipboard.writeText(document.getElementById(from.dataset.copy).textContent);
  from.textContent = "Copied";
  setTimeout(() => { from.textContent = "Copy"; }, 1500);
});

// showChat writes the reply of a chat as it comes, and as a whole at its end.
function showChat(out) {
  let attempt = 0, last = "";
  const events = stream(() => out.dataset.events + (last && `?resume_token=${encodeURIComponent(last)}`), (source) => {
    const on = (name, act) => source.addEventListener(name, (e) => { last = e.lastEventId; act(JSON.parse(e.data)); });
    on("genbus.chat.chunk.v1", (chunk) => {
      if (chunk.attempt !== attempt) [attempt, out.textContent] = [chunk.attempt, ""];
      for (const block of chunk.blocks ?? []) out.textContent += block.choices?.[0]?.delta?.content ?? "";
    });
    on("genbus.chat.gap.v1", () => { out.textContent += "…"; });
    on("genbus.chat.completed.v1", (event) => {
      const texts = event.chat?.reply?.choices?.map((choice) => choice.message?.content);
      if (texts) out.textContent = texts.join("\n\n");
      events.end();
    });
    for (const end of ["failed", "cancelled"]) on(`genbus.chat.${end}.v1`, () => events.end());
  });
}

const chat = document.getElementById("chat");
chat?.closest("details").addEventListener("toggle", () => showChat(chat), { once: true });

// Try.

const form = document.getElementById("try");

// protocolOf is that of the model's route: of the longest name in the list that it begins with.
function protocolOf(model) {
  const fits = [...document.getElementById("video-models").options].filter((o) => model.startsWith(o.value));
  return fits.sort((a, b) => b.value.length - a.value.length)[0]?.dataset.protocol ?? "primary";
}

// wanted is what the form asks for: the request of the model's own protocol, the typed one, which
// every protocol has, and where to send which of them.
function wanted() {
  const f = new FormData(form), kind = f.get("kind"), model = f.get("model"), prompt = f.get("prompt");
  if (kind === "chat") {
    const own = { model, stream: true, messages: [{ role: "user", content: prompt }] };
    return { kind, own, body: own, typed: { chat: { model, messages: [{ role: "user", text: prompt }] } }, key: f.get("key"), path: "/v1/chat/completions" };
  }
  const protocol = protocolOf(model), typed = { video: { model, prompt } };
  const own = { [{ kling: "model_name", jimeng: "req_key" }[protocol] ?? "model"]: model, prompt };
  const primary = protocol === "primary";
  return { kind, own, body: primary ? own : typed, typed, key: f.get("key"), path: primary ? "/v1/video/generations" : "/genbus/v1/videos" };
}

// reachable names the host of this page in the address of a server that listens on all addresses.
const reachable = (address) => address.replace(/(0\.0\.0\.0|\[::\])(?=:\d+$)/, location.hostname);

const quote = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

function sayCommands() {
  const w = wanted(), data = form.dataset, key = form.elements.key ? ` -H "Authorization: Bearer $KEY"` : "";
  const say = (name, text) => { document.getElementById(`cmd-${name}`).textContent = text; };
  say("curl", `curl -N${data.httpTls}${key} ${location.origin}${w.path} -H 'Content-Type: application/json' -d ${quote(JSON.stringify(w.body))}`);
  const method = w.kind === "chat" ? "genbus.v1.ChatService/StreamChatCompletion" : "genbus.v1.VideoService/CreateVideoTask";
  say("grpcurl", `grpcurl${data.grpcTls}${key} -d ${quote(JSON.stringify({ request: w.typed }))} ${reachable(data.grpc)} ${method}`);
  const subject = data[`${w.kind}Subject`];
  const { stream, ...plain } = w.own;
  say("nats", `nats${data.nats && ` -s ${reachable(data.nats)}`}${data.natsTls} req ${subject} -H content-type:application/json ${quote(JSON.stringify(plain))}`);
}

async function* blocks(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let text = ""; ;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
      const data = text.slice(0, end).split("\n").filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trimStart()).join("\n");
      if (data) yield data;
    }
  }
}

// biggest is the size of the largest video, in bytes, that is fetched with a key to be played.
const biggest = 100 << 20;

// Refused is an answer with an error. Bodies have the error in a member, or are the error.
class Refused extends Error {
  constructor(body, answer) {
    const said = body?.error ?? body ?? {};
    super(said.message ?? "the answer gives no reason");
    this.code = answer?.headers.get("Genbus-Error-Code") ?? said.code ?? "";
    this.more = [said.code !== this.code && said.code && `Code: ${said.code}.`, answer && `HTTP status ${answer.status}.`].filter(Boolean).join(" ");
  }
}

const refused = async (answer) => new Refused(await answer.json().catch(() => null), answer);

// playable returns the address of a video for a player, which sends no key.
async function playable(content, key) {
  if (!key) return content;
  const answer = await fetch(content, { headers: { Authorization: `Bearer ${key}` } });
  if (!answer.ok) throw await refused(answer);
  if (!(Number(answer.headers.get("Content-Length") ?? Infinity) <= biggest)) {
    await answer.body.cancel();
    throw new Refused({ message: `with a key, this page plays only videos up to 100 MiB; download this one from ${content}` });
  }
  return URL.createObjectURL(await answer.blob());
}

const part = (name) => document.getElementById(`try-${name}`);

async function followChat(answer) {
  part("status").textContent = "Streaming…";
  for await (const data of blocks(answer)) {
    if (data === "[DONE]") return;
    const chunk = JSON.parse(data);
    if (chunk.error) throw new Refused(chunk);
    part("text").hidden = false;
    part("text").textContent += chunk.choices?.[0]?.delta?.content ?? "";
  }
  throw new Refused({ message: "the reply ended early; the job page shows how the job ended" });
}

async function followVideo(id, headers) {
  part("progress").hidden = false;
  const answer = await fetch(`/genbus/v1/videos/${encodeURIComponent(id)}/events`, { headers });
  if (!answer.ok) throw await refused(answer);
  for await (const data of blocks(answer)) {
    const event = JSON.parse(data), task = event.task ?? event, status = task.status?.replaceAll("_", " ") ?? "";
    part("event").hidden = false;
    part("event").querySelector("pre").textContent = JSON.stringify(event, null, 2);
    part("progress").value = task.progress ?? 0;
    part("status").textContent = `${status.charAt(0).toUpperCase()}${status.slice(1)}, ${task.progress ?? 0} %`;
    if (task.status === "completed") return;
    if (task.status === "failed") throw new Refused(task);
    if (task.status === "cancelled") throw new Refused({ message: "the job was cancelled" });
  }
  throw new Refused({ message: "the connection ended; the job continues, as its page shows" });
}

async function send() {
  const w = wanted(), headers = { "Content-Type": "application/json" }, began = Date.now(), video = part("video");
  if (w.key) headers.Authorization = `Bearer ${w.key}`;
  for (const name of ["error", "text", "progress", "event", "video"]) part(name).hidden = true;
  part("text").textContent = part("link").textContent = "";
  part("progress").removeAttribute("value");
  URL.revokeObjectURL(video.src);
  video.removeAttribute("src");
  part("result").hidden = false;
  part("status").textContent = "Sending…";
  const answer = await fetch(w.path, { method: "POST", headers, body: JSON.stringify(w.body) });
  const id = answer.headers.get("Genbus-Job-Id");
  if (id) {
    const a = document.createElement("a");
    a.href = `/console/find?q=${encodeURIComponent(id)}`;
    a.textContent = `Job ${id}`;
    part("link").replaceChildren(a);
  }
  if (!answer.ok) throw await refused(answer);
  if (w.kind === "chat") await followChat(answer); else await followVideo(id, headers);
  part("progress").hidden = true;
  const ms = Date.now() - began;
  part("status").textContent = `Completed after ${ms < 1000 ? `${ms} ms` : `${(ms / 1000).toFixed(1)} s`}.`;
  if (w.kind === "chat") return;
  video.src = await playable(`/v1/videos/${encodeURIComponent(id)}/content`, w.key);
  video.hidden = false;
}

// sayError shows an error, with what its code says to do.
function sayError(error) {
  const { code, message, more } = error instanceof Refused ? error : { message: "the connection to genbus broke; an accepted job continues" };
  const [what, fix] = part("error").children;
  const strong = document.createElement("strong");
  strong.textContent = code;
  what.replaceChildren(...(code ? [strong, `: ${message}`] : [message]));
  fix.textContent = [code && part("fixes").querySelector(`option[value="${CSS.escape(code)}"]`)?.textContent, more].filter(Boolean).join(" ");
  part("error").hidden = false;
}

if (form) {
  part("video").addEventListener("error", () => sayError(new Refused({ message: "this browser cannot play the video; the job page shows its address" })));
  form.addEventListener("input", () => {
    const list = `${new FormData(form).get("kind")}-models`, model = form.elements.model;
    if (model.getAttribute("list") !== list) {
      model.setAttribute("list", list);
      model.value = document.getElementById(list).options[0]?.value ?? "";
    }
    sayCommands();
  });
  form.addEventListener("submit", async (e) => {
    e.preventDefault();
    const button = form.querySelector("button");
    button.disabled = true;
    try { await send(); } catch (error) {
      part("progress").hidden = true;
      if (!part("status").textContent.startsWith("Completed")) part("status").textContent = "Failed.";
      sayError(error);
    } finally { button.disabled = false; }
  });
  sayCommands();
}
